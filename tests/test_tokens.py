import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import tool
from transcripts import Case, cases

from langgraph_sessionmem.compaction import Compactor
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.tokens import (
    count_message,
    count_messages,
    text_tokens,
    tool_tokens,
)


@given(st.text())
def test_the_estimate_is_never_below_a_quarter_of_the_characters(text: str) -> None:
    assert text_tokens(text) >= len(text) / 4


WRITTEN = st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=200)


@given(WRITTEN, st.dictionaries(WRITTEN, WRITTEN, max_size=3))
def test_a_message_never_costs_less_than_langchains_rough_count(
    text: str, args: dict[str, str]
) -> None:
    call = {"name": "look_up", "args": args, "id": "call-1"}
    messages: list[BaseMessage] = [
        HumanMessage(text, name="Ann"),
        AIMessage(text, tool_calls=[call]),
        ToolMessage(text, tool_call_id="call-1"),
    ]
    for message in messages:
        assert count_message(message) >= count_tokens_approximately([message]) * 0.9


@pytest.mark.parametrize("kind", ["image", "image_url", "file", "audio", "document", "input_image"])
def test_a_blocks_price_does_not_grow_with_its_base64(kind: str) -> None:
    def cost(size: int) -> int:
        nested = {"url": "data:image/png;base64," + "A" * size}
        blocks = [{"type": kind, "base64": "A" * size, "image_url": nested, "mime_type": "x/y"}]
        return count_message(HumanMessage(blocks))

    assert cost(400_000) == cost(4)
    assert cost(4) > 80


def test_a_blocks_price_does_not_grow_inside_a_tool_result() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 400_000}}
    block = {"type": "tool_result", "tool_use_id": "c", "content": [image]}
    assert count_message(HumanMessage([block])) < 1_000


def test_han_characters_and_tool_arguments_count() -> None:
    assert text_tokens("会" * 1_000) >= 1_000
    call = {"name": "write", "args": {"text": "word " * 8_000}, "id": "c"}
    assert count_message(AIMessage([{"type": "text", "text": "hi"}], tool_calls=[call])) > 9_000


def test_a_tool_call_that_is_also_a_block_counts_once() -> None:
    call = {"name": "write", "args": {"text": "word " * 800}, "id": "c"}
    block = {"type": "tool_use", "id": "c", "name": "write", "input": call["args"]}
    twice = count_message(AIMessage([block], tool_calls=[call]))
    assert twice < count_message(AIMessage("", tool_calls=[call])) + 10


def test_the_providers_own_count_is_used_where_it_can_be_meant() -> None:
    def counted(output: int, reasoning: int = 0) -> int:
        usage = {
            "input_tokens": 10,
            "output_tokens": output,
            "total_tokens": 10 + output,
            "output_token_details": {"reasoning": reasoning},
        }
        return count_message(AIMessage("word " * 100, usage_metadata=usage))

    plain = count_message(AIMessage("word " * 100))
    assert counted(110) == 116
    assert counted(5_110, reasoning=5_000) == 116
    assert counted(1) == counted(9_999) == plain


@given(cases())
def test_a_list_costs_what_its_messages_cost(case: Case) -> None:
    assert count_messages(case.messages) == sum(map(count_message, case.messages))


def test_the_tools_schemas_are_taken_off_the_budget() -> None:
    @tool
    def look_up(name: str) -> str:
        """Look a name up in the register of companies."""
        return name

    assert 30 < tool_tokens([look_up]) < 150
    with pytest.raises(InvalidArgument, match="tokens of tools"):
        Compactor(max_tokens=tool_tokens([look_up]), tools=[look_up])
