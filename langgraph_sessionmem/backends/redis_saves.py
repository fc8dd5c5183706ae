"""What the scripts that save are given; pure."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import ormsgpack

from langgraph_sessionmem.backends.redis_arguments import Value
from langgraph_sessionmem.backends.redis_rows import (
    escape,
    index_member,
    join_place,
    pack_body,
    pack_checkpoint,
    pack_entries,
    pack_limits,
    pack_writes,
    to_bytes,
)
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.rows import (
    ANCHOR_ORDER,
    Block,
    CheckpointRow,
    CheckpointSave,
    Element,
    Prune,
    ThreadCopy,
    WritesSave,
)


class Arguments(NamedTuple):
    """What a script is given: named ones, and bytes that follow them in order."""

    named: Mapping[str, Value]
    rest: Sequence[bytes] = ()


def checkpoint_arguments(save: CheckpointSave) -> Arguments:
    """Of `save_checkpoint`.

    Raises:
        InvalidArgument: an id is no text, or elements have a gap between them.
    """
    logs, bodies = _logs_of(save.elements, save.blocks)
    named: dict[str, Value] = {
        "generation": save.generation,
        "new_generation": new_generation(),
        "begins": save.begins,
        "limits": pack_limits(save.limits),
        "own": save.sticky,
        "pending": save.pending,
        "owner": None if save.owner is None else to_bytes(save.owner),
        "run": None if save.run_id is None else escape(save.run_id),
        "ns": escape(save.checkpoint_ns) + b"\x00",
        "checkpoint": escape(save.checkpoint_id),
        "parent": None if save.parent_id is None else escape(save.parent_id),
        "builds_on_parent": save.builds_on_parent,
        "may_fork": save.may_fork,
        "logs": logs,
    }
    body = pack_body(save.parent_id, save.run_id, save.head, save.metadata)
    return Arguments(named, [body, *bodies])


def writes_arguments(save: WritesSave) -> Arguments:
    """Of `save_writes`."""
    rows = {(write.task_id, write.idx): write for write in save.writes}.values()
    named: dict[str, Value] = {
        "generation": save.generation,
        "new_generation": new_generation(),
        "place": join_place(save.checkpoint_ns, save.checkpoint_id),
        "interrupts": save.interrupts,
        "rows": [
            [
                to_bytes(row.task_id),
                row.idx,
                ormsgpack.packb((row.task_path, row.channel, row.body)),
            ]
            for row in rows
        ],
    }
    return Arguments(named)


def prune_arguments(prune: Prune) -> Arguments:
    """Of `save_pruned`."""
    named: dict[str, Value] = {
        "generation": prune.generation,
        "saves": prune.seq,
        "checkpoints": [join_place(*names) for names in prune.checkpoints],
        "runs": [
            [str(run.log), run.start, run.end - 1] for run in prune.elements if run.end > run.start
        ],
        "anchors": [
            [
                join_place(anchor.checkpoint_ns, anchor.checkpoint_id),
                pack_body(None, None, anchor.head, anchor.metadata),
                pack_writes(anchor.writes),
            ]
            for anchor in prune.anchors
        ],
        "roots": [join_place(*names) for names in prune.roots],
        "wakes": prune.wakes,
    }
    return Arguments(named)


def copy_arguments(copy: ThreadCopy) -> Arguments:
    """Of `save_copy`."""
    rows = [row for row in copy.rows if row.order != ANCHOR_ORDER]
    members = [index_member(row.order, row.checkpoint_ns, row.checkpoint_id) for row in rows]
    fields = _fields_of(copy, rows)
    logs: list[Value] = []
    bodies: list[bytes] = []
    for log, stored in _whole_logs(copy.elements).items():
        if len(stored) == 1:
            fields[b"e%d\x00" % log] = stored[0]
        else:
            logs.append([str(log), len(stored)])
            bodies += stored
    named: dict[str, Value] = {
        "new_generation": new_generation(),
        "limits": pack_limits(copy.limits),
        "own": copy.sticky,
        "waiting": copy.waiting,
        "owner": None if copy.owner is None else to_bytes(copy.owner),
        "saves": copy.seq,
        "count": len(rows),
        "heads": len({row.checkpoint_ns for row in rows}),
        "anchors": len(copy.rows) - len(rows),
        "elements": len({(element.log, element.position) for element in copy.elements}),
        "runs": [escape(run_id) for run_id in dict.fromkeys(copy.run_ids) if run_id is not None],
        "members": len(members),
        "fields": len(fields),
        "logs": logs,
    }
    pairs = [part for field in fields.items() for part in field]
    return Arguments(named, [*members, *pairs, *bodies])


def new_generation() -> int:
    """A number no other life has; a Lua number or a JSON one would hold it too."""
    return int.from_bytes(os.urandom(7)) >> 3 | 1


def _logs_of(
    elements: Sequence[Element], blocks: Sequence[Block]
) -> tuple[list[Value], list[bytes]]:
    """Of each log: its id, the first position here, how many elements, its blocks; the elements.

    Raises:
        InvalidArgument: a position is missing between others, or is there twice.
    """
    new: dict[int, list[Element]] = {}
    for element in sorted(elements, key=lambda element: element.position):
        new.setdefault(element.log, []).append(element)
    sealed: dict[int, list[Value]] = defaultdict(list)
    for block in blocks:
        new.setdefault(block.log, [])
        sealed[block.log].append([block.first, block.last, block.body])
    logs: list[Value] = []
    bodies: list[bytes] = []
    for log, found in new.items():
        start = found[0].position if found else 0
        if [element.position for element in found] != list(range(start, start + len(found))):
            raise InvalidArgument(f"Log {log}: elements must follow each other without a gap.")
        logs.append([str(log), start, len(found), sealed[log]])
        bodies += [element.body for element in found]
    return logs, bodies


def _whole_logs(elements: Sequence[Element]) -> dict[int, list[bytes]]:
    """Each log from its first position on; what is not there is a sealed place."""
    logs: dict[int, list[bytes]] = defaultdict(list)
    for element in sorted(set(elements)):
        log = logs[element.log]
        log += [b""] * (element.position - len(log))
        log.append(element.body)
    return logs


def _fields_of(copy: ThreadCopy, rows: Sequence[CheckpointRow]) -> dict[bytes, bytes]:
    """The fields of a thread's hash that are no facts, and its list of anchors."""
    fields = {
        b"c" + join_place(row.checkpoint_ns, row.checkpoint_id): pack_checkpoint(row, run_id)
        for row, run_id in zip(copy.rows, copy.run_ids, strict=True)
    }
    writes = defaultdict(list)
    for write in copy.writes:
        writes[join_place(write.checkpoint_ns, write.checkpoint_id)].append(write)
    for place, own in writes.items():
        for number, chunk in enumerate(pack_writes(own), 1):
            fields[b"w" + place + (b"\x00%d" % number if number > 1 else b"")] = chunk
    anchors = [row for row in copy.rows if row.order == ANCHOR_ORDER]
    if anchors:
        fields[b"anchors"] = pack_entries(
            (row.seq, join_place(row.checkpoint_ns, row.checkpoint_id)) for row in anchors
        )
    moved: dict[bytes, list[tuple[int, bytes]]] = defaultdict(list)
    forks: dict[bytes, list[tuple[int, bytes]]] = defaultdict(list)
    orders = {(row.checkpoint_ns, row.checkpoint_id): row.order for row in copy.rows}
    latest: dict[str, CheckpointRow] = {}
    for row in rows:
        namespace = escape(row.checkpoint_ns)
        if row.order.id != row.checkpoint_id:
            moved[b"m" + escape(row.checkpoint_id) + b"\x00"].append((row.order.n, namespace))
        if row.elder is not None and row.parent_id is not None:
            forks[b"f" + namespace + b"\x00"].append((row.seq, to_bytes(row.parent_id)))
        above = latest.get(row.checkpoint_ns)
        if above is None or (row.order, row.checkpoint_id) > (above.order, above.checkpoint_id):
            latest[row.checkpoint_ns] = row
        if row.parent_id is not None:
            parent = orders.get((row.checkpoint_ns, row.parent_id))
            if parent is None or parent > row.order:
                fields[b"n" + join_place(row.checkpoint_ns, row.parent_id)] = b""
    for row in latest.values():
        member = index_member(row.order, row.checkpoint_ns, row.checkpoint_id)
        fields[b"h" + escape(row.checkpoint_ns) + b"\x00"] = member
    return fields | {
        name: pack_entries(entries) for name, entries in [*moved.items(), *forks.items()]
    }
