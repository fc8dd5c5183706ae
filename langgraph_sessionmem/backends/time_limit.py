"""The time that one call may take, whatever it waits for."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

from langgraph_sessionmem.errors import InvalidArgument, TimedOut

DEFAULT_TIMEOUT = timedelta(seconds=10)
TEST_SECONDS = 1.0
"""How long a connection may take to show that it is alive."""
FIRST_PAUSE_SECONDS = 0.05
"""Before a third try; doubled each time, up to a second. The second try is at once."""


class TimeLimit:
    """What one call has, from now on.

    Attributes:
        seconds: all of it.
    """

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds, self._end = seconds, time.monotonic() + seconds

    @property
    def left_seconds(self) -> float:
        """What is left of it, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def of_a_test(self) -> "TimeLimit":
        """A part of it, to find out whether a connection is alive."""
        return TimeLimit(min(TEST_SECONDS, self.left_seconds / 4))

    def check(self, what: object = "") -> None:
        """Pass while something is left.

        Raises:
            TimedOut: nothing is; `what` says what went on last.
        """
        if not self.left_seconds:
            raise TimedOut(self.seconds, what)


class Pauses:
    """Between the tries of one call, growing, and none past its limit."""

    def __init__(self, limit: TimeLimit) -> None:
        self._limit, self._seconds = limit, 0.0

    def next(self, error: Exception) -> float:
        """How long to wait after `error`, in seconds.

        Raises:
            TimedOut: longer than there is time.
        """
        seconds, self._seconds = self._seconds, min(1.0, self._seconds * 2 or FIRST_PAUSE_SECONDS)
        if seconds >= self._limit.left_seconds:
            raise TimedOut(self._limit.seconds, error) from error
        return seconds


CURRENT_LIMIT: ContextVar[TimeLimit | None] = ContextVar("CURRENT_LIMIT", default=None)
"""The limit of the blocking call under way, for drivers that take none with a call."""


@contextmanager
def limited(limit: TimeLimit) -> Iterator[None]:
    """Have `limit` stand in `CURRENT_LIMIT`."""
    token = CURRENT_LIMIT.set(limit)
    try:
        yield
    finally:
        CURRENT_LIMIT.reset(token)


class held:  # it reads as the function it stands for; a generator would cost more
    """Hold `lock`, for which others may have to be waited for.

    Raises:
        TimedOut: they took too long.
    """

    __slots__ = ("_limit", "_lock")

    def __init__(
        self, lock: "threading.Lock | threading.RLock | threading.Semaphore", limit: TimeLimit
    ) -> None:
        self._lock, self._limit = lock, limit

    def __enter__(self) -> None:
        # Asked without a wait first: what is left of the time is mostly not worth computing.
        if not self._lock.acquire(blocking=False) and not self._lock.acquire(
            timeout=self._limit.left_seconds
        ):
            raise TimedOut(self._limit.seconds, "others were not done yet")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def read_timeout(given: timedelta) -> float:
    """`timeout=` in seconds.

    Raises:
        InvalidArgument: it is no positive duration.
    """
    if not isinstance(given, timedelta) or given <= timedelta(0):
        raise InvalidArgument(f"timeout={given!r}: give a positive timedelta.")
    return given.total_seconds()
