"""SQLite, the embedded default: one connection, WAL, and a thread hop for async callers.

Layout: `migrations/sqlite`, explained in `docs/format.md`. Writers wait for each other on
`BEGIN IMMEDIATE`, up to `BUSY_SECONDS`; readers never wait, and never hold anything.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

from typing_extensions import override

from langgraph_sessionmem.backends.base import Backend, Operation, T
from langgraph_sessionmem.backends.schema import Statements, check, migrate
from langgraph_sessionmem.backends.sql import (
    Link,
    Params,
    Refused,
    SqlRow,
    Step,
    load_migrations,
    load_queries,
)
from langgraph_sessionmem.backends.sql_records import SqlRecords
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument, SchemaMissing
from langgraph_sessionmem.running import run_now

BUSY_SECONDS = 30.0
OLDEST_SQLITE = (3, 35)

_SCHEMA = '"main"'
_NOW = "select (julianday('now') - 2440587.5) * 86400.0"


class SqliteBackend(Backend):
    """An SQLite database, in a file or in memory.

    Args:
        connection: an open connection that any thread may use (`check_same_thread=False`).
        owned: it was opened for this backend, so `close` closes it.
        setup: make the schema on first use; otherwise it must be there.

    Raises:
        InvalidArgument: this SQLite is older than 3.35, or the connection is bound to a thread or
            never commits by itself.
    """

    def __init__(
        self, connection: sqlite3.Connection, *, owned: bool = False, setup: bool = True
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise InvalidArgument(
                f"SQLite {sqlite3.sqlite_version} is too old: 3.35 or later is needed. "
                "A newer Python brings a newer SQLite."
            )
        self.offset_seconds = 0.0
        self._connection, self._owned, self._setup = connection, owned, setup
        self._lock = threading.RLock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="sessionmem-sqlite")
        self._link = _SqliteLink(self)
        self._records: SqlRecords | None = None
        if not owned:
            self._refuse_unusable_connection()

    @classmethod
    def from_path(cls, path: str | Path, *, setup: bool = True) -> Self:
        """Open `path`, or a database in memory for `:memory:`.

        Raises:
            BackendUnavailable: the file can't be opened.
        """
        try:
            connection = sqlite3.connect(
                path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
        except sqlite3.Error as error:
            raise BackendUnavailable(f"SQLite can't open {str(path)!r}: {error}.") from error
        return cls(connection, owned=True, setup=setup)

    @override
    def run(self, operation: Operation[T]) -> T:
        with self._lock:
            try:
                return run_now(operation(self._ready()))
            except sqlite3.Error as error:
                raise BackendUnavailable(f"SQLite refused the call: {error}.") from error

    @override
    async def arun(self, operation: Operation[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self.run, operation)

    @override
    def setup(self) -> None:
        with self._lock:
            self._records = None
            self._setup = True
            try:
                self._ready()
            except sqlite3.Error as error:
                raise BackendUnavailable(f"SQLite can't make its tables: {error}.") from error

    @override
    async def asetup(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, self.setup)

    @override
    def close(self) -> None:
        self._executor.shutdown(wait=True)
        with self._lock:
            if self._owned:
                self._connection.close()

    @override
    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def _ready(self) -> SqlRecords:
        if self._records is None:
            self._records = SqlRecords(self._link, self._prepare())
        return self._records

    def _prepare(self) -> bytes:
        migrations = load_migrations("sqlite", _SCHEMA)
        try:
            return run_now(check(self._link, migrations, _SCHEMA))
        except SchemaMissing:
            if not self._setup:
                raise
        if self._owned:
            # Before the first table, or freed pages could only be returned by a full vacuum.
            self._connection.execute("pragma auto_vacuum = incremental")
            self._connection.execute("pragma journal_mode = wal")
        with self._link.transaction("begin immediate"):
            return run_now(migrate(self._link, migrations, _SCHEMA))

    def _refuse_unusable_connection(self) -> None:
        if getattr(self._connection, "autocommit", None) is False:
            raise InvalidArgument(
                "This sqlite3 connection has autocommit=False, so what is stored would wait for "
                "your commit: open it without, or with autocommit=True."
            )
        refusal = self._executor.submit(self._probe).result()
        if refusal:
            raise InvalidArgument(
                "This sqlite3 connection may be used by one thread only: open it with "
                "sqlite3.connect(..., check_same_thread=False)."
            )

    def _probe(self) -> bool:
        try:
            self._connection.execute("select 1")
        except sqlite3.ProgrammingError:
            return True
        return False


class _Transaction:
    """Commits or rolls back what it encloses; inside a caller's transaction, a savepoint."""

    def __init__(self, connection: sqlite3.Connection, begin: str) -> None:
        self._connection = connection
        nested = connection.in_transaction
        self._begin = "savepoint sessionmem" if nested else begin
        self._commit = "release sessionmem" if nested else "commit"
        self._rollback = "rollback to sessionmem" if nested else "rollback"

    def __enter__(self) -> None:
        self._connection.execute(self._begin)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._connection.execute(self._commit)
            return
        # SQLite may have rolled back by itself (a full disk), and then has nothing left to undo.
        with suppress(sqlite3.OperationalError):
            self._connection.execute(self._rollback)


class _SqliteLink(Link, Statements):
    """The backend's connection; nothing in it waits for an event loop."""

    def __init__(self, backend: SqliteBackend) -> None:
        self._backend = backend
        self._connection = backend._connection
        self._queries = load_queries(["queries.sql", "items.sql"], _SCHEMA)

    def transaction(self, begin: str) -> _Transaction:
        return _Transaction(self._connection, begin)

    @override
    async def execute(self, script: Sequence[Step]) -> list[list[SqlRow]]:
        queries = [self._queries[step.query] for step in script]
        reads = all(query.startswith("select") for query in queries)
        if reads and len(script) == 1:
            return self._run(queries, script)
        with self.transaction("begin" if reads else "begin immediate"):
            found = self._run(queries, script)
        if any(step.query.startswith("drop_") for step in script):
            self._return_pages()
        return found

    @override
    async def statement(self, text: str, params: Params) -> list[SqlRow]:
        return self._cursor().execute(text, dict(params)).fetchall()

    @override
    async def has_table(self, name: str) -> bool:
        found = "select 1 from sqlite_master where type = 'table' and name = :name"
        return bool(await self.statement(found, {"name": name.rpartition(".")[2]}))

    def _return_pages(self) -> None:
        """Give freed pages back to the file system, unless a caller's transaction is open."""
        if not self._connection.in_transaction:
            # A script, since `execute` stops at the first page.
            self._connection.executescript("pragma incremental_vacuum")

    def _run(self, queries: Sequence[str], script: Sequence[Step]) -> list[list[SqlRow]]:
        [now] = self._cursor().execute(_NOW).fetchone()
        clock = {"now": now + self._backend.offset_seconds}
        try:
            return [
                self._step(query, {**step.params, **clock}, step.rows)
                for query, step in zip(queries, script, strict=True)
            ]
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_NOTNULL:
                raise
            raise Refused(str(error).rpartition(".")[2]) from error

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        # The user's own connection may make something else of its rows.
        cursor.row_factory = None
        return cursor

    def _step(self, query: str, params: Params, rows: Sequence[Params] | None) -> list[SqlRow]:
        if rows is None:
            return self._cursor().execute(query, params).fetchall()
        if query.startswith("select"):
            found: list[SqlRow] = []
            for row in rows:
                found += self._cursor().execute(query, {**params, **row})
            return found
        self._cursor().executemany(query, ({**params, **row} for row in rows))
        return []
