"""What `CheckpointRecords` promises of cuts, and of the runs that wrote, on every backend."""

from datetime import timedelta

import pytest
from conftest import Database
from primitives import (
    MINUTE,
    Records,
    ancestors,
    chain,
    elements,
    new_write,
    open_records,
    prune,
    read,
    row_of,
    sealed,
)

from langgraph_sessionmem.rows import (
    ANCHOR_ORDER,
    OF_EVERY_CHILD,
    Anchor,
    CheckpointScan,
    Limits,
    OrderKey,
    Outcome,
    Prune,
    Run,
    Saved,
    ThreadScan,
)

pytestmark = pytest.mark.parametrize("face_name", ["async"])
"""One face: what is particular to either is tested in `test_records.py`."""


@pytest.fixture
def records(database: Database, face_name: str) -> Records:
    return open_records(database, is_async=face_name == "async")


# Cuts


async def test_a_cut_drops_what_it_names_and_nothing_else(records: Records) -> None:
    logs = elements(5, [b"a", b"b", b"c", b"d"]) + elements(6, [b"x"])
    await records.put("c1", elements=logs)
    generation = await chain(records, "c1", "c2", "c3")
    await records.put("c1", checkpoint_ns="sub")
    for name in ("c1", "c2"):
        await records.write(name, [new_write(name, 0, b"w")])
    gone = [("", "c1"), ("", "missing")]
    runs = [Run(5, 0, 2), Run(6, 0, 1)]
    assert await prune(records, generation, checkpoints=gone, elements=runs, roots=[("", "c2")])
    assert list(await records.orders(namespace="")) == ["c3", "c2"]
    assert list(await records.orders(namespace="sub")) == ["c1"]
    assert (await row_of(records, "c2")).parent_id is None
    assert (await row_of(records, "c3")).parent_id == "c2"
    assert await records("read_checkpoint", "t", "", "c1") is None
    assert await read(records, generation, Run(6, 0, 1)) == []
    assert [each.body for each in await read(records, generation, Run(5, 2, 4))] == [b"c", b"d"]
    writes = await records("read_writes", "t", generation, [("", "c1"), ("", "c2")])
    assert [write.checkpoint_id for write in writes] == ["c2"]
    assert (await records("read_thread", "t")).checkpoints == 3


async def test_a_cut_drops_a_block_that_it_names_whole(records: Records) -> None:
    generation = await sealed(records)
    assert await prune(records, generation, elements=[Run(5, 0, 4)])
    assert await read(records, generation, Run(5, 4, 6)) == elements(5, [b"e", b"f"], 4)
    assert len(await records("read_places", "t", generation)) == 2


async def test_a_cut_is_refused_whole_if_the_thread_was_saved_to_since(records: Records) -> None:
    saved = await records.put("c1", elements=elements(5, [b"a"]))
    generation = saved.generation
    anchor = Anchor("", "c1", b"cut", b"m", [])
    plan = Prune("t", generation, 1, [("", "c0")], [Run(5, 0, 1)], [anchor])
    await records.put("c2", "c1")
    assert await records("save_pruned", plan) is False
    assert await records("save_pruned", plan._replace(generation=generation + 1, seq=2)) is False
    assert await records("save_pruned", plan._replace(thread_id="u")) is False
    assert (await row_of(records, "c1")).order == OrderKey("c1", 0)
    assert await read(records, generation, Run(5, 0, 1)) == elements(5, [b"a"])


async def test_an_anchor_is_found_by_its_id_only(records: Records) -> None:
    generation = await chain(records, "c1", "c2", "c3", elements=elements(5, [b"a"]))
    await records.write("c2", [new_write("c2", 0, b"old")])
    kept = [new_write("c2", 1, b"kept")._replace(seq=OF_EVERY_CHILD)]
    anchor = Anchor("", "c2", b"cut", b"less", kept)
    assert await prune(records, generation, checkpoints=[("", "c1")], anchors=[anchor])
    row, writes = await records("read_checkpoint", "t", "", "c2")
    assert (row.order, row.parent_id, row.seq) == (ANCHOR_ORDER, None, 2)
    assert (row.head, row.metadata, writes) == (b"cut", b"less", kept)
    assert await ancestors(records, None) == ["c3", "c2"]
    assert list(await records.orders()) == ["c3"]
    assert await records("read_orders", "t", ["c2"]) == []
    page = await records("scan_checkpoints", CheckpointScan("t", anchors=True))
    assert [row.checkpoint_id for row in page] == ["c3", "c2"]
    [thread] = await records("scan_threads", ThreadScan())
    assert thread.checkpoints == 1
    assert (await records.latest()).checkpoint_id == "c3"  # type: ignore[union-attr]


async def test_an_anchor_is_no_parent_and_never_a_checkpoint_again(records: Records) -> None:
    generation = await chain(records, "c1", "c2")
    anchor = Anchor("", "c1", b"cut", b"m", [])
    assert await prune(records, generation, anchors=[anchor])
    late = await records.put("d2", "c1", builds_on_parent=True, generation=generation)
    assert late == Saved(Outcome.PARENT_GONE, 0)
    assert await records.put("c1", generation=generation) == Saved(Outcome.PARENT_GONE, 0)
    assert (await row_of(records, "c1")).head == b"cut"
    assert await prune(records, generation, anchors=[anchor._replace(head=b"less")])
    assert (await row_of(records, "c1")).head == b"less"
    assert await prune(records, generation, checkpoints=[("", "c1")])
    assert await records("read_checkpoint", "t", "", "c1") is None


async def test_writes_of_what_was_cut_meanwhile_are_unseen_and_swept(
    records: Records, database: Database
) -> None:
    generation = await chain(records, "c1", "c2", "c3")
    kept = [new_write("c2", 0, b"kept")]
    anchor = Anchor("", "c2", b"cut", b"m", kept)
    assert await prune(records, generation, checkpoints=[("", "c1")], anchors=[anchor])
    for name in ("c1", "c2"):
        late = [new_write(name, 1, b"late"), new_write(name, -1, b"late")]
        known = {"generation": generation, "checkpoint_stored": True}
        assert (await records.write(name, late, **known)).outcome is Outcome.SAVED
    assert await records.writes("c2") == {("task", 0): b"kept"}
    assert await records("read_checkpoint", "t", "", "c1") is None
    database.advance(timedelta(minutes=11))
    await records("drop_expired", 10)
    found = await records("read_writes", "t", generation, [("", "c1"), ("", "c2")])
    assert [write.body for write in found] == [b"kept"]


async def test_a_thread_that_is_cut_to_nothing_is_gone_without_a_tombstone(
    records: Records,
) -> None:
    saved = await records.put("c1", elements=elements(5, [b"a"]))
    assert await prune(records, saved.generation, checkpoints=[("", "c1")])
    assert await records("read_thread", "t") is None
    assert await records("scan_checkpoints", CheckpointScan("t", anchors=True)) == []
    late = await records.put("c2", "c1", generation=saved.generation)
    assert late == Saved(Outcome.GONE, 0)
    assert (await records.put("c2", "c1")).outcome is Outcome.SAVED


async def test_a_deletion_is_refused_if_the_thread_was_saved_to_since(records: Records) -> None:
    await chain(records, "c1", "c2")
    assert await records("drop_thread", "t", 1) is False
    assert list(await records.orders()) == ["c2", "c1"]
    assert await records("drop_thread", "t", 2) is True
    assert await records.orders() == {}
    assert await records("drop_thread", "t", 2) is True


# Runs


async def test_the_threads_of_a_run_are_found(records: Records, database: Database) -> None:
    await records.put("c1", run_id="run 1")
    await records.put("c2", "c1", run_id="run 2")
    await records.put("c3", "c2", run_id="run 2")
    await records.put("c1", thread_id="u", run_id="run 2")
    await records.put("c1", thread_id="short", run_id="run 2", limits=Limits(MINUTE))
    assert sorted(await records("read_run_threads", ["run 2"])) == ["short", "t", "u"]
    assert sorted(await records("read_run_threads", ["run 1", "run 2", "x"])) == ["short", "t", "u"]
    assert await records("read_run_threads", ["run 1"]) == ["t"]
    assert await records("read_run_threads", ["run"]) == []
    assert await records("read_run_threads", []) == []
    database.advance(timedelta(minutes=2))
    assert sorted(await records("read_run_threads", ["run 2"])) == ["t", "u"]
    await records("drop_thread", "t")
    assert await records("read_run_threads", ["run 1", "run 2"]) == ["u"]
