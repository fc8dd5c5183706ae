"""What `CheckpointRecords` promises of the end of a thread, on every backend in both faces."""

from datetime import timedelta

import pytest
from conftest import Database
from primitives import MINUTE, Records, elements, new_save, new_write, open_records

from langgraph_sessionmem.rows import (
    CheckpointScan,
    Limits,
    OrderKey,
    Outcome,
    Run,
    Saved,
    ThreadScan,
)


@pytest.fixture
def records(database: Database, face_name: str) -> Records:
    return open_records(database, is_async=face_name == "async")


# Deletion


async def test_a_deleted_thread_is_gone_and_late_saves_are_refused(records: Records) -> None:
    saved = await records.put("c1", elements=elements(5, [b"a"]))
    await records.write("c1", [new_write("c1", 0, b"w")])
    await records("drop_thread", "t")
    assert await records.latest() is None
    assert await records("read_elements", "t", saved.generation, [Run(5, 0, 1)]) == []
    assert await records("read_writes", "t", saved.generation, [("", "c1")]) == []
    assert await records("scan_threads", ThreadScan()) == []
    refused = Saved(Outcome.DELETED, 0)
    generation = saved.generation
    assert await records.put("c2", "c1", generation=generation) == refused
    assert await records.put("c2", "c1") == refused
    assert await records.write("c1", [new_write("c1", 0, b"w")], generation=generation) == refused


async def test_a_new_life_refuses_saves_of_the_old_one(records: Records) -> None:
    old = await records.put("c1", elements=elements(5, [b"old"]))
    await records("drop_thread", "t")
    new = await records.put("d1", begins=True, elements=elements(5, [b"new"]))
    assert new.outcome is Outcome.SAVED
    assert new.generation != old.generation
    refused = Saved(Outcome.DELETED, 0)
    assert await records.put("c2", "c1", generation=old.generation) == refused
    assert await records.put("c2", "c1") == refused
    write = [new_write("d1", 0, b"w")]
    assert await records.write("d1", write, generation=old.generation) == refused
    await records("touch_thread", "t", old.generation)
    assert await records("read_elements", "t", old.generation, [Run(5, 0, 1)]) == []
    found = await records("read_elements", "t", new.generation, [Run(5, 0, 1)])
    assert found == elements(5, [b"new"])
    assert (await records.put("d2", "d1", generation=new.generation)).outcome is Outcome.SAVED


async def test_a_tombstone_stands_for_an_hour(records: Records, database: Database) -> None:
    saved = await records.put("c1")
    await records("drop_thread", "t")
    database.advance(timedelta(minutes=59))
    await records("drop_expired", 10)
    late = new_save("c2", "c1", generation=saved.generation)
    assert (await records("save_checkpoint", late)).outcome is Outcome.DELETED
    database.advance(timedelta(minutes=2))
    assert await records("save_checkpoint", late) == Saved(Outcome.GONE, 0)
    assert (await records.put("c2", "c1")).outcome is Outcome.SAVED


async def test_deleting_what_is_not_there_is_fine(records: Records) -> None:
    await records("drop_thread", "t")
    await records("drop_thread", "t")
    assert (await records.put("c1", begins=True)).outcome is Outcome.SAVED


# Expiry


async def test_a_thread_is_gone_at_its_expiry(records: Records, database: Database) -> None:
    limits = Limits(idle_seconds=MINUTE)
    saved = await records.put("c1", limits=limits, elements=elements(5, [b"a"]))
    await records.write("c1", [new_write("c1", 0, b"w")])
    assert await records.expires_after() == pytest.approx(MINUTE)
    database.advance(timedelta(seconds=58))
    assert await records.latest() is not None
    database.advance(timedelta(seconds=2))
    assert await records.latest() is None
    assert await records("read_checkpoint", "t", "", "c1") is None
    assert await records("read_orders", "t", ["c1"]) == []
    assert await records("scan_checkpoints", CheckpointScan("t")) == []
    assert await records("scan_checkpoints", CheckpointScan()) == []
    assert await records("scan_threads", ThreadScan()) == []
    assert await records("save_limits", "t", Limits(MINUTE), own=True) is False
    await records("touch_thread", "t", saved.generation)
    assert await records.latest() is None


async def test_every_checkpoint_renews_the_idle_limit(records: Records, database: Database) -> None:
    for number in range(3):
        parent = f"c{number - 1}" if number else None
        await records.put(f"c{number}", parent, limits=Limits(idle_seconds=MINUTE))
        database.advance(timedelta(seconds=50))
    assert len(await records.orders()) == 3
    database.advance(timedelta(seconds=10))
    assert await records.orders() == {}


async def test_a_sign_of_life_renews_the_idle_limit(records: Records, database: Database) -> None:
    limits = Limits(idle_seconds=MINUTE, refresh_on_read=True)
    saved = await records.put("c1", limits=limits)
    row = await records.latest()
    assert row is not None
    assert row.refresh_on_read
    database.advance(timedelta(seconds=50))
    await records("touch_thread", "t", saved.generation)
    database.advance(timedelta(seconds=50))
    assert await records.latest() is not None
    database.advance(timedelta(seconds=10))
    assert await records.latest() is None


async def test_a_waiting_thread_has_a_limit_of_its_own(
    records: Records, database: Database
) -> None:
    limits = Limits(idle_seconds=MINUTE, interrupted_seconds=10 * MINUTE)
    await records.put("c1", limits=limits)
    await records.write("c1", [new_write("c1", -3, b"?")], interrupts=True)
    database.advance(timedelta(minutes=9))
    assert await records.latest() is not None
    await records.put("c2", "c1", limits=limits, pending=True)
    database.advance(timedelta(minutes=9))
    await records.put("c3", "c2", limits=limits)
    database.advance(timedelta(minutes=1))
    assert await records.latest() is None


@pytest.mark.parametrize("swept", [False, True])
async def test_a_late_save_into_an_idle_thread_is_told_to_start_over_swept_or_not(
    records: Records, database: Database, swept: bool
) -> None:
    limits = Limits(idle_seconds=MINUTE)
    saved = await records.put("c1", limits=limits, elements=elements(5, [b"a"]))
    database.advance(timedelta(minutes=2))
    if swept:
        assert await records("drop_expired", 10) == 1
    late = await records.put("c2", "c1", generation=saved.generation)
    assert late == Saved(Outcome.GONE, 0)
    write = [new_write("c1", 0, b"w")]
    early = await records.write("c1", write, generation=saved.generation)
    assert early.outcome is Outcome.SAVED
    assert await records.latest() is None
    assert (await records.put("c2")).outcome is Outcome.SAVED
    assert list(await records.orders()) == ["c2"]


async def test_a_save_of_unknown_life_begins_a_new_one_after_the_idle_limit(
    records: Records, database: Database
) -> None:
    saved = await records.put("c1", limits=Limits(idle_seconds=MINUTE))
    database.advance(timedelta(minutes=2))
    new = await records.put("c2", "c1")
    assert new.outcome is Outcome.SAVED
    assert new.generation != saved.generation
    assert list(await records.orders()) == ["c2"]


async def test_a_new_conversation_never_sees_the_expired_one(
    records: Records, database: Database
) -> None:
    limits = Limits(idle_seconds=MINUTE)
    old = await records.put("c1", limits=limits, elements=elements(5, [b"a"]), checkpoint_ns="sub")
    await records.put("c1", limits=limits)
    database.advance(timedelta(minutes=2))
    new = await records.put("d1", begins=True, limits=limits)
    assert new.outcome is Outcome.SAVED
    assert new.generation != old.generation
    assert await records.orders() == {"d1": OrderKey("d1", 0)}
    assert await records("read_elements", "t", new.generation, [Run(5, 0, 1)]) == []
    [thread] = await records("scan_threads", ThreadScan())
    assert thread.checkpoints == 1


async def test_a_checkpoint_that_begins_leaves_a_living_thread_alone(records: Records) -> None:
    first = await records.put("c1", begins=True)
    assert await records.put("c2", begins=True) == first
    assert len(await records.orders()) == 2


async def test_past_its_greatest_age_a_thread_refuses(records: Records, database: Database) -> None:
    limits = Limits(idle_seconds=10 * MINUTE, max_age_seconds=MINUTE)
    saved = await records.put("c1", limits=limits)
    database.advance(timedelta(seconds=58))
    assert (await records.put("c2", "c1", limits=limits)).outcome is Outcome.SAVED
    database.advance(timedelta(seconds=2))
    refused = Saved(Outcome.EXPIRED, 0)
    assert await records.put("c3", "c2", limits=limits, generation=saved.generation) == refused
    assert await records.put("c3", "c2", limits=limits) == refused
    assert await records.write("c2", [new_write("c2", 0, b"w")]) == refused
    assert await records.latest() is None
    assert (await records.put("d1", begins=True, limits=limits)).outcome is Outcome.SAVED


async def test_a_threads_own_limits_stay(records: Records) -> None:
    await records.put("c1", limits=Limits(MINUTE))
    await records.put("c2", "c1", limits=Limits(2 * MINUTE))
    assert await records.expires_after() == pytest.approx(2 * MINUTE)
    await records.put("c3", "c2", limits=Limits(3 * MINUTE), sticky=True)
    await records.put("c4", "c3", limits=Limits(4 * MINUTE))
    assert await records.expires_after() == pytest.approx(3 * MINUTE)
    assert await records("save_limits", "t", Limits(), own=True) is True
    assert await records.expires_after() is None
    await records.put("c5", "c4", limits=Limits(MINUTE))
    assert await records.expires_after() is None


async def test_the_sweeper_takes_expired_threads_only_and_a_few_at_a_time(
    records: Records, database: Database
) -> None:
    for number in range(5):
        await records.put("c1", thread_id=f"short {number}", limits=Limits(MINUTE))
        await records.put("c1", thread_id=f"long {number}", limits=Limits(10 * MINUTE))
    await records.put("c1", thread_id="for ever")
    database.advance(timedelta(minutes=2))
    assert [await records("drop_expired", 3) for _ in range(3)] == [3, 2, 0]
    left = [row.thread_id for row in await records("scan_threads", ThreadScan())]
    assert left == ["for ever", *(f"long {number}" for number in range(5))]
