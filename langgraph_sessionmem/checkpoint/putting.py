"""Storing a checkpoint, or a task's writes: a plan that holds bytes only, then one save."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
)
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, TASKS

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.channels import (
    Known,
    Stored,
    inherited_entries,
    store_channels,
)
from langgraph_sessionmem.checkpoint.configs import (
    Place,
    config_of,
    merge_metadata,
    read_limits,
    read_name,
    read_owner,
    read_place,
)
from langgraph_sessionmem.checkpoint.deltas import COUNTERS
from langgraph_sessionmem.checkpoint.getting import read_known
from langgraph_sessionmem.checkpoint.head import Entry, Head, pack_head
from langgraph_sessionmem.checkpoint.pruning import cut_idle
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.snapshots import (
    ListSnapshot,
    Taking,
    take_snapshot,
    take_value,
)
from langgraph_sessionmem.errors import (
    CheckpointDeleted,
    ConcurrentUpdate,
    InvalidArgument,
    SessionExpired,
    ThreadDeleted,
)
from langgraph_sessionmem.expiry import TTL, TTLFunction
from langgraph_sessionmem.rows import CheckpointSave, Limits, Outcome, WriteRow, WritesSave

_ATTEMPTS = 5
_WORK_CHANNELS = ("branch:to:", "__start__", TASKS)
"""Channels that hold a value while tasks are still to run."""


class PutPlan(NamedTuple):
    """All that a `put` is going to store, taken before the first wait.

    Attributes:
        place: the new checkpoint, with its id.
        parent_id: the checkpoint it came from.
        checkpoint: for its versions; its values are in `taken`.
        known: what was remembered of its parent then.
        inherited: the entries it shares with its parent by that.
        taken: the other values, by channel.
        begins: no checkpoint came before it, in its own namespace or above.
        pending: tasks are still to run.
        deltas: the thread has a channel that is rebuilt from earlier writes.
        copies: it is stored with its source's state, and perhaps its source's parent.
        ancestors: the checkpoints of the graphs above, by namespace.
    """

    place: Place
    parent_id: str | None
    checkpoint: Checkpoint
    new_versions: ChannelVersions
    known: Known | None
    inherited: Mapping[str, Entry]
    taken: Mapping[str, ListSnapshot | bytes]
    metadata: bytes
    run_id: str | None
    limits: Limits
    sticky: bool
    owner: str | None
    begins: bool
    pending: bool
    deltas: bool
    copies: bool
    ancestors: Mapping[str, str]


def plan_put(
    state: SaverState,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    ttl: TTL | TTLFunction | None,
) -> PutPlan:
    """Take what a `put` was given as bytes.

    Raises:
        InvalidArgument: the config names no thread, or a TTL is no duration.
        ValueNotStorable: a value can't be stored.
    """
    place = read_place(config)
    merged = merge_metadata(config, metadata)
    limits, sticky = read_limits(config, metadata, ttl, state.options)
    key = (place.thread_id, place.checkpoint_ns, place.checkpoint_id or "")
    known = state.known.get(key) if place.checkpoint_id else None
    inherited = inherited_entries(checkpoint, new_versions, known)
    values = checkpoint["channel_values"]
    changed = {name: value for name, value in values.items() if name not in inherited}
    parents = merged.get("parents") or {}
    return PutPlan(
        place=Place(
            place.thread_id, place.checkpoint_ns, read_name("checkpoint_id", checkpoint["id"])
        ),
        parent_id=place.checkpoint_id,
        checkpoint=checkpoint,
        new_versions=new_versions,
        known=known,
        inherited=inherited,
        taken=take_snapshot(state.codec, changed, known.marks() if known else {}, _taking(state)),
        metadata=_take_metadata(state, merged),
        run_id=str(merged["run_id"]) if merged.get("run_id") else None,
        limits=limits,
        sticky=sticky,
        owner=read_owner(config),
        begins=place.checkpoint_id is None and not place.checkpoint_ns and not parents,
        # A subgraph runs inside a task of its parent graph, which is therefore pending.
        pending=bool(place.checkpoint_ns)
        or any(name.startswith(_WORK_CHANNELS) for name in values),
        deltas=bool(merged.get(COUNTERS)),
        copies=merged.get("source") == "fork",
        ancestors=parents,
    )


async def put(records: Records, state: SaverState, plan: PutPlan) -> RunnableConfig:
    """Store the checkpoint of a plan.

    Raises:
        ThreadDeleted: the thread was deleted since its run began.
        SessionExpired: the thread is past its `max_age`, or can't go on without its past.
        CheckpointDeleted: the checkpoint it goes on from was pruned or deleted.
        ConcurrentUpdate: another run was faster, and this saver may not fork; or other writers were
            faster, time and again.
    """
    thread_id, namespace, checkpoint_id = plan.place
    assert checkpoint_id is not None  # noqa: S101 - `plan_put` sets it
    known, generation = await _parent(records, state, plan)
    parent_id, new_logs, swept = plan.parent_id, False, None
    detached = False
    successor = state.successors.get((thread_id, generation)) if generation else None
    if successor is not None:
        _refuse_deltas(plan)
        known, generation, parent_id = None, successor, None
    for _ in range(_ATTEMPTS):
        inherited, taken = plan.inherited, plan.taken
        if known is not plan.known:
            inherited = inherited_entries(plan.checkpoint, plan.new_versions, known)
            taken = _taken(state, plan, inherited)
        stored = store_channels(state.codec, taken, inherited, known, new_logs=new_logs)
        save = _save_of(state, plan, stored, parent_id, generation, detached=detached)
        saved = await records.save_checkpoint(save)
        match saved.outcome:
            case Outcome.SAVED:
                versions = dict(plan.checkpoint["channel_versions"])
                found = Known(saved.generation, versions, *stored.known)
                if swept is not None:
                    state.successors.put((thread_id, swept), saved.generation, 1)
                if plan.parent_id is not None:
                    # The child knows what the parent knew; a fork reads it again.
                    state.known.drop((thread_id, namespace, plan.parent_id))
                state.remember((thread_id, namespace, checkpoint_id), found)
                return config_of(thread_id, namespace, checkpoint_id)
            case Outcome.LOG_TAKEN:
                new_logs = True
            case Outcome.DELETED:
                raise ThreadDeleted(thread_id)
            case Outcome.EXPIRED:
                raise SessionExpired(thread_id)
            case Outcome.PARENT_GONE if plan.copies and not detached:
                # An anchor may be left of the source's parent, and is all that the copy needs.
                known, detached = None, True
            case Outcome.PARENT_GONE:
                raise CheckpointDeleted(thread_id, parent_id or checkpoint_id)
            case Outcome.CONFLICT:
                raise ConcurrentUpdate(
                    f"Checkpoint {checkpoint_id!r} of thread {thread_id!r} goes on from "
                    f"{parent_id!r}, which is not the latest any more: another run was faster. "
                    'Read the state and run again; on_conflict="fork" lets both go on.'
                )
            case Outcome.GONE:
                swept = generation
                _refuse_deltas(plan)
                known = generation = parent_id = None
            case Outcome.CUT_FIRST:
                await cut_idle(records, state, thread_id)
    raise ConcurrentUpdate(
        f"Checkpoint {checkpoint_id!r} of thread {thread_id!r} met other writers in each of "
        f"{_ATTEMPTS} attempts; try again."
    )


def plan_writes(
    state: SaverState,
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> WritesSave:
    """Take what a `put_writes` was given as bytes.

    Raises:
        InvalidArgument: the config names no checkpoint.
        ValueNotStorable: a value can't be stored.
    """
    thread_id, namespace, checkpoint_id = read_place(config)
    if checkpoint_id is None:
        raise InvalidArgument(
            'put_writes needs the checkpoint the task ran on: configurable["checkpoint_id"] is '
            "missing; pass the config that put or get_tuple returned."
        )
    key = (thread_id, namespace, checkpoint_id)
    ancestors = config["configurable"].get("checkpoint_map")
    generation = state.generation_of(key, ancestors)
    task_id, task_path = read_name("task_id", task_id), read_name("task_path", task_path)
    rows = []
    for index, (channel, value) in enumerate(writes):
        read_name("channel", channel)
        body = _take_write(state, channel, value)
        idx = WRITES_IDX_MAP.get(channel, index)
        rows.append(WriteRow(namespace, checkpoint_id, task_id, idx, task_path, channel, body))
    successor = state.successors.get((thread_id, generation or 0))
    return WritesSave(
        thread_id,
        namespace,
        checkpoint_id,
        rows,
        successor or generation,
        Limits(),
        any(channel == INTERRUPT for channel, _ in writes),
        checkpoint_stored=successor is None and state.generations.get(key) is not None,
    )


async def put_writes(records: Records, state: SaverState, save: WritesSave) -> None:
    """Store a task's writes.

    Raises:
        ThreadDeleted: the thread was deleted since its run began.
        SessionExpired: the thread is past its `max_age`.
    """
    if save.generation is None:
        # LangGraph may plan them before it stored their checkpoint, which is done by now.
        key = (save.thread_id, save.checkpoint_ns, save.checkpoint_id)
        save = save._replace(generation=state.generations.get(key))
    saved = await records.save_writes(save)
    if saved.outcome is Outcome.DELETED:
        raise ThreadDeleted(save.thread_id)
    if saved.outcome is Outcome.EXPIRED:
        raise SessionExpired(save.thread_id)


def _save_of(
    state: SaverState,
    plan: PutPlan,
    stored: Stored,
    parent_id: str | None,
    generation: int | None,
    *,
    detached: bool,
) -> CheckpointSave:
    thread_id, namespace, checkpoint_id = plan.place
    assert checkpoint_id is not None  # noqa: S101 - `plan_put` sets it
    return CheckpointSave(
        thread_id,
        namespace,
        checkpoint_id,
        parent_id,
        plan.run_id,
        pack_head(Head.of(plan.checkpoint, stored.entries), state.codec),
        plan.metadata,
        stored.elements,
        generation,
        plan.begins,
        plan.limits,
        plan.sticky,
        plan.pending,
        owner=plan.owner,
        blocks=stored.blocks,
        builds_on_parent=parent_id is not None and generation is not None and not detached,
        may_fork=state.options.may_fork,
    )


async def _parent(
    records: Records, state: SaverState, plan: PutPlan
) -> tuple[Known | None, int | None]:
    """What is known of the plan's parent, and the life of the thread it was handed out in."""
    key = (plan.place.thread_id, plan.place.checkpoint_ns, plan.parent_id or "")
    if plan.parent_id is None:
        return None, state.generation_of(key, plan.ancestors)
    known = state.known.get(key) or await read_known(records, state, key)
    return known, known.generation if known else state.generation_of(key, plan.ancestors)


def _refuse_deltas(plan: PutPlan) -> None:
    """Let a plan start over in a new life of its thread, if it can do without the swept one.

    Raises:
        SessionExpired: its channels are rebuilt from writes that are no longer there.
    """
    if plan.deltas:
        raise SessionExpired(plan.place.thread_id)


def _taken(
    state: SaverState, plan: PutPlan, inherited: Mapping[str, Entry]
) -> dict[str, ListSnapshot | bytes]:
    """The values to store: the plan's, and those that turn out to have no entry to inherit."""
    taken = {name: value for name, value in plan.taken.items() if name not in inherited}
    missing = {
        name: value
        for name, value in plan.checkpoint["channel_values"].items()
        if name not in inherited and name not in taken
    }
    if missing:
        taken |= take_snapshot(state.codec, missing, {}, _taking(state))
    return taken


def _take_metadata(state: SaverState, metadata: dict[str, Any]) -> bytes:
    body = take_value(state.codec, "metadata", metadata, verifies=False)
    if state.options.verifies:
        # LangGraph counts in tuples, and reads lists.
        given = {name: value for name, value in metadata.items() if name != COUNTERS}
        take_value(state.codec, "metadata", given, verifies=True)
    return state.codec.metadata_row_of(body)


def _take_write(state: SaverState, name: str, value: Any) -> bytes:
    # LangGraph gives errors to have them stored as text.
    verifies = state.options.verifies and name != ERROR
    return state.codec.write_row_of(take_value(state.codec, name, value, verifies=verifies))


def _taking(state: SaverState) -> Taking:
    return Taking(state.custom_serde, state.options.verifies, state.options.reuses_objects)
