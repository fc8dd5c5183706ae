from typing import Any

import pytest
from graphs import BUDGET, answer, ask, build, said, thread
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from transcripts import Scripted, extracting, mark

from langgraph_sessionmem.compaction import Compactor, Ledger
from langgraph_sessionmem.store import LongTermStore


def test_another_threads_turns_are_never_recalled() -> None:
    model, store = Scripted(script=answer), InMemoryStore()
    app = build(Compactor(max_tokens=BUDGET), model, store=store, saver=InMemorySaver())
    for name in ("a.b", "a", "a%2Eb", "A.B", ""):
        app.invoke({"messages": [("user", f"My dog is called <{name}>.")]}, thread(name))
        ask(app, name, 12)
    for name in ("a.b", "a", "a%2Eb", "A.B", ""):
        app.invoke({"messages": [("user", "What is my dog called?")]}, thread(name))
        shown = "\n".join(m.text for m in model.seen[-1])
        assert f"called &lt;{name}&gt;." in shown
        assert shown.count("My dog is called") == 1


def test_a_failing_provider_loses_nothing_and_the_retry_gets_the_same_view() -> None:
    def flaky(messages: list[BaseMessage], kwargs: Any) -> AIMessage:
        if len(model.seen) == 20:
            raise RuntimeError("provider 500")
        return answer(messages)

    model, summarizer = Scripted(script=flaky), Scripted(script=extracting)
    compactor = Compactor(summarizer, max_tokens=BUDGET)
    app = build(compactor, model, store=InMemoryStore(), saver=InMemorySaver())
    with pytest.raises(RuntimeError, match="provider 500"):
        ask(app, "t", 20)
    ledger, asked = Ledger.of(app.get_state(thread("t")).values), len(summarizer.seen)
    app.invoke(None, thread("t"))
    assert model.seen[-1] == model.seen[-2]
    assert len(summarizer.seen) == asked
    assert Ledger.of(app.get_state(thread("t")).values) == ledger
    assert ledger.collected_fields["ORD-1"].source_ids == ("h1",)


@pytest.mark.parametrize("restarted", [False, True])
def test_an_interrupt_before_the_model_changes_no_view(restarted: bool) -> None:
    saver, store, views = InMemorySaver(), InMemoryStore(), []
    for name, stops in (("plain", False), ("stopped", True)):
        model = Scripted(script=answer)
        options: Any = {"interrupt_before": ["model"]} if stops else {}

        def again(model: Scripted = model, options: Any = options) -> Any:
            compactor = Compactor(Scripted(script=extracting), max_tokens=BUDGET)
            return build(compactor, model, store=store, saver=saver, **options)

        app = again()
        for number in range(15):
            ask(app, name, 1, first=number)
            if stops:
                app = again() if restarted else app  # a new process knows only the checkpoint
                app.invoke(None, thread(name))
        views.append([[m.content for m in view] for view in model.seen])
    assert views[0] == views[1]


def test_a_fork_with_an_edited_turn_recalls_the_turn_of_its_own_branch() -> None:
    model = Scripted(script=answer)
    store, saver = InMemoryStore(), InMemorySaver()
    app = build(Compactor(max_tokens=BUDGET), model, store=store, saver=saver)
    app.invoke({"messages": [HumanMessage("My port is 5433.", id="port")]}, thread("t"))
    ask(app, "t", 20)
    main = app.get_state(thread("t")).config
    branch = app.update_state(main, {"messages": [HumanMessage("My port is 6432.", id="port")]})
    question = {"messages": [("user", "Which port is mine?")]}
    app.invoke(question, branch)
    edited = "\n".join(m.text for m in model.seen[-1])
    assert "port is 6432" in edited
    assert "port is 5433" not in edited
    app.invoke(question, main)
    original = "\n".join(m.text for m in model.seen[-1])
    assert "port is 5433" in original
    assert "port is 6432" not in original


def test_a_deleted_turn_is_not_recalled_and_the_window_stays_where_it_was() -> None:
    model = Scripted(script=answer)
    compactor = Compactor(Scripted(script=extracting), max_tokens=BUDGET)
    app = build(compactor, model, store=InMemoryStore(), saver=InMemorySaver())
    app.invoke({"messages": [HumanMessage("My dog is called Bruno.", id="dog")]}, thread("t"))
    ask(app, "t", 20)
    channel = app.get_state(thread("t")).values["sessionmem"]
    newest_out = channel["evicted"][-1]
    gone = [RemoveMessage("dog"), RemoveMessage(newest_out)]
    app.update_state(thread("t"), {"messages": gone})
    app.invoke({"messages": [("user", "What is my dog called?")]}, thread("t"))
    assert "Bruno" not in "\n".join(m.text for m in model.seen[-1])
    assert app.get_state(thread("t")).values["sessionmem"]["evicted"][-2:] != []
    assert len(model.seen[-1]) <= len(model.seen[-2]) + 2


def test_without_a_thread_id_the_archive_is_found_through_the_channel() -> None:
    model = Scripted(script=answer)
    app = build(Compactor(max_tokens=BUDGET), model, store=InMemoryStore())
    state: Any = {"messages": []}
    for number in range(20):
        state["messages"].append(HumanMessage(said(number), id=f"h{number}"))
        state = app.invoke(state)
    state["messages"].append(HumanMessage("What about ORD-2?", id="last"))
    app.invoke(state)
    assert "ORD-2," in "\n".join(m.text for m in model.seen[-1] if mark(m) == "block")


async def test_our_own_store_finds_what_slid_out_in_both_faces() -> None:
    for on_loop in (False, True):
        model = Scripted(script=answer)
        with LongTermStore() as store:
            compactor = Compactor(max_tokens=BUDGET)
            app = build(compactor, model, store=store, saver=InMemorySaver(), on_loop=on_loop)
            texts = ["My dog is called Bruno.", *map(said, range(20)), "What is my dog called?"]
            for text in texts:
                given = {"messages": [("user", text)]}
                if on_loop:
                    await app.ainvoke(given, thread("t"))
                else:
                    app.invoke(given, thread("t"))
        (recalled,) = [m for m in model.seen[-1] if m.id == "sessionmem-recalled"]
        assert "#0 user: My dog is called Bruno." in recalled.text
