"""Sweeping: in batches, by several at once and beside writers, by hand and in the background."""

import asyncio
import contextlib
import gc
import logging
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest
import redis
import redis.asyncio
from conftest import Clock, Database, Face, until
from servers import Redis, valkey_binary
from threads import Thread, place, remains, stored, values_of

from langgraph_sessionmem import TTL, SessionSaver
from langgraph_sessionmem.checkpoint.retention import BATCH
from langgraph_sessionmem.errors import InvalidArgument, ThreadDamaged

HALF_HOUR = TTL(idle=timedelta(minutes=30))
KEEP = TTL(idle=timedelta(minutes=30), strategy="keep_latest")
OFTEN, SELDOM = timedelta(milliseconds=2), timedelta(days=1)


def sweepers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "sessionmem-sweeping"]


async def test_a_sweep_takes_what_is_due_and_a_dry_run_only_counts_it(
    open_saver: Callable[..., Face], clock: Clock, database: Database
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    for n in range(7):
        await Thread(saver, f"{n}").put({"n": n, "list": ["x" * 200]})
    for n in range(3):
        await Thread(saver, f"keeps {n}", session_ttl=KEEP).put({"n": n})
    await Thread(saver, "pinned", session_ttl=None).put({"n": 1})
    assert await saver("sweep", dry_run=True) == await saver("sweep") == 0
    clock.advance(minutes=31)
    before = stored(database, saver.target)
    assert await saver("sweep", dry_run=True) == 10
    assert await saver("sweep", dry_run=True, limit=4) == 4
    assert stored(database, saver.target) == before
    assert [await saver("sweep", limit=4) for _ in range(4)] == [4, 4, 2, 0]
    assert [row.thread_id for row in await saver("threads")] == [
        *(f"keeps {n}" for n in range(3)),
        "pinned",
    ]
    for bad in (0, -1, True, 1.5, "5"):
        with pytest.raises(InvalidArgument, match="limit"):
            await saver("sweep", limit=bad)


@pytest.mark.parametrize("backend_name", ["sqlite", "postgres", "valkey"])
async def test_a_sweep_goes_batch_by_batch_until_nothing_is_due(
    open_saver: Callable[..., Face], clock: Clock, database: Database
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    for n in range(BATCH + 5):
        await Thread(saver, f"{n}").put({"n": n})
    clock.advance(minutes=31)
    assert await saver("sweep") == BATCH + 5
    assert remains(database, saver.target) == {}


async def test_only_the_thread_with_the_shorter_limit_goes(
    open_saver: Callable[..., Face], clock: Clock
) -> None:
    saver = open_saver(ttl=TTL(idle=timedelta(seconds=60)))
    for name, ttl in {"default": {}, "short": {"session_ttl": timedelta(seconds=1)}}.items():
        await Thread(saver, name, **ttl).put({"n": 1})
    clock.advance(seconds=5)
    assert await saver("sweep") == 1
    assert [row.thread_id for row in await saver("threads")] == ["default"]


async def together(is_async: bool, *works: Callable[[Face], Awaitable[int]], faces: Any) -> Any:
    """The results of works that go on at once, each with its face: as tasks, or in threads."""
    pairs = list(zip(works, faces, strict=True))
    if is_async:
        return await asyncio.gather(*(work(face) for work, face in pairs))
    in_threads = (asyncio.to_thread(asyncio.run, run_whole(*pair)) for pair in pairs)
    return await asyncio.gather(*in_threads)


async def run_whole(work: Callable[[Face], Awaitable[int]], face: Face) -> int:
    return await work(face)


async def test_two_sweepers_and_a_writer_do_not_disturb_each_other(
    open_saver: Callable[..., Face], clock: Clock, database: Database, face_name: str
) -> None:
    faces = [open_saver(ttl=HALF_HOUR) for _ in range(3)]
    saver = faces[2]
    gone, anew = [f"gone {n}" for n in range(40)], [f"anew {n}" for n in range(8)]
    kept, on = [f"kept {n}" for n in range(12)], [f"on {n}" for n in range(8)]
    old = ["old" * 50, "value" * 50]
    for name in [*gone, *anew, *kept, *on]:
        limits = {"session_ttl": KEEP} if name in (*kept, *on) else {}
        thread = Thread(saver, name, **limits)
        await thread.put({"list": old[:1]})
        await thread.put({"list": old, "n": 1})
    clock.advance(minutes=31)

    async def sweep(face: Face) -> int:
        swept = 0
        while found := await face("sweep", limit=5):
            swept += found
        return swept

    async def write(face: Face) -> int:
        for n in range(8):
            await Thread(face, anew[n]).put({"list": ["new"]})
            thread = Thread(face, on[n])
            await thread.load()
            await thread.put({"list": [*thread.values["list"], "more"]})
            await Thread(face, f"other {n}").put({"n": n})
        return 0

    counts = await together(face_name == "async", sweep, sweep, write, faces=faces)
    # Both may have come to the same idle thread; cutting it twice does nothing.
    assert len(gone) + len(kept) <= sum(counts) <= len([*gone, *anew, *kept, *on, *kept, *on])
    assert await saver("sweep") == 0
    rows = {row.thread_id: row for row in await saver("threads")}
    assert rows.keys() == {*anew, *kept, *on, *(f"other {n}" for n in range(8))}
    for name in anew:
        assert await values_of(saver, place(name)) == {"list": ["new"]}
        assert rows[name].checkpoints == 1
    for name in kept:
        assert await values_of(saver, place(name)) == {"list": old, "n": 1}
        assert rows[name].checkpoints == 1
    for name in on:
        assert await values_of(saver, place(name)) == {"list": [*old, "more"], "n": 1}
        assert rows[name].checkpoints == 2
    for name in rows:
        await saver("delete_thread", name)
    assert remains(database, saver.target) == {}


# In the background


async def test_old_threads_go_by_themselves_where_an_interval_is_given(
    open_saver: Callable[..., Face], clock: Clock, database: Database
) -> None:
    saver = open_saver(ttl=HALF_HOUR, sweep_interval=OFTEN)
    thread = Thread(saver)
    await thread.put({"n": 1, "list": ["x" * 200]})
    await thread.write([("n", 2)])
    assert len(sweepers()) == 1
    clock.advance(days=8)
    await until(lambda: not remains(database, saver.target))
    await saver("close")
    assert sweepers() == []


async def test_langgraphs_mapping_starts_a_sweeper_too(
    open_saver: Callable[..., Face], clock: Clock, database: Database
) -> None:
    ttl = {"default_ttl": 30, "sweep_interval_minutes": 1 / 30_000, "sweep_limit": 2}
    saver = open_saver(ttl=ttl)
    for n in range(5):
        await Thread(saver, f"{n}").put({"n": n})
    clock.advance(minutes=31)
    await until(lambda: not remains(database, saver.target))


async def test_clones_share_the_sweeper_and_end_it(database: Database) -> None:
    saver = database.open_saver(sweep_interval=SELDOM)
    clone = saver.with_allowlist([("some", "Type")])
    assert len(sweepers()) == 1
    clone.close()
    assert sweepers() == []
    saver.close()


def test_a_sweeper_keeps_no_saver_alive(tmp_path: Path) -> None:
    saver = SessionSaver(tmp_path / "a.db", sweep_interval=SELDOM)
    clone = saver.with_allowlist([])
    backend = saver.backend
    del saver
    gc.collect()
    assert len(sweepers()) == 1
    del clone
    gc.collect()
    for thread in sweepers():
        thread.join(10)
    assert sweepers() == []
    backend.close()


async def test_a_sweeper_outlives_errors_of_the_database_and_reports_them_once(
    database: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "langgraph_sessionmem"):
        saver = database.open_saver(ttl=HALF_HOUR, setup=False, sweep_interval=OFTEN)
        await until(lambda: caplog.records)
        other = Face(database.open_saver(ttl=HALF_HOUR), is_async=False)
        await Thread(other, "secret").put({"n": "secret"})
        clock.advance(minutes=31)
        await until(lambda: not remains(database, other.target))
        saver.close()
    assert len(caplog.records) == 1
    assert "SchemaMissing" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("backend_name", ["sqlite", "postgres"])
async def test_a_sweeper_stays_out_of_a_transaction_of_the_user(
    database: Database, clock: Clock, tmp_path: Path
) -> None:
    connection: Any
    if database.name == "sqlite":
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        options = {}
    else:
        connection = psycopg.connect(database.url, autocommit=True)
        options = database.options
    saver = database.adopt(
        SessionSaver(connection, ttl=HALF_HOUR, sweep_interval=SELDOM, **options)
    )
    await Thread(Face(saver, is_async=False)).put({"n": 1})
    clock.advance(minutes=31)
    connection.execute("begin")
    saver._sweeper.round()
    connection.execute("rollback")
    assert saver.sweep(dry_run=True) == 1
    saver._sweeper.round()
    assert saver.sweep(dry_run=True) == 0
    saver.close()
    connection.close()


@pytest.mark.parametrize("backend_name", ["postgres", "valkey"])
async def test_an_async_client_is_swept_in_its_own_loop(database: Database, clock: Clock) -> None:
    client: Any
    if database.name == "postgres":
        client = psycopg_pool.AsyncConnectionPool(
            database.url, open=False, kwargs={"autocommit": True}
        )
        await client.open()
    else:
        client = redis.asyncio.Redis.from_url(database.url)
    keywords = {"ttl": HALF_HOUR, "sweep_interval": OFTEN, **database.options}
    saver = database.adopt(SessionSaver(client, **keywords))
    await Thread(Face(saver, is_async=True)).put({"n": 1})
    clock.advance(minutes=31)
    await until(lambda: not remains(database, saver))
    assert sweepers() == []
    await saver.aclose()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "sessionmem-sweeping"]

    def make() -> None:
        with pytest.raises(InvalidArgument, match="event loop"):
            SessionSaver(client, **keywords)

    await asyncio.to_thread(make)
    await (client.close() if database.name == "postgres" else client.aclose())


@pytest.mark.parametrize("backend_name", ["valkey"])
async def test_a_blocking_client_is_swept_by_a_thread(database: Database, clock: Clock) -> None:
    client = redis.Redis.from_url(database.url)
    keywords = {"ttl": HALF_HOUR, "sweep_interval": OFTEN, **database.options}
    saver = database.adopt(SessionSaver(client, **keywords))
    await Thread(Face(saver, is_async=False)).put({"n": 1})
    clock.advance(minutes=31)
    await until(lambda: not remains(database, saver))
    saver.close()
    client.close()


# What it gives back


@pytest.mark.parametrize("backend_name", ["sqlite"])
@pytest.mark.parametrize("way", ["delete", "sweep", "keep_latest"])
async def test_the_file_shrinks_when_large_threads_go(
    tmp_path: Path, clock: Clock, database: Database, way: str
) -> None:
    path = tmp_path / "large.db"
    ttl = KEEP if way == "keep_latest" else HALF_HOUR
    saver = database.adopt(SessionSaver(path, ttl=ttl))
    face = Face(saver, is_async=False)
    for name in ("a", "b", "c"):
        thread = Thread(face, name, **({"session_ttl": None} if name == "c" else {}))
        await thread.put({"files": os.urandom(10_000_000)})
        await thread.put({"files": name})
    other = sqlite3.connect(path)
    reader = other.execute("select thread_id from sessionmem_threads")
    reader.fetchone()  # a reader that stands in the way of any exclusive lock
    assert size_of(path) > 30_000_000
    if way == "delete":
        saver.delete_thread("a")
        saver.delete_thread("b")
    else:
        clock.advance(minutes=31)
        assert saver.sweep() == 2
    reader.close()
    other.execute("pragma wal_checkpoint(truncate)")
    other.close()
    assert path.stat().st_size < 11_000_000
    assert len(saver.threads()) == (3 if way == "keep_latest" else 1)
    saver.close()


def size_of(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


@pytest.mark.parametrize("backend_name", ["valkey", "cluster"])
async def test_with_a_default_limit_all_keys_have_a_deadline_and_those_of_a_thread_the_same(
    database: Database, clock: Clock
) -> None:
    ttl = TTL(idle=timedelta(minutes=30), refresh_on_read=True)
    saver = Face(database.open_saver(ttl=ttl), is_async=False)
    thread = Thread(saver)
    for n in range(3):
        await thread.put({"list": ["x" * 200 for _ in range(n)], "big": f"{n}" * 500})
        await thread.write([("n", n)])
    client = database.servers.redis_client(database.url)
    prefix = database.options["prefix"]

    def deadlines() -> list[float]:
        keys = [key for key in client.scan_iter(f"{prefix}*") if not key.endswith(b":meta")]
        assert all(client.pttl(key) > 0 for key in keys), keys
        return [client.pttl(key) / 60_000 for key in keys if b":t:" in key]

    written = deadlines()
    assert len(written) > 2
    assert max(written) - min(written) < 1 / 60
    clock.advance(minutes=15)
    assert await thread.load() is not None
    read = deadlines()
    assert max(read) - min(read) < 1 / 60
    assert min(read) > 29.9


async def test_under_volatile_ttl_a_full_server_gives_up_what_expires_next(
    start_server: Callable[..., Any],
) -> None:
    options = ["--maxmemory", "12mb", "--maxmemory-policy", "volatile-ttl"]
    server = start_server(Redis, valkey_binary(), options=options)
    saver = SessionSaver(server.url, ttl=TTL(idle=timedelta(hours=1)))
    face = Face(saver, is_async=False)
    texts = [f"{n:03}" * 700 for n in range(10)]
    pinned = Thread(face, "pinned", session_ttl=None)
    await pinned.put({"list": texts})
    for n in range(600):
        # What comes later lives longer, so the first are the next to expire.
        await Thread(face, f"{n:03}", session_ttl=timedelta(minutes=60 + n)).put({"list": texts})
    whole = []
    for n in range(600):
        with contextlib.suppress(ThreadDamaged):
            found = await values_of(face, place(f"{n:03}"))
            assert found in (None, {"list": texts})
            whole += [n] if found else []
    assert 100 < len(whole) < 600
    assert whole[-150:] == list(range(450, 600))
    assert await pinned.load() == {"list": texts}
    saver.close()
