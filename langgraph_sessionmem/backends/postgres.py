"""PostgreSQL through psycopg 3: a pool, and one round trip a script.

Layout: `migrations/postgres`, explained in `docs/format.md`. A script goes out as one message of
several statements with its parameters written in, which the server runs as one transaction; the
frequent ones as the call of a function that the server keeps (`functions.sql`). So nothing is
prepared, pipelined or kept in the session, and a transaction-mode pooler in between does no harm.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from typing_extensions import override

from langgraph_sessionmem.backends.base import Backend, Operation, T
from langgraph_sessionmem.backends.hop import Hop
from langgraph_sessionmem.backends.postgres_connections import (
    AsyncConnections,
    Connections,
    new_pool,
)
from langgraph_sessionmem.backends.postgres_functions import (
    load_functions,
)
from langgraph_sessionmem.backends.postgres_links import (
    AsyncLink,
    BlockingLink,
    PostgresLink,
    Scripts,
)
from langgraph_sessionmem.backends.schema import check, migrate, read_version
from langgraph_sessionmem.backends.sql import (
    QUERIES,
    load_migrations,
    load_queries,
    quote_identifier,
    unquote_identifier,
)
from langgraph_sessionmem.backends.sql_records import SqlRecords
from langgraph_sessionmem.backends.time_limit import DEFAULT_TIMEOUT, TimeLimit, held
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument, SchemaMissing
from langgraph_sessionmem.running import run_now

Source: TypeAlias = (
    psycopg.Connection[Any]
    | ConnectionPool[Any]
    | psycopg.AsyncConnection[Any]
    | AsyncConnectionPool[Any]
)

POOL_SIZE = 10

_FIND_SCHEMA = "select 1 from pg_namespace where nspname = :name"


class PostgresBackend(Backend):
    """A PostgreSQL database.

    Args:
        source: a pool or connection; a blocking one serves both faces (async callers by a thread
            hop), an async one serves async callers in its own loop.
        schema: where the tables are; the connection's current schema by default.
        owned: it was opened for this backend, so `close` closes it.
        setup: make the schema on first use; otherwise it must be there.
        timeout_seconds: how long a call may take.
    """

    def __init__(
        self,
        source: Source,
        *,
        schema: str | None = None,
        owned: bool = False,
        setup: bool = True,
        timeout_seconds: float = DEFAULT_TIMEOUT.total_seconds(),
    ) -> None:
        self.offset_seconds = 0.0
        self._setup, self._timeout_seconds = setup, timeout_seconds
        self._connections: Connections | AsyncConnections
        if isinstance(source, psycopg.Connection | ConnectionPool):
            self._connections = Connections(source, owned=owned)
            self._hop = Hop(self._connections.size, "postgres")
        else:
            self._connections = AsyncConnections(source)
        self._schema = None if schema is None else quote_identifier(schema)
        self._lock = threading.Lock()
        self._is_made = False
        self._scripts = Scripts({}, {})
        self._mark_key = b""

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        schema: str | None = None,
        setup: bool = True,
        max_size: int = POOL_SIZE,
        timeout_seconds: float = DEFAULT_TIMEOUT.total_seconds(),
    ) -> Self:
        """A backend with a pool of its own, opened on first use.

        Raises:
            InvalidArgument: the connection string can't be read.
        """
        pool = new_pool(url, max_size, timeout_seconds)
        return cls(pool, schema=schema, owned=True, setup=setup, timeout_seconds=timeout_seconds)

    @property
    @override
    def is_async_only(self) -> bool:
        return isinstance(self._connections, AsyncConnections)

    @property
    @override
    def prefers_small(self) -> bool:
        return True

    @override
    def in_callers_transaction(self) -> bool:
        return self._connections.in_callers_transaction()

    @override
    def run(self, operation: Operation[T]) -> T:
        return self._run(operation, TimeLimit(self._timeout_seconds))

    @override
    async def arun(self, operation: Operation[T]) -> T:
        limit = TimeLimit(self._timeout_seconds)
        if self.is_async_only:
            return await self._ause(lambda each: self._aattempt(each, operation), limit)
        return await self._hop(lambda: self._run(operation, limit))

    @override
    def setup(self) -> None:
        limit = TimeLimit(self._timeout_seconds)
        self._setup = True
        self._use(lambda each: self._make(each, limit), limit)

    @override
    async def asetup(self) -> None:
        if not self.is_async_only:
            return await self._hop(self.setup)
        self._setup = True
        await self._ause(self._amake, TimeLimit(self._timeout_seconds))

    @override
    def schema_version(self) -> int:
        return self._use(
            lambda each: run_now(self._read_version(self._link(each))),
            TimeLimit(self._timeout_seconds),
        )

    @override
    async def aschema_version(self) -> int:
        if not self.is_async_only:
            return await self._hop(self.schema_version)
        return await self._ause(
            lambda each: self._read_version(self._alink(each)),
            TimeLimit(self._timeout_seconds),
        )

    @override
    def close(self) -> None:
        if isinstance(self._connections, Connections):
            self._connections.close()
            self._hop.close()

    @override
    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def _run(self, operation: Operation[T], limit: TimeLimit) -> T:
        return self._use(lambda each: self._attempt(each, operation, limit), limit)

    def _use(self, work: Callable[[psycopg.Connection[Any]], T], limit: TimeLimit) -> T:
        if isinstance(self._connections, AsyncConnections):
            raise InvalidArgument(
                "This backend was given an async psycopg connection or pool, which serves the "
                "async methods only: call those, or pass a blocking one, which serves both."
            )
        with _mapped_errors():
            return self._connections.use(work, limit)

    async def _ause(
        self, work: Callable[[psycopg.AsyncConnection[Any]], Awaitable[T]], limit: TimeLimit
    ) -> T:
        assert isinstance(self._connections, AsyncConnections)  # noqa: S101 - the caller looked
        with _mapped_errors():
            return await self._connections.use(work, limit)

    def _attempt(
        self, connection: psycopg.Connection[Any], operation: Operation[T], limit: TimeLimit
    ) -> T:
        if not self._is_made:
            self._make(connection, limit)
        commits = _is_ours_to_commit(connection)
        result = run_now(operation(SqlRecords(self._link(connection), self._mark_key)))
        if commits:
            connection.commit()
        return result

    async def _aattempt(
        self, connection: psycopg.AsyncConnection[Any], operation: Operation[T]
    ) -> T:
        if not self._is_made:
            await self._amake(connection)
        commits = _is_ours_to_commit(connection)
        result = await operation(SqlRecords(self._alink(connection), self._mark_key))
        if commits:
            await connection.commit()
        return result

    def _link(self, connection: psycopg.Connection[Any]) -> BlockingLink:
        return BlockingLink(self._scripts, self.offset_seconds, connection)

    def _alink(self, connection: psycopg.AsyncConnection[Any]) -> AsyncLink:
        return AsyncLink(self._scripts, self.offset_seconds, connection)

    def _make(self, connection: psycopg.Connection[Any], limit: TimeLimit) -> None:
        is_ours = connection.info.transaction_status == TransactionStatus.IDLE
        with held(self._lock, limit), connection.transaction():
            self._scripts = run_now(self._prepare(self._link(connection)))
        # What was made in a caller's transaction may be rolled back with it.
        self._is_made = is_ours

    async def _amake(self, connection: psycopg.AsyncConnection[Any]) -> None:
        is_ours = connection.info.transaction_status == TransactionStatus.IDLE
        async with connection.transaction():
            self._scripts = await self._prepare(self._alink(connection))
        self._is_made = is_ours

    async def _prepare(self, link: PostgresLink) -> Scripts:
        schema = self._schema or await self._current_schema(link)
        migrations = load_migrations("postgres", schema)
        try:
            self._mark_key = await check(link, migrations, schema)
        except SchemaMissing as missing:
            if not self._setup:
                raise
            with _refused_ddl(missing):
                await self._lock_schema(link, schema)
                if not await link.statement(_FIND_SCHEMA, {"name": unquote_identifier(schema)}):
                    await link.statement(f"create schema {schema}", {})
                self._mark_key = await migrate(link, migrations, schema)
        queries = load_queries([*QUERIES, "postgres.sql", "postgres_items.sql"], schema)
        functions = load_functions(queries, schema)
        found = await link.functions_among(functions)
        if len(found) < len(functions) and self._setup and await link.may_create(schema):
            await self._lock_schema(link, schema)
            found = await link.functions_among(functions)
            for answers in functions.keys() - found.keys():
                await link.raw_statement(functions[answers].text)
            found = functions
        return Scripts(queries, found)

    async def _lock_schema(self, link: PostgresLink, schema: str) -> None:
        # A transaction's lock, not a session's, which a pooler would hand to somebody else.
        lock = "select pg_advisory_xact_lock(hashtextextended(:schema, 0))"
        await link.statement(lock, {"schema": schema})

    async def _read_version(self, link: PostgresLink) -> int:
        return await read_version(link, self._schema or await self._current_schema(link))

    async def _current_schema(self, link: PostgresLink) -> str:
        [(schema,)] = await link.statement("select current_schema()", {})
        if schema is None:
            raise InvalidArgument("The connection has no current schema: name one with schema=...")
        return quote_identifier(schema)


def _is_ours_to_commit(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether our statements would wait for a commit that nobody else will make."""
    return (
        not connection.autocommit and connection.pgconn.transaction_status == TransactionStatus.IDLE
    )


@contextmanager
def _refused_ddl(missing: SchemaMissing) -> Iterator[None]:
    """Says what is missing where it may not be made."""
    try:
        yield
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction) as error:
        raise SchemaMissing(f"{missing} This one may not ({error}).") from error


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.ProgramLimitExceeded as error:
        raise InvalidArgument(
            "An id or key is too long for PostgreSQL, whose indexes hold 2,700 bytes of one after "
            f"compression; use a shorter one. It said: {error}"
        ) from error
    except psycopg.Error as error:
        raise BackendUnavailable(f"PostgreSQL refused the call: {error}") from error
