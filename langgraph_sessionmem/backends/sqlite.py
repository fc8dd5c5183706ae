"""SQLite, the embedded default: one connection, WAL, and a thread hop for async callers.

Layout: `migrations/sqlite`, explained in `docs/format.md`. Writers wait for each other on
`BEGIN IMMEDIATE`, as long as a call may take; readers never wait, and never hold anything. Calls
of one backend that wait for each other share a commit.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from typing_extensions import override

from langgraph_sessionmem.backends.base import Backend, Operation, T
from langgraph_sessionmem.backends.hop import Hop
from langgraph_sessionmem.backends.schema import check, migrate, read_version
from langgraph_sessionmem.backends.shared_commits import Shared, SharedCommits
from langgraph_sessionmem.backends.sql import (
    Migration,
    load_migrations,
)
from langgraph_sessionmem.backends.sql_records import SqlRecords
from langgraph_sessionmem.backends.sqlite_links import SCHEMA, SqliteLink
from langgraph_sessionmem.backends.time_limit import DEFAULT_TIMEOUT, TimeLimit, held
from langgraph_sessionmem.background import finish_within
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument, SchemaMissing
from langgraph_sessionmem.running import run_now

OLDEST_SQLITE = (3, 35)

_PAUSE_SECONDS = 0.01


class SqliteBackend(Backend):
    """An SQLite database, in a file or in memory.

    Args:
        connection: an open connection that any thread may use (`check_same_thread=False`).
        owned: it was opened for this backend, so `close` closes it.
        setup: make the schema on first use; otherwise it must be there.
        timeout_seconds: how long a call may wait for others.

    Raises:
        InvalidArgument: this SQLite is older than 3.35, or the connection is bound to a thread or
            never commits by itself.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        owned: bool = False,
        setup: bool = True,
        timeout_seconds: float = DEFAULT_TIMEOUT.total_seconds(),
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise InvalidArgument(
                f"SQLite {sqlite3.sqlite_version} is too old: 3.35 or later is needed. "
                "A newer Python brings a newer SQLite."
            )
        self.offset_seconds = 0.0
        self._connection, self._owned, self._setup = connection, owned, setup
        self._timeout_seconds = self._busy_seconds = timeout_seconds
        self._lock, self._is_closed = threading.RLock(), False
        self._hop = Hop(1, "sqlite")
        self._link = SqliteLink(connection, lambda: self.offset_seconds)
        self._commits = SharedCommits(_SharedTransaction(self))
        self._records: SqlRecords | None = None
        if not owned:
            self._refuse_unusable_connection()

    @classmethod
    def from_path(
        cls,
        path: str | Path,
        *,
        setup: bool = True,
        timeout_seconds: float = DEFAULT_TIMEOUT.total_seconds(),
    ) -> Self:
        """Open `path`, or a database in memory for `:memory:`.

        Raises:
            BackendUnavailable: the file can't be opened.
        """
        try:
            connection = sqlite3.connect(
                path,
                timeout=timeout_seconds,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
            # What is deleted is overwritten where its page is written anyway.
            connection.execute("pragma secure_delete = fast")
        except sqlite3.Error as error:
            raise BackendUnavailable(f"SQLite can't open {str(path)!r}: {error}.") from error
        return cls(connection, owned=True, setup=setup, timeout_seconds=timeout_seconds)

    @override
    def in_callers_transaction(self) -> bool:
        with self._lock:
            return self._connection.in_transaction

    @override
    def run(self, operation: Operation[T]) -> T:
        limit = TimeLimit(self._timeout_seconds)
        return self._commits.run(lambda: self._operate(operation, limit), limit)

    @override
    async def arun(self, operation: Operation[T]) -> T:
        limit = TimeLimit(self._timeout_seconds)
        call = self._commits.enter(lambda: self._operate(operation, limit), limit)
        try:
            return await self._hop(lambda: self._commits.finish(call))
        finally:
            self._commits.leave(call)

    @override
    def setup(self) -> None:
        self._call(self._make, TimeLimit(self._timeout_seconds))

    @override
    async def asetup(self) -> None:
        await self._hop(self.setup)

    @override
    def schema_version(self) -> int:
        return self._call(
            lambda: run_now(read_version(self._link, SCHEMA)), TimeLimit(self._timeout_seconds)
        )

    @override
    async def aschema_version(self) -> int:
        return await self._hop(self.schema_version)

    @override
    def close(self) -> None:
        self._hop.close()
        with self._lock:
            self._is_closed = True
            if self._owned:
                self._connection.close()

    @override
    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def _operate(self, operation: Operation[T], limit: TimeLimit) -> T:
        return self._call(lambda: run_now(operation(self._ready())), limit)

    def _call(self, call: Callable[[], T], limit: TimeLimit) -> T:
        with held(self._lock, limit):
            if self._is_closed:
                raise BackendUnavailable("This SQLite backend was closed; open another one.")
            while True:
                self._wait_no_longer_than(limit)
                try:
                    return call()
                except sqlite3.Error as error:
                    if not _is_busy(error) or self._connection.in_transaction:
                        raise BackendUnavailable(f"SQLite refused the call: {error}.") from error
                    # It doesn't wait where two might wait for each other.
                    limit.check(error)
                    time.sleep(_PAUSE_SECONDS)

    def _wait_no_longer_than(self, limit: TimeLimit) -> None:
        seconds = limit.left_seconds
        if self._owned and abs(seconds - self._busy_seconds) > limit.seconds / 10:
            self._connection.execute(f"pragma busy_timeout = {int(seconds * 1_000)}")
            self._busy_seconds = seconds

    def _make(self) -> None:
        self._records, self._setup = None, True
        self._ready()

    def _ready(self) -> SqlRecords:
        records = self._records
        if records is None:
            is_callers = self._connection.in_transaction
            records = SqlRecords(self._link, self._prepare())
            # What was made in a caller's transaction may be rolled back with it.
            self._records = None if is_callers else records
        return records

    def _prepare(self) -> bytes:
        migrations = load_migrations("sqlite", SCHEMA)
        try:
            return run_now(check(self._link, migrations, SCHEMA))
        except SchemaMissing as missing:
            if not self._setup:
                raise
            try:
                return self._migrate(migrations)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                    raise
                raise SchemaMissing(f"{missing} This one may not ({error}).") from error

    def _migrate(self, migrations: Sequence[Migration]) -> bytes:
        if self._owned:
            # Before the first table, or freed pages could only be returned by a full vacuum.
            self._connection.execute("pragma auto_vacuum = incremental")
            self._connection.execute("pragma journal_mode = wal")
        with self._link.transaction("begin immediate"):
            return run_now(migrate(self._link, migrations, SCHEMA))

    def _refuse_unusable_connection(self) -> None:
        if getattr(self._connection, "autocommit", None) is False:
            raise InvalidArgument(
                "This sqlite3 connection has autocommit=False, so what is stored would wait for "
                "your commit: open it without, or with autocommit=True."
            )
        if finish_within(self._timeout_seconds, self._probe):
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


class _SharedTransaction(Shared):
    """The transaction that waiting calls share: begun by the first that writes."""

    def __init__(self, backend: SqliteBackend) -> None:
        self._backend = backend

    @override
    def begin_sharing(self) -> bool:
        backend = self._backend
        if not backend._lock.acquire(timeout=backend._timeout_seconds):
            return False
        # Others may use a connection that is not ours, and what they do would be in it too.
        may = backend._owned and not backend._is_closed and backend._records is not None
        if not may or backend._connection.in_transaction:
            backend._lock.release()
            return False
        backend._link.is_sharing = True
        return True

    @override
    def is_lost(self) -> bool:
        link = self._backend._link
        return link.has_begun and not self._backend._connection.in_transaction

    @override
    def end_sharing(self, *, keep: bool) -> bool:
        link, connection = self._backend._link, self._backend._connection
        try:
            if link.has_begun and connection.in_transaction:
                try:
                    connection.execute("commit" if keep else "rollback")
                except sqlite3.Error:
                    keep = False
                    with suppress(sqlite3.Error):
                        connection.execute("rollback")
        finally:
            link.end_sharing()
            self._backend._lock.release()
        return keep


def _is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection has the lock."""
    code: int = getattr(error, "sqlite_errorcode", 0)  # the driver's own errors have none
    return code & 0xFF == sqlite3.SQLITE_BUSY
