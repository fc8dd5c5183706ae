"""Connections that break, stall or run out: success, or a typed error in time; nothing twice."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from conftest import BACKENDS, Database, Face, Servers
from faults import CutProxy
from processes import Server, ServerMissing, wait_until
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from servers import Cluster, PgBouncer, Postgres, Redis, valkey_binary
from threads import Thread, new_checkpoint, next_id, place, values_of

from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.backends import postgres_connections
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument, TimedOut

SHORT, LONG = timedelta(seconds=0.4), timedelta(seconds=60)
OWN_SERVERS: dict[str, Callable[[], Any]] = {
    "postgres": lambda: Postgres(durable=True),
    "valkey": lambda: Redis(valkey_binary(), durable=True),
}
MANNERS = [("postgres", "async"), ("valkey", "blocking"), ("valkey", "async")]
"""On PostgreSQL both faces take the same way: async callers hop into a thread."""
on_servers = pytest.mark.parametrize(
    ("backend_name", "face_name"),
    [manner for manner in MANNERS if manner[0] in BACKENDS],
    indirect=["face_name"],
)
on_own_server = pytest.mark.parametrize(("server", "face_name"), MANNERS, indirect=True)
postgres_only = pytest.mark.parametrize("backend_name", ["postgres"])


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


def texts(count: int) -> list[str]:
    return [f"text {n} " * 10 for n in range(count)]


async def talk(thread: Thread, first: int, last: int) -> None:
    """Put a checkpoint and its writes for each of `first` to `last - 1`."""
    for n in range(first, last):
        await thread.put({"list": texts(n + 1), "n": n})
        await thread.write([("n", n)])


async def check(saver: Face, thread_id: str, count: int) -> None:
    """That the thread has so many checkpoints, each once and whole."""
    listed = await saver("list", place(thread_id))
    values = [found.checkpoint["channel_values"] for found in listed]
    assert values == [{"list": texts(n + 1), "n": n} for n in reversed(range(count))]
    assert [found.pending_writes for found in listed] == [
        [("task", "n", n)] for n in reversed(range(count))
    ]


async def all_at_once(saver: Face, count: int, call: Callable[[Face, int], Any]) -> list[Any]:
    """What `call` gives or raises, begun together: in tasks, or in threads for the blocking."""
    if saver.is_async:
        return await asyncio.gather(*(call(saver, n) for n in range(count)), return_exceptions=True)

    def finish(n: int) -> Any:
        try:
            return asyncio.run(call(saver, n))
        except Exception as error:  # noqa: BLE001 - as `gather` gives it
            return error

    with ThreadPoolExecutor(count) as pool:
        return await asyncio.to_thread(lambda: list(pool.map(finish, range(count))))


def allow(timeout: timedelta, *savers: Face) -> None:
    """Change the limit of savers that are open: a busy machine shall be no failure."""
    for saver in savers:
        saver.target.backend._timeout_seconds = timeout.total_seconds()


def new_id() -> str:
    return f"t{threading.get_ident()}-{next(_ids)}"


_ids = iter(range(1_000_000))


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
