"""Reading as the user sees it, which is the same whether or not the sweeper came by.

An idle thread that keeps its latest is cut down before it is shown. One that expired is missed, or
told of.
"""

from langgraph.checkpoint.base import CheckpointTuple

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.configs import Place
from langgraph_sessionmem.checkpoint.getting import load_tuple
from langgraph_sessionmem.checkpoint.pruning import cut_idle
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.errors import SessionExpired, ThreadDamaged
from langgraph_sessionmem.rows import CheckpointRow, CheckpointScan, WriteRow


async def get_tuple(records: Records, state: SaverState, place: Place) -> CheckpointTuple | None:
    """The checkpoint that `place` names, whole, or None.

    Raises:
        ThreadDamaged: the database lost a part of it.
        SessionExpired: there is none since its thread expired, and the saver is to tell.
    """
    try:
        found = await _get_tuple(records, state, place)
    except ThreadDamaged:
        # Deleted between head and elements: then the head is gone now, or another life began.
        found = await _get_tuple(records, state, place)
    if found is None:
        await _refuse_expired(records, state, place.thread_id)
    return found


async def read_page(
    records: Records, state: SaverState, wanted: CheckpointScan
) -> list[CheckpointRow]:
    """A page of checkpoints, the latest first.

    Raises:
        SessionExpired: the one thread that is wanted expired, and the saver is to tell.
    """
    rows = await records.scan_checkpoints(wanted)
    idle = {row.thread_id for row in rows if row.idle}
    if idle:
        for thread_id in sorted(idle):
            await cut_idle(records, state, thread_id)
        rows = await records.scan_checkpoints(wanted)
    if not rows and wanted.thread_id is not None:
        await _refuse_expired(records, state, wanted.thread_id)
    return rows


async def _get_tuple(records: Records, state: SaverState, place: Place) -> CheckpointTuple | None:
    found = await _read_checkpoint(records, state, place)
    return None if found is None else await load_tuple(records, state, *found)


async def _read_checkpoint(
    records: Records, state: SaverState, place: Place
) -> tuple[CheckpointRow, list[WriteRow]] | None:
    found = await records.read_checkpoint(*place)
    # What has a name and isn't found may be hidden by an idle thread, and be an anchor of its cut.
    may_hide = place.checkpoint_id is not None if found is None else found[0].idle
    if may_hide and await cut_idle(records, state, place.thread_id):
        return await records.read_checkpoint(*place)
    return found


async def _refuse_expired(records: Records, state: SaverState, thread_id: str) -> None:
    if state.options.tells_expiry and await records.read_expiry(thread_id):
        raise SessionExpired(thread_id)
