"""A watchdog over PostgreSQL's connections in use, as a statement is limited from this side."""

import socket
import threading
import time
from contextlib import suppress
from typing import Any

import psycopg

from langgraph_sessionmem.backends.time_limit import TimeLimit
from langgraph_sessionmem.errors import TimedOut

_TICK_SECONDS = 0.05
_LINGER_SECONDS = 1.0


def grace(limit: TimeLimit) -> float:
    """How long before its end, in seconds, a call is asked to stop."""
    return min(1.0, max(limit.seconds / 5, 2 * _TICK_SECONDS))


class Watched:
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
            self.canceller.join(grace(self.limit))
            if self.canceller.is_alive():
                self.cut()

    def _cancel(self) -> None:
        with suppress(psycopg.Error, OSError):
            self.connection.cancel_safe(timeout=grace(self.limit))


class Watchdog:
    """Ends what takes too long: one thread, which lives while there is something to watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: set[Watched] = set()
        self._thread: threading.Thread | None = None

    def watching(self, connection: psycopg.Connection[Any], limit: TimeLimit) -> "Watching":
        """Watch over what is done with `connection` inside.

        Raises:
            TimedOut: it was ended.
        """
        return Watching(self, Watched(connection, limit))

    def begin(self, watched: Watched) -> None:
        """Watch over this one too."""
        with self._lock:
            self._watched.add(watched)
            if self._thread is None or not self._thread.is_alive():  # it doesn't survive a fork
                self._thread = threading.Thread(
                    target=self._watch, daemon=True, name="sessionmem-postgres-watchdog"
                )
                self._thread.start()

    def end(self, watched: Watched) -> None:
        """Leave this one alone from now on."""
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
                    if watched.canceller is None and left_seconds <= grace(watched.limit):
                        watched.cancel()
                    if not watched.is_cut and left_seconds <= _TICK_SECONDS:
                        watched.cut()
                if self._watched:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since > _LINGER_SECONDS:
                    self._thread = None
                    return


class Watching:
    """What a watchdog watches over; a generator would cost each call more."""

    __slots__ = ("_watchdog", "_watched")

    def __init__(self, watchdog: Watchdog, watched: Watched) -> None:
        self._watchdog, self._watched = watchdog, watched

    def __enter__(self) -> None:
        self._watchdog.begin(self._watched)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        watched = self._watched
        was_ended = watched.canceller is not None or watched.is_cut
        self._watchdog.end(watched)
        if was_ended and isinstance(error, psycopg.Error):
            raise TimedOut(watched.limit.seconds, error) from error
