"""Many callers of one saver, and callers that give up; how often the server is asked."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from conftest import BACKENDS, Database, Face
from faults import CutProxy
from processes import wait_until
from psycopg_pool import AsyncConnectionPool
from talking import LONG, MANNERS, SHORT, all_at_once, allow, on_servers, postgres_only, talk, texts
from threads import Thread, place, values_of

from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.errors import BackendUnavailable, TimedOut

# One opener, many callers


def open_connections(database: Database, name: str) -> int:
    """How many connections of this name the server has."""
    if database.name == "postgres":
        connection = database.servers.postgres_connection(database.url)
        counted = "select count(*) from pg_stat_activity where application_name = %s"
        [(count,)] = connection.execute(counted, [name]).fetchall()
        return int(count)
    client = database.servers.redis_client(database.url)
    return sum(each["name"] == name for each in client.client_list())


def named(database: Database, name: str) -> str:
    option = "application_name" if database.name == "postgres" else "client_name"
    return f"{database.url}?{option}={name}"


async def wait_until_closed(database: Database, name: str) -> None:
    """The server hears of the end of a connection a moment later."""

    def wait() -> None:
        wait_until(lambda: not open_connections(database, name), 20, "connections are left")

    await asyncio.to_thread(wait)


@on_servers
async def test_many_first_users_open_one_pool(database: Database, face_name: str) -> None:
    name = f"n{id(database)}"
    saver = Face(SessionSaver(named(database, name), **database.options), face_name == "async")
    found = await all_at_once(saver, 16, lambda one, _: one("get_tuple", place()))
    assert found == [None] * 16
    assert open_connections(database, name) > 0
    await saver("close")
    await wait_until_closed(database, name)


@pytest.mark.parametrize(
    ("backend_name", "face_name"),
    [
        manner
        for manner in [("sqlite", "async"), ("cluster", "async"), *MANNERS]
        if manner[0] in BACKENDS
    ],
    indirect=["face_name"],
)
async def test_a_saver_that_is_closed_while_it_is_used_says_so(
    database: Database, face_name: str
) -> None:
    name = f"n{id(database)}"
    url = database.url
    if database.name in ("postgres", "valkey", "redis"):
        url = named(database, name)
    saver = Face(SessionSaver(url, **database.options), face_name == "async")
    begun = threading.Semaphore(0)
    await Thread(saver, "t").put({"n": 0})

    async def use(one: Face, index: int) -> int:
        thread = Thread(one, f"t{index}")
        for n in range(100_000):
            await talk(thread, n, n + 1)
            begun.release()
        raise AssertionError

    async def close() -> None:
        def wait() -> None:
            for _ in range(10):
                assert begun.acquire(timeout=60)

        await asyncio.to_thread(wait)
        if saver.is_async:
            await saver.target.aclose()
        else:
            await asyncio.to_thread(saver.target.close)

    closing = asyncio.create_task(close())
    ends = await all_at_once(saver, 4, use)
    await closing
    assert [type(end) for end in ends] == [BackendUnavailable] * 4, ends
    with pytest.raises(BackendUnavailable, match="closed"):
        await saver("get_tuple", place())
    if database.name in ("postgres", "valkey"):
        await wait_until_closed(database, name)


@postgres_only
async def test_calls_on_a_pool_are_under_way_together(database: Database) -> None:
    saver = database.open_saver()
    saver.setup()
    together = threading.Barrier(8)

    async def operation(records: Any) -> Any:
        found = await records.read_thread("t")
        together.wait(timeout=30)  # broken unless all eight are here
        return found

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(saver.backend.run, [operation] * 8)) == [None] * 8
    together.reset()
    assert await asyncio.gather(*(saver.backend.arun(operation) for _ in range(8))) == [None] * 8


@postgres_only
def test_a_full_pool_is_an_error_in_time(database: Database) -> None:
    saver = database.open_saver()
    saver.setup()
    full, go_on = threading.Barrier(11), threading.Event()

    async def hold(records: Any) -> None:
        await records.read_thread("t")
        full.wait(timeout=30)
        go_on.wait(timeout=30)

    with ThreadPoolExecutor(10) as pool:
        held = [pool.submit(saver.backend.run, hold) for _ in range(10)]
        full.wait(timeout=30)
        allow(SHORT, Face(saver, False))
        with pytest.raises(TimedOut, match="no connection was free"):
            saver.get_tuple(place())
        go_on.set()
        for each in held:
            each.result()
    allow(LONG, Face(saver, False))
    assert saver.get_tuple(place()) is None


# Cancelled


@pytest.mark.parametrize(
    ("backend_name", "source"),
    [
        *[("postgres", source) for source in ("url", "pool", "connection")],
        *[(name, "url") for name in ("sqlite", "valkey", "cluster") if name in BACKENDS],
    ],
)
async def test_a_cancelled_caller_leaves_everything_usable(database: Database, source: str) -> None:
    async with contextlib.AsyncExitStack() as closing:
        opened: Any = database.url
        if source == "pool":
            opened = AsyncConnectionPool(database.url, min_size=1, max_size=2, open=False)
            await closing.enter_async_context(opened)
        if source == "connection":
            opened = await psycopg.AsyncConnection.connect(database.url, autocommit=True)
            await closing.enter_async_context(opened)
        saver = Face(database.adopt(SessionSaver(opened, **database.options)), True)
        await Thread(saver).put({"n": -1})
        for steps in range(24):
            thread = Thread(saver)
            await thread.load()
            task = asyncio.create_task(thread.put({"n": steps, "list": texts(3)}))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        found = await asyncio.gather(*(values_of(saver, place()) for _ in range(20)))
        assert all(each is not None and each["n"] >= -1 for each in found)
        last = Thread(saver)
        await last.load()
        await last.put({"n": 100})
        assert (await values_of(saver, place()))["n"] == 100


# Round trips


@on_servers
async def test_a_put_is_one_round_trip_and_a_read_at_most_two(
    database: Database, face_name: str
) -> None:
    with CutProxy(database.url) as proxy:
        saver = Face(SessionSaver(proxy.url, **database.options), face_name == "async")
        await saver("setup")
        await saver("get_tuple", place())
        thread = Thread(saver)

        async def counted(call: Any) -> int:
            before = proxy.round_trips
            await call
            return proxy.round_trips - before

        for n in range(5):
            values = {"list": texts(50 * (n + 1)), "n": n, "big": "x" * 300_000 + str(n)}
            assert await counted(thread.put(values)) == 1
            assert await counted(thread.write([("n", n), ("big", "y" * 300_000)])) == 1
            assert await counted(saver("get_tuple", place())) <= 2
            assert await counted(saver("get_tuple", thread.config)) <= 2
        fresh = Face(SessionSaver(proxy.url, **database.options), face_name == "async")
        await fresh("get_tuple", place("other"))
        assert await counted(fresh("get_tuple", place())) <= 2
        for each in (saver, fresh):
            await each("close")
