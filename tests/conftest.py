"""What every test can ask for: databases of each kind, both faces of what is opened there, a clock.

A test that asks for `database`, `saver` or `store` runs once per backend, and once per face too if
it asks for `saver`, `store` or `face_name`. A server is started when the first test needs it and
serves the whole run; each test has a schema or key prefix of its own, gone afterwards.

`SESSIONMEM_TEST_PG_URL`, `SESSIONMEM_TEST_REDIS_URL` and `SESSIONMEM_TEST_REDIS_CLUSTER_URL` name
servers to use instead. What can neither be reached nor started is skipped with the reason; where
`CI` is set it fails.
"""

import asyncio
import contextlib
import importlib
import inspect
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import hypothesis
import hypothesis.configuration
import psycopg
import psycopg.sql
import pytest
import redis
from processes import ServerFailed, ServerMissing
from servers import Cluster, Postgres, Redis, redis_binary, valkey_binary

T = TypeVar("T")
RedisClient = redis.Redis | redis.RedisCluster
Pass = Callable[..., Awaitable[None]]
"""Lets time pass for what a face reaches: `await passes(saver, minutes=31)`."""

PG_URL = os.environ.get("SESSIONMEM_TEST_PG_URL")
REDIS_URL = os.environ.get("SESSIONMEM_TEST_REDIS_URL")
CLUSTER_URL = os.environ.get("SESSIONMEM_TEST_REDIS_CLUSTER_URL")

if sys.platform == "win32":  # they are about signals, Unix sockets and Valkey
    collect_ignore = ["test_servers.py", "test_faults.py"]

# A key in the developer's environment would make LangChain send every run to its service.
os.environ["LANGSMITH_TRACING"] = os.environ["LANGCHAIN_TRACING_V2"] = "false"


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def register_hypothesis_profiles() -> None:
    """Profiles `suite` (loaded) and `slow`, with their files outside the project."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    home = Path(tempfile.gettempdir(), f"sessionmem-hypothesis-{user}")
    hypothesis.configuration.set_hypothesis_home_dir(home)
    health = hypothesis.HealthCheck
    unhurried: dict[str, Any] = {
        "deadline": None,  # a busy machine is no failure
        "derandomize": in_ci(),
        # A test over databases gives each example its own thread id, not its own database.
        "suppress_health_check": [health.too_slow, health.function_scoped_fixture],
    }
    hypothesis.settings.register_profile("suite", max_examples=60, **unhurried)
    hypothesis.settings.register_profile("slow", max_examples=2_000, **unhurried)
    hypothesis.settings.load_profile("suite")


register_hypothesis_profiles()

UNAVAILABLE = (
    ServerMissing,
    ServerFailed,
    OSError,
    psycopg.Error,
    redis.RedisError,
    redis.exceptions.RedisClusterException,
)


def skip_or_fail(reason: str) -> NoReturn:
    """End the test: skipped, or failed where `CI` is set."""
    if in_ci():
        pytest.fail(f"{reason} (this would be skipped, but CI is set)", pytrace=False)
    pytest.skip(reason)


class Servers:
    """The servers of this run and our own connections to them, each opened when first asked for."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}
        self._closing = contextlib.ExitStack()

    def find(self, name: str, enter: Callable[[], AbstractContextManager[T]]) -> T:
        """What `enter` opens, once, for `name`; open until the end of the run.

        A failure is remembered: whoever asks again is skipped, or fails, at once.
        """
        if name not in self._found:
            try:
                self._found[name] = self._closing.enter_context(enter())
            except UNAVAILABLE as error:
                self._found[name] = error
        found = self._found[name]
        if isinstance(found, Exception):
            skip_or_fail(f"{name}: {found}")
        return found

    def postgres_url(self) -> str:
        return PG_URL or self.find("PostgreSQL", Postgres).url

    def valkey_url(self) -> str:
        return self.find("Valkey", lambda: Redis(valkey_binary())).url

    def redis_url(self) -> str:
        return REDIS_URL or self.find("Redis", lambda: Redis(redis_binary())).url

    def cluster_url(self) -> str:
        return CLUSTER_URL or self.find("cluster", lambda: Cluster(valkey_binary())).url

    def postgres_connection(self, url: str) -> psycopg.Connection:
        """For looking and cleaning behind the package's back; commits each statement."""
        # A test that leaves a transaction open shall fail at the clean-up, not hang there.
        options = "-c lock_timeout=20s"
        return self.find(
            url,
            lambda: psycopg.connect(url, autocommit=True, connect_timeout=10, options=options),
        )

    def redis_client(self, url: str) -> RedisClient:
        """For looking and cleaning behind the package's back."""
        return self.find(url, lambda: connected(url))

    def close(self) -> None:
        self._closing.close()


@contextlib.contextmanager
def connected(url: str) -> Iterator[RedisClient]:
    """A client that has reached its server, for one node or a cluster, as the URL says."""
    with contextlib.ExitStack() as closing:
        if "+cluster://" in url:
            first_node = url.replace("+cluster", "").split(",")[0]
            client: RedisClient = redis.RedisCluster.from_url(first_node)
            # Its `close` alone leaves the sockets to the garbage collector.
            closing.callback(client.disconnect_connection_pools)
        else:
            client = closing.enter_context(redis.Redis.from_url(url))
        client.ping()
        yield client


class Address(NamedTuple):
    """An empty database.

    Attributes:
        url: its connection string.
        options: the keyword arguments of `from_conn_string` that keep other tests out.
    """

    url: str
    options: dict[str, Any]


@contextlib.contextmanager
def open_sqlite(servers: Servers, folder: Path) -> Iterator[Address]:
    yield Address(f"sqlite:///{folder / 'test.db'}", {})


@contextlib.contextmanager
def open_postgres(servers: Servers, folder: Path) -> Iterator[Address]:
    url, schema = servers.postgres_url(), f"t_{secrets.token_hex(6)}"
    connection = servers.postgres_connection(url)
    try:
        yield Address(url, {"schema": schema})
    finally:
        name = psycopg.sql.Identifier(schema)
        connection.execute(psycopg.sql.SQL("drop schema if exists {} cascade").format(name))


@contextlib.contextmanager
def own_prefix(servers: Servers, url: str) -> Iterator[Address]:
    prefix = f"t{secrets.token_hex(6)}:"
    client = servers.redis_client(url)
    try:
        yield Address(url, {"prefix": prefix})
    finally:
        for key in client.scan_iter(match=f"{prefix}*", count=1_000):
            client.unlink(key)


def open_valkey(servers: Servers, folder: Path) -> AbstractContextManager[Address]:
    return own_prefix(servers, servers.valkey_url())


def open_redis(servers: Servers, folder: Path) -> AbstractContextManager[Address]:
    return own_prefix(servers, servers.redis_url())


def open_cluster(servers: Servers, folder: Path) -> AbstractContextManager[Address]:
    return own_prefix(servers, servers.cluster_url())


BACKENDS: dict[str, Callable[[Servers, Path], AbstractContextManager[Address]]] = {
    "sqlite": open_sqlite,
    "postgres": open_postgres,
}
if sys.platform != "win32":  # there is no Valkey for Windows
    BACKENDS["valkey"] = open_valkey
if sys.platform != "win32" or CLUSTER_URL:
    BACKENDS["cluster"] = open_cluster
if shutil.which("redis-server") or REDIS_URL:
    BACKENDS["redis"] = open_redis


class Database:
    """An empty database of one backend; what is opened through it is closed with it.

    Attributes:
        name: the backend's name in `BACKENDS`.
        url: the connection string.
        options: the keyword arguments of `from_conn_string` that keep other tests out.
        servers: for a look behind the package's back.
    """

    def __init__(self, name: str, address: Address, servers: Servers) -> None:
        self.name, self.servers = name, servers
        self.url, self.options = address
        self._opened: list[Any] = []
        self._offset_seconds = 0.0

    def open_saver(self, **keywords: Any) -> Any:
        """A new `SessionSaver`."""
        return self._open("SessionSaver", keywords)

    def open_store(self, **keywords: Any) -> Any:
        """A new `LongTermStore`."""
        return self._open("LongTermStore", keywords)

    def adopt(self, target: T) -> T:
        """`target`, a saver or store made otherwise, which from now on goes by the test's clock."""
        self._opened.append(target)
        self.advance(timedelta(0))
        return target

    def advance(self, time: timedelta) -> None:
        """Move the clock of everything opened here, and of what will be."""
        self._offset_seconds += time.total_seconds()
        for target in self._opened:
            target.backend.offset_seconds = self._offset_seconds

    async def close(self) -> None:
        """Close what was opened; closing twice is allowed, so a test may have done it already."""
        for target in reversed(self._opened):
            await target.aclose()

    def _open(self, name: str, keywords: dict[str, Any]) -> Any:
        opener = getattr(importlib.import_module("langgraph_sessionmem"), name)
        return self.adopt(opener.from_conn_string(self.url, **self.options | keywords))


class Clock:
    """The time by which a test's database lives."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Let time pass for everything that the test's database has open."""
        passed = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        self._database.advance(passed)


class Face:
    """One face of an object: `await face("put", …)` calls `put`, or awaits `aput`.

    What is iterated over (`list`) comes back as a list. A method without a twin is called as it is.

    Attributes:
        target: the object.
        is_async: which face.
    """

    def __init__(self, target: Any, is_async: bool) -> None:
        self.target, self.is_async = target, is_async

    async def __call__(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        twin = getattr(self.target, f"a{method}", None) if self.is_async else None
        result = (twin or getattr(self.target, method))(*arguments, **keywords)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, AsyncIterator):
            return [element async for element in result]
        return list(result) if isinstance(result, Iterator) else result


async def until(done: Callable[[], object]) -> None:
    """Wait for another thread or task, which needs a moment."""
    ends = time.monotonic() + 10
    while not done():
        assert time.monotonic() < ends, "it never happened"
        await asyncio.sleep(0.002)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on every backend it can run on, unless it names its own."""
    if "backend_name" not in metafunc.fixturenames:
        return
    marks = metafunc.definition.iter_markers("parametrize")
    if not any("backend_name" in names for mark in marks for names in mark.args[:1]):
        names = tuple(BACKENDS)
        metafunc.parametrize("backend_name", names)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture
def start_server() -> Iterator[Callable[..., Any]]:
    """Makes a server of the test's own, to be killed: `start_server(Postgres, durable=True)`."""
    own = Servers()
    count = 0

    def start(make: Callable[..., AbstractContextManager[T]], *args: Any, **keywords: Any) -> T:
        nonlocal count
        count += 1
        return own.find(f"{make.__name__} {count}", lambda: make(*args, **keywords))

    yield start
    own.close()


@pytest.fixture(params=["blocking", "async"])
def face_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def database(backend_name: str, servers: Servers, tmp_path: Path) -> AsyncIterator[Database]:
    with BACKENDS[backend_name](servers, tmp_path) as address:
        database = Database(backend_name, address, servers)
        try:
            yield database
        finally:
            await database.close()


@pytest.fixture
def clock(database: Database) -> Clock:
    return Clock(database)


@pytest.fixture
async def saver(database: Database, face_name: str) -> AsyncIterator[Face]:
    face = Face(database.open_saver(), face_name == "async")
    yield face
    await face("close")


@pytest.fixture
def open_saver(database: Database, face_name: str) -> Callable[..., Face]:
    """Opens a saver of the test's face with the options given."""
    return lambda **keywords: Face(database.open_saver(**keywords), face_name == "async")


@pytest.fixture
def upkeep(face_name: str) -> str:
    """Half of all combinations: a backend may know of the sweep, and is the same for both faces."""
    return "swept" if face_name == "blocking" else "unswept"


@pytest.fixture
def time_passes(upkeep: str, clock: Clock) -> Pass:
    """Lets time pass, with or without a sweep at its end: no answer may depend on it."""

    async def wait(saver: Face, **time: float) -> None:
        clock.advance(**time)
        if upkeep == "swept":
            await saver("sweep")

    return wait


@pytest.fixture
async def store(database: Database, face_name: str) -> AsyncIterator[Face]:
    face = Face(database.open_store(), face_name == "async")
    yield face
    await face("close")
