"""The contract with a database, for checkpoints: typed rows, and what can be done to them.

A `CheckpointRecords` is bound to one connection. Each primitive is atomic and one round trip; an
operation writes through one primitive, its last, so it is all or nothing on every backend.

Words: a thread's **generation** is the number of its present life: deleting or expiring ends it,
and the next checkpoint under the same id begins another. A **log** is an append-only sequence of
elements; a **run** names a stretch of one. `docs/format.md` has the layout of each database.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol


class OrderKey(NamedTuple):
    """A checkpoint's place in its namespace; the largest is the latest.

    Given once, when the checkpoint is first stored, by `save_checkpoint`: a live write (its parent
    is stored, its id is not above the latest's `id`, and nothing names it as its parent yet) gets
    the latest's `(id, n + 1)`, every other one `(its own checkpoint_id, 0)`. So a child comes after
    its parent though clocks go back, and neither retries nor the order of a copy play a part.
    """

    id: str
    n: int


class Run(NamedTuple):
    """The elements `start` to `end` (exclusive) of a log."""

    log: int
    start: int
    end: int


class Element(NamedTuple):
    """One stored element: `body` begins with its codec byte."""

    log: int
    position: int
    body: bytes


class Limits(NamedTuple):
    """How long a thread lives, in seconds; `None` is for ever.

    Attributes:
        idle_seconds: after the last checkpoint, while nothing is pending.
        max_age_seconds: after the first checkpoint.
        interrupted_seconds: instead of `idle_seconds`, while tasks are pending.
        refresh_on_read: reading counts as a sign of life.
    """

    idle_seconds: float | None = None
    max_age_seconds: float | None = None
    interrupted_seconds: float | None = None
    refresh_on_read: bool = False


class CheckpointRow(NamedTuple):
    """One stored checkpoint of a thread that has not expired."""

    thread_id: str
    generation: int
    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    order: OrderKey
    head: bytes
    metadata: bytes
    refresh_on_read: bool


class WriteRow(NamedTuple):
    """One pending write; `idx` is negative for LangGraph's special channels."""

    checkpoint_ns: str
    checkpoint_id: str
    task_id: str
    idx: int
    task_path: str
    channel: str
    body: bytes


class OrderRow(NamedTuple):
    """Where a checkpoint stands."""

    checkpoint_ns: str
    checkpoint_id: str
    order: OrderKey


class ThreadRow(NamedTuple):
    """One thread that has not expired.

    Attributes:
        expires_at: seconds since the epoch (UTC) by the database's clock, `None` for never.
        checkpoints: how many are stored, over all namespaces.
    """

    thread_id: str
    generation: int
    created_at: float
    updated_at: float
    expires_at: float | None
    checkpoints: int


class CheckpointSave(NamedTuple):
    """All that one `put` stores.

    Attributes:
        parent_id: `None` for a root.
        elements: what the logs don't hold yet. A place that is taken by other bytes refuses the
            save; the same bytes are success (a retry).
        generation: of the thread when its parent was read, `None` when no parent is known.
        begins: this checkpoint opens a conversation (no parent, no parent graph), so what an
            expired thread of that id left behind makes way.
        limits: the thread's limits, if it has none of its own yet or `sticky` is set.
        sticky: `limits` were asked for by this thread, and stay.
        pending: the checkpoint still has tasks to run, so the thread is interrupted until the
            next one.
    """

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    run_id: str | None
    head: bytes
    metadata: bytes
    elements: Sequence[Element]
    generation: int | None
    begins: bool
    limits: Limits
    sticky: bool
    pending: bool


class WritesSave(NamedTuple):
    """All that one `put_writes` stores, for one task of one checkpoint.

    A row with `idx < 0` replaces the stored one, any other is kept out by a stored one: each row
    for itself.
    """

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    writes: Sequence[WriteRow]
    generation: int | None
    limits: Limits
    interrupts: bool


class Outcome(Enum):
    """What became of a save; only after `SAVED` has anything been stored."""

    SAVED = "saved"
    LOG_TAKEN = "log taken"
    """Another writer appended there first: take a new log."""
    DELETED = "deleted"
    """The thread was deleted since (its generation is another, or a tombstone stands)."""
    EXPIRED = "expired"
    """The thread passed its `max_age_seconds`."""
    GONE = "gone"
    """The thread expired by idleness and is swept: save the whole state as a root."""


class Saved(NamedTuple):
    """The outcome of a save, and the thread's generation after it (0 when refused)."""

    outcome: Outcome
    generation: int


class ScanCursor(NamedTuple):
    """The last row of a page; the next page begins after it."""

    order: OrderKey
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str


class CheckpointScan(NamedTuple):
    """Which checkpoints to scan; `None` leaves a condition out."""

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    before: OrderKey | None = None
    after: ScanCursor | None = None
    limit: int = 100


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
        """The elements of `runs`, in any order, each once; those that are gone are left out."""
        ...

    async def read_writes(
        self, thread_id: str, generation: int, checkpoints: Sequence[tuple[str, str]]
    ) -> list[WriteRow]:
        """The writes of the named `(checkpoint_ns, checkpoint_id)` pairs, in any order."""
        ...

    async def read_orders(self, thread_id: str, checkpoint_ids: Sequence[str]) -> list[OrderRow]:
        """Where checkpoints of these ids stand, in every namespace of the thread."""
        ...

    async def scan_checkpoints(self, scan: CheckpointScan) -> list[CheckpointRow]:
        """A page, the latest order key first; equal keys by thread id, namespace, checkpoint id."""
        ...

    async def scan_threads(self, after: str | None, limit: int) -> list[ThreadRow]:
        """A page of threads with a checkpoint, by thread id."""
        ...

    async def save_checkpoint(self, save: CheckpointSave) -> Saved:
        """Store a checkpoint whole, or nothing, by these rules in this order.

        An expired thread makes way if `save.begins`. One past its `max_age_seconds` refuses
        (`EXPIRED`). A `generation` that is not the thread's refuses (`DELETED`); with no such
        thread: `DELETED` if it has a tombstone, else `GONE`. A parent that isn't stored, in a
        thread id with a tombstone, refuses (`DELETED`). A taken place refuses (`LOG_TAKEN`).
        Stored already: head, metadata and parent are replaced, the order key stays. The thread's
        deadlines are set anew by the database's clock.
        """
        ...

    async def save_writes(self, save: WritesSave) -> Saved:
        """Store a task's writes, whether or not the checkpoint is stored yet.

        `EXPIRED` and `DELETED` as in `save_checkpoint`, never `GONE`: writes of a checkpoint that
        isn't stored stay unseen, and are swept after 10 minutes.
        """
        ...

    async def save_limits(self, thread_id: str, limits: Limits) -> bool:
        """Give a thread limits of its own, counted from now; False if there is no such thread."""
        ...

    async def touch_thread(self, thread_id: str, generation: int) -> None:
        """Count a sign of life."""
        ...

    async def drop_thread(self, thread_id: str) -> None:
        """Delete a thread, whatever its state; a tombstone stays for an hour."""
        ...

    async def drop_expired(self, limit: int) -> int:
        """Delete up to `limit` expired threads, stale unattached writes and tombstones.

        Returns:
            How many threads were deleted; fewer than `limit`: none is left.
        """
        ...
