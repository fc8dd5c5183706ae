"""What `CheckpointRecords` promises of pages and ids, on every backend in both faces."""

from datetime import timedelta
from typing import Any

import pytest
from conftest import Database
from primitives import HOSTILE, MINUTE, Records, new_save, new_write, open_records

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.rows import (
    CheckpointScan,
    Limits,
    OrderKey,
    ScanCursor,
    ThreadScan,
    WriteRow,
)


@pytest.fixture
def records(database: Database, face_name: str) -> Records:
    return open_records(database, is_async=face_name == "async")


# Pages


async def test_a_scan_gives_pages_the_latest_first_and_ties_by_thread_and_namespace(
    records: Records,
) -> None:
    expected = []
    for thread_id in ("t1", "t2", "t3"):
        for namespace in ("", "a", "a:b"):
            for checkpoint_id in ("c1", "c2", f"c-{thread_id}"):
                await records.put(checkpoint_id, thread_id=thread_id, checkpoint_ns=namespace)
                expected.append((thread_id, namespace, checkpoint_id))
    expected.sort()
    expected.sort(key=lambda row: row[2], reverse=True)
    for limit in (4, 10, 100):
        scan = CheckpointScan(limit=limit)
        found = []
        while page := await records("scan_checkpoints", scan):
            found += [(row.thread_id, row.checkpoint_ns, row.checkpoint_id) for row in page]
            last = page[-1]
            scan = scan._replace(after=ScanCursor(last.order, *found[-1]))
        assert found == expected


async def test_a_scan_keeps_to_all_its_conditions(records: Records) -> None:
    await records.put("c2")
    await records.put("c1", "c2")
    await records.put("c3", "c1")
    await records.put("c1", checkpoint_ns="sub")
    await records.put("c1", thread_id="u")

    async def scan(**conditions: Any) -> list[tuple[str, str, str]]:
        page = await records("scan_checkpoints", CheckpointScan(**conditions))
        return [(row.thread_id, row.checkpoint_ns, row.checkpoint_id) for row in page]

    assert await scan(thread_id="t", checkpoint_ns="") == [
        ("t", "", "c3"),
        ("t", "", "c1"),
        ("t", "", "c2"),
    ]
    assert await scan(thread_id="t", before=OrderKey("c2", 1)) == [
        ("t", "", "c2"),
        ("t", "sub", "c1"),
    ]
    assert await scan(checkpoint_id="c1") == [("t", "", "c1"), ("t", "sub", "c1"), ("u", "", "c1")]
    assert await scan(checkpoint_id="c1", before=OrderKey("c2", 0)) == [
        ("t", "sub", "c1"),
        ("u", "", "c1"),
    ]
    assert await scan(checkpoint_ns="sub") == [("t", "sub", "c1")]
    assert await scan(thread_id="t", checkpoint_ns="", checkpoint_id="c2") == [("t", "", "c2")]
    orders = await records("read_orders", "t", ["c1", "c3", "c9"])
    assert sorted(orders) == [
        ("", "c1", OrderKey("c2", 1)),
        ("", "c3", OrderKey("c3", 0)),
        ("sub", "c1", OrderKey("c1", 0)),
    ]


async def test_threads_are_listed_in_pages_by_id(records: Records) -> None:
    thread_ids = [f"t{number}" for number in range(12)] + ["", "Z", "é", "日", "😀"]
    for thread_id in thread_ids:
        await records.put("c1", thread_id=thread_id)
    found: list[str] = []
    scan = ThreadScan(limit=5)
    while page := await records("scan_threads", scan):
        found += [row.thread_id for row in page]
        scan = scan._replace(after=page[-1])
    assert found == sorted(thread_ids)


async def test_a_thread_row_counts_and_dates_its_checkpoints(
    records: Records, database: Database
) -> None:
    saved = await records.put("c1")
    await records.put("c1", checkpoint_ns="sub")
    database.advance(timedelta(hours=1))
    await records.put("c2", "c1")
    await records.put("c2", "c1")
    [row] = await records("scan_threads", ThreadScan())
    assert (row.thread_id, row.generation, row.checkpoints) == ("t", saved.generation, 3)
    assert row.updated_at - row.created_at == pytest.approx(3600, abs=60)


# Ids


async def test_ids_are_opaque(records: Records) -> None:
    for thread_id in HOSTILE:
        await records.put("c1", thread_id=thread_id, metadata=thread_id.encode())
    for thread_id in HOSTILE:
        row = await records.latest(thread_id)
        assert row is not None
        assert (row.thread_id, row.metadata) == (thread_id, thread_id.encode())
    await records("save_limits", "a*", Limits(MINUTE), own=True)
    assert await records.expires_after("a") is None
    for number, thread_id in enumerate(HOSTILE, 1):
        await records("drop_thread", thread_id)
        if number % 11 == 0:
            left = [row.thread_id for row in await records("scan_threads", ThreadScan())]
            assert left == sorted(HOSTILE[number:])


async def test_parts_of_a_key_are_opaque(records: Records) -> None:
    places = [(namespace, name) for namespace in HOSTILE[::3] for name in HOSTILE[::2]]
    places += [
        ("b:c", "c"),
        ("b", "c:c"),
        ("a\x00", "b"),
        ("a", "\x00b"),
        ("", "a\x00b"),
        ("", "\x00\x00"),
    ]
    for namespace, name in places:
        body = f"{namespace}|{name}".encode()
        await records.put(name, checkpoint_ns=namespace, head=body)
        row = new_write(name, 0, body, task_id=name, namespace=namespace)
        await records.write(name, [row], checkpoint_ns=namespace)
    for namespace, name in places:
        row, [write] = await records("read_checkpoint", "t", namespace, name)
        body = f"{namespace}|{name}".encode()
        assert (row.checkpoint_ns, row.checkpoint_id, row.head) == (namespace, name, body)
        expected = WriteRow(namespace, name, name, 0, "~path", "channel", body, write.seq)
        assert write == expected
    found = await records("scan_checkpoints", CheckpointScan("t", limit=1_000))
    assert {(row.checkpoint_ns, row.checkpoint_id) for row in found} == set(places)


async def test_joined_parts_are_no_other_thread(records: Records) -> None:
    await records.put("c1", thread_id="a", checkpoint_ns="b:c")
    await records.put("c1", thread_id="a:b", checkpoint_ns="c")
    await records("drop_thread", "a")
    assert await records.latest("a", "b:c") is None
    assert await records.latest("a:b", "c") is not None


async def test_a_lone_surrogate_is_refused_in_every_id(records: Records) -> None:
    for save in (
        new_save("c1", thread_id="\ud800"),
        new_save("c1", checkpoint_ns="\ud800"),
        new_save("c1", "\ud800"),
    ):
        with pytest.raises(InvalidArgument, match="lone surrogate"):
            await records("save_checkpoint", save)
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        await records("read_checkpoint", "\ud800", "", None)
    assert await records("scan_threads", ThreadScan()) == []
