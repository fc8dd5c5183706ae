"""What goes on beside the caller: deadlines for what may take too long, and work that recurs.

A blocking call can't be stopped from outside: past its deadline it goes on in a daemon thread and
its result is dropped.
"""

import asyncio
import atexit
import contextvars
import logging
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, TypeVar

from typing_extensions import override

from langgraph_sessionmem.errors import InvalidArgument

T = TypeVar("T")

_LOG = logging.getLogger("langgraph_sessionmem")
STOP_SECONDS = 30.0
"""How long stopping waits for a round that is under way."""
REST_SECONDS = 0.05
"""The longest pause that gives way to others."""


def finish_within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a blocking call, run in a thread of its own with the caller's context.

    Raises:
        TimeoutError: it wasn't there in time; the call itself goes on and is ignored.
    """
    outcome: dict[str, Any] = {}
    context = contextvars.copy_context()

    def run() -> None:
        try:
            outcome["value"] = context.run(call)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True, name="sessionmem-deadline")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"No answer within {seconds:g} s.")
    if "error" in outcome:
        raise outcome["error"]
    value: T = outcome["value"]
    return value


async def wait_within(seconds: float, awaitable: Awaitable[T]) -> T:
    """The result of an awaitable; it is cancelled when the time is over.

    Raises:
        TimeoutError: it wasn't there in time.
    """
    async with asyncio.timeout(seconds):
        return await awaitable


def give_way(took_seconds: float) -> None:
    """Pause as long as the last piece of work took, for those who wait by polling."""
    time.sleep(min(took_seconds, REST_SECONDS))


async def agive_way(took_seconds: float) -> None:
    """`give_way` without blocking the loop."""
    await asyncio.sleep(min(took_seconds, REST_SECONDS))


Stopping: TypeAlias = Callable[[], bool]
"""Whether a round should end at its next opportunity."""


class Recurring(Protocol):
    """Work that is done again and again, until it is stopped or nobody holds this object.

    A round that fails is reported once, by its kind of error alone, and the next one comes as
    usual.
    """

    def stop(self) -> None:
        """End it, and wait for a round that is under way; safe to call twice."""
        ...

    async def astop(self) -> None:
        """`stop` without blocking the loop."""
        ...


class RecurringThread(Recurring):
    """Recurring work in a daemon thread, for what blocks; no event loop takes part.

    Args:
        name: what is done, for the log.
        every_seconds: from the end of a round to the next.
        work: a round. It is told how to ask whether to end early.
        wait: waits for an event at most so many seconds, and says whether it was set.
    """

    def __init__(
        self,
        name: str,
        every_seconds: float,
        work: Callable[[Stopping], object],
        *,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._work, self._stopping = work, threading.Event()
        # The thread holds this object only during a round, so it doesn't keep a saver alive.
        arguments = (weakref.ref(self), self._stopping, every_seconds, wait, _Reports(name))
        self._thread = threading.Thread(
            target=_recur, args=arguments, daemon=True, name=f"sessionmem-{name}"
        )
        weakref.finalize(self, self._stopping.set).atexit = False
        _RUNNING.add(self)
        self._thread.start()

    @override
    def stop(self) -> None:
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_SECONDS)

    @override
    async def astop(self) -> None:
        await asyncio.to_thread(self.stop)

    def round(self) -> None:
        """Do the work once."""
        self._work(self._stopping.is_set)


_RUNNING: "weakref.WeakSet[RecurringThread]" = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """End the rounds before the interpreter takes their drivers apart."""
    for recurring in list(_RUNNING):
        recurring.stop()


class RecurringTask(Recurring):
    """Recurring work in the running event loop, for what can only be awaited there.

    Args:
        name: what is done, for the log.
        every_seconds: from the end of a round to the next.
        work: a round.
        wait: waits so many seconds.

    Raises:
        RuntimeError: no event loop is running.
    """

    def __init__(
        self,
        name: str,
        every_seconds: float,
        work: Callable[[], Awaitable[object]],
        *,
        wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._work, self._loop = work, asyncio.get_running_loop()
        rounds = _arecur(weakref.ref(self), every_seconds, wait, _Reports(name))
        self._task = self._loop.create_task(rounds, name=f"sessionmem-{name}")
        weakref.finalize(self, _cancel, self._loop, self._task).atexit = False

    @override
    def stop(self) -> None:
        _cancel(self._loop, self._task)

    @override
    async def astop(self) -> None:
        self.stop()
        if asyncio.get_running_loop() is self._loop and asyncio.current_task() is not self._task:
            await asyncio.wait([self._task])

    async def round(self) -> None:
        """Do the work once."""
        await self._work()


def start_sweeping(
    every_seconds: float,
    sweep: Callable[[Stopping], object],
    asweep: Callable[[], Awaitable[object]],
    *,
    is_async_only: bool,
) -> Recurring:
    """Sweep again and again: in a thread, or what serves async callers only in the running loop.

    Raises:
        InvalidArgument: it serves async callers only, and no event loop is running.
    """
    if not is_async_only:
        return RecurringThread("sweeping", every_seconds, sweep)
    try:
        return RecurringTask("sweeping", every_seconds, asweep)
    except RuntimeError as error:
        raise InvalidArgument(
            "Sweeping in the background with an async client, connection or pool needs the event "
            "loop it belongs to: start it inside that loop, or give a connection string."
        ) from error


class _Reports:
    """Tells the log of the first failure in a row, without a word of what was worked on."""

    def __init__(self, name: str) -> None:
        self._name, self._failing = name, False

    def failed(self, error: Exception) -> None:
        if not self._failing:
            _LOG.warning(
                "%s in the background failed (%s); it is tried again in each of the next rounds.",
                self._name.capitalize(),
                type(error).__name__,
            )
        self._failing = True

    def succeeded(self) -> None:
        self._failing = False


def _recur(
    found: "weakref.ref[RecurringThread]",
    stopping: threading.Event,
    every_seconds: float,
    wait: Callable[[threading.Event, float], bool],
    reports: _Reports,
) -> None:
    while not wait(stopping, every_seconds):
        recurring = found()
        if recurring is None:
            return
        try:
            recurring.round()
        except Exception as error:  # noqa: BLE001 - the next round may do better
            reports.failed(error)
        else:
            reports.succeeded()
        del recurring


async def _arecur(
    found: "weakref.ref[RecurringTask]",
    every_seconds: float,
    wait: Callable[[float], Awaitable[object]],
    reports: _Reports,
) -> None:
    while True:
        await wait(every_seconds)
        recurring = found()
        if recurring is None:
            return
        try:
            await recurring.round()
        except Exception as error:  # noqa: BLE001 - the next round may do better
            reports.failed(error)
        else:
            reports.succeeded()
        del recurring


def _cancel(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    with suppress(RuntimeError):  # its loop is closed, and with it the task is gone
        loop.call_soon_threadsafe(task.cancel)
