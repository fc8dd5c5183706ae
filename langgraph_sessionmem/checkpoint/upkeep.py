"""What a saver does beside LangGraph's contract: limits, sweeping, and a look at its threads."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from typing_extensions import override

from langgraph_sessionmem.backends.opened import Opened
from langgraph_sessionmem.background import Recurring
from langgraph_sessionmem.checkpoint.configs import limits_of, read_thread_id
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.retention import (
    apply_steps,
    arun_steps,
    count_due,
    run_steps,
    save_own_limits,
    sweep_steps,
)
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.expiry import TTL, TTLFunction, read_session_ttl
from langgraph_sessionmem.rows import Limits, Stats, ThreadOrder, ThreadRow, ThreadScan

Order: TypeAlias = Literal["thread_id", "updated_at", "expires_at", "size"]


class Upkeep(Opened):
    """Keeps the threads of an open database; the half of `SessionSaver` that is ours alone."""

    __slots__ = ()
    _state: SaverState
    _ttl: TTL | TTLFunction | None
    _sweeper: Recurring | None

    def set_ttl(self, thread_id: str, ttl: TTL | None) -> bool:
        """Give a thread its own limits, counted from now, that stay with it; None pins it.

        Returns:
            False: there is no such thread.
        """
        name, limits = read_thread_id(thread_id), self._limits(ttl)
        return self.backend.run(lambda records: save_own_limits(records, self._state, name, limits))

    async def aset_ttl(self, thread_id: str, ttl: TTL | None) -> bool:
        """`set_ttl` without blocking the loop."""
        name, limits = read_thread_id(thread_id), self._limits(ttl)
        return await self.backend.arun(
            lambda records: save_own_limits(records, self._state, name, limits)
        )

    def apply_ttl(self, *, prefix: str = "") -> int:
        """Give threads that exist already this saver's `ttl`, as if they were put to now.

        Threads that asked for limits of their own keep theirs. `idle` and `interrupted` count from
        now, `max_age` from a thread's first checkpoint. A `ttl` function is asked with the config
        and the metadata of each thread's latest checkpoint.

        Args:
            prefix: only threads whose ids begin with this text.

        Returns:
            How many threads have these limits now.

        Raises:
            InvalidArgument: the prefix is no text, or the function returned no `TTL`.
        """
        steps = apply_steps(self._state, self._ttl, read_prefix(prefix))
        return run_steps(self.backend, steps, gives_way=True)

    async def aapply_ttl(self, *, prefix: str = "") -> int:
        """`apply_ttl` without blocking the loop."""
        steps = apply_steps(self._state, self._ttl, read_prefix(prefix))
        return await arun_steps(self.backend, steps, gives_way=True)

    def sweep(self, *, dry_run: bool = False, limit: int | None = None) -> int:
        """Delete what has expired, and cut down what keeps its latest; it changes no answer.

        It goes in small batches, so others get their turn, and what was done stays done if it is
        stopped. Several may sweep at once, beside any number of writers.

        Args:
            dry_run: only count what would go.
            limit: threads to take at the most; by default all that are due.

        Returns:
            How many threads were deleted or cut down, or would be.

        Raises:
            InvalidArgument: the limit is no positive number.
        """
        most = read_limit(limit)
        if dry_run:
            due = self.backend.run(count_due)
            return due if most is None else min(due, most)
        return run_steps(self.backend, sweep_steps(self._state, most), gives_way=True)

    async def asweep(self, *, dry_run: bool = False, limit: int | None = None) -> int:
        """`sweep` without blocking the loop."""
        most = read_limit(limit)
        if dry_run:
            due = await self.backend.arun(count_due)
            return due if most is None else min(due, most)
        steps = sweep_steps(self._state, most)
        return await arun_steps(self.backend, steps, gives_way=True)

    def stats(self) -> Stats:
        """What the whole database holds."""
        return self.backend.run(lambda records: records.read_stats())

    async def astats(self) -> Stats:
        """`stats` without blocking the loop."""
        return await self.backend.arun(lambda records: records.read_stats())

    def thread(self, thread_id: str) -> ThreadRow | None:
        """One thread without its state: times, checkpoints, bytes, owner, limits; None if gone."""
        name = read_thread_id(thread_id)
        return self.backend.run(lambda records: records.read_thread(name))

    async def athread(self, thread_id: str) -> ThreadRow | None:
        """`thread` without blocking the loop."""
        name = read_thread_id(thread_id)
        return await self.backend.arun(lambda records: records.read_thread(name))

    def threads(
        self,
        *,
        prefix: str = "",
        order: Order = "thread_id",
        limit: int = 100,
        cursor: ThreadRow | None = None,
    ) -> Sequence[ThreadRow]:
        """A page of threads that have not expired, without loading their state.

        Args:
            prefix: what their ids begin with, as plain text.
            order: by id; or the last changed, the next to expire, or the largest first.
            limit: how many at the most.
            cursor: the last row of the page before.

        Raises:
            InvalidArgument: an argument can't be used.
        """
        scan = read_thread_scan(prefix, order, limit, cursor)
        return self.backend.run(lambda records: records.scan_threads(scan))

    async def athreads(
        self,
        *,
        prefix: str = "",
        order: Order = "thread_id",
        limit: int = 100,
        cursor: ThreadRow | None = None,
    ) -> Sequence[ThreadRow]:
        """`threads` without blocking the loop."""
        scan = read_thread_scan(prefix, order, limit, cursor)
        return await self.backend.arun(lambda records: records.scan_threads(scan))

    @override
    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.stop()
        super().close()

    @override
    async def aclose(self) -> None:
        if self._sweeper is not None:
            await self._sweeper.astop()
        await super().aclose()

    def _limits(self, ttl: TTL | None) -> Limits:
        return limits_of(read_session_ttl(ttl), self._state.options)


def read_thread_scan(prefix: str, order: str, limit: int, cursor: ThreadRow | None) -> ThreadScan:
    """What `threads` was asked for.

    Raises:
        InvalidArgument: an argument can't be used.
    """
    orders = [each.value for each in ThreadOrder]
    if order not in orders:
        raise InvalidArgument(f"order={order!r}: give one of {', '.join(orders)}.")
    size = read_limit(limit)
    if size is None or not isinstance(cursor, ThreadRow | None):
        raise InvalidArgument(
            f"limit={limit!r}, cursor={cursor!r}: give a number of threads, and as cursor the last "
            "row of the page before."
        )
    return ThreadScan(read_prefix(prefix), ThreadOrder(order), cursor, size)


def read_limit(limit: int | None) -> int | None:
    """How many threads at the most; `None` for all.

    Raises:
        InvalidArgument: it is no positive number.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidArgument(f"limit={limit!r}: give a whole number of at least 1.")
    return limit


def read_prefix(prefix: str) -> str:
    """What thread ids begin with.

    Raises:
        InvalidArgument: it is no text.
    """
    if not isinstance(prefix, str):
        raise InvalidArgument(f"prefix={prefix!r}: give the text that thread ids begin with.")
    return prefix
