"""`inspect`, `peek` and `verify` say what a thread consists of, and whether all of it is there."""

from datetime import timedelta
from typing import Any

import pytest
from conftest import Database, Face
from conversations import THREADS, fill
from langchain_core.messages import HumanMessage
from test_hostile_ids import IDS
from threads import Thread, new_checkpoint, place

from langgraph_sessionmem import TTL
from langgraph_sessionmem.checkpoint.integrity import Verified
from langgraph_sessionmem.errors import InvalidArgument


async def test_what_graphs_store_is_whole_and_all_of_it_is_named(saver: Face) -> None:
    await fill(saver)
    before = await saver("verify")
    assert before.ok, before.damage
    assert before.threads == len(THREADS)
    assert before.checkpoints > 30
    assert (before.orphan_elements, before.orphan_bytes, before.orphan_writes) == (0, 0, 0)
    await saver("copy_thread", "forked", "copy")
    await saver("prune", ["forked", "answered"], keep_last=2)
    await saver("prune", ["asked"])
    after = await saver("verify")
    assert after.ok, after.damage
    assert after.threads == len(THREADS) + 1
    assert (after.orphan_elements, after.orphan_writes) == (0, 0)


async def test_an_inspection_counts_every_byte_once(saver: Face) -> None:
    await fill(saver)
    for thread_id in THREADS:
        found = await saver("inspect", thread_id)
        thread = await saver("thread", thread_id)
        assert found.thread == thread
        assert len(found.checkpoints) == thread.checkpoints
        assert found.unnamed.elements == 0
        assert sum(size for _, size in found.channels.values()) == found.elements
        whole = found.heads + found.elements + found.writes
        assert sum(view.size for view in found.checkpoints) == whole
        assert 0 < whole <= thread.size
        latest = await saver("get_tuple", place(thread_id))
        marked = [view.checkpoint_id for view in found.checkpoints if view.is_latest]
        assert latest.config["configurable"]["checkpoint_id"] in marked
    assert await saver("inspect", "nobody") is None


@pytest.mark.parametrize("backend_name", ["sqlite", "valkey"])
async def test_what_an_idle_thread_hides_is_not_shown(database: Database, face_name: str) -> None:
    ttl = TTL(idle=timedelta(minutes=5), interrupted=None, strategy="keep_latest")
    saver = Face(database.open_saver(ttl=ttl), face_name == "async")
    thread = Thread(saver, "t")
    for n in range(3):
        await thread.put({"a": [f"{n}" * 200]})
    assert len((await saver("inspect", "t")).checkpoints) == 3
    database.advance(timedelta(minutes=6))
    found = await saver("inspect", "t")
    [view] = found.checkpoints
    assert view.checkpoint_id == thread.config["configurable"]["checkpoint_id"]
    assert found.channels["a"].elements == 1
    assert (await saver("verify")).orphan_elements == 0


async def test_a_peek_shows_the_values_of_a_checkpoint(saver: Face) -> None:
    thread = Thread(saver, "t")
    said = [HumanMessage("hello " * 30, id="1"), {"plain": [1, 2.5, None]}]
    config = await thread.put({"messages": said, "n": 1}, metadata={"step": 4})
    parent = config["configurable"]["checkpoint_id"]
    await thread.put({"n": 2})
    latest, named = await saver("peek", place("t")), await saver("peek", config)
    assert (latest.values, latest.parent_id) == ({"messages": said, "n": 2}, parent)
    assert (named.values["n"], named.checkpoint_id, named.metadata["step"]) == (1, parent, 4)
    assert await saver("peek", place("t", "", "9")) is None


@pytest.mark.parametrize("backend_name", ["postgres", "valkey"])
async def test_ids_are_looked_into_whatever_they_hold(saver: Face) -> None:
    for thread_id in IDS:
        thread = Thread(saver, thread_id, thread_id)
        await thread.put({"a": ["x" * 200], "id": thread_id})
        await thread.write([("a", 1)])
    for thread_id in IDS:
        found = await saver("inspect", thread_id)
        assert [view.checkpoint_ns for view in found.checkpoints] == [thread_id]
        assert (await saver("peek", place(thread_id, thread_id))).values["id"] == thread_id
        report = await saver("verify", [thread_id])
        assert (report.ok, report.threads, report.writes) == (True, 1, 1)
    assert (await saver("verify")).threads == len(IDS)


async def test_only_the_named_threads_are_verified_and_progress_is_told(saver: Face) -> None:
    for thread_id in "abc":
        await Thread(saver, thread_id).put({"a": 1})
    told: list[str] = []
    report = await saver("verify", ["b", "nobody"], progress=told.append)
    assert (report.threads, report.orphan_writes, told) == (1, None, ["b", "nobody"])
    await saver("verify", progress=told.append)
    assert sorted(told[2:]) == ["a", "b", "c"]
    with pytest.raises(InvalidArgument):
        await saver("inspect", "")


async def damaged(database: Database, statement: str, *values: Any) -> Verified:
    """What is found after a statement has changed a thread of three checkpoints."""
    saver = database.open_saver()
    thread = Thread(Face(saver, is_async=False), "t")
    for n in range(3):
        await thread.put({"list": [f"{each} " * 50 for each in range(n + 1)], "text": f"{n}" * 200})
    await thread.write([("list", "pending " * 20)])
    connection = saver.backend._connection
    assert connection.execute(statement, values).rowcount == 1
    connection.commit()
    return database.open_saver().verify()


@pytest.mark.parametrize("backend_name", ["sqlite"])
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (
            "delete from sessionmem_elements where position = 2",
            ["channel 'list' lost 1 of its elements"],
        ),
        (
            "update sessionmem_elements set body = x'02ff' where position = 2",
            ["element 2 of log"],
        ),
        (
            "update sessionmem_writes set body = x'77'",
            ["the write of task 'task' to 'list' can't be read"],
        ),
        (
            "update sessionmem_checkpoints set head = x'ff' where seq = 2",
            ["A checkpoint's head"],
        ),
        (
            "update sessionmem_checkpoints set metadata = x'ff' where seq = 2",
            ["its metadata can't be read"],
        ),
        (
            "delete from sessionmem_checkpoints where seq = 1",
            ["its parent", "is not there"],
        ),
    ],
)
async def test_each_kind_of_damage_is_found_and_named(
    database: Database, statement: str, what: list[str]
) -> None:
    found = await damaged(database, statement)
    assert not found.ok
    [damage] = found.damage
    assert damage.thread_id == "t"
    assert all(part in damage.what for part in what), damage.what


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_what_nothing_names_is_counted_and_is_no_damage(database: Database) -> None:
    statement = (
        "insert into sessionmem_elements (thread, log, position, body) "
        "select max(thread), 12345, 0, zeroblob(500) from sessionmem_threads"
    )
    found = await damaged(database, statement)
    assert found.ok
    assert (found.orphan_elements, found.orphan_bytes) == (1, 500)


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_writes_of_a_checkpoint_that_is_not_there_are_counted(saver: Face) -> None:
    await Thread(saver, "t").put({"a": 1})
    await saver("put_writes", place("t", "", "9"), [("a", 1), ("b", 2)], "task")
    found = await saver("verify")
    assert (found.ok, found.writes, found.orphan_writes) == (True, 0, 2)


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_value_of_a_serializer_of_ones_own_is_read_with_it_and_counted_without(
    database: Database,
) -> None:
    class Reversed:
        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            return "reversed", repr(value)[::-1].encode()

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return data[1].decode()[::-1]

    saver = database.open_saver(serde=Reversed())
    checkpoint = new_checkpoint("1", {"text": "x" * 200}, {"text": "1"})
    saver.put(place("t"), checkpoint, {"source": "loop"}, {"text": "1"})
    with_it, without = saver.verify(), database.open_saver().verify()
    assert (with_it.ok, sum(with_it.unbuilt.values())) == (True, 0)
    assert (without.ok, without.unbuilt[""]) == (True, 2)
