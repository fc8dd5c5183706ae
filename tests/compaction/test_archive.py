import copy
import json
import random
from typing import Any

import pytest
from faulty import LOST, Fault, FaultyStore
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_from_dict
from langgraph.store.base import GetOp, Item, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from transcripts import Case, Scripted, assert_valid, cases, extracting, runtime

from langgraph_sessionmem.asking import BlockingModel
from langgraph_sessionmem.compaction import Compactor
from langgraph_sessionmem.compaction.engine import Engine
from langgraph_sessionmem.compaction.gate import Archive
from langgraph_sessionmem.compaction.transcript import read_turns
from langgraph_sessionmem.errors import ArchiveFailed, BudgetExceeded, InvalidArgument
from langgraph_sessionmem.running import run_now
from langgraph_sessionmem.store_links import BlockingStore, checked_namespace, encoded, thread_label

BUDGET = 600


def loses(op: Op, result: Any) -> Any:
    return LOST if isinstance(op, PutOp) else result


def fails(op: Op, result: Any) -> Any:
    raise ConnectionError("the database is gone")


def altered(**fields: Any) -> Fault:
    """A fault that gives back items with other fields in their values."""

    def fault(op: Op, result: Any) -> Any:
        if isinstance(op, GetOp) and isinstance(result, Item):
            result.value.update(copy.deepcopy(fields))
        return result

    return fault


def elsewhere(op: Op, result: Any) -> Any:
    if isinstance(op, GetOp) and isinstance(result, Item):
        result.namespace = ("sessionmem", "archive", "t_other")
    return result


def older_content(op: Op, result: Any) -> Any:
    if isinstance(op, GetOp) and isinstance(result, Item):
        result.value["message"]["data"]["content"] = "what was said before the edit"
    return result


FAULTS: dict[str, Fault] = {
    "acknowledges and loses": loses,
    "fails": fails,
    "gives back another id": altered(id="other"),
    "gives back another hash": altered(hash="0" * 32),
    "gives back another thread's": altered(thread="t_other"),
    "gives back another namespace": elsewhere,
    "gives back an older content": older_content,
    "gives back no message": altered(message=None),
}


def conversation(turns: int) -> list[Any]:
    messages: list[Any] = []
    for number in range(turns):
        messages.append(HumanMessage(f"Please look at order ORD-{number} for me.", id=f"h{number}"))
        messages.append(AIMessage("I will look at it at once and tell you.", id=f"a{number}"))
    return messages


def engine_of(compactor: Compactor) -> Engine:
    return compactor._engine


def commit(
    compactor: Compactor, messages: list[Any], channel: Any, store: Any, model: Any = None
) -> Any:
    """What the node commits; the channel as it was if it commits nothing."""
    link = BlockingStore(store)
    moment = engine_of(compactor).moment(messages, channel, link, "thread")
    return run_now(engine_of(compactor).commit(moment, link, model)) or channel


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_no_turn_leaves_the_window_of_a_store_that_lies(fault: Fault) -> None:
    compactor, store = Compactor(max_tokens=BUDGET), FaultyStore(fault)
    messages = conversation(16)
    channel = commit(compactor, messages, None, store)
    assert channel["evicted"] == channel["held"] == []
    state = {"messages": messages, "sessionmem": channel}
    view = compactor.view(state, runtime(store))
    assert [m.id for m in view if m.id in {m.id for m in messages}] == [m.id for m in messages]
    state["messages"] = conversation(40)
    with pytest.raises(ArchiveFailed, match="doesn't give them back"):
        compactor.view(state, runtime(store))


def test_the_stores_own_error_is_the_cause() -> None:
    with pytest.raises(ArchiveFailed) as caught:
        Compactor(max_tokens=BUDGET).view(
            {"messages": conversation(40)}, runtime(FaultyStore(fails))
        )
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_turns_leave_as_soon_as_a_slow_store_gives_them_back() -> None:
    visible = False

    def fault(op: Op, result: Any) -> Any:
        return result if visible or not isinstance(op, GetOp) else None

    compactor, store = Compactor(max_tokens=BUDGET), FaultyStore(fault)
    channel = commit(compactor, conversation(16), None, store)
    assert channel["evicted"] == []
    assert "h0" in channel["pending"]
    visible = True
    channel = commit(compactor, conversation(17), channel, store)
    assert channel["evicted"] != []
    assert channel["pending"] == []


def test_one_turn_that_is_not_held_keeps_only_itself() -> None:
    def fault(op: Op, result: Any) -> Any:
        lost = isinstance(op, PutOp) and op.value is not None and op.value["id"] == "h2"
        return LOST if lost else result

    messages, store = conversation(40), FaultyStore(fault)
    compactor = Compactor(max_tokens=BUDGET)
    channel = commit(compactor, messages, None, store)
    assert channel["evicted"][-1] == "a1"
    view = compactor.view({"messages": messages, "sessionmem": channel}, runtime(store))
    ids = [m.id for m in view]
    assert "h2" in ids
    assert not {"h1", "a2", "h3"} & set(ids)
    assert_valid(view, messages, BUDGET)


def test_a_turn_that_the_store_cannot_take_holds_back_only_itself() -> None:
    def fault(op: Op, result: Any) -> Any:
        if isinstance(op, PutOp) and op.value is not None and op.value["id"] == "h7":
            raise ValueError("no such text here")
        return result

    messages, store = conversation(40), FaultyStore(fault)
    view = Compactor(max_tokens=BUDGET).view({"messages": messages}, runtime(store))
    ids = [m.id for m in view]
    assert "h7" in ids
    assert not {"h6", "a7", "h8"} & set(ids)


def test_a_store_that_is_down_is_not_asked_again_and_again() -> None:
    calls = 0

    def fault(op: Op, result: Any) -> Any:
        nonlocal calls
        calls += 1
        raise ConnectionError("the database is gone")

    with pytest.raises(ArchiveFailed):
        Compactor(max_tokens=BUDGET).view(
            {"messages": conversation(40)}, runtime(FaultyStore(fault))
        )
    assert calls <= 4


def test_an_archive_that_was_lost_later_is_written_again() -> None:
    compactor, store = Compactor(max_tokens=BUDGET), InMemoryStore()
    messages = conversation(40)
    channel = commit(compactor, messages, None, store)
    messages.append(HumanMessage("What about ORD-3?", id="now"))
    state = {"messages": messages, "sessionmem": channel}
    before = compactor.view(state, runtime(store))
    fresh = InMemoryStore()
    assert compactor.view(state, runtime(fresh)) == before
    assert {item.value["id"] for item in fresh.search((), limit=200)} >= {"h0", "h3"}


def test_a_store_that_fails_while_recalling_costs_only_what_it_would_have_recalled() -> None:
    compactor, store = Compactor(max_tokens=BUDGET), InMemoryStore()
    messages = conversation(40)
    channel = commit(compactor, messages, None, store)
    state = {"messages": messages, "sessionmem": channel}
    view = compactor.view(state, runtime(FaultyStore(fails)))
    assert_valid(view, messages, BUDGET)
    assert view[-1].id == messages[-1].id


def test_a_search_cannot_smuggle_in_a_turn_the_thread_does_not_have() -> None:
    def fault(op: Op, result: Any) -> Any:
        if isinstance(op, SearchOp):
            for hit in result:
                hit.value["text"] = "ORD-3 was cancelled"
                hit.score = 1.0
                if hit.key.startswith("h1."):
                    hit.key = "h999.0000"
        return result

    compactor, store = Compactor(max_tokens=BUDGET), FaultyStore(fault)
    messages = [*conversation(40), HumanMessage("What about ORD-3?", id="now")]
    view = compactor.view({"messages": messages}, runtime(store))
    text = "\n".join(m.text for m in view)
    assert "cancelled" not in text
    assert "ORD-3 " in text


def test_committing_again_writes_nothing_new() -> None:
    writes = 0

    def fault(op: Op, result: Any) -> Any:
        nonlocal writes
        writes += isinstance(op, PutOp)
        return result

    compactor, store = Compactor(max_tokens=BUDGET), FaultyStore(fault)
    messages = conversation(40)
    channel = commit(compactor, messages, None, store)
    written, items = writes, store.search((), limit=200)
    assert commit(compactor, messages, channel, store) == channel
    assert writes == written
    assert commit(compactor, messages, None, store) == channel  # a run that crashed before commit
    assert {(i.namespace, i.key) for i in store.search((), limit=200)} == {
        (i.namespace, i.key) for i in items
    }


def test_a_copied_thread_archives_under_its_own_id() -> None:
    compactor, store = Compactor(max_tokens=BUDGET), InMemoryStore()
    messages = conversation(40)
    channel = commit(compactor, messages, None, store)
    state = {"messages": messages, "sessionmem": channel}
    copied = compactor.view(state, runtime(store, "copy"))
    assert copied == compactor.view(state, runtime(store))
    assert store.search(("sessionmem", "archive", "t_copy")) != []


def test_the_archive_keeps_messages_word_for_word() -> None:
    call = {"name": "look", "args": {"a": [1, 2.5, None, "é"]}, "id": "c", "type": "tool_call"}
    messages = [
        HumanMessage([{"type": "text", "text": "hi"}, {"type": "image", "base64": "AA"}], id="h"),
        AIMessage("\ud800 lone", id="x", tool_calls=[call]),
        ToolMessage("r", tool_call_id="c", id="t", artifact=object(), status="error"),
        HumanMessage([{"type": "text", "text": "n", "weight": float("nan"), 3: {1, 2}}], id="nan"),
    ]
    store = InMemoryStore()
    archive = Archive(BlockingStore(store), ("a", "t_x"))
    turns = read_turns(messages)
    held = run_now(archive.save(turns))
    assert len(held) == 4
    values = [json.loads(json.dumps(i.value, allow_nan=False)) for i in store.search(("a",))]
    back = messages_from_dict([value["message"] for value in values])
    assert back[0] == messages[0]
    assert [m.content for m in back[:3]] == [m.content for m in messages[:3]]
    assert back[1].tool_calls == [call]
    assert [value["position"] for value in values] == [0, 1, 2, 3]
    assert values[1]["text"].endswith('look({"a": [1, 2.5, null, "é"]})')


@given(st.lists(st.text(), unique=True, min_size=2))
def test_different_threads_have_different_labels_that_every_store_takes(names: list[str]) -> None:
    labels = [thread_label(name) for name in names]
    assert len(set(labels)) == len(labels)
    assert all(checked_namespace(("a", label)) for label in labels)
    assert encoded("\ud800") != encoded("\ud801")


@pytest.mark.parametrize("namespace", ["text", (), ("a.b",), ("",), ("a", 1), ("langgraph", "x")])
def test_a_namespace_no_store_would_take_is_an_error(namespace: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"namespace|label"):
        Compactor(namespace=namespace)


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_tokens": 0},
        {"max_tokens": -5},
        {"max_tokens": 100, "reserve_tokens": 100},
        {"reserve_tokens": -1},
        {"recall_tokens": -1},
        {"max_tokens": 100, "recall_tokens": 100},
        {"summarizer_timeout": 0},
        {"summarizer_tokens": 0},
    ],
)
def test_a_budget_that_leaves_nothing_is_an_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Compactor(**arguments)


def test_a_channel_of_somebody_else_is_an_error() -> None:
    state = {"messages": conversation(1), "sessionmem": {"summary": "…"}}
    with pytest.raises(InvalidArgument, match="state_key"):
        Compactor().view(state, runtime(None))


def changed(
    rng: random.Random, messages: list[Any], channel: Any, earlier: list[tuple[list[Any], Any]]
) -> tuple[list[Any], Any]:
    """The thread after somebody edited or deleted a turn, or went back to an earlier checkpoint."""
    at, fate = rng.randrange(len(messages)), rng.random()
    if fate < 0.05 and isinstance(messages[at], HumanMessage):
        edited = HumanMessage(f"No: {rng.random()}", id=messages[at].id)
        return [*messages[:at], edited, *messages[at + 1 :]], channel
    if fate < 0.08:
        return [*messages[:at], *messages[at + 1 :]], channel
    if fate < 0.12:
        earlier.append((messages, channel))
    if fate > 0.97 and earlier:
        return rng.choice(earlier)
    return messages, channel


@given(cases(most_turns=8), st.booleans())
@settings(max_examples=40)
def test_through_edits_deletions_and_forks_only_what_is_held_and_read_leaves(
    case: Case, reads: bool
) -> None:
    read: set[str] = set()

    def summarize(messages: Any, kwargs: Any) -> AIMessage:
        text = messages[-1].text
        read.update(part.split('"')[0] for part in text.split('<message id="')[1:])
        return extracting(messages)

    store, rng = InMemoryStore(), random.Random(case.seed)
    compactor = Compactor(Scripted(script=summarize) if reads else None, max_tokens=1_000)
    model = BlockingModel(compactor._chain, 60) if reads else None
    messages: list[Any] = []
    channel: Any = None
    earlier: list[tuple[list[Any], Any]] = []
    for message in case.messages:
        messages, channel = changed(rng, [*messages, message], channel, earlier)
        try:
            channel = commit(compactor, messages, channel, store, model)
            view = compactor.view({"messages": messages, "sessionmem": channel}, runtime(store))
        except BudgetExceeded:
            continue
        assert_valid(view, messages, 1_000)
        moment = engine_of(compactor).moment(messages, channel, BlockingStore(store), "thread")
        gone = [t for a in moment.atoms[: moment.record.evicted] for t in a.turns]
        held = {(i.value["id"], i.value["hash"]) for i in store.search((), limit=10_000)}
        assert {(turn.id, turn.hash) for turn in gone} <= held
        if reads:
            assert {turn.id for turn in gone} <= read
