"""The savers under test: ours, with and without its options, and the others of each database."""

import contextlib
import importlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from checkpointing.databases import Database, Place
from langgraph_sessionmem import SessionSaver

OURS = "SessionSaver"
REUSE = "reuse_objects"
COMPRESS = "compress"
MEMORY = "InMemorySaver"
POOL_SIZE = 10


class Contender(NamedTuple):
    """A saver under test.

    Attributes:
        name: in tables.
        open: for blocking callers.
        aopen: for async callers.
    """

    name: str
    open: Callable[[Place], AbstractContextManager[BaseCheckpointSaver[Any]]]
    aopen: Callable[[Place], AbstractAsyncContextManager[BaseCheckpointSaver[Any]]]


class Peer(NamedTuple):
    """A saver that others made for a database.

    Attributes:
        package: its distribution.
        module: where its classes are.
    """

    package: str
    module: str
    open: Callable[[Place], AbstractContextManager[BaseCheckpointSaver[Any]]]
    aopen: Callable[[Place], AbstractAsyncContextManager[BaseCheckpointSaver[Any]]]


def ours(name: str = OURS, **options: Any) -> Contender:
    """`SessionSaver` under some of its options."""

    @contextlib.contextmanager
    def opened(place: Place) -> Iterator[SessionSaver]:
        with SessionSaver.from_conn_string(place.url, **place.options, **options) as saver:
            yield saver

    @contextlib.asynccontextmanager
    async def aopened(place: Place) -> AsyncIterator[SessionSaver]:
        async with SessionSaver.from_conn_string(place.url, **place.options, **options) as saver:
            yield saver

    return Contender(name, opened, aopened)


@contextlib.contextmanager
def in_memory(place: Place) -> Iterator[InMemorySaver]:
    """LangGraph's saver without a database."""
    yield InMemorySaver()


@contextlib.asynccontextmanager
async def ain_memory(place: Place) -> AsyncIterator[InMemorySaver]:
    """The same for async callers."""
    yield InMemorySaver()


@contextlib.contextmanager
def official_sqlite(place: Place) -> Iterator[BaseCheckpointSaver[Any]]:
    """As its documentation opens it."""
    module = importlib.import_module("langgraph.checkpoint.sqlite")
    with module.SqliteSaver.from_conn_string(place.peer_url) as saver:
        yield saver


@contextlib.asynccontextmanager
async def aofficial_sqlite(place: Place) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """As its documentation opens it."""
    module = importlib.import_module("langgraph.checkpoint.sqlite.aio")
    async with module.AsyncSqliteSaver.from_conn_string(place.peer_url) as saver:
        yield saver


@contextlib.contextmanager
def official_postgres(place: Place) -> Iterator[BaseCheckpointSaver[Any]]:
    """As its documentation opens it: one connection."""
    module = importlib.import_module("langgraph.checkpoint.postgres")
    with module.PostgresSaver.from_conn_string(place.peer_url) as saver:
        saver.setup()
        yield saver


@contextlib.asynccontextmanager
async def aofficial_postgres(place: Place) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """On a pool, since many conversations share it."""
    module = importlib.import_module("langgraph.checkpoint.postgres.aio")
    keywords = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool = AsyncConnectionPool(
        place.peer_url, min_size=1, max_size=POOL_SIZE, open=False, kwargs=keywords
    )
    async with pool:
        saver = module.AsyncPostgresSaver(pool)
        await saver.setup()
        yield saver


@contextlib.contextmanager
def plain_redis(place: Place) -> Iterator[BaseCheckpointSaver[Any]]:
    """As its documentation opens it."""
    module = importlib.import_module("langgraph_checkpoint_plainredis")
    saver = module.RedisSaver(url=place.peer_url, prefix=place.options["prefix"])
    with contextlib.closing(saver):
        yield saver


@contextlib.asynccontextmanager
async def aplain_redis(place: Place) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """As its documentation opens it."""
    module = importlib.import_module("langgraph_checkpoint_plainredis")
    saver = module.AsyncRedisSaver(url=place.peer_url, prefix=place.options["prefix"])
    try:
        yield saver
    finally:
        await saver.aclose()


_PLAIN_REDIS = Peer(
    "langgraph-checkpoint-plainredis",
    "langgraph_checkpoint_plainredis",
    plain_redis,
    aplain_redis,
)
PEERS = {
    "sqlite": Peer(
        "langgraph-checkpoint-sqlite",
        "langgraph.checkpoint.sqlite",
        official_sqlite,
        aofficial_sqlite,
    ),
    "postgres": Peer(
        "langgraph-checkpoint-postgres",
        "langgraph.checkpoint.postgres",
        official_postgres,
        aofficial_postgres,
    ),
    "redis": _PLAIN_REDIS,
    "valkey": _PLAIN_REDIS,
}
_WITHOUT_MODULES = (
    "langgraph-checkpoint-redis, the official saver for Redis, needs RedisJSON and RediSearch: "
    "it is left out. langgraph-checkpoint-plainredis, which needs core commands only, is the peer."
)


def peer_of(database: Database) -> tuple[Contender | None, list[str]]:
    """The other saver of a database, if it is installed, and what to say about it."""
    peer = PEERS[database.name]
    notes = [_WITHOUT_MODULES] if peer is _PLAIN_REDIS else []
    try:
        importlib.import_module(peer.module)
        name = f"{peer.package.removeprefix('langgraph-checkpoint-')} {version(peer.package)}"
    except (ImportError, PackageNotFoundError):
        missing = f"{peer.package} is not installed, so {database.name} has no peer in the tables."
        return None, [*notes, f"{missing} Run: python -m pip install {peer.package}"]
    return Contender(name, peer.open, peer.aopen), notes


def variants(names: tuple[str, ...]) -> list[Contender]:
    """`SessionSaver` as it is, and with each of the named options."""
    options = {REUSE: {"reuse_objects": True}, COMPRESS: {"compress": True}}
    return [ours(), *(ours(name, **options[name]) for name in names)]


def in_memory_contender() -> Contender:
    """The saver that writes nothing down: what LangGraph and serializing alone cost."""
    return Contender(MEMORY, in_memory, ain_memory)
