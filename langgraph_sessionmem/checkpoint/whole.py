"""A thread read whole: its checkpoints in all namespaces, and its anchors."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.head import Head, unpack_outline
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.rows import (
    ANCHOR_ORDER,
    CheckpointRow,
    CheckpointScan,
    ScanCursor,
    ThreadRow,
    WriteRow,
)

PAGE_SIZE = 500

Name: TypeAlias = tuple[str, str]
"""A namespace and a checkpoint id."""


class Step(NamedTuple):
    """A checkpoint: its row, and the outline of its head."""

    row: CheckpointRow
    head: Head

    @property
    def name(self) -> Name:
        """Its name in the thread."""
        return self.row.checkpoint_ns, self.row.checkpoint_id


class WholeThread(NamedTuple):
    """A thread as it was read.

    Attributes:
        thread: read first, so a cut by its `seq` is refused if the rest is newer.
        checkpoints: the latest order key first, of all namespaces.
        anchors: what earlier cuts left.
        metadata: of both.
    """

    thread: ThreadRow
    checkpoints: list[Step]
    anchors: list[Step]
    metadata: Mapping[Name, Mapping[str, Any]]

    @property
    def steps(self) -> list[Step]:
        """Checkpoints, then anchors."""
        return [*self.checkpoints, *self.anchors]

    def parents(self, step: Step) -> dict[str, str]:
        """The checkpoints of the graphs above that a subgraph's checkpoint ran below."""
        parents = self.metadata[step.name].get("parents") or {}
        return {name: found for name, found in parents.items() if name != step.row.checkpoint_ns}


async def read_whole(records: Records, state: SaverState, thread_id: str) -> WholeThread | None:
    """All of a thread but its writes and elements; `None` if there is none."""
    thread = await records.read_thread(thread_id)
    if thread is None:
        return None
    rows = await scan_rows(records, CheckpointScan(thread_id=thread_id, anchors=True))
    steps = [Step(row, unpack_outline(row.head, state.codec)) for row in rows]
    return WholeThread(
        thread,
        [step for step in steps if step.row.order != ANCHOR_ORDER],
        [step for step in steps if step.row.order == ANCHOR_ORDER],
        {step.name: state.codec.decode(step.row.metadata) for step in steps},
    )


async def scan_rows(records: Records, scan: CheckpointScan) -> list[CheckpointRow]:
    """Every row of a scan, read page by page."""
    rows: list[CheckpointRow] = []
    page_scan = scan._replace(limit=PAGE_SIZE)
    while True:
        page = await records.scan_checkpoints(page_scan)
        rows += page
        if len(page) < PAGE_SIZE:
            return rows
        last = page[-1]
        cursor = ScanCursor(last.order, last.thread_id, last.checkpoint_ns, last.checkpoint_id)
        page_scan = page_scan._replace(after=cursor)


def by_checkpoint(writes: Iterable[WriteRow]) -> dict[Name, list[WriteRow]]:
    """Writes by the checkpoint that has them."""
    found: dict[Name, list[WriteRow]] = {}
    for write in writes:
        found.setdefault((write.checkpoint_ns, write.checkpoint_id), []).append(write)
    return found
