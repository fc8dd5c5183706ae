"""Random transcripts of agents, the invariants of a view, and what tests call a compactor with."""

import itertools
import random
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.runtime import ExecutionInfo, Runtime
from langgraph.store.base import BaseStore
from pydantic import PrivateAttr

from langgraph_sessionmem.compaction.blocks import MARK
from langgraph_sessionmem.tokens import count_messages


class Scripted(BaseChatModel):
    """A chat model that answers with `script(messages, kwargs)`, which may raise."""

    script: Any = None
    _seen: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def seen(self) -> list[list[BaseMessage]]:
        return self._seen

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **kwargs: Any) -> Any:
        return self.bind(tools=tools, tool_choice=tool_choice)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self._seen.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.script(messages, kwargs))])


def patch(*ops: dict[str, Any], **metadata: Any) -> AIMessage:
    """A model's answer with these operations."""
    call = {"name": "Patch", "id": "patch", "args": {"ops": list(ops)}}
    return AIMessage("", tool_calls=[call], response_metadata=metadata)


def runtime(store: BaseStore | None, thread_id: str | None = "thread") -> Runtime[Any]:
    """The runtime a node gets."""
    info = ExecutionInfo(checkpoint_id="", checkpoint_ns="", task_id="", thread_id=thread_id)
    return Runtime(store=store, execution_info=info)


WORDS = [
    "order",
    "refund",
    "invoice",
    "street",
    "seven",
    "green",
    "shipped",
    "later",
    "customer",
    "4711",
    "door",
]
HAN = "会话记忆订单号码退款"


def _text(rng: random.Random, longest: int) -> str:
    size = rng.choice([3, 40, 120, 400, longest])
    if rng.random() < 0.15:
        return "".join(rng.choice(HAN) for _ in range(min(size, 900)))
    return " ".join(rng.choices(WORDS, k=size // 6 + 1))


def _content(rng: random.Random, longest: int) -> Any:
    kind = rng.random()
    text = _text(rng, longest)
    if kind < 0.75:
        return text
    if kind < 0.9:
        return [{"type": "text", "text": text}]
    image = {"type": "image", "base64": "A" * 20_000, "mime_type": "image/png"}
    return [{"type": "text", "text": text}, image]


def make_transcript(seed: int, turns: int, longest: int, tidy: bool = False) -> list[BaseMessage]:
    """A transcript with what real ones hold.

    Args:
        seed: of everything random in it.
        turns: the user's messages.
        longest: characters of the longest texts.
        tidy: only what a well-behaved agent leaves: no orphans, no missing or doubled ids.
    """
    rng = random.Random(seed)
    names = iter(range(10**6))
    odd = 0.0 if tidy else 0.06
    late: list[ToolMessage] = []
    out: list[BaseMessage] = []

    def name() -> str | None:
        if rng.random() < odd:
            return None
        if out and rng.random() < odd / 2:
            return rng.choice(out).id
        return f"m{next(names)}"

    if rng.random() < 0.6:
        out.append(SystemMessage("You are a helpful agent. " + _text(rng, 200), id="system"))
    if rng.random() < odd:
        out.append(AIMessage("Hello, how can I help?", id=name()))
    for turn in range(turns):
        out.append(HumanMessage(_content(rng, longest), id=name()))
        for step in range(rng.choice([0, 0, 0, 1, 2, 3])):
            calls = [
                {"name": "lookup", "args": {"q": _text(rng, 200)}, "id": f"c{turn}-{step}-{at}"}
                for at in range(rng.randint(1, 5))
            ]
            if rng.random() < odd:
                calls[0]["id"] = f"c{max(turn - 1, 0)}-{step}-0"
            out.append(AIMessage(rng.choice(["", "Let me look."]), id=name(), tool_calls=calls))
            rng.shuffle(calls)
            for call in calls:
                result = ToolMessage(_content(rng, longest), tool_call_id=call["id"], id=name())
                fate = rng.random()
                if fate < odd:
                    late.append(result)
                elif fate >= odd * 1.5:  # between: it never comes
                    out.append(result)
        if late and rng.random() < 0.3:
            out.append(late.pop())
        if rng.random() < odd:
            out.append(SystemMessage("A note in the middle. " + _text(rng, 100), id=name()))
        if rng.random() < odd:
            out.append(ToolMessage(_text(rng, 400), tool_call_id=f"orphan{turn}", id=name()))
        if turn < turns - 1 or rng.random() < 0.3:
            reasoning = [{"type": "reasoning", "reasoning": _text(rng, 300)}]
            text: Any = _text(rng, longest)
            if rng.random() < 0.1:
                text = [*reasoning, {"type": "text", "text": text}]
            out.append(AIMessage(text, id=name()))
    if rng.random() < 0.15:
        call = {"name": "confirm", "args": {}, "id": "pending"}
        out.append(AIMessage("", id="asks", tool_calls=[call]))
    return out


class Case(NamedTuple):
    """A transcript by its recipe, so that a failure prints in one line."""

    seed: int
    turns: int
    longest: int
    tidy: bool

    @property
    def messages(self) -> list[BaseMessage]:
        return make_transcript(*self)


def cases(tidy: bool = False, most_turns: int = 14) -> st.SearchStrategy[Case]:
    """Random transcripts, from a single message up."""
    return st.builds(
        Case,
        st.integers(0, 2**32),
        st.integers(1, most_turns),
        st.sampled_from([200, 2_000, 30_000]),
        st.just(tidy),
    )


def mark(message: BaseMessage) -> str | None:
    return message.additional_kwargs.get(MARK)


def assert_valid(
    view: Sequence[BaseMessage], messages: Sequence[BaseMessage], max_tokens: int
) -> None:
    """The invariants that every view keeps, whatever the transcript."""
    systems = 0
    while systems < len(messages) and isinstance(messages[systems], SystemMessage):
        systems += 1
    # The leading system messages are kept, byte by byte, and nothing else is a system message.
    assert [m.content for m in view[:systems]] == [m.content for m in messages[:systems]]
    rest = view[systems:]
    assert not any(isinstance(m, SystemMessage) for m in rest)
    # The first message is the user's.
    assert not rest or rest[0].type == "human"
    # Every result stands right behind its own call, every call is answered or the pending one.
    open_calls: set[str] = set()
    for message in rest:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in open_calls
            open_calls.remove(message.tool_call_id)
            continue
        assert not open_calls
        if isinstance(message, AIMessage):
            names = [str(call["id"]) for call in message.tool_calls]
            assert len(set(names)) == len(names)
            open_calls = set(names)
    if open_calls:
        said = [m for m in rest if mark(m) != "note"]
        last = next(m for m in reversed(said) if not isinstance(m, ToolMessage))
        assert isinstance(last, AIMessage)
    # Ids are unique, and the order of what is kept is the thread's (results move to their calls).
    ids = [m.id for m in view]
    assert None not in ids
    assert len(set(ids)) == len(ids)
    order: dict[str | None, int] = {}
    for at, message in enumerate(messages):
        order.setdefault(message.id, at)
    places = [order[m.id] for m in view if m.id in order and not isinstance(m, ToolMessage)]
    assert places == sorted(places)
    # The user's newest message is there, last of the user's, whole unless it says otherwise.
    said = [m for m in messages if isinstance(m, HumanMessage)]
    if said:
        shown = [m for m in view if m.type == "human" and mark(m) in (None, "clipped")]
        assert shown[-1].content == said[-1].content or mark(shown[-1]) == "clipped"
    # No user message of ours stands next to another one.
    for one, other in itertools.pairwise(view):
        if one.type == other.type == "human":
            assert mark(one) not in ("block", "note")
            assert mark(other) not in ("block", "note")
    # And all of it fits.
    assert count_messages(view) <= max_tokens


def op(field: str, key: str, value: str, *source_ids: str, kind: str = "set") -> dict[str, Any]:
    """An operation on the wire."""
    return {"field": field, "op": kind, "key": key, "value": value, "source_ids": list(source_ids)}


def extracting(messages: list[BaseMessage], kwargs: Any = None) -> AIMessage:
    """A summarizer that notes each order number it is given, from its prompt alone."""
    found = re.findall(r'<message id="([^"]+)" from="user">\n.*?(ORD-\d+)', messages[-1].text)
    return patch(*(op("collected_fields", number, number, name) for name, number in found))
