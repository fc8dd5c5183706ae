"""Typed rows: what goes to a database for checkpoints, and what comes back.

Words: a thread's **generation** is the number of its present life: deleting or expiring ends it,
and the next checkpoint under the same id begins another. A **log** is an append-only sequence of
elements; a **run** names a stretch of one. `docs/format.md` has the layout of each database.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


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
    """One stored element: `body` begins with its codec byte.

    A sealed block of elements is an element at the position of its last one; its body says which
    is its first. In a save its other places may stand before it with empty bodies: they are taken
    by the block, and are never read.
    """

    log: int
    position: int
    body: bytes


class Block(NamedTuple):
    """A sealed block: takes the place of the elements `first` to `last` (inclusive) of a log."""

    log: int
    first: int
    last: int
    body: bytes


class ElementPlace(NamedTuple):
    """Where an element is, and how large: `size` in bytes."""

    log: int
    position: int
    size: int


class Limits(NamedTuple):
    """How long a thread lives, in seconds; `None` is for ever.

    Attributes:
        idle_seconds: after the last checkpoint, while nothing is pending.
        max_age_seconds: after the first checkpoint.
        interrupted_seconds: instead of `idle_seconds`, while tasks are pending.
        refresh_on_read: reading counts as a sign of life.
        keep_latest: past its idle limit the thread is not gone but cut down to the latest
            checkpoint of each namespace; only these are visible then, swept or not. What hides
            the others: `read_checkpoint`, `read_orders`, `read_thread`, and scans that don't ask
            for anchors. `save_limits` shows them again, so cut the thread before; `save_writes`
            and `touch_thread` leave such a thread idle.
        tells_expiry: that the thread expired is remembered for 30 days after it is gone.
    """

    idle_seconds: float | None = None
    max_age_seconds: float | None = None
    interrupted_seconds: float | None = None
    refresh_on_read: bool = False
    keep_latest: bool = False
    tells_expiry: bool = False


class CheckpointRow(NamedTuple):
    """One stored checkpoint of a thread that has not expired.

    Attributes:
        order: its place; an anchor (see `Anchor`) has `ANCHOR_ORDER`.
        seq: the number of the save that first stored it, counted in its thread from 1.
        elder: the `seq` of the latest sibling that was stored before it; `None` if there was none.
        idle: its thread is past its idle limit and keeps its latest; whoever shows it to the user
            cuts the thread down before.
    """

    thread_id: str
    generation: int
    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    order: OrderKey
    head: bytes
    metadata: bytes
    refresh_on_read: bool
    seq: int
    elder: int | None
    idle: bool = False


class WriteRow(NamedTuple):
    """One pending write; `idx` is negative for LangGraph's special channels.

    Attributes:
        seq: the `seq` of the thread's last checkpoint save before it. `save_writes` sets it, and
            ignores what is given; `save_copy` and anchors keep what is given, also
            `OF_EVERY_CHILD`.
    """

    checkpoint_ns: str
    checkpoint_id: str
    task_id: str
    idx: int
    task_path: str
    channel: str
    body: bytes
    seq: int = 0


OF_EVERY_CHILD = -1
"""The `seq` of an anchor's writes that belong to every child of it."""

ANCHOR_ORDER = OrderKey("", -1)
"""The order key of anchors: below every other, never the latest, never listed."""


class Anchor(NamedTuple):
    """A checkpoint that pruning cut down to what its descendants are rebuilt from.

    It is read only by its id (`read_checkpoint`, `read_ancestors`, and scans that ask for it). It
    has no parent, keeps its `seq` and `elder`, and to a save it is no stored parent.
    """

    checkpoint_ns: str
    checkpoint_id: str
    head: bytes
    metadata: bytes
    writes: Sequence[WriteRow]


class Wanted(NamedTuple):
    """What to read of a thread: elements of its logs, and writes of its checkpoints.

    Attributes:
        checkpoints: each as `(checkpoint_ns, checkpoint_id)`.
    """

    thread_id: str
    generation: int
    runs: Sequence[Run]
    checkpoints: Sequence[tuple[str, str]]


class Contents(NamedTuple):
    """What was wanted of a thread; what is gone is left out."""

    elements: list[Element]
    writes: list[WriteRow]


class OrderRow(NamedTuple):
    """Where a checkpoint stands."""

    checkpoint_ns: str
    checkpoint_id: str
    order: OrderKey


class ThreadRow(NamedTuple):
    """One thread that has not expired.

    Attributes:
        created_at: of its first checkpoint, in seconds since the epoch (UTC) by the database's
            clock, as all times here.
        expires_at: `None` for never, and for an idle thread that keeps its latest.
        checkpoints: how many are visible, over all namespaces, without anchors.
        size: of all it holds, in bytes: heads, metadata, elements and writes as stored, on Redis
            what its keys take in memory.
        owner: whom its first checkpoint named, or `None`.
        seq: how often it was saved to or cut so far; a checkpoint keeps the number of its save.
        sticky: the limits are its own.
        waiting: tasks are pending.
    """

    thread_id: str
    generation: int
    created_at: float
    updated_at: float
    expires_at: float | None
    checkpoints: int
    size: int
    owner: str | None
    seq: int
    limits: Limits
    sticky: bool
    waiting: bool

    @property
    def is_idle(self) -> bool:
        """It keeps its latest and is past its idle limit, or was cut down since."""
        limit = self.limits.interrupted_seconds if self.waiting else self.limits.idle_seconds
        return self.limits.keep_latest and self.expires_at is None and limit is not None


class ThreadOrder(Enum):
    """In which order threads are scanned."""

    THREAD_ID = "thread_id"
    UPDATED_AT = "updated_at"
    """The last changed first."""
    EXPIRES_AT = "expires_at"
    """The next to expire first; those without a deadline come last."""
    SIZE = "size"
    """The largest first."""


class ThreadScan(NamedTuple):
    """Which threads to scan, a page of them; ties go by thread id, ascending.

    Attributes:
        prefix: of the thread id, as plain text.
        after: the last row of the page before.
    """

    prefix: str = ""
    order: ThreadOrder = ThreadOrder.THREAD_ID
    after: ThreadRow | None = None
    limit: int = 100


class Stats(NamedTuple):
    """What a database holds; expired threads that are not swept yet count in `expired` only.

    Attributes:
        size: in bytes, as in `ThreadRow`, of everything, expired or not.
        idle: threads that keep their latest and are still to be cut down to it.
    """

    threads: int
    expired: int
    checkpoints: int
    writes: int
    elements: int
    tombstones: int
    size: int
    idle: int = 0


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
        owner: whose thread it is, kept from the first checkpoint that names one.
        blocks: elements that are sealed by the way. Each is stored whole, in this save or before.
        builds_on_parent: the head names elements that it shares with the parent's. Where the
            parent is not stored any more the save is refused: they may be gone with it.
        may_fork: False: refused unless the parent is the namespace's latest checkpoint (for a root:
            there is none), or this checkpoint itself is stored already.
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
    owner: str | None = None
    blocks: Sequence[Block] = ()
    builds_on_parent: bool = False
    may_fork: bool = True


class WritesSave(NamedTuple):
    """All that one `put_writes` stores, for one task of one checkpoint.

    A row with `idx < 0` replaces the stored one, any other is kept out by a stored one: each row
    for itself.

    Attributes:
        checkpoint_stored: the checkpoint is known to have been stored in this generation, so the
            writes are not early.
    """

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    writes: Sequence[WriteRow]
    generation: int | None
    limits: Limits
    interrupts: bool
    checkpoint_stored: bool = False


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
    PARENT_GONE = "parent gone"
    """The parent was pruned or deleted since it was read."""
    CONFLICT = "conflict"
    """The parent is not the latest any more, and the save may not fork."""
    CUT_FIRST = "cut first"
    """The thread is idle and keeps its latest only: prune it (`Prune.wakes`), then save again."""


class Saved(NamedTuple):
    """The outcome of a save, and the thread's generation after it (0 when refused)."""

    outcome: Outcome
    generation: int


class ThreadCopy(NamedTuple):
    """A whole thread to store under a new id, anchors included.

    Attributes:
        rows: its checkpoints; of each its id, order, `seq` and `elder` are kept.
        run_ids: of each row, by position.
    """

    thread_id: str
    limits: Limits
    sticky: bool
    waiting: bool
    owner: str | None
    seq: int
    rows: Sequence[CheckpointRow]
    run_ids: Sequence[str | None]
    writes: Sequence[WriteRow]
    elements: Sequence[Element]


class Prune(NamedTuple):
    """What to cut from a thread, all or nothing.

    Attributes:
        generation, seq: of the thread when it was read; it is refused if either is another by now.
        checkpoints: `(checkpoint_ns, checkpoint_id)` to drop with their writes.
        elements: stretches of logs to drop. A sealed block goes when all of it is named; a caller
            that wants only a part of one gone leaves it out.
        anchors: checkpoints that become anchors, or are replaced as such; their writes replace
            those that are stored.
        roots: `(checkpoint_ns, checkpoint_id)` that stay and have no parent from now on, because
            it goes and leaves no anchor.
        wakes: the thread was idle and kept its latest: it counts as active from now on, without
            an idle deadline until its next checkpoint.
    """

    thread_id: str
    generation: int
    seq: int
    checkpoints: Sequence[tuple[str, str]]
    elements: Sequence[Run]
    anchors: Sequence[Anchor] = ()
    roots: Sequence[tuple[str, str]] = ()
    wakes: bool = False


class ScanCursor(NamedTuple):
    """The last row of a page; the next page begins after it."""

    order: OrderKey
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str


class CheckpointScan(NamedTuple):
    """Which checkpoints to scan; `None` leaves a condition out.

    Attributes:
        anchors: list anchors too, and what an idle thread that keeps its latest hides. Only with
            a `thread_id`.
    """

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    before: OrderKey | None = None
    after: ScanCursor | None = None
    limit: int = 100
    anchors: bool = False
