"""Reading checkpoints: a head and its writes, then the elements it names."""

from collections.abc import Iterable

from langgraph.checkpoint.base import CheckpointTuple, PendingWrite, writes_sort_key

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.channels import Known, read_channels, runs_to_read
from langgraph_sessionmem.checkpoint.configs import Place, config_of
from langgraph_sessionmem.checkpoint.head import unpack_head
from langgraph_sessionmem.checkpoint.remembered import CheckpointKey, SaverState
from langgraph_sessionmem.errors import ThreadDamaged
from langgraph_sessionmem.records import CheckpointRow, Element, WriteRow


async def get_tuple(records: Records, state: SaverState, place: Place) -> CheckpointTuple | None:
    """The checkpoint that `place` names, whole, or None.

    Raises:
        ThreadDamaged: the database lost a part of it.
    """
    try:
        return await _get_tuple(records, state, place)
    except ThreadDamaged:
        # Deleted between head and elements: then the head is gone now, or another life began.
        return await _get_tuple(records, state, place)


async def read_known(records: Records, state: SaverState, key: CheckpointKey) -> Known | None:
    """What a stored checkpoint makes known, for the one that is about to follow it."""
    found = await records.read_checkpoint(*key)
    if found is None:
        return None
    row, _ = found
    head = unpack_head(row.head, state.codec)
    elements = await records.read_elements(row.thread_id, row.generation, runs_to_read([head]))
    _, known = read_channels(state.codec, row, head, by_place(elements))
    return known


def by_place(elements: Iterable[Element]) -> dict[tuple[int, int], bytes]:
    """Elements by log and position."""
    return {(log, position): body for log, position, body in elements}


def make_tuple(
    state: SaverState,
    row: CheckpointRow,
    bodies: dict[tuple[int, int], bytes],
    writes: Iterable[WriteRow],
) -> CheckpointTuple:
    """LangGraph's tuple of a stored checkpoint; its values are the caller's own.

    Raises:
        ThreadDamaged: an element is gone.
    """
    head = unpack_head(row.head, state.codec)
    values, known = read_channels(state.codec, row, head, bodies)
    state.remember((row.thread_id, row.checkpoint_ns, row.checkpoint_id), known)
    return CheckpointTuple(
        config_of(row.thread_id, row.checkpoint_ns, row.checkpoint_id),
        head.checkpoint(row.checkpoint_id, values),
        state.codec.decode(row.metadata),
        config_of(row.thread_id, row.checkpoint_ns, row.parent_id) if row.parent_id else None,
        _pending_writes(state, writes),
    )


async def _get_tuple(records: Records, state: SaverState, place: Place) -> CheckpointTuple | None:
    found = await records.read_checkpoint(*place)
    if found is None:
        return None
    row, writes = found
    runs = runs_to_read([unpack_head(row.head, state.codec)])
    elements = await records.read_elements(row.thread_id, row.generation, runs) if runs else []
    result = make_tuple(state, row, by_place(elements), writes)
    if row.refresh_on_read:
        await records.touch_thread(row.thread_id, row.generation)
    return result


def _pending_writes(state: SaverState, writes: Iterable[WriteRow]) -> list[PendingWrite]:
    in_order = sorted(
        writes, key=lambda write: writes_sort_key(write.task_path, write.task_id, write.idx)
    )
    return [(write.task_id, write.channel, state.codec.decode(write.body)) for write in in_order]
