"""What writers of items do to each other: one wins, nobody waits for ever, sums stay true."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import psycopg
import pytest
from conftest import Clock, Database
from item_model import WORDS, entries, new_put, new_save, scan_all
from primitives import Records, on, open_records

from langgraph_sessionmem.backends.opening import open_backend
from langgraph_sessionmem.item_records import Scope
from langgraph_sessionmem.running import run_now

NS = ("users", "u1")
KEY = (NS, "k")
EVERYTHING = Scope(())

Work = Callable[[Records], Coroutine[Any, Any, None]]


@pytest.fixture
def writers(database: Database, face_name: str) -> list[Records]:
    """Two that know nothing of each other."""
    return [open_records(database, is_async=face_name == "async") for _ in range(2)]


async def at_once(writers: list[Records], *works: Work) -> None:
    """Let each writer do all of this, all at the same time."""
    calls = [work(records) for work in works for records in writers]
    if writers[0].is_async:
        await asyncio.gather(*calls)
    else:
        await asyncio.gather(*(asyncio.to_thread(run_now, call) for call in calls))


async def test_of_writers_that_expect_the_same_one_wins(writers: list[Records]) -> None:
    async def count(records: Records) -> None:
        for _ in range(5):
            is_saved = False
            while not is_saved:
                rows = await records("read_items", [KEY])
                number, time = (int(rows[0].value), rows[0].updated_at) if rows else (0, 0)
                put = new_put(*KEY, b"%d" % (number + 1), expected=time)
                is_saved = await records("save_items", new_save(put))

    await at_once(writers, count, count)
    [row] = await writers[0]("read_items", [KEY])
    assert row.value == b"20"
    assert len(await writers[0]("read_versions", KEY)) == 20


async def test_what_is_written_at_once_from_all_sides_adds_up(
    writers: list[Records], clock: Clock
) -> None:
    namespaces = [("users", name) for name in ("u1", "u2", "u3")]

    def work(seed: int) -> Work:
        async def write(records: Records) -> None:
            chance = random.Random(seed)
            for _ in range(10):
                await records("read_items", [(namespaces[0], "0")])
                keys = [(namespace, key) for namespace in namespaces for key in "0123"]
                chance.shuffle(keys)
                puts = [
                    new_put(*key, tokens={"tea": 1, chance.choice(WORDS): 2}, ttl_minutes=ttl)
                    for key, ttl in zip(keys[:4], (None, 1.0, None, 1e-7), strict=True)
                ]
                rows = await records("read_items", keys)
                touched = sorted(row.item_id for row in rows)
                await records("save_items", new_save(*puts, drops=keys[4:6], touched=touched))

        return write

    async def drop(records: Records) -> None:
        for namespace in (*namespaces, ("users",)):
            await records("drop_items", Scope(namespace))

    async def sweep(records: Records) -> None:
        for limit in (1, 2, 100, 100):
            await records("drop_expired_items", limit)

    await at_once(writers, work(1), work(2), drop, sweep)
    records, _ = writers
    await records("save_items", new_save(new_put(*KEY, tokens={"tea": 2})))
    rows = await scan_all(records, EVERYTHING, 100)
    postings = entries(await records("search_postings", EVERYTHING, WORDS, None))
    assert {item_id for _, item_id, _, _ in postings} == {row.item_id for row in rows}
    scope = await records("read_scope", EVERYTHING, WORDS)
    assert (scope.items, scope.length) == (len(rows), sum(count for _, _, count, _ in postings))
    clock.advance(minutes=2)
    await records("drop_expired_items", 100)
    assert await records("drop_items", EVERYTHING) > 0
    assert await records("scan_namespaces", (), None, 10) == []


@on("sqlite", "postgres")
async def test_a_refused_save_is_no_harm_to_a_transaction_of_the_callers(
    database: Database,
) -> None:
    records = open_records(database)
    await records("save_items", new_save(new_put(*KEY, b"1")))
    if database.name == "sqlite":
        source: Any = records.backend._connection  # type: ignore[attr-defined]
        begin = source.execute("begin")
    else:
        source = psycopg.connect(database.url, autocommit=False)
        begin = source.execute("select 1")
    begin.fetchall()
    backend = open_backend(source, **database.options)
    own = database.adopt(Records(backend, is_async=False))
    refused = new_save(
        new_put(NS, "other", b"2"), new_put(*KEY, b"2", expected=0), new_put(("new",), "k")
    )
    assert await own("save_items", refused) is False
    assert await own("save_items", new_save(new_put(*KEY, b"3"))) is True
    source.commit()
    source.close()
    [row] = await scan_all(open_records(database), EVERYTHING, 10)
    assert row.value == b"3"
    assert await open_records(database)("scan_namespaces", (), None, 10) == [NS]
