"""The contract with a database, for checkpoints: what can be done to its rows.

A `CheckpointRecords` is bound to one connection. Each primitive is atomic and one round trip; an
operation writes through one primitive, its last, so it is all or nothing on every backend.
"""

from collections.abc import Sequence
from typing import Protocol

from langgraph_sessionmem.rows import (
    CheckpointRow,
    CheckpointSave,
    CheckpointScan,
    Contents,
    Element,
    ElementPlace,
    Limits,
    OrderRow,
    Prune,
    Run,
    Saved,
    Stats,
    ThreadCopy,
    ThreadRow,
    ThreadScan,
    Wanted,
    WriteRow,
    WritesSave,
)


class CheckpointRecords(Protocol):
    """What a database does for checkpoints; no `read_` or `scan_` sees an expired thread."""

    async def read_checkpoint(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None
    ) -> tuple[CheckpointRow, list[WriteRow]] | None:
        """The named checkpoint, or the latest by order key, with its writes in any order."""
        ...

    async def read_elements(
        self, thread_id: str, generation: int, runs: Sequence[Run]
    ) -> list[Element]:
        """The elements of `runs`, in any order, each once; those that are gone are left out.

        Where a part of a run is sealed, its blocks come instead, each once and whole.
        """
        ...

    async def read_places(self, thread_id: str, generation: int) -> list[ElementPlace]:
        """Every element and block that the thread has in its logs, in any order."""
        ...

    async def read_writes(
        self, thread_id: str, generation: int, checkpoints: Sequence[tuple[str, str]]
    ) -> list[WriteRow]:
        """The writes of the named `(checkpoint_ns, checkpoint_id)` pairs, in any order."""
        ...

    async def read_contents(self, wanted: Sequence[Wanted]) -> list[Contents]:
        """For each thread what `read_elements` and `read_writes` give.

        However many there are, it takes one round trip, on Redis two; in a cluster two a thread.
        """
        ...

    async def read_orders(self, thread_id: str, checkpoint_ids: Sequence[str]) -> list[OrderRow]:
        """Where checkpoints of these ids stand, in every namespace of the thread."""
        ...

    async def read_ancestors(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None, limit: int
    ) -> list[CheckpointRow]:
        """The named checkpoint, or the latest, then up to `limit` of those it came from.

        It sees what an idle thread that keeps its latest hides.
        """
        ...

    async def read_run_threads(self, run_ids: Sequence[str]) -> list[str]:
        """The threads, each once, that have or had checkpoints of these runs."""
        ...

    async def read_thread(self, thread_id: str) -> ThreadRow | None:
        """One thread, if it has a checkpoint and has not expired."""
        ...

    async def read_expiry(self, thread_id: str) -> bool:
        """Whether the thread has expired, and its limits said `tells_expiry`: swept or not.

        False again as soon as a new life of it has begun, or it was dropped on purpose.
        """
        ...

    async def read_clock(self) -> float:
        """The database's time, with the backend's offset: seconds since the epoch (UTC)."""
        ...

    async def read_stats(self) -> Stats:
        """What the whole database holds."""
        ...

    async def scan_checkpoints(self, scan: CheckpointScan) -> list[CheckpointRow]:
        """A page, the latest order key first; equal keys by thread id, namespace, checkpoint id."""
        ...

    async def scan_threads(self, scan: ThreadScan) -> list[ThreadRow]:
        """A page of threads that have a checkpoint and have not expired."""
        ...

    async def scan_expired(self, limit: int, *, keep_latest: bool) -> list[ThreadRow]:
        """Expired threads, the longest first: those to be cut down, or those to be deleted."""
        ...

    async def save_checkpoint(self, save: CheckpointSave) -> Saved:
        """Store a checkpoint whole, or nothing, by these rules in this order.

        An expired thread makes way if `save.begins`. One past its `max_age_seconds` refuses
        (`EXPIRED`) for an hour, swept or not, unless a new life has begun. One past its idle limit
        that doesn't keep its latest counts as no thread, swept or not, and makes way. A
        `generation` that is not the thread's refuses (`DELETED`); with no such thread: `DELETED` if
        it has a tombstone, else `GONE`. A parent that isn't stored refuses if there is no
        `generation` and the thread id has a tombstone (`DELETED`), and if `builds_on_parent`
        (`PARENT_GONE`). A thread that is idle and keeps its latest refuses (`CUT_FIRST`). With
        `may_fork` False, a parent that is not the latest refuses (`CONFLICT`). A taken place
        refuses (`LOG_TAKEN`). Stored already: head, metadata and parent are replaced, order key,
        `seq` and `elder` stay. The thread's deadlines are set anew by the database's clock.
        """
        ...

    async def save_writes(self, save: WritesSave) -> Saved:
        """Store a task's writes, whether or not the checkpoint is stored yet.

        `EXPIRED` and `DELETED` as in `save_checkpoint`, never `GONE`: writes of a checkpoint that
        isn't stored, or went with its expired thread, stay unseen, and are swept after 10 minutes.
        """
        ...

    async def save_limits(self, thread_id: str, limits: Limits, *, own: bool) -> bool:
        """Give a thread limits, counted from now; False if there is no such thread.

        Args:
            thread_id: the thread.
            limits: its limits from now on.
            own: they are its own and stay; otherwise a thread that has its own keeps them.
        """
        ...

    async def save_copy(self, copy: ThreadCopy) -> Saved:
        """Store a whole thread; refuses (`CONFLICT`) if there is one under its id, not expired."""
        ...

    async def save_pruned(self, prune: Prune) -> bool:
        """Cut a thread; False, and nothing was done, if its `seq` is another by now."""
        ...

    async def touch_thread(self, thread_id: str, generation: int) -> None:
        """Count a sign of life."""
        ...

    async def drop_thread(self, thread_id: str, seq: int | None = None) -> bool:
        """Delete a thread, whatever its state; a tombstone stays for an hour, swept or not.

        Args:
            thread_id: the thread.
            seq: delete it only if this is still its `seq`; `None`: in any case.

        Returns:
            False: it was saved to since its `seq` was read, so nothing was done.
        """
        ...

    async def drop_expired(self, limit: int) -> int:
        """Delete up to `limit` expired threads that don't keep their latest.

        Stale unattached writes and old tombstones go too. Safe with several sweepers and with
        writers: a thread that came to life meanwhile stays.

        Returns:
            How many threads were deleted; fewer than `limit`: none is left.
        """
        ...
