"""The connections of a PostgreSQL backend: taken, tested where in doubt, given up on in time.

A statement is limited from this side, since a limit set in the session would stay with a pooler's
connection: shortly before the time is over the server is asked to cancel, then the connection is
cut.
"""

import asyncio
import math
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from langgraph_sessionmem.backends.base import T
from langgraph_sessionmem.backends.time_limit import Pauses, TimeLimit, held
from langgraph_sessionmem.background import finish_within
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument, TimedOut

IDLE_SECONDS = 60.0
"""A connection that rested longer is tested before use: firewalls drop idle ones without a word."""

RECONNECT_SECONDS = 0.25
"""From one try to connect to the next, while the server is away."""

_TICK_SECONDS = 0.05
_LINGER_SECONDS = 1.0
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
        self._doubts, self._watchdog = _Doubts(), _Watchdog()

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
            with _pool_errors(limit), source.connection(timeout=limit.left_seconds) as connection:
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
    cancelling = asyncio.timeout(limit.left_seconds - _grace(limit))
    cutting = asyncio.timeout(limit.left_seconds)
    try:
        async with cutting, cancelling:
            yield
    except TimeoutError as error:
        if cancelling.expired() or cutting.expired():
            raise TimedOut(limit.seconds) from error
        raise


def _grace(limit: TimeLimit) -> float:
    """How long before its end, in seconds, a call is asked to stop."""
    return min(1.0, max(limit.seconds / 5, 2 * _TICK_SECONDS))


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


class _Watched:
    """A connection in use, and what was done about it."""

    def __init__(self, connection: psycopg.Connection[Any], limit: TimeLimit) -> None:
        self.connection, self.limit = connection, limit
        self.canceller: threading.Thread | None = None
        self.is_cut = False

    def cancel(self) -> None:
        """Ask the server to cancel; in a thread, for it may not answer."""
        self.canceller = threading.Thread(
            target=self._cancel, daemon=True, name="sessionmem-postgres-cancel"
        )
        self.canceller.start()

    def cut(self) -> None:
        """Break the connection, so that whoever waits on it wakes."""
        self.is_cut = True
        with suppress(psycopg.Error, OSError):
            end = socket.socket(fileno=self.connection.fileno())
            try:
                end.shutdown(socket.SHUT_RDWR)
            finally:
                end.detach()

    def settle(self) -> None:
        """Wait for a cancellation: it must not hit what the next user of the connection does."""
        if self.canceller is not None:
            self.canceller.join(_grace(self.limit))
            if self.canceller.is_alive():
                self.cut()

    def _cancel(self) -> None:
        with suppress(psycopg.Error, OSError):
            self.connection.cancel_safe(timeout=_grace(self.limit))


class _Watchdog:
    """Ends what takes too long: one thread, which lives while there is something to watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: set[_Watched] = set()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, connection: psycopg.Connection[Any], limit: TimeLimit) -> Iterator[None]:
        """Watch over what is done with `connection` inside.

        Raises:
            TimedOut: it was ended.
        """
        watched = _Watched(connection, limit)
        with self._lock:
            self._watched.add(watched)
            if self._thread is None or not self._thread.is_alive():  # it doesn't survive a fork
                self._thread = threading.Thread(
                    target=self._watch, daemon=True, name="sessionmem-postgres-watchdog"
                )
                self._thread.start()
        try:
            yield
        except psycopg.Error as error:
            if watched.canceller is not None or watched.is_cut:
                raise TimedOut(limit.seconds, error) from error
            raise
        finally:
            with self._lock:
                self._watched.discard(watched)
            watched.settle()

    def _watch(self) -> None:
        idle_since = time.monotonic()
        while True:
            time.sleep(_TICK_SECONDS)
            with self._lock:
                for watched in self._watched:
                    left_seconds = watched.limit.left_seconds
                    if watched.canceller is None and left_seconds <= _grace(watched.limit):
                        watched.cancel()
                    if not watched.is_cut and left_seconds <= _TICK_SECONDS:
                        watched.cut()
                if self._watched:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since > _LINGER_SECONDS:
                    self._thread = None
                    return
