"""Reading checkpoints: a head and its writes, then the elements it names."""

from collections.abc import Iterable
from typing import Any

from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.types import TASKS

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.channels import (
    Known,
    missing_runs,
    read_channels,
    read_values,
    recall_values,
    runs_to_read,
)
from langgraph_sessionmem.checkpoint.collecting import collecting_later
from langgraph_sessionmem.checkpoint.compression import BLOCK, expand, unseal
from langgraph_sessionmem.checkpoint.configs import config_of
from langgraph_sessionmem.checkpoint.head import Head, unpack_head
from langgraph_sessionmem.checkpoint.remembered import CheckpointKey, SaverState
from langgraph_sessionmem.errors import CorruptData
from langgraph_sessionmem.rows import CheckpointRow, Element, WriteRow


async def read_known(records: Records, state: SaverState, key: CheckpointKey) -> Known | None:
    """What a stored checkpoint makes known, for the one that is about to follow it."""
    found = await records.read_checkpoint(*key)
    if found is None:
        return None
    row, _ = found
    head = unpack_head(row.head, state.codec)
    elements = await records.read_elements(row.thread_id, row.generation, runs_to_read([head]))
    with collecting_later(head.count_elements()):
        return read_channels(state.codec, row, head, by_place(elements))[1]


def by_place(elements: Iterable[Element]) -> dict[tuple[int, int], bytes]:
    """Elements by log and position, blocks and compressed ones expanded.

    Raises:
        CorruptData: a block is damaged, or isn't where it says.
    """
    bodies: dict[tuple[int, int], bytes] = {}
    for log, position, body in elements:
        if body[:1] != BLOCK:
            bodies[log, position] = expand(body)
            continue
        first, sealed = unseal(body)
        if first + len(sealed) - 1 != position:
            raise CorruptData(f"A block at {position} holds {len(sealed)} elements from {first}.")
        for place, inner in enumerate(sealed, first):
            bodies[log, place] = inner
    return bodies


def make_tuple(
    state: SaverState,
    row: CheckpointRow,
    head: Head,
    bodies: dict[tuple[int, int], bytes],
    writes: Iterable[WriteRow],
    above: Iterable[WriteRow] = (),
) -> CheckpointTuple:
    """LangGraph's tuple of a stored checkpoint; its values are the caller's own.

    Args:
        state: the saver's.
        row: the checkpoint.
        head: its head.
        bodies: the elements by `(log, position)`.
        writes: of the checkpoint, in any order.
        above: of its parent, where `needs_sends` says so.

    Raises:
        ThreadDamaged: an element is gone.
    """
    with collecting_later(head.count_elements()):
        values = read_values(state.codec, row, head, bodies)
    key = (row.thread_id, row.checkpoint_ns, row.checkpoint_id)
    state.generations.put(key, row.generation, 1)
    return _tuple_of(state, row, head, values, writes, above)


async def load_tuple(
    records: Records, state: SaverState, row: CheckpointRow, writes: Iterable[WriteRow]
) -> CheckpointTuple:
    """LangGraph's tuple of a checkpoint that was just read; its values are the caller's own.

    Raises:
        ThreadDamaged: an element is gone.
    """
    head = unpack_head(row.head, state.codec)
    known, values = state.recall(row), None
    if known is not None and not state.options.reuses_objects:
        with collecting_later(head.count_elements()):
            values = recall_values(state.codec, head, known)
    if values is None:
        values = await _read_channels(records, state, row, head, known)
    above: list[WriteRow] = []
    if row.parent_id is not None and needs_sends(head):
        parent = (row.checkpoint_ns, row.parent_id)
        above = await records.read_writes(row.thread_id, row.generation, [parent])
    if row.refresh_on_read:
        await records.touch_thread(row.thread_id, row.generation)
    return _tuple_of(state, row, head, values, writes, above)


async def _read_channels(
    records: Records, state: SaverState, row: CheckpointRow, head: Head, known: Known | None
) -> dict[str, Any]:
    """The channel values of a head, which is remembered from now on."""
    runs = missing_runs(head, known)
    elements = await records.read_elements(row.thread_id, row.generation, runs) if runs else []
    reuse = state.options.reuses_objects
    with collecting_later(head.count_elements()):
        bodies = by_place(elements)
        values, known = read_channels(state.codec, row, head, bodies, known, reuse=reuse)
    state.remember((row.thread_id, row.checkpoint_ns, row.checkpoint_id), known)
    return values


def _tuple_of(
    state: SaverState,
    row: CheckpointRow,
    head: Head,
    values: dict[str, Any],
    writes: Iterable[WriteRow],
    above: Iterable[WriteRow],
) -> CheckpointTuple:
    return CheckpointTuple(
        config_of(row.thread_id, row.checkpoint_ns, row.checkpoint_id),
        _with_sends(state, head.checkpoint(row.checkpoint_id, values), above),
        state.codec.decode(row.metadata),
        config_of(row.thread_id, row.checkpoint_ns, row.parent_id) if row.parent_id else None,
        _pending_writes(state, writes),
    )


def needs_sends(head: Head) -> bool:
    """Whether its sends are among its parent's writes, where LangGraph had them before v4."""
    return head.v < 4 and TASKS not in head.entries


def _with_sends(state: SaverState, checkpoint: Checkpoint, above: Iterable[WriteRow]) -> Checkpoint:
    sends = [value for _, channel, value in _pending_writes(state, above) if channel == TASKS]
    if sends:
        versions = checkpoint["channel_versions"]
        checkpoint["channel_values"][TASKS] = sends
        versions[TASKS] = max(versions.values(), default=f"{1:032}")
    return checkpoint


def _pending_writes(state: SaverState, writes: Iterable[WriteRow]) -> list[PendingWrite]:
    in_order = sorted(
        writes, key=lambda write: writes_sort_key(write.task_path, write.task_id, write.idx)
    )
    return [(write.task_id, write.channel, state.codec.decode(write.body)) for write in in_order]
