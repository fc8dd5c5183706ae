"""Work that recurs: round after round in a thread or a task, until it is stopped or let go."""

import asyncio
import gc
import logging
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from langgraph_sessionmem.background import RecurringTask, RecurringThread, Stopping

PATIENCE = 10.0
"""Seconds after which something that should have happened never will."""


class Ticks:
    """A time that passes when the test says so: one tick ends one wait."""

    def __init__(self) -> None:
        self.waits: queue.Queue[float] = queue.Queue()
        self._ticks: queue.Queue[bool] = queue.Queue()

    def __call__(self, stopping: threading.Event, seconds: float) -> bool:
        self.waits.put(seconds)
        while not stopping.wait(0.001):
            try:
                return self._ticks.get_nowait()
            except queue.Empty:
                continue
        return True

    def tick(self) -> None:
        self._ticks.put(False)

    def until_waiting(self) -> float:
        return self.waits.get(timeout=PATIENCE)


def threads_named(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"sessionmem-{name}"]


def join_all(name: str) -> None:
    for thread in threads_named(name):
        thread.join(PATIENCE)
    assert threads_named(name) == []


def test_a_thread_works_once_after_each_interval_until_it_is_stopped() -> None:
    ticks, rounds = Ticks(), []
    recurring = RecurringThread("work", 300, lambda stopping: rounds.append(1), wait=ticks)
    assert ticks.until_waiting() == 300
    for done in range(3):
        assert len(rounds) == done
        ticks.tick()
        ticks.until_waiting()
    recurring.stop()
    recurring.stop()
    assert len(rounds) == 3
    assert threads_named("work") == []


def test_stopping_waits_for_the_round_under_way_which_is_told_to_end() -> None:
    ticks, begun, ended = Ticks(), threading.Event(), []

    def work(stopping: Stopping) -> None:
        begun.set()
        while not stopping():
            threading.Event().wait(0.001)
        ended.append(1)

    recurring = RecurringThread("work", 1, work, wait=ticks)
    ticks.tick()
    assert begun.wait(PATIENCE)
    recurring.stop()
    assert ended == [1]
    assert threads_named("work") == []


def test_a_thread_ends_when_nobody_holds_it_any_more() -> None:
    recurring = RecurringThread("let go", 3_600, lambda stopping: None)
    assert len(threads_named("let go")) == 1
    del recurring
    gc.collect()
    join_all("let go")


def test_a_thread_may_be_stopped_by_its_own_round() -> None:
    ticks, held = Ticks(), []
    held.append(RecurringThread("work", 1, lambda stopping: held.pop().stop(), wait=ticks))
    ticks.tick()
    join_all("work")
    assert held == []


def test_failing_rounds_are_reported_once_in_a_row_and_without_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ticks, failures = Ticks(), iter([True, True, False, True])

    def work(stopping: Stopping) -> None:
        if next(failures):
            raise OSError("secret")

    recurring = RecurringThread("work", 1, work, wait=ticks)
    ticks.until_waiting()
    with caplog.at_level(logging.WARNING, "langgraph_sessionmem"):
        for reports in (1, 1, 1, 2):
            ticks.tick()
            ticks.until_waiting()
            assert len(caplog.records) == reports
    recurring.stop()
    assert "OSError" in caplog.text
    assert "secret" not in caplog.text


class AsyncTicks:
    """As `Ticks`, in an event loop."""

    def __init__(self) -> None:
        self._ticks: asyncio.Queue[None] = asyncio.Queue()
        self.waiting: asyncio.Queue[float] = asyncio.Queue()

    async def __call__(self, seconds: float) -> None:
        self.waiting.put_nowait(seconds)
        await self._ticks.get()

    async def tick(self) -> None:
        self._ticks.put_nowait(None)
        await asyncio.wait_for(self.waiting.get(), PATIENCE)


def recurring_task(work: Callable[[], Awaitable[object]], ticks: AsyncTicks) -> RecurringTask:
    return RecurringTask("work", 300, work, wait=ticks)


def own_tasks() -> list[Any]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "sessionmem-work"]


async def test_a_task_works_after_each_interval_until_it_is_stopped() -> None:
    ticks, rounds = AsyncTicks(), []

    async def work() -> None:
        rounds.append(1)

    recurring = recurring_task(work, ticks)
    assert await ticks.waiting.get() == 300
    for done in range(3):
        assert len(rounds) == done
        await ticks.tick()
    await recurring.astop()
    await recurring.astop()
    assert own_tasks() == []
    assert len(rounds) == 3


async def test_a_task_survives_failures_and_reports_the_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ticks = AsyncTicks()

    async def work() -> None:
        raise OSError("secret")

    recurring = recurring_task(work, ticks)
    await ticks.waiting.get()
    with caplog.at_level(logging.WARNING, "langgraph_sessionmem"):
        for _ in range(3):
            await ticks.tick()
    await recurring.astop()
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text


async def test_a_task_ends_when_nobody_holds_it_any_more() -> None:
    ticks = AsyncTicks()

    async def work() -> None: ...

    recurring = recurring_task(work, ticks)
    await ticks.waiting.get()
    [task] = own_tasks()
    del recurring
    gc.collect()
    await asyncio.wait([task], timeout=PATIENCE)
    assert task.cancelled()


async def test_a_task_may_be_stopped_from_another_thread() -> None:
    ticks = AsyncTicks()

    async def work() -> None: ...

    recurring = recurring_task(work, ticks)
    await ticks.waiting.get()
    [task] = own_tasks()
    await asyncio.to_thread(recurring.stop)
    await asyncio.wait([task], timeout=PATIENCE)
    assert task.cancelled()


def test_a_task_whose_loop_is_closed_can_still_be_stopped() -> None:
    async def begin() -> RecurringTask:
        async def work() -> None: ...

        return RecurringTask("work", 300, work)

    recurring = asyncio.run(begin())
    recurring.stop()


def test_a_task_needs_a_loop() -> None:
    async def work() -> None: ...

    with pytest.raises(RuntimeError):
        RecurringTask("work", 300, work)
