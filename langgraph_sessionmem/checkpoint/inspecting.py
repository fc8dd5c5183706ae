"""A look inside a thread: its checkpoints and what each of them added, without building a value."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.types import TASKS

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.channels import runs_to_read
from langgraph_sessionmem.checkpoint.codec import SERDE
from langgraph_sessionmem.checkpoint.configs import Place
from langgraph_sessionmem.checkpoint.getting import by_place
from langgraph_sessionmem.checkpoint.head import Entry, Head, unpack_head
from langgraph_sessionmem.checkpoint.pruning import cut_idle
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.runs import Layout, places_of
from langgraph_sessionmem.checkpoint.whole import scan_rows
from langgraph_sessionmem.errors import (
    CorruptData,
    SessionMemoryError,
    ThreadDamaged,
    TypeNotAllowed,
)
from langgraph_sessionmem.rows import (
    ANCHOR_ORDER,
    CheckpointRow,
    CheckpointScan,
    ElementPlace,
    Run,
    ThreadRow,
    WriteRow,
)

PAGE_SIZE = 500
_TO_NODE = "branch:to:"
_START = "__start__"


class PendingTask(NamedTuple):
    """What one task left behind at a checkpoint.

    Attributes:
        channels: that it wrote to, in order.
        size: of the writes as stored, in bytes.
    """

    task_id: str
    channels: tuple[str, ...]
    size: int


class CheckpointView(NamedTuple):
    """A checkpoint without its values.

    Attributes:
        ts: when LangGraph made it, by the clock of that machine, in ISO 8601.
        source, step: from its metadata; None where that has none, or can't be read.
        next: the nodes that run next; `__start__` for an input.
        sends: how many `Send`s run next, beside them.
        tasks: that left writes here; once there is a child they went into it.
        size: in bytes: its own, and of the elements that it was the first to name.
        is_anchor: only what its descendants are rebuilt from is left of it.
        is_latest: it is the latest of its namespace.
    """

    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    ts: str
    source: str | None
    step: int | None
    parents: Mapping[str, str]
    next: tuple[str, ...]
    sends: int
    tasks: tuple[PendingTask, ...]
    size: int
    is_anchor: bool
    is_latest: bool


class ChannelSize(NamedTuple):
    """What the elements of a channel take, each counted once, in bytes as stored."""

    elements: int
    size: int


class Inspection(NamedTuple):
    """What a thread consists of, in bytes as stored.

    Attributes:
        now: the database's time, in seconds since the epoch (UTC), as those in `thread`.
        checkpoints: in the order in which they were stored.
        channels: by name; small values stand in the heads and are not counted here.
        heads: heads and metadata.
        elements: all elements, also those that nothing names.
        unnamed: elements that no checkpoint names.
    """

    thread: ThreadRow
    now: float
    checkpoints: Sequence[CheckpointView]
    channels: Mapping[str, ChannelSize]
    heads: int
    elements: int
    writes: int
    unnamed: ChannelSize


async def inspect_thread(records: Records, state: SaverState, thread_id: str) -> Inspection | None:
    """What a thread consists of; None if there is no such thread, or it has expired.

    Raises:
        CorruptData: a head is not in a form that this package writes.
    """
    await cut_idle(records, state, thread_id)  # what it hides is no part of it any more
    thread = await records.read_thread(thread_id)
    if thread is None:
        return None
    rows = await read_rows(records, thread_id)
    owners = Owners(await records.read_places(thread_id, thread.generation))
    writes = await read_all_writes(records, thread, rows)
    views = [_view(state, row, owners, writes.get(_name(row), ())) for row in rows]
    latest = {row.checkpoint_ns: row.checkpoint_id for row in sorted(rows, key=_order)}
    return Inspection(
        thread,
        await records.read_clock(),
        [
            view._replace(is_latest=latest[view.checkpoint_ns] == view.checkpoint_id)
            for view in views
        ],
        owners.channels,
        sum(len(row.head) + len(row.metadata) for row in rows),
        owners.size,
        sum(len(write.body) for each in writes.values() for write in each),
        owners.unnamed(),
    )


async def read_rows(records: Records, thread_id: str) -> list[CheckpointRow]:
    """All checkpoints of a thread, anchors and hidden ones too, in the order they were stored."""
    rows = await scan_rows(records, CheckpointScan(thread_id, anchors=True))
    return sorted(rows, key=lambda row: row.seq)


async def read_all_writes(
    records: Records, thread: ThreadRow, rows: Sequence[CheckpointRow]
) -> dict[tuple[str, str], list[WriteRow]]:
    """The pending writes of these checkpoints, by namespace and checkpoint id."""
    found: dict[tuple[str, str], list[WriteRow]] = defaultdict(list)
    for start in range(0, len(rows), PAGE_SIZE):
        names = [_name(row) for row in rows[start : start + PAGE_SIZE]]
        for write in await records.read_writes(thread.thread_id, thread.generation, names):
            found[write.checkpoint_ns, write.checkpoint_id].append(write)
    return found


class Owners:
    """Which checkpoint was the first to name each element, and for which channel.

    Args:
        places: of all elements and blocks of the thread. A block stands at its last position, so
            a place is taken to hold all positions since the one before it in its log.

    Attributes:
        channels: what was claimed so far.
    """

    def __init__(self, places: Iterable[ElementPlace]) -> None:
        self._logs: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for log, position, size in sorted(places):
            self._logs[log].append((position, size))
        self._claimed: dict[int, set[int]] = defaultdict(set)
        self._first_free: dict[int, int] = defaultdict(int)
        self.channels: dict[str, ChannelSize] = {}

    @property
    def size(self) -> int:
        """Of all elements, in bytes."""
        return sum(size for places in self._logs.values() for _, size in places)

    def claim(self, channel: str, entry: Entry) -> int:
        """Claim what an entry names and nobody has claimed; returns its size in bytes."""
        if isinstance(entry, bytes):
            return 0
        runs = entry.runs if isinstance(entry, Layout) else (Run(entry, 0, 1),)
        new = [size for run in runs for size in self._claim(run)]
        if new:
            elements, size = self.channels.get(channel, ChannelSize(0, 0))
            self.channels[channel] = ChannelSize(elements + len(new), size + sum(new))
        return sum(new)

    def unnamed(self) -> ChannelSize:
        """What nobody has claimed."""
        free = [
            size
            for log, places in self._logs.items()
            for index, (_, size) in enumerate(places)
            if index not in self._claimed[log]
        ]
        return ChannelSize(len(free), sum(free))

    def _claim(self, run: Run) -> list[int]:
        places, claimed = self._logs.get(run.log, []), self._claimed[run.log]
        start = bisect_left(places, (run.start, 0))
        end = min(bisect_left(places, (run.end - 1, 0)) + 1, len(places))
        # Lists grow at their ends: most of a run was claimed by the checkpoints before.
        start = max(start, self._first_free[run.log])
        new = [index for index in range(start, end) if index not in claimed]
        claimed.update(new)
        while self._first_free[run.log] in claimed:
            self._first_free[run.log] += 1
        return [places[index][1] for index in new]


def _view(
    state: SaverState, row: CheckpointRow, owners: Owners, writes: Sequence[WriteRow]
) -> CheckpointView:
    head = unpack_head(row.head, state.codec)
    metadata = _metadata(state, row)
    elements = sum(owners.claim(channel, entry) for channel, entry in head.entries.items())
    own = len(row.head) + len(row.metadata) + sum(len(write.body) for write in writes)
    return CheckpointView(
        row.checkpoint_ns,
        row.checkpoint_id,
        row.parent_id,
        head.ts,
        metadata.get("source"),
        metadata.get("step"),
        metadata.get("parents") or {},
        _next_nodes(head),
        _sends(state, head),
        _tasks(writes),
        own + elements,
        row.order == ANCHOR_ORDER,
        is_latest=False,
    )


def _next_nodes(head: Head) -> tuple[str, ...]:
    nodes = [name.removeprefix(_TO_NODE) for name in head.entries if name.startswith(_TO_NODE)]
    return (*([_START] if _START in head.entries else []), *sorted(nodes))


def _sends(state: SaverState, head: Head) -> int:
    entry = head.entries.get(TASKS, b"")
    if isinstance(entry, Layout):
        return len(places_of(entry.runs))
    if not entry:
        return 0
    value = build(state, entry) if isinstance(entry, bytes) else None
    return len(value) if isinstance(value, list) else 1


def _tasks(writes: Iterable[WriteRow]) -> tuple[PendingTask, ...]:
    tasks: dict[str, list[WriteRow]] = defaultdict(list)
    for write in sorted(writes, key=lambda each: (each.task_path, each.task_id, each.idx)):
        tasks[write.task_id].append(write)
    return tuple(
        PendingTask(
            task_id, tuple(write.channel for write in own), sum(len(write.body) for write in own)
        )
        for task_id, own in tasks.items()
    )


def _metadata(state: SaverState, row: CheckpointRow) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = state.codec.decode(row.metadata)
    except SessionMemoryError:  # a type that isn't imported here; what is shown can do without
        return {}
    return found


def _name(row: CheckpointRow) -> tuple[str, str]:
    return row.checkpoint_ns, row.checkpoint_id


def _order(row: CheckpointRow) -> tuple[str, int]:
    return row.order


class Unbuilt(NamedTuple):
    """Stands for a value that was not rebuilt.

    Attributes:
        type: `module.name` of what it is, or of something in it.
        digest: of its stored form, 8 bytes in hex: equal ones stand for equal values.
    """

    type: str
    digest: str


class Peek(NamedTuple):
    """A checkpoint and its values, as far as they can be rebuilt here.

    Attributes:
        values: by channel; an element of a list may be an `Unbuilt`, or the whole value.
        metadata: likewise.
    """

    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    values: Mapping[str, Any]
    metadata: Any


async def peek(records: Records, state: SaverState, place: Place) -> Peek | None:
    """The checkpoint that `place` names, or None; it may be an anchor too.

    Raises:
        ThreadDamaged: an element is gone.
        CorruptData: a value is not in a form that this package writes.
    """
    found = await records.read_checkpoint(*place)
    if found is None:
        return None
    row, _ = found
    head = unpack_head(row.head, state.codec)
    runs = runs_to_read([head])
    elements = await records.read_elements(row.thread_id, row.generation, runs) if runs else []
    bodies = by_place(elements)

    def at(log: int, position: int) -> Any:
        if (log, position) not in bodies:
            what = f"checkpoint {row.checkpoint_id!r} lost the element at {(log, position)}"
            raise ThreadDamaged(row.thread_id, what)
        return build(state, bodies[log, position])

    values: dict[str, Any] = {}
    for channel, entry in head.entries.items():
        if isinstance(entry, Layout):
            values[channel] = [at(*each) for each in places_of(entry.runs)]
        else:
            values[channel] = build(state, entry) if isinstance(entry, bytes) else at(entry, 0)
    metadata = build(state, row.metadata)
    return Peek(row.checkpoint_ns, row.checkpoint_id, row.parent_id, values, metadata)


def build(state: SaverState, body: bytes) -> Any:
    """The value of a stored form, or an `Unbuilt` where its type may not be rebuilt here."""
    try:
        return state.codec.decode(body)
    except TypeNotAllowed as error:
        name = f"{error.module}.{error.name}"
    except CorruptData:
        if body[:1] != SERDE or state.custom_serde:
            raise
        name = "a serializer of the user's own"
    return Unbuilt(name, blake2b(body, digest_size=8).hexdigest())
