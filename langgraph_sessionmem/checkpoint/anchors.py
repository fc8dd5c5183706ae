"""Anchors: what a checkpoint that goes leaves for the delta channels of its children. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.types import TASKS

from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.checkpoint.deltas import (
    COUNTERS,
    delta_channels,
    trace,
    valueless,
    way_up,
    writes_of,
)
from langgraph_sessionmem.checkpoint.getting import needs_sends
from langgraph_sessionmem.checkpoint.head import Head, pack_head
from langgraph_sessionmem.checkpoint.whole import Name, Step, WholeThread
from langgraph_sessionmem.rows import OF_EVERY_CHILD, Anchor, WriteRow


class Need(NamedTuple):
    """What the kept children of a checkpoint that goes are rebuilt from.

    Attributes:
        parent: the checkpoint that goes.
        children: its kept children, and for each the delta channels it has no value of.
        ways: for each of these channels the checkpoints above the parent whose writes count.
        sends: a child of LangGraph before v4 reads the parent's sends.
    """

    parent: Step
    children: list[tuple[Step, set[str]]]
    ways: dict[str, list[Step]]
    sends: bool

    @property
    def names(self) -> set[Name]:
        """The checkpoints whose writes are needed."""
        return {self.parent.name, *(step.name for way in self.ways.values() for step in way)}


def find_needs(whole: WholeThread, kept: set[Name]) -> list[Need]:
    """What `kept` needs of the checkpoints that go, and of anchors."""
    deltas = delta_channels(whole.metadata.values())
    steps = {step.name: step for step in whole.steps}
    children: dict[Name, list[Step]] = {}
    for step in whole.checkpoints:
        parent = _parent_name(step)
        if step.name in kept and parent in steps and parent not in kept:
            children.setdefault(parent, []).append(step)
    needs = []
    for name, found in children.items():
        open_channels = [(child, valueless(child.head, deltas)) for child in found]
        sends = any(needs_sends(child.head) for child in found)
        channels = sorted(set().union(*(names for _, names in open_channels)))
        if channels or sends:
            missing = [each for each in channels if each not in steps[name].head.entries]
            ways = way_up(_above(steps[name], steps), missing) | {
                each: [] for each in channels if each not in missing
            }
            needs.append(Need(steps[name], open_channels, ways, sends))
    return needs


def make_anchor(
    codec: Codec,
    need: Need,
    metadata: Mapping[str, Any],
    writes: Mapping[Name, Sequence[WriteRow]],
) -> tuple[Head, Anchor] | None:
    """The anchor for a need; `None` if its channels begin empty and nothing was written.

    Args:
        codec: writes head and metadata.
        need: what the children need.
        metadata: of the parent.
        writes: of the checkpoints that the need names.
    """
    parent = need.parent
    entries, rows = {}, []
    for channel in sorted(need.ways):
        history = trace(channel, parent, need.ways[channel], writes)
        seed = parent if channel in parent.head.entries else history.seed
        if seed is not None:
            entries[channel] = seed.head.entries[channel]
        rows += [write._replace(seq=OF_EVERY_CHILD) for write in history.writes]
        rows += _own_writes(need, channel, writes)
    if need.sends:
        own = (write for write in writes.get(parent.name, ()) if write.channel == TASKS)
        rows += sorted(own, key=lambda write: (write.task_path, write.task_id, write.idx))
    if not entries and not rows:
        return None
    versions = parent.head.channel_versions
    head = Head(
        parent.head.v,
        parent.head.ts,
        {channel: versions[channel] for channel in sorted(need.ways) if channel in versions},
        {},
        None,
        entries,
    )
    counters = metadata.get(COUNTERS) or {}
    left = {name: metadata[name] for name in ("source", "step", "parents") if name in metadata}
    left[COUNTERS] = {channel: counters.get(channel, [0, 0]) for channel in sorted(need.ways)}
    anchor = Anchor(
        *parent.name,
        pack_head(head, codec),
        codec.metadata_row_of(codec.encode(left)),
        _renumbered(parent, rows),
    )
    return head, anchor


def _own_writes(
    need: Need, channel: str, writes: Mapping[Name, Sequence[WriteRow]]
) -> list[WriteRow]:
    """The parent's own writes that went into one of the children, in order."""
    own = [write for write in writes.get(need.parent.name, ()) if write.channel == channel]
    claims = [
        set(writes_of(child, need.parent, own, channel))
        for child, channels in need.children
        if channel in channels
    ]
    found = set().union(*claims)
    return [
        write._replace(seq=OF_EVERY_CHILD) if all(write in claim for claim in claims) else write
        for write in sorted(found, key=lambda write: (write.task_path, write.task_id, write.idx))
    ]


def _renumbered(parent: Step, rows: Iterable[WriteRow]) -> list[WriteRow]:
    """The rows as writes of the anchor: the path keeps them in this order, the index apart."""
    namespace, checkpoint_id = parent.name
    return [
        row._replace(
            checkpoint_ns=namespace,
            checkpoint_id=checkpoint_id,
            idx=index,
            task_path=f"{index:010}",
        )
        for index, row in enumerate(rows)
    ]


def _above(step: Step, steps: Mapping[Name, Step]) -> list[Step]:
    """The ancestors that are stored, the nearest first."""
    found: list[Step] = []
    seen = {step.name}
    parent = _parent_name(step)
    while parent is not None and parent in steps and parent not in seen:
        seen.add(parent)
        found.append(steps[parent])
        parent = _parent_name(steps[parent])
    return found


def _parent_name(step: Step) -> Name | None:
    parent_id = step.row.parent_id
    return (step.row.checkpoint_ns, parent_id) if parent_id is not None else None
