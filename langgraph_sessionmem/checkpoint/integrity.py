"""Whether a database holds whole threads: each value that a checkpoint names is there, and read.

Nothing is imported and no class of the user's is called for it: a value whose type would need that
is counted, and taken as it is.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langgraph_sessionmem.backends.base import Operation, Records
from langgraph_sessionmem.checkpoint.channels import runs_to_read
from langgraph_sessionmem.checkpoint.codec import SERDE
from langgraph_sessionmem.checkpoint.getting import by_place
from langgraph_sessionmem.checkpoint.head import Head, unpack_head
from langgraph_sessionmem.checkpoint.inspecting import Owners, read_all_writes, read_rows
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.runs import Layout, Place, places_of
from langgraph_sessionmem.errors import CorruptData, ThreadDamaged, TypeNotAllowed
from langgraph_sessionmem.rows import CheckpointRow, Run, Stats, ThreadRow, ThreadScan

_PAGE_SIZE = 100
_SLICE = 1_000
"""So many elements are read at once."""
_ATTEMPTS = 5


class Damage(NamedTuple):
    """Something of a thread that can't be read.

    Attributes:
        checkpoint_ns, checkpoint_id: None where it is the thread as a whole.
        what: a sentence.
    """

    thread_id: str
    checkpoint_ns: str | None
    checkpoint_id: str | None
    what: str


@dataclass(slots=True)
class Verified:
    """What was found.

    Attributes:
        threads, checkpoints, elements, writes: how many were read. Sealed elements count one by
            one.
        damage: everything that can't be read.
        unbuilt: types that were not rebuilt, by `module.name`, and how many values need them;
            `""` are values of a serializer of the user's own.
        orphan_elements, orphan_bytes: elements that no checkpoint names. They only take space.
        orphan_writes: pending writes of checkpoints that aren't there; None if only some threads
            were looked at, or threads changed meanwhile. A run in flight may have some.
    """

    threads: int = 0
    checkpoints: int = 0
    elements: int = 0
    writes: int = 0
    damage: list[Damage] = field(default_factory=list)
    unbuilt: Counter[str] = field(default_factory=Counter)
    orphan_elements: int = 0
    orphan_bytes: int = 0
    orphan_writes: int | None = None

    @property
    def ok(self) -> bool:
        """Whether everything can be read; orphans only take space."""
        return not self.damage


VerifyProgress = Callable[[str], None]


def verify_steps(
    state: SaverState,
    report: Verified,
    thread_ids: Iterable[str] | None,
    progress: VerifyProgress | None,
) -> Generator[Operation[Any], Any, int]:
    """Look at threads one after the other; returns how many.

    Args:
        state: of the saver.
        report: gets what is found.
        thread_ids: only these; `None`: all.
        progress: called with each thread that was looked at.
    """
    if thread_ids is not None:
        for thread_id in thread_ids:
            yield from _verify(state, report, thread_id, progress)
        return report.threads
    scan = ThreadScan(limit=_PAGE_SIZE)
    while True:
        page: list[ThreadRow] = yield _page(scan)
        for row in page:
            yield from _verify(state, report, row.thread_id, progress)
        if len(page) < scan.limit:
            break
        scan = scan._replace(after=page[-1])
    stats: Stats = yield lambda records: records.read_stats()
    report.orphan_writes = max(0, stats.writes - report.writes)
    return report.threads


def _page(scan: ThreadScan) -> Operation[list[ThreadRow]]:
    return lambda records: records.scan_threads(scan)


def _verify(
    state: SaverState, report: Verified, thread_id: str, progress: VerifyProgress | None
) -> Generator[Operation[Any], Any, None]:
    found: Verified | None = yield lambda records: _verify_thread(records, state, thread_id)
    if found is not None:
        report.threads += 1
        for name in ("checkpoints", "elements", "writes", "orphan_elements", "orphan_bytes"):
            setattr(report, name, getattr(report, name) + getattr(found, name))
        report.damage += found.damage
        report.unbuilt += found.unbuilt
    if progress is not None:
        progress(thread_id)


async def _verify_thread(records: Records, state: SaverState, thread_id: str) -> Verified | None:
    """What is found in one thread; None if there is none."""
    found = Verified()
    for _ in range(_ATTEMPTS):
        thread = await records.read_thread(thread_id)
        if thread is None:
            return None
        found = await _Look(state, thread).look(records)
        after = await records.read_thread(thread_id)
        if not (found.damage or found.orphan_elements) or after == thread:
            break  # otherwise somebody cut, deleted or continued it meanwhile
    return found


class _Look:
    """A look at one thread."""

    def __init__(self, state: SaverState, thread: ThreadRow) -> None:
        self._state, self._thread = state, thread
        # Safe types only: nothing of the user's is built, whatever this program has imported.
        self._codec = state.codec.limited_to(())
        self.found = Verified()

    async def look(self, records: Records) -> Verified:
        """Everything there is to find."""
        try:
            rows = await read_rows(records, self._thread.thread_id)
        except ThreadDamaged as error:
            self._add(None, str(error))
            return self.found
        self.found.checkpoints = len(rows)
        heads = [(row, head) for row in rows if (head := self._head(row)) is not None]
        for row in rows:
            self._decode(row, "its metadata", row.metadata)
        self._check_parents(rows)
        missing = await self._check_elements(records, [head for _, head in heads])
        for row, head in heads if missing else ():
            self._check_channels(row, head, missing)
        owners = Owners(await records.read_places(self._thread.thread_id, self._thread.generation))
        for _, head in heads:
            for channel, entry in head.entries.items():
                owners.claim(channel, entry)
        if len(heads) == len(rows):  # otherwise nobody knows what is named
            self.found.orphan_elements, self.found.orphan_bytes = owners.unnamed()
        writes = await read_all_writes(records, self._thread, rows)
        for row in rows:
            for write in writes.get((row.checkpoint_ns, row.checkpoint_id), ()):
                self.found.writes += 1
                self._decode(
                    row, f"the write of task {write.task_id!r} to {write.channel!r}", write.body
                )
        return self.found

    def _head(self, row: CheckpointRow) -> Head | None:
        try:
            head = unpack_head(row.head, self._codec)
        except CorruptData as error:
            self._add(row, str(error))
            return None
        for channel, entry in head.entries.items():
            if isinstance(entry, bytes):
                self._decode(row, f"channel {channel!r}", entry)
        return head

    def _check_parents(self, rows: Sequence[CheckpointRow]) -> None:
        there = {(row.checkpoint_ns, row.checkpoint_id) for row in rows}
        for row in rows:
            if row.parent_id is not None and (row.checkpoint_ns, row.parent_id) not in there:
                self._add(row, f"its parent {row.parent_id!r} is not there")

    async def _check_elements(self, records: Records, heads: Sequence[Head]) -> set[Place]:
        """The places that are named and empty."""
        missing: set[Place] = set()
        for run in runs_to_read(heads):
            for start in range(run.start, run.end, _SLICE):
                part = Run(run.log, start, min(start + _SLICE, run.end))
                missing |= await self._check_run(records, part)
        return missing

    async def _check_run(self, records: Records, run: Run) -> set[Place]:
        thread = self._thread
        elements = await records.read_elements(thread.thread_id, thread.generation, [run])
        try:
            bodies = by_place(elements)
        except CorruptData as error:
            self._add(None, f"elements {run.start} to {run.end - 1} of log {run.log}: {error}")
            return set()
        missing = set()
        for place in places_of([run]):
            if place in bodies:
                self.found.elements += 1
                self._decode(None, f"element {place[1]} of log {place[0]}", bodies[place])
            else:
                missing.add(place)
        return missing

    def _check_channels(self, row: CheckpointRow, head: Head, missing: set[Place]) -> None:
        for channel, entry in head.entries.items():
            if isinstance(entry, Layout):
                gone = len(missing.intersection(places_of(entry.runs)))
                if gone:
                    self._add(row, f"channel {channel!r} lost {gone} of its elements")
            elif isinstance(entry, int) and (entry, 0) in missing:
                self._add(row, f"channel {channel!r} lost its value")

    def _decode(self, row: CheckpointRow | None, name: str, body: bytes) -> None:
        if body[:1] == SERDE and not self._state.custom_serde:
            self.found.unbuilt[""] += 1
            return
        try:
            self._codec.decode(body)
        except TypeNotAllowed as error:
            self.found.unbuilt[f"{error.module}.{error.name}"] += 1
        except Exception as error:  # noqa: BLE001 - a serializer of the user's may raise anything
            self._add(row, f"{name} can't be read: {error}")

    def _add(self, row: CheckpointRow | None, what: str) -> None:
        namespace = None if row is None else row.checkpoint_ns
        checkpoint_id = None if row is None else row.checkpoint_id
        damage = Damage(self._thread.thread_id, namespace, checkpoint_id, what)
        self.found.damage.append(damage)
