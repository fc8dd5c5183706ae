"""Deleting a thread leaves nothing of it, touches no other, and refuses what comes too late."""

import pytest
from conftest import Clock, Database, Face
from langgraph.checkpoint.serde.types import INTERRUPT
from threads import Thread, new_checkpoint, next_id, place, remains, stored, values_of

from langgraph_sessionmem.errors import ThreadDeleted

OPAQUE = [
    *("a*", "[ab]", "a?", "a\\b", "a|b", "%", "_", "{x}", ":", "a:b", "a", "b", "'", '"', "a'; --"),
    *(
        "\x00",
        "a\x00",
        "\x01",
        "a\x01\x01",
        "日本語",
        "é",
        "e\u0301",
        "A",
        " a",
        "a ",
        "\U0001f600",
    ),
    *("a" * 2_000, "None", "..", "~", "t", "t:a"),
]


async def fill(saver: Face, thread_id: str) -> Thread:
    thread = Thread(saver, thread_id)
    await thread.put({"list": [f"{thread_id} {i}" for i in range(20)], "n": 1, "big": "x" * 200})
    await thread.write([("n", thread_id), (INTERRUPT, "?")])
    await Thread(saver, thread_id, "sub").put({"n": thread_id})
    return thread


async def test_reading_and_deleting_one_thread_touches_no_other_whatever_the_ids_hold(
    saver: Face,
) -> None:
    for thread_id in OPAQUE:
        await fill(saver, thread_id)
    left = set(OPAQUE)
    for thread_id in OPAQUE:
        found = await saver("get_tuple", place(thread_id))
        assert found.config == place(thread_id, "", found.checkpoint["id"])
        assert found.checkpoint["channel_values"]["list"][0] == f"{thread_id} 0"
        assert [value for _, _, value in found.pending_writes] == ["?", thread_id]
        assert len(await saver("list", {"configurable": {"thread_id": thread_id}})) == 2
        await saver("delete_thread", thread_id)
        left.discard(thread_id)
        assert await values_of(saver, place(thread_id)) is None
        assert await values_of(saver, place(thread_id, "sub")) is None
        assert {row.thread_id for row in await saver("threads")} == left


async def test_parts_of_a_place_are_never_joined(saver: Face) -> None:
    for separator in (":", "|", "\x00", "\x01", "/", "\x1f"):
        one, other = ("a", f"b{separator}c"), (f"a{separator}b", "c")
        await Thread(saver, *one).put({"n": 1}, checkpoint_id="1")
        await Thread(saver, *other).put({"n": 2}, checkpoint_id="1")
        assert await values_of(saver, place(*one, "1")) == {"n": 1}
        assert await values_of(saver, place(*other, "1")) == {"n": 2}
        await saver("delete_thread", "a")
        assert await values_of(saver, place(*other, "1")) == {"n": 2}


async def test_nothing_is_left_of_a_deleted_thread(saver: Face, database: Database) -> None:
    await fill(saver, "t")
    await saver("put_writes", place("t", "", "early"), [("n", 1)], "task")
    await saver("delete_thread", "t")
    assert remains(database, saver.target) == {}
    assert await saver("list", None) == []
    assert await saver("threads") == []
    await saver("delete_thread", "t")
    await saver("delete_thread", "never was")
    assert await values_of(saver, place()) is None


async def test_late_writes_of_a_deleted_thread_are_refused(
    saver: Face, database: Database, clock: Clock
) -> None:
    thread = await fill(saver, "t")
    await saver("delete_thread", "t")
    with pytest.raises(ThreadDeleted, match="'t'"):
        await thread.write([("n", 2)], "late")
    with pytest.raises(ThreadDeleted, match="'t'"):
        await thread.put({"n": 2})
    assert remains(database, saver.target) == {}
    clock.advance(hours=2)
    await saver("sweep")
    assert not any(stored(database, saver.target).values())


async def test_late_writes_are_refused_in_another_process_too(
    saver: Face, database: Database
) -> None:
    thread = await fill(saver, "t")
    await saver("delete_thread", "t")
    stranger = Face(database.open_saver(), saver.is_async)
    late = new_checkpoint(next_id(), {"n": 1}, {"n": "1"})
    with pytest.raises(ThreadDeleted):
        await stranger("put", thread.config, late, {}, {"n": "1"})


async def test_a_subgraph_of_a_deleted_thread_does_not_begin_it_anew(
    saver: Face, database: Database
) -> None:
    thread = await fill(saver, "t")
    await saver("delete_thread", "t")
    parents = {"parents": {"": thread.config["configurable"]["checkpoint_id"]}}
    with pytest.raises(ThreadDeleted):
        await Thread(saver, "t", "late").put({"n": 1}, metadata=parents)
    assert remains(database, saver.target) == {}


async def test_a_new_run_on_a_deleted_id_begins_afresh(saver: Face) -> None:
    old = await fill(saver, "t")
    await saver("delete_thread", "t")
    new = Thread(saver, "t")
    coming = next_id()
    # The new run's first writes may overtake its first checkpoint.
    await saver("put_writes", place("t", "", coming), [("n", 5)], "task")
    await new.put({"list": ["new"]}, checkpoint_id=coming)
    await new.put({"list": ["new", "er"]})
    with pytest.raises(ThreadDeleted):
        await old.put({"n": 2})
    with pytest.raises(ThreadDeleted):
        await old.write([("n", 2)])
    latest, first = await saver("list", place())
    assert latest.checkpoint["channel_values"] == {"list": ["new", "er"]}
    assert first.pending_writes == [("task", "n", 5)]
    assert await values_of(saver, place("t", "sub")) is None
