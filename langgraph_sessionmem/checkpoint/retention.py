"""Retention: what has expired goes or is cut down, in batches; and limits for many threads at once.

Work on many threads is a generator of operations, each small and all or nothing by itself; it is
sent their results, and either face runs them one after the other. So whatever stops it between two
operations leaves nothing half done, and others get their turn.
"""

import time
from collections.abc import Generator
from typing import Any, TypeAlias

from langgraph_sessionmem.backends.base import Backend, Operation, Records
from langgraph_sessionmem.background import (
    Recurring,
    Stopping,
    agive_way,
    give_way,
    start_sweeping,
)
from langgraph_sessionmem.checkpoint.configs import config_of, limits_of, read_limits
from langgraph_sessionmem.checkpoint.pruning import cut_idle
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.errors import (
    ConcurrentUpdate,
    CorruptData,
    ThreadDamaged,
    TypeNotAllowed,
)
from langgraph_sessionmem.expiry import TTL, Sweeping, TTLFunction
from langgraph_sessionmem.rows import Limits, ThreadRow, ThreadScan

BATCH = 100
"""Threads an operation deletes, or a page lists, at the most."""

Steps: TypeAlias = Generator[Operation[Any], Any, int]
_UNCUTTABLE = (ConcurrentUpdate, CorruptData, ThreadDamaged, TypeNotAllowed)


def run_steps(backend: Backend, steps: Steps, *, gives_way: bool = False) -> int:
    """Run the operations of `steps` and return its count.

    Args:
        backend: the database.
        steps: the operations.
        gives_way: pause after each as long as it took: where writers wait for each other by
            polling, as on SQLite, they would never get between two batches.
    """
    result = None
    while True:
        try:
            operation = steps.send(result)
        except StopIteration as finished:
            count: int = finished.value
            return count
        began = time.perf_counter()
        result = backend.run(operation)
        if gives_way:
            give_way(time.perf_counter() - began)


async def arun_steps(backend: Backend, steps: Steps, *, gives_way: bool = False) -> int:
    """`run_steps` without blocking the loop."""
    result = None
    while True:
        try:
            operation = steps.send(result)
        except StopIteration as finished:
            count: int = finished.value
            return count
        began = time.perf_counter()
        result = await backend.arun(operation)
        if gives_way:
            await agive_way(time.perf_counter() - began)


def sweep_steps(state: SaverState, most: int | None, stopping: Stopping | None = None) -> Steps:
    """Delete what has expired, then cut down what keeps its latest; returns how many threads.

    Args:
        state: of the saver.
        most: threads to take at the most; `None`: all that are due.
        stopping: whether to end before the next operation.
    """
    swept = 0

    def size() -> int:
        if stopping is not None and stopping():
            return 0
        return BATCH if most is None else min(BATCH, most - swept)

    while wanted := size():
        dropped = yield _drop(wanted)
        swept += dropped
        if dropped < wanted:
            break
    while wanted := size():
        rows: list[ThreadRow] = yield _idle(wanted)
        before = swept
        for row in rows:
            if not size():
                break
            swept += yield _cut(state, row.thread_id)
        # Another sweeper may be at the same threads: where it got them all, the rest is its too.
        if len(rows) < wanted or swept == before:
            break
    return swept


async def count_due(records: Records) -> int:
    """How many threads a sweep would delete or cut down."""
    stats = await records.read_stats()
    return stats.expired + stats.idle


def apply_steps(state: SaverState, ttl: TTL | TTLFunction | None, prefix: str) -> Steps:
    """Give all threads under `prefix` without limits of their own those of `ttl`; how many."""
    scan, applied = ThreadScan(prefix, limit=BATCH), 0
    while True:
        rows: list[ThreadRow] = yield _page(scan)
        for row in rows:
            if not row.sticky:
                applied += yield _apply(state, ttl, row.thread_id)
        if len(rows) < BATCH:
            return applied
        scan = scan._replace(after=rows[-1])


async def save_own_limits(
    records: Records, state: SaverState, thread_id: str, limits: Limits
) -> bool:
    """Give a thread its own limits; False if there is no such thread."""
    await cut_idle(records, state, thread_id)
    return await records.save_limits(thread_id, limits, own=True)


def start_sweeper(
    backend: Backend, state: SaverState, sweeping: Sweeping | None
) -> Recurring | None:
    """Begin to sweep in the background, for as long as the result is held and not stopped.

    Raises:
        InvalidArgument: the backend serves async callers only, and no event loop is running.
    """
    if sweeping is None:
        return None
    seconds, most = sweeping

    def sweep(stopping: Stopping) -> None:
        # In the user's own transaction a sweep would hold its locks, and could break it.
        if not backend.in_callers_transaction():
            run_steps(backend, sweep_steps(state, most, stopping), gives_way=True)

    async def asweep() -> None:
        if not backend.in_callers_transaction():
            await arun_steps(backend, sweep_steps(state, most), gives_way=True)

    return start_sweeping(seconds, sweep, asweep, is_async_only=backend.is_async_only)


def _drop(limit: int) -> Operation[int]:
    return lambda records: records.drop_expired(limit)


def _idle(limit: int) -> Operation[list[ThreadRow]]:
    return lambda records: records.scan_expired(limit, keep_latest=True)


def _page(scan: ThreadScan) -> Operation[list[ThreadRow]]:
    return lambda records: records.scan_threads(scan)


def _cut(state: SaverState, thread_id: str) -> Operation[bool]:
    async def cut(records: Records) -> bool:
        try:
            return await cut_idle(records, state, thread_id)
        except _UNCUTTABLE:
            # It stays as it is, and whoever reads it is told; the sweep goes on to the others.
            return False

    return cut


def _apply(state: SaverState, ttl: TTL | TTLFunction | None, thread_id: str) -> Operation[bool]:
    async def apply(records: Records) -> bool:
        await cut_idle(records, state, thread_id)
        limits = limits_of(ttl, state.options) if not callable(ttl) else None
        if limits is None:
            found = await records.read_checkpoint(thread_id, "", None)
            if found is None:
                return False
            row, _ = found
            config = config_of(thread_id, "", row.checkpoint_id)
            limits, _ = read_limits(config, state.codec.decode(row.metadata), ttl, state.options)
        return await records.save_limits(thread_id, limits, own=False)

    return apply
