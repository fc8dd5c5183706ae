"""Calls that wait for one connection share a commit: a disk can flush only so often.

Whoever finds nobody at work does the work of all that wait, and they return when it is committed.
A call that fails is undone alone. Where the transaction itself is lost, each call runs again by
itself, as every operation may.
"""

import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Generic, Protocol

from langgraph_sessionmem.backends.base import T
from langgraph_sessionmem.backends.time_limit import TimeLimit
from langgraph_sessionmem.errors import BackendUnavailable, TimedOut

_MOST = 64
"""Calls that share a commit; other processes wait for as long."""


class Shared(Protocol):
    """A transaction that several calls may run in."""

    def begin_sharing(self) -> bool:
        """Have the next calls share a transaction; False: each needs its own."""
        ...

    def is_lost(self) -> bool:
        """Whether the transaction went with one of its calls, and with it what the others did."""
        ...

    def end_sharing(self, *, keep: bool) -> bool:
        """Commit what was shared, or undo it; False: nothing of it was kept."""
        ...


class Call(Generic[T]):
    """One call that waits or is under way."""

    __slots__ = ("_context", "_error", "_result", "_work", "is_done", "limit")

    def __init__(self, work: Callable[[], T], limit: TimeLimit) -> None:
        self._work, self.limit = work, limit
        self._context: Context = copy_context()
        self._result: T | None = None
        self._error: BaseException | None = None
        self.is_done = False

    def run(self) -> None:
        """Do the work, in the context of who asked for it."""
        self._result = self._error = None
        try:
            self._result = self._context.run(self._work)
        except Exception as error:  # noqa: BLE001 - it is raised where the call came from
            self._error = error

    def fail(self, error: BaseException) -> None:
        """End with `error`."""
        self._result, self._error = None, error

    @property
    def result(self) -> T:
        """What the work gave, or the error it raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # set where there is no error


class SharedCommits:
    """The calls of one connection.

    Args:
        shared: the connection's transaction.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        # The lock itself, where nobody has to be waited for: a condition takes it in Python.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting: list[Call[Any]] = []
        self._is_at_work = False

    def run(self, work: Callable[[], T], limit: TimeLimit) -> T:
        """What `work` gives, at once where nobody else is at work or waits, else in its turn.

        Raises:
            TimedOut: others took too long.
        """
        with self._lock:
            is_free = not self._is_at_work and not self._waiting
            if is_free:
                self._is_at_work = True
        if not is_free:
            return self.finish(self.enter(work, limit))
        try:
            return work()
        finally:
            with self._lock:
                self._is_at_work = False
                if self._waiting:
                    self._changed.notify_all()

    def enter(self, work: Callable[[], T], limit: TimeLimit) -> Call[T]:
        """Have `work` wait for its turn; calls are worked off in the order they came."""
        call = Call(work, limit)
        with self._lock:
            self._waiting.append(call)
        return call

    def leave(self, call: Call[Any]) -> None:
        """Forget a call that nobody has begun with."""
        with self._lock:
            if call in self._waiting:
                self._waiting.remove(call)

    def finish(self, call: Call[T]) -> T:
        """What a call gives, once that is committed.

        Raises:
            TimedOut: others took too long.
        """
        while True:
            with self._changed:
                while self._is_at_work and not call.is_done:
                    if not self._changed.wait(call.limit.left_seconds):
                        break
                if call.is_done:
                    return call.result
                if self._is_at_work:
                    if call in self._waiting:
                        self._waiting.remove(call)
                    raise TimedOut(call.limit.seconds, "others were not done yet")
                self._is_at_work = True
                calls, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            try:
                self._work_off(calls)
            except BaseException as error:
                failure = BackendUnavailable(
                    "The program was interrupted during this call; look what is stored."
                )
                failure.__cause__ = error
                for each in calls:
                    each.fail(failure)
                raise
            finally:
                with self._changed:
                    for each in calls:
                        each.is_done = True
                    self._is_at_work = False
                    self._changed.notify_all()

    def _work_off(self, calls: list[Call[Any]]) -> None:
        if len(calls) > 1 and self._shared.begin_sharing():
            is_kept = False
            try:
                is_kept = self._run_all(calls)
            finally:
                is_kept = self._shared.end_sharing(keep=is_kept)
            if is_kept:
                return
        for call in calls:
            call.run()

    def _run_all(self, calls: list[Call[Any]]) -> bool:
        for call in calls:
            call.run()
            if self._shared.is_lost():
                return False
        return True
