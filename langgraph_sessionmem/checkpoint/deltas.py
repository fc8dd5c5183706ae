"""Delta channels: values that are rebuilt from the writes of earlier checkpoints.

LangGraph's `DeltaChannel` leaves its value out of most checkpoints. It is the nearest value that a
checkpoint above has (the **seed**), and all writes since. LangGraph's savers take every write of
the checkpoints on the way, also those that went into another branch. Here a write of a checkpoint
belongs to the child that came next after it, as LangGraph saves a child only after its writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory, writes_sort_key

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.channels import read_values, runs_to_read
from langgraph_sessionmem.checkpoint.collecting import collecting_later
from langgraph_sessionmem.checkpoint.configs import Place, read_place
from langgraph_sessionmem.checkpoint.getting import by_place
from langgraph_sessionmem.checkpoint.head import Head
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.whole import Name, Step, by_checkpoint
from langgraph_sessionmem.errors import InvalidArgument, ThreadDamaged
from langgraph_sessionmem.rows import OF_EVERY_CHILD, CheckpointRow, WriteRow

COUNTERS = "counters_since_delta_snapshot"
"""The metadata in which LangGraph counts for each delta channel that has no value."""

MARGIN, LARGEST_PAGE = 8, 800
"""Checkpoints to read at once on the way up: more than should do, and how many at the most."""


class History(NamedTuple):
    """Of one channel at one checkpoint.

    Attributes:
        writes: the oldest first.
        seed: the checkpoint above that has the value to begin with; `None`: it begins empty.
    """

    writes: list[WriteRow]
    seed: Step | None


def delta_channels(metadata: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The delta channels that LangGraph counted in any of these."""
    return frozenset(name for each in metadata for name in each.get(COUNTERS) or ())


def valueless(head: Head, deltas: Iterable[str]) -> set[str]:
    """Those of the delta channels that a checkpoint has, but not by value."""
    return {name for name in deltas if name in head.channel_versions and name not in head.entries}


def way_up(above: Sequence[Step], channels: Iterable[str]) -> dict[str, list[Step]]:
    """For each channel the checkpoints whose writes count, the nearest first.

    The last of them has the value, or is the end of `above`.

    Args:
        above: the ancestors, the nearest first.
        channels: to be rebuilt.
    """
    ways: dict[str, list[Step]] = {}
    for channel in channels:
        way = ways[channel] = []
        for step in above:
            way.append(step)
            if channel in step.head.entries:
                break
    return ways


def trace(
    channel: str,
    target: Step,
    way: Sequence[Step],
    writes: Mapping[Name, Sequence[WriteRow]],
) -> History:
    """A channel's history at `target`.

    Args:
        channel: to be rebuilt.
        target: the checkpoint.
        way: as `way_up` found it.
        writes: by their checkpoint, of any channels.
    """
    found: list[WriteRow] = []
    child = target
    for step in way:
        own = [write for write in writes.get(step.name, ()) if write.channel == channel]
        if own:
            found += reversed(writes_of(child, step, own, channel))
        child = step
    seed = way[-1] if way and channel in way[-1].head.entries else None
    return History(found[::-1], seed)


def writes_of(
    child: Step, parent: Step, writes: Iterable[WriteRow], channel: str
) -> list[WriteRow]:
    """Those of a parent's writes of one channel that went into this child, in replay order.

    Args:
        child: one of its children.
        parent: the checkpoint that has the writes.
        writes: of this channel.
        channel: their channel.
    """
    in_order = sorted(
        writes, key=lambda write: writes_sort_key(write.task_path, write.task_id, write.idx)
    )
    found = [write for write in in_order if _is_next(child.row, write)]
    if any(write.seq != OF_EVERY_CHILD for write in found):
        return found
    # The channel has another version than in the parent, so some did go into this child: it is the
    # copy of a sibling (`update_state(as_node="__copy__")`), or the thread was stored in another
    # order than it ran (children first, or writes last).
    version = child.head.channel_versions.get(channel)
    if version == parent.head.channel_versions.get(channel):
        return found
    earlier = [write for write in in_order if write.seq < child.row.seq]
    own = [write for write in earlier if write.seq != OF_EVERY_CHILD]
    return earlier if own else in_order


def _is_next(child: CheckpointRow, write: WriteRow) -> bool:
    """Whether this is the child that came next after a write of its parent."""
    if write.seq == OF_EVERY_CHILD:
        return True
    return write.seq < child.seq and (child.elder is None or write.seq >= child.elder)


def plan_history(config: RunnableConfig, channels: Sequence[str]) -> tuple[Place, list[str]]:
    """What `get_delta_channel_history` was asked for.

    Raises:
        InvalidArgument: the config names no thread, or `channels` is one name.
    """
    if isinstance(channels, str):
        raise InvalidArgument(f"channels={channels!r}: give a sequence of names, [{channels!r}].")
    return read_place(config), list(dict.fromkeys(channels))


async def delta_history(
    records: Records, state: SaverState, place: Place, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    """For each channel what its value at `place` is rebuilt from.

    Raises:
        ThreadDamaged: the database lost a part of it.
    """
    try:
        return await _delta_history(records, state, place, channels)
    except ThreadDamaged:
        # Cut or deleted between the checkpoints and their elements.
        return await _delta_history(records, state, place, channels)


async def _delta_history(
    records: Records, state: SaverState, place: Place, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    chain = await _read_chain(records, state, place, channels)
    if len(chain) < 2:
        return {channel: {"writes": []} for channel in channels}
    target, above = chain[0], chain[1:]
    ways = way_up(above, channels)
    furthest = max(map(len, ways.values()), default=0)
    names = [step.name for step in above[:furthest]]
    thread_id, generation = target.row.thread_id, target.row.generation
    writes = by_checkpoint(await records.read_writes(thread_id, generation, names))
    found = {channel: trace(channel, target, way, writes) for channel, way in ways.items()}
    seeds = await _read_seeds(records, state, found)
    histories: dict[str, DeltaChannelHistory] = {}
    for channel, (rows, _) in found.items():
        histories[channel] = {
            "writes": [(row.task_id, row.channel, state.codec.decode(row.body)) for row in rows]
        }
        if channel in seeds:
            histories[channel]["seed"] = seeds[channel]
    return histories


async def _read_chain(
    records: Records, state: SaverState, place: Place, channels: Sequence[str]
) -> list[Step]:
    """The checkpoint and those above it, as far as a channel is still without a value."""
    chain: list[Step] = []
    key, missing = (place.thread_id, place.checkpoint_ns), set(channels)
    checkpoint_id, size = place.checkpoint_id, (state.depths.get(key) or 0) + MARGIN
    while missing:
        rows = await records.read_ancestors(*key, checkpoint_id, size)
        for row in rows:
            if not missing or (chain and row.generation != chain[0].row.generation):
                return chain
            step = Step(row, state.outline(row.head))
            if chain:
                missing -= step.head.entries.keys()
            chain.append(step)
        state.depths.put(key, len(chain), 1)
        if len(rows) <= size or rows[-1].parent_id is None:
            break
        checkpoint_id, size = rows[-1].parent_id, _left(state, chain, missing)
    return chain


def _left(state: SaverState, chain: Sequence[Step], missing: Iterable[str]) -> int:
    """How many more checkpoints are likely to be needed: LangGraph counts them in the metadata."""
    counters = state.codec.decode(chain[0].row.metadata).get(COUNTERS) or {}
    supersteps = [counters[name][1] for name in missing if name in counters]
    expected = max(supersteps, default=0) + MARGIN - len(chain)
    return min(max(expected, len(chain), MARGIN), LARGEST_PAGE)


async def _read_seeds(
    records: Records, state: SaverState, found: Mapping[str, History]
) -> dict[str, Any]:
    seeded = {
        channel: Step(seed.row, only_entry(seed.head, channel))
        for channel, (_, seed) in found.items()
        if seed is not None
    }
    runs = runs_to_read([seed.head for seed in seeded.values()])
    bodies = {}
    if runs:
        row = next(iter(seeded.values())).row
        bodies = by_place(await records.read_elements(row.thread_id, row.generation, runs))
    with collecting_later(sum(seed.head.count_elements() for seed in seeded.values())):
        return {
            channel: read_values(state.codec, seed.row, seed.head, bodies)[channel]
            for channel, seed in seeded.items()
        }


def only_entry(head: Head, channel: str) -> Head:
    """A head that has this channel only."""
    versions = {channel: head.channel_versions[channel]} if channel in head.channel_versions else {}
    return Head(head.v, head.ts, versions, {}, None, {channel: head.entries[channel]})
