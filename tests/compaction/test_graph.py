from collections.abc import Callable
from typing import Annotated, Any

import pytest
from graphs import BUDGET, answer, ask, build, compactor_ran, said, thread
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.messages.utils import convert_to_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel
from transcripts import Scripted, assert_valid, extracting, runtime

from langgraph_sessionmem.compaction import CompactedState, Compactor, Entry, Ledger
from langgraph_sessionmem.errors import ArchiveFailed, BudgetExceeded, InvalidArgument


def test_every_call_of_a_long_conversation_fits_and_the_state_stays_whole() -> None:
    model = Scripted(script=answer)
    app = build(Compactor(max_tokens=BUDGET), model, store=InMemoryStore(), saver=InMemorySaver())
    ask(app, "t", 40)
    state = app.get_state(thread("t")).values
    assert [m.text for m in state["messages"][::2]] == [said(number) for number in range(40)]
    for number, view in enumerate(model.seen):
        assert_valid(view, state["messages"][: number * 2 + 1], BUDGET)


async def test_an_async_graph_sees_the_same_views_as_a_blocking_one() -> None:
    views = []
    for on_loop in (False, True):
        model = Scripted(script=answer)
        compactor = Compactor(Scripted(script=extracting), max_tokens=BUDGET)
        app = build(compactor, model, store=InMemoryStore(), saver=InMemorySaver(), on_loop=on_loop)
        for number in range(20):
            given = {"messages": [HumanMessage(said(number), id=f"h{number}")]}
            if on_loop:
                await app.ainvoke(given, thread("t"))
            else:
                app.invoke(given, thread("t"))
        views.append([[m.content for m in view] for view in model.seen])
    assert views[0] == views[1]


def test_what_slid_out_is_recalled_when_it_is_asked_for() -> None:
    model = Scripted(script=answer)
    app = build(Compactor(max_tokens=BUDGET), model, store=InMemoryStore(), saver=InMemorySaver())
    app.invoke({"messages": [("user", "My dog is called Bruno.")]}, thread("t"))
    ask(app, "t", 20)
    app.invoke({"messages": [("user", "What is my dog called?")]}, thread("t"))
    (recalled,) = [m for m in model.seen[-1] if m.id == "sessionmem-recalled"]
    assert "My dog is called Bruno." in recalled.text
    assert model.seen[-1][-1].text == "What is my dog called?"


def test_between_firings_the_beginning_of_the_view_stays_byte_for_byte() -> None:
    model = Scripted(script=answer)
    compactor = Compactor(Scripted(script=extracting), max_tokens=BUDGET)
    app = build(compactor, model, store=InMemoryStore(), saver=InMemorySaver())
    firings = []
    for number in range(40):
        ask(app, "t", 1, first=number)
        channel = app.get_state(thread("t")).values.get("sessionmem") or {}
        firings.append(channel.get("firings", 0))
    assert 3 <= firings[-1] <= 20
    for number in range(1, 40):
        if firings[number] == firings[number - 1]:
            before, after = (
                [m for m in view if m.id and not m.id.startswith("sessionmem-recalled")]
                for view in model.seen[number - 1 : number + 1]
            )
            assert after[: len(before)] == before


def test_a_long_system_prompt_does_not_make_every_turn_a_firing() -> None:
    model, summarizer = Scripted(script=answer), Scripted(script=extracting)
    compactor = Compactor(summarizer, max_tokens=4_000)
    app = build(compactor, model, store=InMemoryStore(), saver=InMemorySaver())
    system = {"messages": [("system", "Rules, and more rules. " * 480)]}
    app.update_state(thread("t"), system)
    ask(app, "t", 60)
    assert 2 <= len(summarizer.seen) <= 12


def test_a_tool_loop_between_two_runs_of_the_node_stays_within_the_budget() -> None:
    def work(messages: list[BaseMessage], kwargs: Any) -> AIMessage:
        step = len(model.seen)
        if step % 8 == 0:
            return AIMessage("All done.")
        call = {"name": "look", "args": {"at": step}, "id": f"call{step}"}
        return AIMessage("", tool_calls=[call])

    def run(state: Any) -> dict[str, Any]:
        (call,) = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage("data " * 60, tool_call_id=call["id"])]}

    def call(state: Any, runtime: Runtime) -> dict[str, Any]:
        view = compactor.view(state, runtime)
        assert_valid(view, state["messages"], BUDGET)
        return {"messages": [model.invoke(view)]}

    model, compactor = Scripted(script=work), Compactor(max_tokens=BUDGET)
    builder = StateGraph(CompactedState)
    builder.add_node("compact", compactor.node)
    builder.add_node("model", call)
    builder.add_node("tools", run)
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    builder.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else "__end__"
    )
    builder.add_edge("tools", "model")
    app = builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())
    for number in range(4):
        app.invoke({"messages": [("user", said(number))]}, thread("t"))
    assert all(said(number // 8) in [m.text for m in v] for number, v in enumerate(model.seen))


def test_a_state_without_the_channel_is_an_error_that_says_what_to_do() -> None:
    app = build(Compactor(), Scripted(script=answer), schema=MessagesState)
    with pytest.raises(InvalidArgument, match="CompactedState"):
        app.invoke({"messages": [("user", "hello")]})


def test_without_a_store_a_graph_works_until_the_budget_is_full_and_then_says_why() -> None:
    model = Scripted(script=answer)
    app = build(Compactor(max_tokens=BUDGET), model, saver=InMemorySaver())
    with pytest.raises(ArchiveFailed, match="store="):
        ask(app, "t", 40)
    assert len(model.seen) > 8
    assert len(app.get_state(thread("t")).values["messages"]) == len(model.seen) * 2 + 1


def test_nothing_of_the_summarizer_is_streamed() -> None:
    compactor = Compactor(Scripted(script=extracting), max_tokens=BUDGET)
    app = build(compactor, Scripted(script=answer), store=InMemoryStore(), saver=InMemorySaver())
    ask(app, "t", 9)
    streamed = []
    for number in range(9, 20):
        given = {"messages": [("user", said(number))]}
        streamed += list(app.stream(given, thread("t"), stream_mode="messages"))
    assert compactor_ran(app)
    assert {metadata["langgraph_node"] for _, metadata in streamed} == {"model"}


def test_a_short_conversation_writes_nothing() -> None:
    store = InMemoryStore()
    app = build(Compactor(), Scripted(script=answer), store=store, saver=InMemorySaver())
    ask(app, "t", 5)
    assert store.search(()) == []
    assert app.get_state(thread("t")).values.get("sessionmem") is None


def test_a_budget_smaller_than_what_is_pinned_is_an_error_before_anything_is_written() -> None:
    store = InMemoryStore()
    app = build(Compactor(max_tokens=40), Scripted(script=answer), store=store)
    system = ("system", "Rules, and more rules. " * 20)
    with pytest.raises(BudgetExceeded) as caught:
        app.invoke({"messages": [system, ("user", "hello")]})
    assert caught.value.max_tokens == 40
    assert store.search(()) == []


def test_turns_tell_whether_they_slid_out_and_are_held() -> None:
    compactor, told = Compactor(max_tokens=BUDGET), []

    def call(state: Any, runtime: Runtime) -> dict[str, Any]:
        told.append(compactor.status(state, runtime))
        return {"messages": [answer(compactor.view(state, runtime))]}

    builder = StateGraph(CompactedState)
    builder.add_node("compact", compactor.node)
    builder.add_node("model", call)
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    app = builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())
    ask(app, "t", 20)
    status = told[-1]
    assert [turn.position for turn in status] == list(range(39))
    out = [turn for turn in status if turn.slid_out]
    assert out == status[: len(out)]
    assert all(turn.held for turn in out)
    assert not status[-1].slid_out


def test_messages_may_be_given_as_pairs_and_mappings() -> None:
    given = [("user", "hi"), {"role": "assistant", "content": "hello"}, ("user", "bye")]
    from_pairs = views_of(given)
    assert from_pairs == [m.text for m in convert_to_messages(given)]


def views_of(given: Any) -> list[str]:
    compactor: Compactor = Compactor()
    seen: list[Callable[[], str]] = []

    def call(state: Any, runtime: Runtime) -> dict[str, Any]:
        seen.extend(m.text for m in compactor.view({"messages": given}, runtime))
        return {}

    builder = StateGraph(CompactedState)
    builder.add_node("model", call)
    builder.add_edge(START, "model")
    builder.compile().invoke({"messages": []})
    return [str(text) for text in seen]


def test_a_ledger_kept_by_the_graphs_own_node_is_in_every_view() -> None:
    def note_order(state: Any) -> dict[str, Any]:
        ledger = Ledger.of(state).put("collected_fields", "order", Entry(value="ORD-0"))
        return ledger.into(state)

    compactor, model = Compactor(max_tokens=BUDGET), Scripted(script=answer)

    def call(state: Any, runtime: Runtime) -> dict[str, Any]:
        return {"messages": [model.invoke(compactor.view(state, runtime))]}

    builder = StateGraph(CompactedState)
    builder.add_node("note", note_order)
    builder.add_node("compact", compactor.node)
    builder.add_node("model", call)
    builder.add_edge(START, "note")
    builder.add_edge("note", "compact")
    builder.add_edge("compact", "model")
    app = builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())
    ask(app, "t", 20)
    assert compactor_ran(app)
    assert all("- order: ORD-0" in view[0].text for view in model.seen)


class PydanticState(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]
    sessionmem: dict[str, Any] | None = None


def test_a_state_that_is_a_model_works_alike() -> None:
    model = Scripted(script=answer)
    app = build(
        Compactor(max_tokens=BUDGET),
        model,
        store=InMemoryStore(),
        saver=InMemorySaver(),
        schema=PydanticState,
    )
    ask(app, "t", 20)
    assert compactor_ran(app)


def test_turns_of_one_time_stand_under_it() -> None:
    days = ["8 May", "8 May", "9 May <b>"]
    messages: list[BaseMessage] = [
        HumanMessage(
            f"On day {at} we met Bruno.", id=f"m{at}", additional_kwargs={"timestamp": day}
        )
        for at, day in enumerate(days)
    ]
    messages += [HumanMessage("filler " * 150, id=f"f{at}") for at in range(4)]
    messages.append(HumanMessage("When did we meet Bruno?", id="q"))
    view = Compactor(max_tokens=BUDGET).view({"messages": messages}, runtime(InMemoryStore()))
    (recalled,) = [m for m in view if m.id == "sessionmem-recalled"]
    lines = [line for line in recalled.text.split("\n") if line.startswith(("[", "#"))]
    assert lines == [
        "[8 May]",
        "#0 user: On day 0 we met Bruno.",
        "#1 user: On day 1 we met Bruno.",
        "[9 May &lt;b&gt;]",
        "#2 user: On day 2 we met Bruno.",
    ]
