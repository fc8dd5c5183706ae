"""Connections that break or stall: success, or a typed error in time; nothing twice."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from conftest import Database, Face, Servers
from faults import CutProxy
from processes import Server, ServerMissing
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from servers import Cluster, PgBouncer, Postgres, Redis, valkey_binary
from talking import (
    LONG,
    MANNERS,
    SHORT,
    all_at_once,
    allow,
    check,
    new_id,
    on_servers,
    postgres_only,
    talk,
    texts,
)
from threads import Thread, new_checkpoint, next_id, place, values_of

from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.backends import postgres_connections
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument, TimedOut

OWN_SERVERS: dict[str, Callable[[], Any]] = {
    "postgres": lambda: Postgres(durable=True),
    "valkey": lambda: Redis(valkey_binary(), durable=True),
}
on_own_server = pytest.mark.parametrize(("server", "face_name"), MANNERS, indirect=True)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of this module's own, to be killed and paused."""
    own = Servers()
    yield own.find(request.param, OWN_SERVERS[request.param])
    own.close()


@pytest.fixture
async def own_saver(server: Server, face_name: str) -> AsyncIterator[Face]:
    face = Face(SessionSaver(server.url), face_name == "async")
    yield face
    await face("close")


# The server goes


@on_own_server
async def test_a_restart_between_calls_costs_no_error(server: Server, own_saver: Face) -> None:
    thread_id = new_id()
    thread = Thread(own_saver, thread_id)
    await talk(thread, 0, 2)
    found = await all_at_once(own_saver, 6, lambda saver, _: saver("get_tuple", place(thread_id)))
    assert all(each.checkpoint["channel_values"]["n"] == 1 for each in found)
    server.kill()
    server.start()
    found = await all_at_once(own_saver, 12, lambda saver, _: saver("get_tuple", place(thread_id)))
    assert all(each.checkpoint["channel_values"]["n"] == 1 for each in found), found
    await talk(thread, 2, 4)
    await check(own_saver, thread_id, 4)


@on_own_server
async def test_a_restart_during_calls_loses_and_doubles_nothing(
    server: Server, own_saver: Face
) -> None:
    prefix, count, writers = new_id(), 12, 4
    await Thread(own_saver, "first").put({"n": 0})  # so that it is known to be reachable
    reached = threading.Semaphore(0)

    async def write(saver: Face, index: int) -> None:
        thread = Thread(saver, f"{prefix}-{index}")
        for n in range(count):
            await talk(thread, n, n + 1)
            reached.release()

    def restart_twice() -> None:
        for _ in range(2):
            for _ in range(writers * count // 3):
                assert reached.acquire(timeout=60)
            server.kill()
            server.start()

    restarts = asyncio.create_task(asyncio.to_thread(restart_twice))
    done = await all_at_once(own_saver, writers, write)
    await restarts
    assert done == [None] * writers
    for index in range(writers):
        await check(own_saver, f"{prefix}-{index}", count)


@on_own_server
async def test_a_server_that_says_nothing_is_an_error_in_time(
    server: Server, face_name: str
) -> None:
    thread_id = new_id()
    saver = Face(SessionSaver(server.url, timeout=LONG), face_name == "async")
    strange = Face(SessionSaver(server.url, timeout=SHORT), face_name == "async")
    thread = Thread(saver, thread_id)
    await thread.put({"n": 1})
    checkpoint = new_checkpoint(next_id(), {"n": 2}, {"n": "2"})
    call = ("put", thread.config, checkpoint, {}, {"n": "2"})
    allow(SHORT, saver)
    server.pause()
    try:
        with pytest.raises(TimedOut, match=r"within 0\.4 s") as raised:
            await saver(*call)
        assert raised.value.seconds == 0.4
        assert isinstance(raised.value, TimeoutError)
        # More of them than connections; and nobody was there before.
        for each in (saver, strange):
            got = await all_at_once(each, 15, lambda one, _: one("get_tuple", place(thread_id)))
            assert [type(one) for one in got] == [TimedOut] * 15, got
    finally:
        server.resume()
    allow(LONG, saver, strange)
    await saver(*call)  # which may come through twice now
    await thread.load()
    await thread.put({"n": 3})
    found = await all_at_once(saver, 15, lambda one, _: values_of(one, place(thread_id)))
    assert found == [{"n": 3}] * 15
    assert await values_of(strange, place(thread_id)) == {"n": 3}
    for each in (saver, strange):
        await each("close")


async def test_a_server_that_is_not_there_is_an_error_at_once(face_name: str) -> None:
    for url in ("postgresql://postgres@127.0.0.1:9/postgres", "redis://127.0.0.1:9/0"):
        saver = Face(SessionSaver(url, timeout=timedelta(hours=1)), face_name == "async")
        with pytest.raises(BackendUnavailable, match="refused"):
            await saver("get_tuple", place())
        await saver("close")


async def test_a_cluster_node_that_comes_back_in_time_costs_no_error(
    start_server: Callable[..., Any],
) -> None:
    cluster = start_server(Cluster, valkey_binary(), durable=True)
    with SessionSaver(cluster.url, timeout=timedelta(seconds=60)) as saver:
        faces = [Face(saver, True), Face(saver, False)]
        for face in faces:
            for index in range(6):
                await talk(Thread(face, f"{face.is_async}-{index}"), 0, 1)
        cluster.nodes[0].kill()

        async def go_on(face: Face, index: int) -> None:
            thread = Thread(face, f"{face.is_async}-{index}")
            assert await thread.load() == {"list": texts(1), "n": 0}
            await talk(thread, 1, 2)

        begun = [asyncio.create_task(all_at_once(face, 6, go_on)) for face in faces]
        await asyncio.to_thread(cluster.nodes[0].start)
        assert [await each for each in begun] == [[None] * 6] * 2
        for face in faces:
            for index in range(6):
                await check(face, f"{face.is_async}-{index}", 2)
        await saver.aclose()


# A connection goes


@on_servers
async def test_lost_connections_and_lost_replies_are_no_errors(
    database: Database, face_name: str
) -> None:
    with CutProxy(database.url) as proxy:
        options = database.options | {"timeout": timedelta(seconds=20)}
        saver = Face(SessionSaver(proxy.url, **options), face_name == "async")
        thread = Thread(saver)
        breaks = [proxy.cut, proxy.reset, proxy.lose_reply, proxy.lose_reply]
        for n in range(12):
            if n:
                breaks[n % 4]()
            await thread.put({"list": texts(n + 1), "n": n})
            breaks[(n + 1) % 4]()
            await thread.write([("n", n)])
            breaks[(n + 2) % 4]()
            assert await values_of(saver, place()) == {"list": texts(n + 1), "n": n}
        proxy.pass_on()
        await check(saver, "t", 12)
        await saver("close")


def terminate(database: Database, name: str) -> int:
    connection = database.servers.postgres_connection(database.url)
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
    return len(connection.execute(ended, [name]).fetchall())


@postgres_only
async def test_ended_backends_cost_no_error(database: Database) -> None:
    name = database.options["schema"]
    url = f"{database.url}?application_name={name}"
    saver = Face(SessionSaver(url, **database.options), True)
    thread = Thread(saver)
    await talk(thread, 0, 1)
    # So that all of the pool's connections are opened, and lost, at once.
    await all_at_once(saver, 10, lambda one, _: values_of(one, place()))
    for n in range(1, 5):
        assert terminate(database, name) > 0
        await talk(thread, n, n + 1)
    await check(saver, "t", 5)
    await saver("close")


@on_servers
async def test_a_connection_that_was_dropped_while_it_rested_costs_no_error(
    database: Database, face_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connections, "IDLE_SECONDS", 0.0)
    with CutProxy(database.url) as proxy:
        saver = Face(SessionSaver(proxy.url, **database.options), face_name == "async")
        await talk(Thread(saver), 0, 1)
        if database.name == "valkey":
            rested(saver)
        proxy.drop()
        assert (await values_of(saver, place()))["n"] == 0
        await saver("close")


def rested(saver: Face) -> None:
    """Have the connections of redis-py think that they have not been used for long."""
    clients = saver.target.backend._clients
    links = [link for link, _ in clients._links._links.values()]
    links += [clients._blocking[0]] if clients._blocking else []
    for link in links:
        pool = link._client.connection_pool
        name = "_available_connections" if saver.is_async else "_connections"
        for connection in getattr(pool, name):
            connection.next_health_check = 0.0001


@on_servers
async def test_a_call_that_is_cut_off_by_its_limit_can_be_repeated(
    database: Database, face_name: str
) -> None:
    with CutProxy(database.url) as proxy:
        saver = Face(SessionSaver(proxy.url, **database.options), face_name == "async")
        thread = Thread(saver)
        await talk(thread, 0, 1)
        parent, name = thread.config, next_id()
        checkpoint = new_checkpoint(name, {"list": texts(2), "n": 1}, {"list": "2", "n": "2"})
        call = ("put", parent, checkpoint, {"step": 1}, {"list": "2", "n": "2"})
        allow(SHORT, saver)
        proxy.stall()
        with pytest.raises(TimedOut):
            await saver(*call)
        proxy.pass_on()  # now the first one may come through as well
        allow(LONG, saver)
        thread.config = await saver(*call)
        await thread.write([("n", 1)])
        await check(saver, "t", 2)
        await saver("close")


@postgres_only
async def test_a_statement_that_takes_too_long_is_cancelled_on_the_server(
    database: Database,
) -> None:
    saver = Face(database.open_saver(), True)
    thread = Thread(saver)
    await thread.put({"n": 1})
    allow(SHORT, saver)
    schema, before = database.options["schema"], dict(thread.versions)
    with psycopg.connect(database.url) as connection:
        connection.execute(f'lock table "{schema}".sessionmem_checkpoints')
        with pytest.raises(TimedOut):
            await thread.put({"n": 2})
        connection.rollback()
        waiting = "select count(*) from pg_locks where not granted"
        assert connection.execute(waiting).fetchone() == (0,)
    allow(LONG, saver)
    assert await values_of(saver, place()) == {"n": 1}
    thread.versions = before
    await thread.put({"n": 2})
    assert await values_of(saver, place()) == {"n": 2}


@postgres_only
@pytest.mark.parametrize("kind", ["connection", "pool"])
async def test_what_the_user_opened_keeps_the_limit_too(
    database: Database, kind: str, face_name: str
) -> None:
    schema = database.options["schema"]
    database.open_saver().setup()
    async with contextlib.AsyncExitStack() as closing:
        source: Any
        if face_name == "async":
            source = (
                await psycopg.AsyncConnection.connect(database.url, autocommit=True)
                if kind == "connection"
                else AsyncConnectionPool(database.url, min_size=1, max_size=2, open=False)
            )
            await closing.enter_async_context(source)
        else:
            source = (
                psycopg.connect(database.url, autocommit=True)
                if kind == "connection"
                else ConnectionPool(database.url, min_size=1, max_size=2, open=False)
            )
            closing.enter_context(source)
        options = database.options | {"timeout": timedelta(seconds=1.5)}
        saver = Face(SessionSaver(source, **options), face_name == "async")
        thread = Thread(saver)
        with psycopg.connect(database.url) as connection:
            connection.execute(f'lock table "{schema}".sessionmem_checkpoints')
            with pytest.raises(TimedOut):
                await thread.put({"n": 1})
        allow(LONG, saver)
        await thread.put({"n": 1})
        assert await values_of(saver, place()) == {"n": 1}


def test_a_limit_that_is_none_is_refused() -> None:
    for timeout in (timedelta(0), timedelta(seconds=-1), 10, None):
        with pytest.raises(InvalidArgument, match="timeout"):
            SessionSaver(timeout=timeout)  # type: ignore[arg-type]


# PgBouncer


@postgres_only
async def test_pgbouncer_in_transaction_mode_does_no_harm(database: Database) -> None:
    try:
        bouncer = PgBouncer(database.url, pool_size=2)
    except ServerMissing as missing:
        pytest.skip(str(missing))  # under CI too: no package index has it
    with bouncer:
        saver = Face(SessionSaver(bouncer.url, **database.options), True)
        await saver("setup")

        async def work(one: Face, index: int) -> None:
            thread = Thread(one, f"t{index}")
            for n in range(30):
                await talk(thread, n, n + 1)
                assert await values_of(one, place(f"t{index}")) == {"list": texts(n + 1), "n": n}

        assert await all_at_once(saver, 6, work) == [None] * 6
        for index in range(6):
            await check(saver, f"t{index}", 30)
        await saver("close")
