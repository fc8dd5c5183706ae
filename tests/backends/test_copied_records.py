"""What `CheckpointRecords` promises of copies of threads, on every backend."""

from collections import defaultdict
from datetime import timedelta
from typing import Any

import pytest
from conftest import Database
from primitives import MINUTE, Records, elements, new_write, open_records

from langgraph_sessionmem.rows import (
    ANCHOR_ORDER,
    Anchor,
    Block,
    CheckpointScan,
    Element,
    Limits,
    OrderKey,
    Outcome,
    Prune,
    Run,
    Saved,
    ThreadCopy,
    ThreadRow,
)

SHORT = Limits(MINUTE)


@pytest.fixture
def records(database: Database) -> Records:
    # The faces share all that is tested here; each backend is called by one of them.
    return open_records(database, is_async=database.name in ("sqlite", "valkey"))


async def thread(records: Records, thread_id: str = "t") -> ThreadRow | None:
    found: ThreadRow | None = await records("read_thread", thread_id)
    return found


async def copy_of(records: Records, source: str, target: str, **changes: Any) -> Saved:
    """Copy a thread by what can be read of it."""
    row = await thread(records, source)
    assert row is not None
    rows = await records("scan_checkpoints", CheckpointScan(source, anchors=True, limit=10_000))
    names = [(row.checkpoint_ns, row.checkpoint_id) for row in rows]
    places = await records("read_places", source, row.generation)
    ends: dict[int, int] = defaultdict(int)
    for place in places:
        ends[place.log] = max(ends[place.log], place.position + 1)
    runs = [Run(log, 0, end) for log, end in ends.items()]
    copy = ThreadCopy(
        target,
        row.limits,
        row.sticky,
        row.waiting,
        row.owner,
        row.seq,
        rows,
        ["run" for _ in rows],
        await records("read_writes", source, row.generation, names),
        await records("read_elements", source, row.generation, runs),
    )
    saved: Saved = await records("save_copy", copy._replace(**changes))
    return saved


async def fill_to_copy(records: Records) -> None:
    """A thread with a fork, clocks that went back, an anchor, a sealed block, and writes."""
    bodies = [b"%d" % number for number in range(10)]
    saved = await records.put("c5", elements=elements(5, bodies), owner="ann", limits=SHORT)
    await records.write("c5", [new_write("c5", 0, b"anchored")])
    block = Block(5, 0, 7, b"block")
    await records.put("c4", "c5", elements=elements(6, [b"y"]), blocks=[block], limits=SHORT)
    await records.put("c3", "c5", limits=SHORT)
    await records.put("c2", "c4", checkpoint_ns="s\x00", limits=SHORT, pending=True)
    large = [new_write("c4", idx, b"w" * 3_000) for idx in (-1, 0, 1, 2, 3)]
    await records.write("c4", large)
    anchor = Anchor("", "c5", b"less", b"", [new_write("c5", 0, b"anchored")._replace(seq=1)])
    cut = Prune("t", saved.generation, 4, [], [], anchors=[anchor])
    assert await records("save_pruned", cut) is True


async def contents(records: Records, thread_id: str) -> list[object]:
    """All that can be read of a thread, but its id and generation."""
    row = await thread(records, thread_id)
    assert row is not None
    wanted = CheckpointScan(thread_id, anchors=True, limit=10_000)
    rows = await records("scan_checkpoints", wanted)
    names = [(row.checkpoint_ns, row.checkpoint_id) for row in rows]
    writes = await records("read_writes", thread_id, row.generation, names)
    found = await records("read_elements", thread_id, row.generation, [Run(5, 0, 10), Run(6, 0, 1)])
    ancestry = await records("read_ancestors", thread_id, "", None, 10)
    latest = await records.latest(thread_id, "s\x00")
    return [
        row[5:6] + row[7:],
        [each[2:] for each in rows],
        sorted(writes),
        sorted(found),
        [each[2:] for each in ancestry],
        latest and latest[2:],
        sorted(await records("read_orders", thread_id, ["c2", "c3", "c4", "c5"])),
    ]


async def test_a_copy_is_the_same_thread_under_another_id(records: Records) -> None:
    await fill_to_copy(records)
    saved = await copy_of(records, "t", "copy")
    assert saved.outcome is Outcome.SAVED
    source, copy = await contents(records, "t"), await contents(records, "copy")
    assert copy == source
    assert copy[3] == [Element(5, 7, b"block"), *elements(5, [b"8", b"9"], 8), Element(6, 0, b"y")]
    assert [order.order for order in (await records("read_orders", "copy", ["c4"]))] == [
        OrderKey("c5", 1)
    ]
    rows = await records("scan_checkpoints", CheckpointScan("copy", anchors=True))
    assert rows[-1].order == ANCHOR_ORDER
    row = await thread(records, "copy")
    assert row is not None
    assert row.generation == saved.generation
    assert await records("read_run_threads", ["run", "other"]) == ["copy"]


async def test_a_copy_lives_a_life_of_its_own(records: Records, database: Database) -> None:
    await fill_to_copy(records)
    copied = await copy_of(records, "t", "copy")
    more: dict[str, Any] = {"thread_id": "copy", "generation": copied.generation}
    saved = await records.put("c6", "c3", elements=elements(5, [b"new"], 10), limits=SHORT, **more)
    assert saved == copied
    taken = await records.put("c7", "c6", elements=elements(5, [b"other"], 3), **more)
    assert taken.outcome is Outcome.LOG_TAKEN
    found = await records("read_elements", "copy", copied.generation, [Run(5, 9, 11)])
    assert sorted(found) == elements(5, [b"9", b"new"], 9)
    ancestry = await records("read_ancestors", "copy", "", "c6", 10)
    assert [(row.checkpoint_id, row.seq) for row in ancestry[:2]] == [("c6", 6), ("c3", 3)]
    await records("drop_thread", "t")
    assert await thread(records, "copy") is not None
    database.advance(timedelta(minutes=1))
    assert await thread(records, "copy") is None
    assert await records("drop_expired", 10) == 1


async def test_a_copy_never_overwrites_a_living_thread(
    records: Records, database: Database
) -> None:
    await records.put("c1", head=b"copied")
    await records.put("d1", thread_id="u", limits=SHORT, head=b"old", elements=elements(5, [b"o"]))
    assert await copy_of(records, "t", "u") == Saved(Outcome.CONFLICT, 0)
    database.advance(timedelta(minutes=1))
    saved = await copy_of(records, "t", "u")
    assert saved.outcome is Outcome.SAVED
    assert await records.orders("u") == {"c1": OrderKey("c1", 0)}
    assert await records("read_elements", "u", saved.generation, [Run(5, 0, 1)]) == []
    row = await thread(records, "u")
    assert row is not None
    assert row.expires_at is None
    assert await copy_of(records, "t", "u") == Saved(Outcome.CONFLICT, 0)


async def test_a_large_thread_is_copied_whole(records: Records) -> None:
    bodies = [b"%d" % number for number in range(9_001)]
    await records.put("c1", elements=elements(5, bodies))
    row = await thread(records)
    assert row is not None
    found = await records("read_elements", "t", row.generation, [Run(5, 0, 9_001)])
    copied = await copy_of(records, "t", "copy", elements=found)
    again = await records("read_elements", "copy", copied.generation, [Run(5, 0, 9_001)])
    assert sorted(again) == sorted(found)
    assert len(again) == 9_001
