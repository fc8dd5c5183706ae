"""Branches: what came of a checkpoint."""

from langchain_core.runnables import RunnableConfig

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.configs import Place, config_of
from langgraph_sessionmem.checkpoint.whole import scan_rows
from langgraph_sessionmem.rows import CheckpointScan


async def branch_head(records: Records, place: Place) -> RunnableConfig | None:
    """The latest checkpoint among the one that `place` names and its descendants."""
    scan = CheckpointScan(thread_id=place.thread_id, checkpoint_ns=place.checkpoint_ns)
    rows = await scan_rows(records, scan)
    wanted = place.checkpoint_id or (rows[0].checkpoint_id if rows else None)
    parents = {row.checkpoint_id: row.parent_id for row in rows}
    for row in rows:
        seen: set[str] = set()
        at: str | None = row.checkpoint_id
        while at is not None and at in parents and at != wanted and at not in seen:
            seen.add(at)
            at = parents[at]
        if at == wanted and at in parents:
            return config_of(place.thread_id, place.checkpoint_ns, row.checkpoint_id)
    return None
