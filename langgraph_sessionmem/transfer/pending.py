"""Pending writes in LangGraph's order, and the calls that put them so again. Pure."""

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.base import WRITES_IDX_MAP, PendingWrite, writes_sort_key

from langgraph_sessionmem.transfer.catalog import WritePath


class Batch(NamedTuple):
    """What one call of `put_writes` puts."""

    task_id: str
    task_path: str
    writes: list[tuple[str, Any]]


class Placed(NamedTuple):
    """A pending write, and where it stands if that is known."""

    write: PendingWrite
    path: WritePath | None


def in_order(writes: Sequence[PendingWrite], paths: Sequence[WritePath]) -> list[Placed]:
    """The writes in LangGraph's order, which not every saver keeps; as they are without paths.

    Args:
        writes: `(task_id, channel, value)`, as `get_tuple` returned them.
        paths: of the same writes, in any order; of others: nobody knows them.
    """
    ordered = sorted(paths, key=_sort_key)
    own: dict[tuple[str, str], deque[WritePath]] = defaultdict(deque)
    for path in ordered:
        own[path.task_id, path.channel].append(path)
    if Counter(write[:2] for write in writes) != {name: len(each) for name, each in own.items()}:
        return [Placed(write, None) for write in writes]
    placed = [(own[write[:2]].popleft(), write) for write in writes]
    return [
        Placed(write, path) for path, write in sorted(placed, key=lambda each: _sort_key(each[0]))
    ]


def batches(placed: Sequence[Placed]) -> list[Batch]:
    """Calls of `put_writes` after which the writes stand in this order again.

    Special channels go apart: several savers decide once for a whole call whether it replaces.
    """
    made: dict[tuple[str, str, bool], Batch] = {}
    for (task_id, channel, value), path in placed:
        task_path = path.task_path if path is not None else ""
        special = channel in WRITES_IDX_MAP
        batch = made.setdefault((task_id, task_path, special), Batch(task_id, task_path, []))
        batch.writes.append((channel, value))
    calls = list(made.values())
    tasks = list(dict.fromkeys(batch.task_id for batch in calls))
    if tasks != sorted(tasks) and any(path is None for _, path in placed):
        # Without a path they would stand in the order of their ids, so they get one.
        own = {task: f"{at:06}" for at, task in enumerate(tasks)}
        calls = [batch._replace(task_path=own[batch.task_id]) for batch in calls]
    return calls


def _sort_key(path: WritePath) -> tuple[str, str, int]:
    return writes_sort_key(path.task_path, path.task_id, path.idx)
