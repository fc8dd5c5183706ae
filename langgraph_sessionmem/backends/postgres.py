"""PostgreSQL through psycopg 3: a pool, and one round trip a script.

Layout: `migrations/postgres`, explained in `docs/format.md`. A script goes out as one message of
several statements with its parameters written in (`ClientCursor`), which the server runs as one
transaction. So nothing is prepared, pipelined or kept in the session, and a transaction-mode pooler
in between does no harm.
"""

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import Any, Self, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout
from typing_extensions import override

from langgraph_sessionmem.backends.base import Backend, Operation, Records, T
from langgraph_sessionmem.backends.schema import Statements, check, migrate
from langgraph_sessionmem.backends.sql import (
    Link,
    Params,
    Refused,
    SqlRow,
    Step,
    load_migrations,
    load_queries,
    quote_identifier,
)
from langgraph_sessionmem.backends.sql_records import SqlRecords
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument, SchemaMissing
from langgraph_sessionmem.running import run_now

Source: TypeAlias = (
    psycopg.Connection[Any]
    | ConnectionPool[Any]
    | psycopg.AsyncConnection[Any]
    | AsyncConnectionPool[Any]
)

POOL_SIZE = 10
RETRIES = 2
"""After a lost connection, each on another one: every operation may run twice."""
IDLE_SECONDS = 60.0
"""A connection that rested longer is tried before use: firewalls drop idle ones without a word."""

_NOW = "(cast(extract(epoch from statement_timestamp()) as double precision) + %(offset)s)"
_PARAM = re.compile(r'("(?:[^"]|"")*")|(?<![:\w]):([a-z_]+)')
"""A quoted identifier, in which nothing is a parameter, or a parameter."""
_BROKEN = (psycopg.OperationalError, psycopg.InterfaceError)


class PostgresBackend(Backend):
    """A PostgreSQL database.

    Args:
        source: a pool or connection; a blocking one serves both faces (async callers by a thread
            hop), an async one serves async callers in its own loop.
        schema: where the tables are; the connection's current schema by default.
        owned: it was opened for this backend, so `close` closes it.
        setup: make the schema on first use; otherwise it must be there.
    """

    def __init__(
        self,
        source: Source,
        *,
        schema: str | None = None,
        owned: bool = False,
        setup: bool = True,
    ) -> None:
        self.offset_seconds = 0.0
        self._source, self._owned, self._setup = source, owned, setup
        self._schema = None if schema is None else quote_identifier(schema)
        self._lock = threading.Lock()
        # One connection serves one operation at a time, or one could commit for another, or none.
        self._turn, self._aturn = threading.Lock(), asyncio.Lock()
        self._queries: dict[str, str] | None = None
        self._mark_key = b""
        self._used: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        self._executor = ThreadPoolExecutor(POOL_SIZE, thread_name_prefix="sessionmem-postgres")

    @classmethod
    def from_url(
        cls, url: str, *, schema: str | None = None, setup: bool = True, max_size: int = POOL_SIZE
    ) -> Self:
        """A backend with a pool of its own, opened on first use.

        Raises:
            InvalidArgument: the connection string can't be read.
        """
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error as error:
            raise InvalidArgument(
                f"The PostgreSQL connection string can't be read: {error}"
            ) from error
        pool = ConnectionPool(
            url, min_size=1, max_size=max_size, open=False, kwargs={"autocommit": True}
        )
        return cls(pool, schema=schema, owned=True, setup=setup)

    @override
    def run(self, operation: Operation[T]) -> T:
        if isinstance(self._source, psycopg.AsyncConnection | AsyncConnectionPool):
            raise InvalidArgument(
                "This backend was given an async psycopg connection or pool, which serves the "
                "async methods only: call those, or pass a blocking one, which serves both."
            )
        try:
            pool = self._source if isinstance(self._source, ConnectionPool) else None
            for _ in range(RETRIES):
                try:
                    return self._attempt(operation)
                except _BROKEN:
                    if pool is None:
                        raise
                    pool.check()  # other idle connections are likely as dead as this one
            return self._attempt(operation)
        except (psycopg.Error, PoolTimeout) as error:
            raise BackendUnavailable(f"PostgreSQL refused the call: {error}") from error

    @override
    async def arun(self, operation: Operation[T]) -> T:
        if isinstance(self._source, psycopg.Connection | ConnectionPool):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, self.run, operation)
        try:
            pool = self._source if isinstance(self._source, AsyncConnectionPool) else None
            for _ in range(RETRIES):
                try:
                    return await self._aattempt(operation)
                except _BROKEN:
                    if pool is None:
                        raise
                    await pool.check()
            return await self._aattempt(operation)
        except (psycopg.Error, PoolTimeout) as error:
            raise BackendUnavailable(f"PostgreSQL refused the call: {error}") from error

    @override
    def setup(self) -> None:
        self._queries, self._setup = None, True
        self.run(_nothing)

    @override
    async def asetup(self) -> None:
        self._queries, self._setup = None, True
        await self.arun(_nothing)

    @override
    def close(self) -> None:
        self._executor.shutdown(wait=True)
        if self._owned and isinstance(self._source, psycopg.Connection | ConnectionPool):
            self._source.close()

    @override
    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def _attempt(self, operation: Operation[T]) -> T:
        with self._connection() as connection:
            link = _BlockingLink(self, connection)
            with self._lock:
                if self._queries is None:
                    with connection.transaction():
                        self._queries = run_now(self._prepare(link))
            commits = _is_ours_to_commit(connection)
            result = run_now(operation(SqlRecords(link, self._mark_key)))
            if commits:
                connection.commit()
            return result

    async def _aattempt(self, operation: Operation[T]) -> T:
        async with self._aconnection() as connection:
            link = _AsyncLink(self, connection)
            if self._queries is None:
                async with connection.transaction():
                    self._queries = await self._prepare(link)
            commits = _is_ours_to_commit(connection)
            result = await operation(SqlRecords(link, self._mark_key))
            if commits:
                await connection.commit()
            return result

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        source = self._source
        if isinstance(source, psycopg.Connection):
            with self._turn:
                yield source
            return
        assert isinstance(source, ConnectionPool)  # noqa: S101 - `run` has refused the async ones
        with self._lock:
            if self._owned and source.closed:
                source.open()
        with source.connection() as connection:
            used = self._used.get(connection)
            if used is not None and time.monotonic() - used > IDLE_SECONDS:
                ConnectionPool.check_connection(connection)
            yield connection
            self._used[connection] = time.monotonic()

    @asynccontextmanager
    async def _aconnection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        source = self._source
        if isinstance(source, psycopg.AsyncConnection):
            async with self._aturn:
                yield source
            return
        assert isinstance(source, AsyncConnectionPool)  # noqa: S101 - `arun` serves the others
        async with source.connection() as connection:
            yield connection

    async def _prepare(self, link: "_PostgresLink") -> dict[str, str]:
        schema = self._schema or await self._current_schema(link)
        migrations = load_migrations("postgres", schema)
        try:
            self._mark_key = await check(link, migrations, schema)
        except SchemaMissing:
            if not self._setup:
                raise
            # A transaction's lock, not a session's, which a pooler would hand to somebody else.
            lock = "select pg_advisory_xact_lock(hashtextextended(:schema, 0))"
            await link.statement(lock, {"schema": schema})
            found = (
                "select 1 from pg_namespace where quote_ident(nspname) = :schema or nspname = :bare"
            )
            names = {"schema": schema, "bare": schema[1:-1].replace('""', '"')}
            if not await link.statement(found, names):
                await link.statement(f"create schema {schema}", {})
            self._mark_key = await migrate(link, migrations, schema)
        return load_queries(["queries.sql", "items.sql", "postgres.sql"], schema)

    async def _current_schema(self, link: "_PostgresLink") -> str:
        [(schema,)] = await link.statement("select current_schema()", {})
        if schema is None:
            raise InvalidArgument("The connection has no current schema: name one with schema=...")
        return quote_identifier(schema)


class _PostgresLink(Link, Statements):
    """What both faces share: parameters written into the text, rules broken told by a column."""

    def __init__(self, backend: PostgresBackend) -> None:
        self._backend = backend

    async def _send(self, text: str) -> list[list[SqlRow]]:
        """Send `text`, one statement or several, and return the rows of each."""
        raise AssertionError(text)

    def _mogrify(self, query: str, params: Params) -> str:
        """`query` with `params` written in."""
        raise AssertionError(query)

    @override
    async def execute(self, script: Sequence[Step]) -> list[list[SqlRow]]:
        queries = self._backend._queries
        assert queries is not None  # noqa: S101 - the backend prepares before it runs an operation
        try:
            return await self._send(
                ";\n".join(self._written(queries[step.query], step) for step in script)
            )
        except psycopg.errors.NotNullViolation as error:
            raise Refused(error.diag.column_name or "") from error

    @override
    async def statement(self, text: str, params: Params) -> list[SqlRow]:
        [rows] = await self._send(self._mogrify(_placeholders(text), params))
        return rows

    @override
    async def has_table(self, name: str) -> bool:
        [(found,)] = await self.statement("select to_regclass(:name) is not null", {"name": name})
        return bool(found)

    def _written(self, query: str, step: Step) -> str:
        columns: dict[str, object] = {}
        if step.rows is not None:
            columns = {name: [row[name] for row in step.rows] for name in step.rows[0]}
        clock = {"offset": self._backend.offset_seconds}
        return self._mogrify(_placeholders(query), {**step.params, **columns, **clock})


class _BlockingLink(_PostgresLink):
    """A blocking connection."""

    def __init__(self, backend: PostgresBackend, connection: psycopg.Connection[Any]) -> None:
        super().__init__(backend)
        self._cursor = psycopg.ClientCursor(connection, row_factory=tuple_row)

    @override
    async def _send(self, text: str) -> list[list[SqlRow]]:
        cursor = self._cursor.execute(text.encode())
        results = [cursor.fetchall() if cursor.description else []]
        while cursor.nextset():
            results.append(cursor.fetchall() if cursor.description else [])
        return results

    @override
    def _mogrify(self, query: str, params: Params) -> str:
        return self._cursor.mogrify(query.encode(), params)


class _AsyncLink(_PostgresLink):
    """An async connection, in its own loop."""

    def __init__(self, backend: PostgresBackend, connection: psycopg.AsyncConnection[Any]) -> None:
        super().__init__(backend)
        self._cursor = psycopg.AsyncClientCursor(connection, row_factory=tuple_row)

    @override
    async def _send(self, text: str) -> list[list[SqlRow]]:
        cursor = await self._cursor.execute(text.encode())
        results = [await cursor.fetchall() if cursor.description else []]
        while cursor.nextset():
            results.append(await cursor.fetchall() if cursor.description else [])
        return results

    @override
    def _mogrify(self, query: str, params: Params) -> str:
        return self._cursor.mogrify(query.encode(), params)


@cache
def _placeholders(query: str) -> str:
    """`query` with psycopg's placeholders in place of ours."""

    def placeholder(found: re.Match[str]) -> str:
        identifier, name = found.groups()
        return identifier or (_NOW if name == "now" else f"%({name})s")

    return _PARAM.sub(placeholder, query.replace("%", "%%"))


def _is_ours_to_commit(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether our statements would wait for a commit that nobody else will make."""
    idle = connection.info.transaction_status == TransactionStatus.IDLE
    return idle and not connection.autocommit


async def _nothing(records: Records) -> None:
    """Touch no row: the schema is made on the way."""
