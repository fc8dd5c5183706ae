"""Rows of an SQL database as the contract's, and back."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from langgraph_sessionmem.backends.sql import Params, SqlRow, text_in, text_out
from langgraph_sessionmem.rows import CheckpointRow, Limits, OrderKey, ThreadRow, WriteRow


@lru_cache(64)
def limits_in(limits: Limits) -> Mapping[str, object]:
    """A thread's limits as parameters."""
    return {
        "idle": limits.idle_seconds,
        "max_age": limits.max_age_seconds,
        "interrupted": limits.interrupted_seconds,
        "refresh_on_read": int(limits.refresh_on_read),
        "keep_latest": int(limits.keep_latest),
        "tells_expiry": int(limits.tells_expiry),
    }


def writes_in(writes: Sequence[WriteRow]) -> list[Params]:
    """A task's writes by their key, the last of each: no statement may meet a key twice."""
    rows = {(write.task_id, write.idx): write for write in writes}
    return [
        {
            "task_id": text_in(write.task_id),
            "idx": write.idx,
            "task_path": text_in(write.task_path),
            "channel": text_in(write.channel),
            "body": write.body,
        }
        for write in rows.values()
    ]


def whole_writes_in(writes: Sequence[WriteRow]) -> list[Params]:
    """Writes of any checkpoint, as they are."""
    return [
        {
            "checkpoint_ns": text_in(write.checkpoint_ns),
            "checkpoint_id": text_in(write.checkpoint_id),
            "task_id": text_in(write.task_id),
            "idx": write.idx,
            "task_path": text_in(write.task_path),
            "channel": text_in(write.channel),
            "body": write.body,
            "seq": write.seq,
        }
        for write in writes
    ]


def places_in(places: Sequence[tuple[str, str]]) -> list[Params]:
    """Checkpoints by `(checkpoint_ns, checkpoint_id)`."""
    return [
        {"checkpoint_ns": text_in(namespace), "checkpoint_id": text_in(name)}
        for namespace, name in places
    ]


def checkpoint_out(row: SqlRow) -> CheckpointRow:
    """A checkpoint from its 13 columns."""
    thread_id, thread, namespace, name, parent, order_id, order_n, head, metadata, *more = row
    refresh, seq, elder, idle = more
    return CheckpointRow(
        text_out(thread_id),
        thread,
        text_out(namespace),
        text_out(name),
        None if parent is None else text_out(parent),
        OrderKey(text_out(order_id), order_n),
        bytes(head),
        bytes(metadata),
        bool(refresh),
        seq,
        elder,
        bool(idle),
    )


def write_out(row: SqlRow) -> WriteRow:
    """A write from its 8 columns."""
    namespace, name, task_id, idx, task_path, channel, body, seq = row
    return WriteRow(
        text_out(namespace),
        text_out(name),
        text_out(task_id),
        idx,
        text_out(task_path),
        text_out(channel),
        bytes(body),
        seq,
    )


def thread_out(row: SqlRow) -> ThreadRow:
    """A thread from its 18 columns."""
    thread_id, thread, created_at, updated_at, idle_until, ends_at, checkpoints, size, *more = row
    owner, seq, idle, max_age, interrupted, refresh, keep_latest, tells_expiry, sticky, waiting = (
        more
    )
    return ThreadRow(
        text_out(thread_id),
        thread,
        created_at,
        updated_at,
        min((end for end in (idle_until, ends_at) if end is not None), default=None),
        checkpoints,
        int(size),
        None if owner is None else text_out(owner),
        seq,
        Limits(idle, max_age, interrupted, bool(refresh), bool(keep_latest), bool(tells_expiry)),
        bool(sticky),
        bool(waiting),
    )


def text_or_none(text: str | None) -> str | None:
    """`text_in` of what may be absent."""
    return None if text is None else text_in(text)
