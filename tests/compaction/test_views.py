import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.store.memory import InMemoryStore
from transcripts import Case, assert_valid, cases, mark, runtime

from langgraph_sessionmem.compaction import Compactor, Entry, Ledger
from langgraph_sessionmem.errors import ArchiveFailed, BudgetExceeded
from langgraph_sessionmem.tokens import count_messages

BUDGETS = st.sampled_from([400, 1_000, 2_000, 8_000])


def assert_a_valid_view(messages: Sequence[BaseMessage], max_tokens: int) -> None:
    compactor, where = Compactor(max_tokens=max_tokens), runtime(InMemoryStore())
    before = [message.model_copy(deep=True) for message in messages]
    try:
        view = compactor.view({"messages": messages}, where)
    except BudgetExceeded:
        return
    assert list(messages) == before
    assert_valid(view, messages, max_tokens)
    assert compactor.view({"messages": messages}, where) == view
    assert compactor.view({"messages": view}, where) == view


@given(cases(), BUDGETS)
@settings(max_examples=300)
def test_a_view_of_any_transcript_is_valid_and_fits(case: Case, max_tokens: int) -> None:
    assert_a_valid_view(case.messages, max_tokens)


@pytest.mark.slow
@given(cases(most_turns=40), BUDGETS)
@settings(max_examples=10_000)
def test_ten_thousand_views_are_valid_and_fit(case: Case, max_tokens: int) -> None:
    assert_a_valid_view(case.messages, max_tokens)


@given(cases())
def test_both_faces_give_the_same_view(case: Case) -> None:
    compactor = Compactor(max_tokens=1_000)
    try:
        blocking = compactor.view({"messages": case.messages}, runtime(InMemoryStore()))
    except BudgetExceeded:
        return
    view = asyncio.run(compactor.aview({"messages": case.messages}, runtime(InMemoryStore())))
    assert view == blocking


@given(cases(), st.sampled_from([500, 3_000]))
def test_a_view_fits_by_the_count_of_the_callers_own_counter(case: Case, max_tokens: int) -> None:
    def count(counted: Sequence[BaseMessage]) -> int:
        return 100 + count_tokens_approximately(counted)  # the whole costs more than its parts

    compactor = Compactor(max_tokens=max_tokens, count_tokens=count)
    try:
        view = compactor.view({"messages": case.messages}, runtime(InMemoryStore()))
    except BudgetExceeded:
        return
    assert count(view) <= max_tokens


@given(cases(tidy=True), BUDGETS)
def test_what_fits_is_shown_as_it_is(case: Case, max_tokens: int) -> None:
    messages = case.messages
    pending = isinstance(messages[-1], AIMessage) and bool(messages[-1].tool_calls)
    if count_messages(messages) > max_tokens * 0.45 or pending:
        return
    kept = [m for m in messages if not isinstance(m, ToolMessage)]
    view = Compactor(max_tokens=max_tokens).view({"messages": case.messages}, runtime(None))
    assert [m for m in view if not isinstance(m, ToolMessage) and mark(m) is None] == kept


@given(cases(), BUDGETS)
def test_without_a_store_nothing_is_left_out(case: Case, max_tokens: int) -> None:
    try:
        view = Compactor(max_tokens=max_tokens).view({"messages": case.messages}, runtime(None))
    except (ArchiveFailed, BudgetExceeded):
        return
    assert {m.id for m in case.messages if m.id} <= {m.id for m in view}


def long(text: str, size: int = 2_000) -> str:
    return (text + " ") * (size // (len(text) + 1))


def view_of(messages: list[BaseMessage], max_tokens: int = 600) -> list[BaseMessage]:
    view = Compactor(max_tokens=max_tokens).view({"messages": messages}, runtime(InMemoryStore()))
    assert_valid(view, messages, max_tokens)
    return view


def calls(*names: str) -> AIMessage:
    return AIMessage(
        "", id="+".join(names), tool_calls=[{"name": "f", "args": {}, "id": n} for n in names]
    )


def result(name: str, text: str = "r") -> ToolMessage:
    return ToolMessage(text, tool_call_id=name, id=f"result-{name}")


def test_a_result_and_its_call_leave_together() -> None:
    old = [
        HumanMessage(long("h"), id="h"),
        calls("a", "b"),
        result("a", long("a")),
        result("b"),
        AIMessage("done", id="done"),
        HumanMessage("next", id="next"),
    ]
    view = view_of(old)
    assert [m.id for m in view if isinstance(m, ToolMessage)] in ([], ["result-a", "result-b"])


def test_a_call_nobody_answered_gets_a_result_that_says_so() -> None:
    view = view_of([HumanMessage("h", id="h"), calls("a"), HumanMessage("still there?", id="n")])
    (told,) = [m for m in view if isinstance(m, ToolMessage)]
    assert told.tool_call_id == "a"
    assert told.status == "error"
    assert told.text.startswith("Not run")


def test_a_late_result_replaces_the_word_that_the_call_was_not_run() -> None:
    messages = [HumanMessage("h", id="h"), calls("a"), HumanMessage("n", id="n"), result("a", "42")]
    assert [m.text for m in view_of(messages) if isinstance(m, ToolMessage)] == ["42"]


def test_a_pending_call_stays_open() -> None:
    view = view_of([HumanMessage(long("h"), id="h"), HumanMessage("do it", id="n"), calls("a")])
    assert view[-1].id == "a"


def test_calls_that_were_never_answered_do_not_stop_compaction() -> None:
    messages: list[BaseMessage] = []
    for at in range(20):
        messages += [HumanMessage(long("h", 300), id=f"h{at}"), calls(f"a{at}")]
    messages.append(HumanMessage("and now?", id="now"))
    assert count_messages(view_of(messages)) <= 600


def test_a_result_without_a_call_is_shown_as_data() -> None:
    messages = [HumanMessage("h", id="h"), result("x", "</note>orphan"), HumanMessage("n", id="n")]
    (told,) = [m for m in view_of(messages) if m.id == "result-x"]
    assert told.type == "human"
    assert told.text == '<note from="tool">\n&lt;/note&gt;orphan\n</note>'


def test_a_later_system_message_is_content() -> None:
    messages = [
        SystemMessage("S", id="s"),
        HumanMessage("h", id="h"),
        SystemMessage("be brief", id="s2"),
        HumanMessage("n", id="n"),
    ]
    assert [m.type for m in view_of(messages)].count("system") == 1
    assert any("be brief" in m.text for m in view_of(messages))


def test_the_users_message_survives_a_long_tool_loop() -> None:
    messages: list[BaseMessage] = [
        SystemMessage("S", id="s"),
        HumanMessage("do X, Y and Z", id="h"),
    ]
    for at in range(12):
        messages += [calls(f"a{at}"), result(f"a{at}", long("data", 1_200))]
    view = view_of(messages)
    assert "do X, Y and Z" in [m.text for m in view]
    assert view[-1].id == "result-a11"


def test_a_result_too_large_for_the_budget_is_clipped_and_says_so() -> None:
    view = view_of([HumanMessage("h", id="h"), calls("a"), result("a", long("data", 40_000))])
    assert view[-1].tool_call_id == "a"
    assert "characters left out" in view[-1].text


def test_parallel_results_share_what_room_there_is() -> None:
    names = "abcde"
    results = [result(name, long(name, 8_000)) for name in names]
    view = view_of([HumanMessage("h", id="h"), calls(*names), *results])
    sizes = [count_messages([m]) for m in view if isinstance(m, ToolMessage)]
    assert len(sizes) == 5
    assert max(sizes) - min(sizes) <= 3


def test_a_users_message_too_large_for_the_budget_is_clipped_and_says_so() -> None:
    view = view_of([HumanMessage("old", id="o"), HumanMessage(long("word", 9_000), id="h")])
    assert view[-1].id == "h"
    assert mark(view[-1]) == "clipped"
    assert "characters left out" in view[-1].text


def test_a_system_message_larger_than_the_budget_is_an_error_before_anything_is_written() -> None:
    store = InMemoryStore()
    messages = [SystemMessage(long("S", 4_000)), HumanMessage("h", id="h")]
    with pytest.raises(BudgetExceeded, match="max_tokens"):
        Compactor(max_tokens=500).view({"messages": messages}, runtime(store))
    assert store.search(()) == []


def test_a_ledger_of_any_size_takes_only_its_share() -> None:
    ledger = Ledger()
    for number in range(300):
        entry = Entry(value=f"</session> value {number} " + "long " * 300)
        ledger = ledger.put("collected_fields", f"field {number}", entry)
    state = {"messages": [HumanMessage("h", id="h")]}
    state |= ledger.into(state)
    view = Compactor(max_tokens=1_000).view(state, runtime(None))
    assert_valid(view, state["messages"], 1_000)
    assert count_messages(view[:1]) <= 200
    assert view[0].text.count("</session>") == 1


def test_a_pinned_user_message_goes_before_a_full_ledger() -> None:
    ledger = Ledger().put("current_goal", "", Entry(value="goal " * 60))
    question = HumanMessage(long("question", 1_300), id="h")
    state = {"messages": [question]}
    state |= ledger.into(state)
    view = Compactor(max_tokens=420).view(state, runtime(None))
    assert view[-1] == question


def test_no_messages_make_an_empty_view() -> None:
    assert Compactor().view({"messages": []}, runtime(None)) == []


def test_old_results_are_masked_before_any_turn_leaves() -> None:
    messages: list[BaseMessage] = [HumanMessage("find it", id="h")]
    for at in range(12):
        messages += [calls(f"a{at}"), result(f"a{at}", long("data", 600))]
    view = view_of([*messages, AIMessage("found", id="f"), HumanMessage("thanks", id="n")], 2_000)
    kept = {m.id: m for m in view}
    assert {m.id for m in messages} <= set(kept)
    assert mark(kept["result-a0"]) == "masked"
    assert mark(kept["result-a11"]) is None
