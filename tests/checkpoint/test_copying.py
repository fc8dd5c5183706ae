"""A copied thread is the same thread under another id, and goes its own way from there."""

import random
from datetime import timedelta
from typing import Any

import pytest
from conftest import Clock, Database, Face
from langgraph.checkpoint.memory import InMemorySaver
from test_graphs import Session
from threads import Thread, place, remains, stored, values_of
from watched import watch

from langgraph_sessionmem import TTL
from langgraph_sessionmem.checkpoint.copying import copy_thread, plan_copy
from langgraph_sessionmem.errors import InvalidArgument

ONE_FACE = pytest.mark.parametrize("face_name", ["async"])


def without_thread(value: Any) -> Any:
    """A config or tuple without the thread's id."""
    if isinstance(value, dict):
        return {key: without_thread(each) for key, each in value.items() if key != "thread_id"}
    if isinstance(value, list | tuple):
        return [without_thread(each) for each in value]
    return value


async def listed(saver: Face, thread_id: str) -> list[Any]:
    found = await saver("list", {"configurable": {"thread_id": thread_id}})
    return [without_thread(tuple(each)) for each in found]


async def put_a_thread(saver: Face) -> Thread:
    """Some checkpoints in two namespaces, a fork, and writes."""
    thread = Thread(saver, "source")
    for number in range(4):
        await thread.put({"messages": [f"message {n} " * 20 for n in range(number + 1)]})
        await thread.write([("messages", f"write {number}"), ("__interrupt__", number)], "b", "~b")
        await thread.write([("n", None)], "a", "~c")
    base = thread.config
    await thread.put({"messages": ["changed " * 20, *thread.values["messages"][1:]]})
    thread.config = base
    await thread.put({"messages": [*thread.values["messages"], "fork " * 30]})
    child = Thread(saver, "source", "child:1")
    await child.put({"n": 1}, metadata={"parents": {"": base["configurable"]["checkpoint_id"]}})
    return thread


async def test_a_copy_lists_as_its_source_does(saver: Face, database: Database) -> None:
    await put_a_thread(saver)
    before = await listed(saver, "source")
    rows = stored(database, saver.target)
    await saver("copy_thread", "source", "target")
    after = stored(database, saver.target)
    for kind in rows.keys() - {"tombstones", "early_writes"}:
        assert after[kind] == 2 * rows[kind], kind
    assert await listed(saver, "target") == before == await listed(saver, "source")
    latest = await saver("get_tuple", place("target"))
    assert without_thread(tuple(latest)) == before[1]
    assert (await saver("verify")).damage == []


@ONE_FACE
async def test_long_lists_are_copied_with_what_is_sealed_of_them(saver: Face) -> None:
    source = Thread(saver, "source")
    messages: list[str] = []
    for turn in range(6):
        messages = [*messages, *(f"message {turn}.{n} " * 10 for n in range(40))]
        await source.put({"messages": messages})
    before = await listed(saver, "source")
    await saver("copy_thread", "source", "target")
    await saver("delete_thread", "source")
    assert await listed(saver, "target") == before
    copy = Thread(saver, "target")
    await copy.load()
    await copy.put({"messages": [*messages[100:], "more"]})
    assert (await values_of(saver, place("target")))["messages"] == [*messages[100:], "more"]


@ONE_FACE
async def test_source_and_copy_go_their_own_ways(saver: Face, database: Database) -> None:
    source = await put_a_thread(saver)
    await saver("copy_thread", "source", "target")
    copy = Thread(saver, "target")
    await copy.load()
    both = source.values["messages"]
    await source.put({"messages": [*both, "of the source " * 10]})
    await copy.put({"messages": [*both, "of the copy " * 10]})
    assert (await values_of(saver, place("source")))["messages"][-1] == "of the source " * 10
    assert (await values_of(saver, place("target")))["messages"][-1] == "of the copy " * 10
    await saver("delete_thread", "source")
    assert (await values_of(saver, place("target")))["messages"] == [*both, "of the copy " * 10]
    await saver("delete_thread", "target")
    assert remains(database, saver.target) == {}


async def test_a_copy_has_its_sources_limits(database: Database, clock: Clock) -> None:
    saver = Face(database.open_saver(), False)
    thread = Thread(saver, "source", session_ttl=30)
    await thread.put({"n": 1})
    clock.advance(minutes=20)
    await saver("copy_thread", "source", "target")
    clock.advance(minutes=20)
    assert await values_of(saver, place("source")) is None
    assert await values_of(saver, place("target")) == {"n": 1}
    clock.advance(minutes=20)
    assert await values_of(saver, place("target")) is None


async def test_an_idle_thread_is_copied_as_it_is_seen(database: Database, clock: Clock) -> None:
    ttl = TTL(idle=timedelta(minutes=30), strategy="keep_latest")
    saver = Face(database.open_saver(ttl=ttl), False)
    thread = Thread(saver, "source")
    for number in range(3):
        await thread.put({"n": number})
    clock.advance(minutes=31)
    await saver("copy_thread", "source", "target")
    assert len(await listed(saver, "source")) == len(await listed(saver, "target")) == 1


async def test_a_thread_is_never_copied_over_another_and_nothing_is_no_thread(saver: Face) -> None:
    await put_a_thread(saver)
    await Thread(saver, "target").put({"n": 1})
    with pytest.raises(InvalidArgument, match="'target'"):
        await saver("copy_thread", "source", "target")
    assert await values_of(saver, place("target")) == {"n": 1}
    with pytest.raises(InvalidArgument, match="itself"):
        await saver("copy_thread", "source", "source")
    await saver("copy_thread", "none such", "nothing")
    assert await saver("get_tuple", place("nothing")) is None


@ONE_FACE
async def test_a_copy_whose_reply_was_lost_is_done(saver: Face) -> None:
    await put_a_thread(saver)
    plan = plan_copy("source", "target")
    for _ in range(2):  # as the backend repeats it
        await watch(saver, lambda records: copy_thread(records, saver.target._state, plan))
    await Thread(saver, "target").put({"n": 1})
    with pytest.raises(InvalidArgument, match="'target'"):
        await watch(saver, lambda records: copy_thread(records, saver.target._state, plan))


@ONE_FACE
async def test_what_is_put_during_a_copy_is_copied_whole_or_not_at_all(
    saver: Face, database: Database
) -> None:
    source = await put_a_thread(saver)
    other = Thread(Face(database.open_saver(), False), "source")
    await other.load()

    async def put_more() -> None:
        await other.put({"messages": [*source.values["messages"], "more " * 60]})

    _, calls = await watch(
        saver,
        lambda records: copy_thread(records, saver.target._state, plan_copy("source", "target")),
        "read_elements",
        put_more,
    )
    assert calls.count("save_copy") == 1
    assert await listed(saver, "target") == await listed(saver, "source")


@ONE_FACE
async def test_a_thread_that_is_cut_during_a_copy_is_copied_as_it_is_then(
    saver: Face, database: Database
) -> None:
    await put_a_thread(saver)
    other = Face(database.open_saver(), False)
    await watch(
        saver,
        lambda records: copy_thread(records, saver.target._state, plan_copy("source", "target")),
        "read_elements",
        lambda: other("prune", ["source"]),
    )
    found = await listed(saver, "target")
    assert found == await listed(saver, "source")
    assert len(found) == 1


async def test_a_copied_graph_goes_on_as_in_memory(saver: Face) -> None:
    """Interrupts, subgraphs and parallel tasks, compared item by item."""
    seed = random.randrange(10**6)
    ours = Session(saver.target, seed, saver.is_async, "sync")
    theirs = Session(InMemorySaver(), seed, saver.is_async, "sync")
    source = ours.thread["configurable"]["thread_id"]
    for turn, action in enumerate(["say", "fork", "copy", "resume", "replay"]):
        context = f"seed {seed}, {action} in turn {turn}"
        if action == "copy":
            await saver("copy_thread", source, f"{source}, copied")
            ours.thread = {"configurable": {"thread_id": f"{source}, copied"}}
        else:
            ends = [
                await each.end_of(action, turn, random.Random(seed + turn))
                for each in (ours, theirs)
            ]
            assert ends[0] == ends[1], context
        assert await ours.facts() == await theirs.facts(), context
