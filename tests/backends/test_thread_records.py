"""What `CheckpointRecords` promises of threads as a whole, on every backend."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from conftest import Database
from primitives import HOSTILE, MINUTE, Records, elements, new_write, open_records

from langgraph_sessionmem.rows import (
    CheckpointScan,
    Limits,
    Outcome,
    Prune,
    Saved,
    ThreadOrder,
    ThreadRow,
    ThreadScan,
)

SHORT = Limits(MINUTE)
KEEPS = Limits(MINUTE, interrupted_seconds=10 * MINUTE, keep_latest=True)
TELLS = Limits(MINUTE, tells_expiry=True)


@pytest.fixture
def records(database: Database) -> Records:
    # The faces share all that is tested here; each backend is called by one of them.
    return open_records(database, is_async=database.name in ("sqlite", "valkey"))


async def scan(records: Records, page_size: int = 100, **conditions: Any) -> list[ThreadRow]:
    """All threads of a scan, read in pages."""
    wanted = ThreadScan(limit=page_size)._replace(**conditions)
    found: list[ThreadRow] = []
    while True:
        page: list[ThreadRow] = await records("scan_threads", wanted)
        assert len(page) <= page_size
        found += page
        if len(page) < page_size:
            return found
        wanted = wanted._replace(after=page[-1])


def ids_of(rows: Sequence[ThreadRow]) -> list[str]:
    return [row.thread_id for row in rows]


async def thread(records: Records, thread_id: str = "t") -> ThreadRow | None:
    found: ThreadRow | None = await records("read_thread", thread_id)
    return found


async def expired(records: Records, limit: int = 10, *, keep_latest: bool = False) -> list[str]:
    return ids_of(await records("scan_expired", limit, keep_latest=keep_latest))


# Rows


async def test_a_thread_tells_what_is_known_of_it(records: Records, database: Database) -> None:
    limits = Limits(MINUTE, 60 * MINUTE, 10 * MINUTE, refresh_on_read=True, tells_expiry=True)
    saved = await records.put("c1", limits=limits, sticky=True, owner="ann", pending=True)
    await records.put("c1", checkpoint_ns="sub", limits=SHORT, owner="bob", pending=True)
    row = await thread(records)
    assert row is not None
    assert row.generation == saved.generation
    assert (row.checkpoints, row.seq, row.owner) == (2, 2, "ann")
    assert (row.limits, row.sticky, row.waiting) == (limits, True, True)
    assert row.expires_at == pytest.approx(row.updated_at + 10 * MINUTE)
    database.advance(timedelta(minutes=9))
    await records.put("c2", "c1", elements=elements(5, [b"x" * 100_000]))
    later = await thread(records)
    assert later is not None
    assert later.created_at == row.created_at
    assert later.updated_at == pytest.approx(row.updated_at + 9 * MINUTE, abs=1)
    assert (later.limits, later.waiting, later.seq) == (limits, False, 3)
    assert later.expires_at == pytest.approx(later.updated_at + MINUTE)
    assert 100_000 < later.size - row.size < 200_000
    [scanned] = await scan(records)
    assert scanned._replace(size=0) == later._replace(size=0)  # Redis may tell another one


async def test_times_are_by_the_clock_of_the_database(records: Records, database: Database) -> None:
    before = await records("read_clock")
    database.advance(timedelta(days=3))
    await records.put("c1")
    row, now = await thread(records), await records("read_clock")
    assert row is not None
    assert before + 3 * 86_400 <= row.created_at <= now <= before + 3 * 86_400 + 60


async def test_only_threads_with_a_checkpoint_that_live_are_told(
    records: Records, database: Database
) -> None:
    await records.put("c1", thread_id="short", limits=SHORT)
    await records.put("c1", thread_id="long")
    await records.write("c1", [new_write("c1", 0, b"early")], thread_id="writes")
    assert await thread(records, "writes") is None
    assert ids_of(await scan(records)) == ["long", "short"]
    database.advance(timedelta(minutes=1))
    assert await thread(records, "short") is None
    assert await thread(records, "none") is None
    for order in ThreadOrder:
        assert ids_of(await scan(records, order=order)) == ["long"]


# Scans


async def test_pages_of_any_size_give_all_threads_in_order(
    records: Records, database: Database
) -> None:
    minutes = {"a": 30, "b": None, "c": 10, "d": 20, "e": None, "f": 30}
    sizes = dict(zip("abfcde", range(6), strict=True))
    for name, idle in minutes.items():
        limits = Limits(idle and idle * MINUTE)
        body = b"x" * 10_000 * sizes[name]
        await records.put("c1", thread_id=name, limits=limits, elements=elements(5, [body + b"."]))
        database.advance(timedelta(seconds=10))
    orders = {
        ThreadOrder.THREAD_ID: "abcdef",
        ThreadOrder.UPDATED_AT: "fedcba",
        ThreadOrder.EXPIRES_AT: "cdafbe",
        ThreadOrder.SIZE: "edcfba",
    }
    for order, expected in orders.items():
        whole = await scan(records, order=order)
        assert ids_of(whole) == list(expected)
        assert await scan(records, 4, order=order) == whole


async def test_equal_threads_come_by_id(records: Records) -> None:
    names = [f"thread {number:02}" for number in range(30)]
    for name in reversed(names):
        await records.put("c1", thread_id=name)
    assert ids_of(await scan(records, 7, order=ThreadOrder.EXPIRES_AT)) == names


async def test_a_prefix_is_plain_text(records: Records) -> None:
    for name in HOSTILE:
        await records.put("c1", thread_id=name)
    everything = sorted(HOSTILE)
    for prefix in ("", "a", "a*", "a\x00", "[", "%", "日", "zz"):
        expected = [name for name in everything if name.startswith(prefix)]
        assert ids_of(await scan(records, 30, prefix=prefix)) == expected
    by_time = await scan(records, 30, prefix="a", order=ThreadOrder.UPDATED_AT)
    assert sorted(ids_of(by_time)) == [name for name in everything if name.startswith("a")]


# Limits


async def test_limits_that_are_not_its_own_leave_a_threads_own_alone(records: Records) -> None:
    await records.put("c1", limits=SHORT)
    assert await records("save_limits", "t", Limits(2 * MINUTE), own=False) is True
    row = await thread(records)
    assert row is not None
    assert (row.limits, row.sticky) == (Limits(2 * MINUTE), False)
    assert await records("save_limits", "t", Limits(3 * MINUTE), own=True) is True
    assert await records("save_limits", "t", SHORT, own=False) is True
    row = await thread(records)
    assert row is not None
    assert (row.limits, row.sticky) == (Limits(3 * MINUTE), True)
    assert row.expires_at == pytest.approx(row.updated_at + 3 * MINUTE, abs=5)
    assert await records("save_limits", "u", SHORT, own=True) is False


# Expiry that is told


async def test_an_expiry_is_told_for_thirty_days_swept_or_not(
    records: Records, database: Database
) -> None:
    for name, limits in (("swept", TELLS), ("unswept", TELLS), ("silent", SHORT)):
        await records.put("c1", thread_id=name, limits=limits)

    async def told() -> list[str]:
        names = ("swept", "unswept", "silent", "none")
        return [name for name in names if await records("read_expiry", name)]

    assert await told() == []
    database.advance(timedelta(minutes=1))
    assert await told() == ["swept", "unswept"]
    assert await records("drop_expired", 10) == 3
    assert await told() == ["swept", "unswept"]
    database.advance(timedelta(days=29, hours=23))
    await records("drop_expired", 10)
    assert await told() == ["swept", "unswept"]
    database.advance(timedelta(hours=2))
    await records("drop_expired", 10)
    assert await told() == []


async def test_an_expiry_is_forgotten_with_a_new_life_or_a_deletion(
    records: Records, database: Database
) -> None:
    for name in ("renewed", "renewed unswept", "deleted", "deleted unswept", "written"):
        await records.put("c1", thread_id=name, limits=TELLS)
    database.advance(timedelta(minutes=2))
    for name in ("renewed unswept", "deleted unswept"):
        assert await records("read_expiry", name) is True
    await records.put("d1", thread_id="renewed unswept", begins=True)
    await records("drop_thread", "deleted unswept")
    await records("drop_expired", 10)
    await records.put("d1", thread_id="renewed", begins=True)
    await records("drop_thread", "deleted")
    await records.write("d1", [new_write("d1", 0, b"early")], thread_id="written")
    told = [
        await records("read_expiry", name)
        for name in ("renewed", "renewed unswept", "deleted", "deleted unswept", "written")
    ]
    assert told == [False, False, False, False, True]


async def test_a_thread_that_lives_on_has_not_expired(records: Records, database: Database) -> None:
    for number in range(4):
        await records.put(f"c{number}", f"c{number - 1}" if number else None, limits=TELLS)
        database.advance(timedelta(seconds=50))
        assert await records("read_expiry", "t") is False
    database.advance(timedelta(seconds=10))
    assert await records("read_expiry", "t") is True


# Threads that keep their latest


async def fill_keeping(records: Records, thread_id: str = "t", limits: Limits = KEEPS) -> int:
    """Three checkpoints in the main namespace and two in another; gives the generation."""
    saved = await records.put("c1", thread_id=thread_id, limits=limits)
    for name, parent in (("c2", "c1"), ("c3", "c2")):
        await records.put(name, parent, thread_id=thread_id, limits=limits)
    for name, above in (("c1", None), ("c2", "c1")):
        await records.put(name, above, thread_id=thread_id, limits=limits, checkpoint_ns="sub")
    return saved.generation


async def test_an_idle_thread_that_keeps_its_latest_shows_only_these(
    records: Records, database: Database
) -> None:
    generation = await fill_keeping(records)
    row = await thread(records)
    assert row is not None
    assert row.checkpoints == 5
    assert row.expires_at == pytest.approx(row.updated_at + MINUTE)
    database.advance(timedelta(minutes=1))

    async def look() -> None:
        row = await thread(records)
        assert row is not None
        assert (row.checkpoints, row.expires_at, row.is_idle) == (2, None, True)
        assert ids_of(await scan(records)) == ["t"]
        latest = await records.latest()
        assert latest is not None
        assert latest.checkpoint_id == "c3"
        assert await records("read_checkpoint", "t", "", "c3") is not None
        assert await records("read_checkpoint", "t", "", "c2") is None
        assert await records("read_checkpoint", "t", "sub", "c1") is None
        for wanted in (CheckpointScan("t"), CheckpointScan()):
            rows = await records("scan_checkpoints", wanted)
            assert [(row.checkpoint_ns, row.checkpoint_id) for row in rows] == [
                ("", "c3"),
                ("sub", "c2"),
            ]
        found = await records("scan_checkpoints", CheckpointScan("t", checkpoint_id="c2"))
        assert [row.checkpoint_ns for row in found] == ["sub"]
        orders = await records("read_orders", "t", ["c1", "c2", "c3"])
        assert sorted((order.checkpoint_ns, order.checkpoint_id) for order in orders) == [
            ("", "c3"),
            ("sub", "c2"),
        ]

    await look()
    await records("touch_thread", "t", generation)
    await records.write("c3", [new_write("c3", 0, b"late")], generation=generation)
    await look()
    assert await records("drop_expired", 10) == 0
    await look()
    assert await records.writes("c3") == {("task", 0): b"late"}
    everything = await records("scan_checkpoints", CheckpointScan("t", anchors=True))
    assert len(everything) == 5
    ancestry = await records("read_ancestors", "t", "", None, 10)
    assert [row.checkpoint_id for row in ancestry] == ["c3", "c2", "c1"]


async def test_an_idle_thread_that_keeps_its_latest_is_cut_before_it_goes_on(
    records: Records, database: Database
) -> None:
    generation = await fill_keeping(records)
    database.advance(timedelta(minutes=2))
    for name, parent in (("c4", "c3"), ("c3", "c2")):
        refused = await records.put(name, parent, generation=generation, limits=KEEPS)
        assert refused == Saved(Outcome.CUT_FIRST, 0)
    assert await expired(records, keep_latest=True) == ["t"]
    dropped = [("", "c1"), ("", "c2"), ("sub", "c1")]
    cut = Prune("t", generation, 5, dropped, [], roots=[("", "c3"), ("sub", "c2")], wakes=True)
    assert await records("save_pruned", cut) is True
    assert await expired(records, keep_latest=True) == []
    row = await thread(records)
    assert row is not None
    assert (row.checkpoints, row.expires_at) == (2, None)
    saved = await records.put("c4", "c3", generation=generation, limits=KEEPS)
    assert saved == Saved(Outcome.SAVED, generation)
    assert len(await records.orders()) == 3
    database.advance(timedelta(minutes=1))
    assert await expired(records, keep_latest=True) == ["t"]


async def test_a_thread_that_keeps_its_latest_goes_with_its_greatest_age(
    records: Records, database: Database
) -> None:
    await fill_keeping(records, limits=KEEPS._replace(max_age_seconds=10 * MINUTE))
    database.advance(timedelta(minutes=2))
    assert await expired(records, keep_latest=True) == ["t"]
    assert await expired(records) == []
    row = await thread(records)
    assert row is not None
    assert (row.checkpoints, row.expires_at, row.is_idle) == (2, None, True)
    database.advance(timedelta(minutes=8))
    assert await expired(records, keep_latest=True) == []
    assert await expired(records) == ["t"]
    assert await records("drop_expired", 10) == 1


# Expired threads


async def test_expired_threads_are_found_the_longest_first(
    records: Records, database: Database
) -> None:
    for name in ("b", "c", "a"):
        await records.put("c1", thread_id=name, limits=SHORT)
        await fill_keeping(records, f"keeps {name}")
        database.advance(timedelta(seconds=20))
    await records.put("c1", thread_id="for ever")
    assert await expired(records) == ["b"]
    assert await expired(records, keep_latest=True) == ["keeps b"]
    database.advance(timedelta(minutes=2))
    assert await expired(records) == ["b", "c", "a"]
    assert await expired(records, 2) == ["b", "c"]
    assert await expired(records, keep_latest=True) == ["keeps b", "keeps c", "keeps a"]
    assert await expired(records, 1, keep_latest=True) == ["keeps b"]
    assert await records("drop_expired", 10) == 3
    assert await expired(records) == []
    assert len(await expired(records, keep_latest=True)) == 3


async def test_two_sweepers_delete_each_thread_once_and_leave_the_living(
    records: Records, database: Database
) -> None:
    for number in range(40):
        await records.put("c1", thread_id=f"thread {number}", limits=SHORT)
    database.advance(timedelta(minutes=2))
    for number in range(0, 40, 4):
        await records.put("d1", thread_id=f"thread {number}", begins=True, limits=SHORT)
    sweepers = [records, open_records(database)]

    async def sweep(sweeper: Records) -> int:
        swept = 0
        while await expired(records):
            swept += await asyncio.to_thread(
                sweeper.backend.run, lambda records: records.drop_expired(7)
            )
        return swept

    assert sum(await asyncio.gather(*map(sweep, sweepers))) == 30
    left = await scan(records)
    assert len(left) == 10
    assert all(int(row.thread_id.split()[1]) % 4 == 0 for row in left)


# What there is in all


async def test_stats_count_what_is_stored(records: Records, database: Database) -> None:
    nothing = await records("read_stats")
    assert nothing[:6] == (0, 0, 0, 0, 0, 0)
    assert nothing.idle == 0
    await records.put("c1", thread_id="short", limits=SHORT, elements=elements(5, [b"a", b"b"]))
    for number in range(3):
        await records.put("c1", thread_id=f"long {number}", elements=elements(5, [b"a" * 9_000]))
        rows = [new_write("c1", 0, b"w"), new_write("c1", -1, b"e")]
        await records.write("c1", rows, thread_id=f"long {number}")
        await records.write("c1", rows, thread_id=f"long {number}")
    await fill_keeping(records, "keeps")
    await records.put("c1", thread_id="deleted")
    await records("drop_thread", "deleted")
    stats = await records("read_stats")
    assert stats[:6] == (5, 0, 9, 6, 5, 1)
    assert stats.idle == 0
    assert stats.size > 27_000
    database.advance(timedelta(minutes=2))
    stats = await records("read_stats")
    assert stats[:6] == (4, 1, 5, 6, 3, 1)
    assert stats.idle == 1
    await records("drop_expired", 10)
    stats = await records("read_stats")
    assert stats[:6] == (4, 0, 5, 6, 3, 1)
