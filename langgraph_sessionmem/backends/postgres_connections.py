"""The connections of a PostgreSQL backend: taken, tested where in doubt, given up on in time.

A statement is limited from this side, since a limit set in the session would stay with a pooler's
connection: shortly before the time is over the server is asked to cancel, then the connection is
cut.
"""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from langgraph_sessionmem.backends.base import T
from langgraph_sessionmem.backends.postgres_watchdog import Watchdog, grace
from langgraph_sessionmem.backends.time_limit import Pauses, TimeLimit, held
from langgraph_sessionmem.background import finish_within
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument, TimedOut

IDLE_SECONDS = 60.0
"""A connection that rested longer is tested before use: firewalls drop idle ones without a word."""

RECONNECT_SECONDS = 0.25
"""From one try to connect to the next, while the server is away."""

_CLOSED = "This PostgreSQL backend was closed; open another one."
_PASSING = ("08", "57P01", "57P02", "57P03", "40001", "40P01")
"""Lost connections, a server that ends or starts, and transactions that got in each other's way."""


def new_pool(url: str, max_size: int, timeout_seconds: float) -> ConnectionPool[Any]:
    """A pool, still closed, that goes on trying to connect while somebody waits.

    Raises:
        InvalidArgument: the connection string can't be read.
    """
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as error:
        raise InvalidArgument(f"The PostgreSQL connection string can't be read: {error}") from error
    options: dict[str, Any] = {"autocommit": True}
    if "connect_timeout" not in given:
        options["connect_timeout"] = math.ceil(timeout_seconds)

    def try_again(pool: ConnectionPool[Any]) -> None:
        if pool.get_stats().get("requests_waiting"):
            pool.check()

    return ConnectionPool(
        url,
        min_size=1,
        max_size=max_size,
        open=False,
        kwargs=options,
        # Its own pauses grow, however long ago the server came back.
        reconnect_timeout=RECONNECT_SECONDS,
        reconnect_failed=try_again,
    )


class Connections:
    """Blocking connections: a pool's, or the one that the user opened.

    Args:
        source: where they come from.
        owned: `source` is a pool that was made for this object, opened with the first use.
    """

    def __init__(
        self, source: psycopg.Connection[Any] | ConnectionPool[Any], *, owned: bool
    ) -> None:
        self._source, self._owned = source, owned
        self._lock, self._is_reached, self._is_closed = threading.Lock(), False, False
        # One connection serves one operation at a time, or one could commit for another, or none.
        self._turn = threading.Lock()
        self._doubts, self._watchdog = _Doubts(), Watchdog()

    @property
    def size(self) -> int:
        """How many of them can be in use at once."""
        return self._source.max_size if isinstance(self._source, ConnectionPool) else 1

    def use(self, work: Callable[[psycopg.Connection[Any]], T], limit: TimeLimit) -> T:
        """What `work` gives on a connection; where that was lost, again on another one.

        Raises:
            TimedOut: the time is over.
            psycopg.Error: anything else that went wrong.
        """
        pauses = Pauses(limit)
        while True:
            try:
                with self._taken(limit) as connection:
                    return work(connection)
            except psycopg.OperationalError as error:
                self._doubts.rise()
                if not self._may_repeat(error):
                    raise
                time.sleep(pauses.next(error))

    def in_callers_transaction(self) -> bool:
        """Whether the user's own connection is in a transaction that the user began."""
        if isinstance(self._source, ConnectionPool):
            return False
        with self._turn:
            return self._source.info.transaction_status != TransactionStatus.IDLE

    def close(self) -> None:
        """Close what was opened for this object; what is in use is closed when it is given back."""
        with self._lock:
            self._is_closed = True
        if self._owned:
            self._source.close()

    def _may_repeat(self, error: psycopg.OperationalError) -> bool:
        return isinstance(self._source, ConnectionPool) and is_passing(error)

    @contextmanager
    def _taken(self, limit: TimeLimit) -> Iterator[psycopg.Connection[Any]]:
        if self._is_closed:
            raise BackendUnavailable(_CLOSED)
        source = self._source
        if isinstance(source, psycopg.Connection):
            with held(self._turn, limit), self._watchdog.watching(source, limit):
                yield source
            return
        if not self._is_reached:
            self._reach(source, limit)
        while True:
            with _Lent(source, limit) as connection:
                with self._watchdog.watching(connection, limit):
                    if self._doubts.about(connection):
                        try:
                            with self._watchdog.watching(connection, limit.of_a_test()):
                                ConnectionPool.check_connection(connection)
                        except (psycopg.OperationalError, TimedOut):
                            connection.close()
                            continue  # the pool opens another one instead
                    yield connection
                self._doubts.dispel(connection)
                return

    def _reach(self, pool: ConnectionPool[Any], limit: TimeLimit) -> None:
        """Connect once before the first use: the pool would try on, and never say what is wrong."""
        with held(self._lock, limit):
            if self._is_closed:
                raise BackendUnavailable(_CLOSED)
            if self._owned and not self._is_reached:
                pool.open()

                def connect() -> None:
                    options = cast("dict[str, Any]", pool.kwargs)  # as it was made for us
                    psycopg.connect(cast("str", pool.conninfo), **options).close()

                try:
                    finish_within(limit.left_seconds, connect)
                except TimeoutError as error:
                    raise TimedOut(limit.seconds, "the server doesn't answer") from error
                except psycopg.Error as error:
                    raise BackendUnavailable(f"PostgreSQL can't be reached: {error}") from error
            self._is_reached = True


class _Lent:
    """A connection of a pool, which gets it back at the end.

    Raises:
        TimedOut: none was free in time.
    """

    __slots__ = ("_connection", "_limit", "_pool")

    def __init__(self, pool: ConnectionPool[Any], limit: TimeLimit) -> None:
        self._pool, self._limit = pool, limit

    def __enter__(self) -> psycopg.Connection[Any]:
        with _pool_errors(self._limit):
            connection: psycopg.Connection[Any] = self._pool.getconn(self._limit.left_seconds)
        self._connection = connection
        return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection = self._connection
        try:
            # As `pool.connection()` does, but for a commit where nothing is left to be committed.
            is_over = connection.pgconn.transaction_status == TransactionStatus.IDLE
            if kind is not None or not is_over:
                connection.__exit__(kind, error, trace)
        finally:
            self._pool.putconn(connection)


class AsyncConnections:
    """Connections of an async pool, or an async one that the user opened, in their own loop."""

    def __init__(self, source: psycopg.AsyncConnection[Any] | AsyncConnectionPool[Any]) -> None:
        self._source, self._turn, self._doubts = source, asyncio.Lock(), _Doubts()

    async def use(
        self, work: Callable[[psycopg.AsyncConnection[Any]], Awaitable[T]], limit: TimeLimit
    ) -> T:
        """As `Connections.use`."""
        async with _within(limit):
            return await self._use(work, limit)

    def in_callers_transaction(self) -> bool:
        """Whether the user's own connection is in a transaction that the user began."""
        if isinstance(self._source, AsyncConnectionPool) or self._turn.locked():
            return False
        return self._source.info.transaction_status != TransactionStatus.IDLE

    async def _use(
        self, work: Callable[[psycopg.AsyncConnection[Any]], Awaitable[T]], limit: TimeLimit
    ) -> T:
        pauses = Pauses(limit)
        while True:
            try:
                async with self._taken(limit) as connection:
                    return await work(connection)
            except psycopg.OperationalError as error:
                self._doubts.rise()
                is_pool = isinstance(self._source, AsyncConnectionPool)
                if not is_pool or not is_passing(error):
                    raise
                await asyncio.sleep(pauses.next(error))

    @asynccontextmanager
    async def _taken(self, limit: TimeLimit) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        source = self._source
        if isinstance(source, psycopg.AsyncConnection):
            async with self._turn, _abandoned(source):
                yield source
            return
        while True:
            with _pool_errors(limit):
                async with source.connection(timeout=limit.left_seconds) as connection:
                    async with _abandoned(connection):
                        if self._doubts.about(connection):
                            try:
                                async with _within(limit.of_a_test()):
                                    await AsyncConnectionPool.check_connection(connection)
                            except (psycopg.OperationalError, TimedOut):
                                await connection.close()
                                continue
                        yield connection
                    self._doubts.dispel(connection)
                    return


def is_passing(error: psycopg.Error) -> bool:
    """Whether the same call may well succeed on another connection, or later."""
    if isinstance(error, PoolTimeout | PoolClosed):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_PASSING)


@contextmanager
def _pool_errors(limit: TimeLimit) -> Iterator[None]:
    try:
        yield
    except PoolTimeout as error:
        raise TimedOut(limit.seconds, "no connection was free, or could be opened") from error


@asynccontextmanager
async def _abandoned(connection: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
    """Closes a connection on which a statement was left behind: nobody could use it again."""
    try:
        yield
    finally:
        if connection.info.transaction_status == TransactionStatus.ACTIVE:
            await connection.close()


@asynccontextmanager
async def _within(limit: TimeLimit) -> AsyncIterator[None]:
    """End what is done inside when the time is over."""
    # Told once, psycopg has the server cancel and waits for that; told twice, it doesn't.
    cancelling = asyncio.timeout(limit.left_seconds - grace(limit))
    cutting = asyncio.timeout(limit.left_seconds)
    try:
        async with cutting, cancelling:
            yield
    except TimeoutError as error:
        if cancelling.expired() or cutting.expired():
            raise TimedOut(limit.seconds) from error
        raise


class _Doubts:
    """Which connections may have been lost without a word."""

    def __init__(self) -> None:
        self._worked: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        self._since = 0.0

    def rise(self) -> None:
        """One was lost: those that worked before are likely as dead."""
        self._since = time.monotonic()

    def dispel(self, connection: object) -> None:
        """This one works."""
        self._worked[connection] = time.monotonic()

    def about(self, connection: object) -> bool:
        """Whether to test this one first."""
        worked = self._worked.get(connection)
        if worked is None:
            return False
        return worked < self._since or time.monotonic() - worked > IDLE_SECONDS
