"""Checkpoints in an SQL database: `CheckpointRecords`, written once for both dialects."""

import os
from collections.abc import Sequence
from hashlib import blake2b

from typing_extensions import override

from langgraph_sessionmem.backends.sql import Link, Params, Refused, SqlRow, Step, text_in, text_out
from langgraph_sessionmem.records import (
    CheckpointRecords,
    CheckpointRow,
    CheckpointSave,
    CheckpointScan,
    Element,
    Limits,
    OrderKey,
    OrderRow,
    Outcome,
    Run,
    Saved,
    ThreadRow,
    WriteRow,
    WritesSave,
)

_DROP_LOCKED = (
    "drop_locked_checkpoints",
    "drop_locked_elements",
    "drop_locked_writes",
    "drop_locked_early_writes",
)


class SqlCheckpoints(CheckpointRecords):
    """Checkpoints over a link.

    Args:
        link: where the queries run.
        mark_key: the database's own key, so that a tombstone names nobody.
    """

    def __init__(self, link: Link, mark_key: bytes) -> None:
        self._link, self._mark_key = link, mark_key

    @override
    async def read_checkpoint(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None
    ) -> tuple[CheckpointRow, list[WriteRow]] | None:
        params: Params = {
            "thread_id": text_in(thread_id),
            "checkpoint_ns": text_in(checkpoint_ns),
            "checkpoint_id": None if checkpoint_id is None else text_in(checkpoint_id),
        }
        [rows] = await self._link.execute([Step("read_checkpoint", params)])
        if not rows:
            return None
        writes = [_write_row(row[10:]) for row in rows if row[10] is not None]
        return _checkpoint_row(rows[0][:10]), writes

    @override
    async def read_elements(
        self, thread_id: str, generation: int, runs: Sequence[Run]
    ) -> list[Element]:
        if not runs:
            return []
        wanted = [{"log": run.log, "start": run.start, "stop": run.end} for run in runs]
        step = Step("read_elements", {"generation": generation}, wanted)
        [rows] = await self._link.execute([step])
        found = {(log, position): body for log, position, body in rows}
        return [Element(*place, bytes(body)) for place, body in found.items()]

    @override
    async def read_writes(
        self, thread_id: str, generation: int, checkpoints: Sequence[tuple[str, str]]
    ) -> list[WriteRow]:
        if not checkpoints:
            return []
        wanted = [
            {"checkpoint_ns": text_in(namespace), "checkpoint_id": text_in(name)}
            for namespace, name in checkpoints
        ]
        [rows] = await self._link.execute([Step("read_writes", {"generation": generation}, wanted)])
        return [_write_row(row) for row in rows]

    @override
    async def read_orders(self, thread_id: str, checkpoint_ids: Sequence[str]) -> list[OrderRow]:
        if not checkpoint_ids:
            return []
        wanted = [{"checkpoint_id": text_in(name)} for name in checkpoint_ids]
        step = Step("read_orders", {"thread_id": text_in(thread_id)}, wanted)
        [rows] = await self._link.execute([step])
        return [
            OrderRow(text_out(namespace), text_out(name), OrderKey(text_out(order_id), order_n))
            for namespace, name, order_id, order_n in rows
        ]

    @override
    async def scan_checkpoints(self, scan: CheckpointScan) -> list[CheckpointRow]:
        before, after = scan.before, scan.after
        params = {
            "thread_id": _text_or_none(scan.thread_id),
            "checkpoint_ns": _text_or_none(scan.checkpoint_ns),
            "checkpoint_id": _text_or_none(scan.checkpoint_id),
            "before_id": _text_or_none(before and before.id),
            "before_n": before and before.n,
            "after_id": _text_or_none(after and after.order.id),
            "after_n": after and after.order.n,
            "after_thread_id": _text_or_none(after and after.thread_id),
            "after_ns": _text_or_none(after and after.checkpoint_ns),
            "after_checkpoint_id": _text_or_none(after and after.checkpoint_id),
            "limit": scan.limit,
        }
        [rows] = await self._link.execute([Step("scan_checkpoints", params)])
        return [_checkpoint_row(row) for row in rows]

    @override
    async def scan_threads(self, after: str | None, limit: int) -> list[ThreadRow]:
        params: Params = {"after": _text_or_none(after), "limit": limit}
        [rows] = await self._link.execute([Step("scan_threads", params)])
        return [
            ThreadRow(
                text_out(thread_id),
                thread,
                created_at,
                updated_at,
                min((end for end in (idle_until, ends_at) if end is not None), default=None),
                checkpoints,
            )
            for thread_id, thread, created_at, updated_at, idle_until, ends_at, checkpoints in rows
        ]

    @override
    async def save_checkpoint(self, save: CheckpointSave) -> Saved:
        token = _token()
        thread = {"thread_id": text_in(save.thread_id)}
        place = {
            **thread,
            "token": token,
            "checkpoint_ns": text_in(save.checkpoint_ns),
            "checkpoint_id": text_in(save.checkpoint_id),
            "parent_id": _text_or_none(save.parent_id),
        }
        steps: list[Step] = []
        if save.begins:
            steps = [Step("lock_expired", thread), *self._drop_locked(thread)]
        guards = {"generation": save.generation, "mark": self._mark(save.thread_id)}
        life = {"sticky": int(save.sticky), "pending": int(save.pending), **_limits(save.limits)}
        steps.append(Step("save_thread", {**place, **guards, **life}))
        if save.elements:
            rows = [element._asdict() for element in save.elements]
            steps.append(Step("save_elements", {**thread, "token": token}, rows))
        content = {
            "run_id": _text_or_none(save.run_id),
            "head": save.head,
            "metadata": save.metadata,
        }
        steps.append(Step("save_checkpoint", {**place, **content}))
        steps.append(Step("forget_early_write", place))
        steps.append(self._read_outcome(save.thread_id))
        try:
            *_, [outcome] = await self._link.execute(steps)
        except Refused as refused:
            if refused.column != "body":
                raise
            return Saved(Outcome.LOG_TAKEN, 0)
        return _saved(outcome, saved=outcome[1] == token)

    @override
    async def save_writes(self, save: WritesSave) -> Saved:
        saved = await self._save_writes(save)
        if saved.outcome is not Outcome.GONE:
            return saved
        # Only now is the thread made: an insert that gives way burns an identity value each time.
        return await self._save_writes(save._replace(generation=None), make_thread=True)

    async def _save_writes(self, save: WritesSave, *, make_thread: bool = False) -> Saved:
        thread = {"thread_id": text_in(save.thread_id), "generation": save.generation}
        place = {
            **thread,
            "checkpoint_ns": text_in(save.checkpoint_ns),
            "checkpoint_id": text_in(save.checkpoint_id),
        }
        steps: list[Step] = []
        if save.generation is None:
            steps = [Step("lock_expired_for_writes", place), *self._drop_locked(thread)]
        if make_thread:
            steps.append(Step("save_writes_thread", {**thread, **_limits(save.limits)}))
        # The update comes before the shared lock: two tasks that held it would wait for each other.
        steps.append(Step("renew_thread", {**thread, "interrupts": int(save.interrupts)}))
        # Asked before the writes: a thread that appears in between is not taken for written to.
        asked = len(steps)
        steps.append(self._read_outcome(save.thread_id))
        if save.writes:
            steps.append(Step("save_writes", place, _one_row_a_key(save.writes)))
        steps.append(Step("save_early_writes", place))
        [outcome] = (await self._link.execute(steps))[asked]
        thread_found, _, ended, _, _ = outcome
        if thread_found is None and save.generation is None:
            # Of no life that was deleted, as far as anybody knows.
            return Saved(Outcome.GONE, 0)
        kept = thread_found is not None and save.generation in (None, thread_found)
        return _saved(outcome, saved=kept and not ended)

    @override
    async def save_limits(self, thread_id: str, limits: Limits) -> bool:
        step = Step("save_limits", {"thread_id": text_in(thread_id), **_limits(limits)})
        [rows] = await self._link.execute([step])
        return bool(rows)

    @override
    async def touch_thread(self, thread_id: str, generation: int) -> None:
        params: Params = {"thread_id": text_in(thread_id), "generation": generation}
        await self._link.execute([Step("touch_thread", params)])

    @override
    async def drop_thread(self, thread_id: str) -> None:
        thread = {"thread_id": text_in(thread_id)}
        tombstone = Step("save_tombstone", {**thread, "mark": self._mark(thread_id)})
        script = [Step("lock_thread", thread), tombstone, *self._drop_locked(thread)]
        await self._link.execute(script)

    @override
    async def drop_expired(self, limit: int) -> int:
        [threads] = await self._link.execute([Step("scan_expired", {"limit": limit})])
        for (thread_id,) in threads:
            thread = {"thread_id": thread_id}
            await self._link.execute([Step("lock_expired", thread), *self._drop_locked(thread)])
        names = ("drop_early_writes", "forget_early_writes", "drop_tombstones")
        await self._link.execute([Step(name, {}) for name in names])
        return len(threads)

    def _drop_locked(self, thread: Params) -> list[Step]:
        return [Step(name, thread) for name in (*_DROP_LOCKED, "drop_locked_thread")]

    def _read_outcome(self, thread_id: str) -> Step:
        params: Params = {"thread_id": text_in(thread_id), "mark": self._mark(thread_id)}
        return Step("read_outcome", params)

    def _mark(self, thread_id: str) -> bytes:
        return blake2b(thread_id.encode(), key=self._mark_key, digest_size=16).digest()


def _saved(outcome: SqlRow, *, saved: bool) -> Saved:
    thread, _, ended, tombstone, has_checkpoint = outcome
    if saved:
        return Saved(Outcome.SAVED, thread)
    if thread is not None and ended:
        return Saved(Outcome.EXPIRED, 0)
    # A thread that has only writes may be what this very run wrote after its rows were swept.
    if has_checkpoint or tombstone:
        return Saved(Outcome.DELETED, 0)
    return Saved(Outcome.GONE, 0)


def _token() -> int:
    """A number no other save has; 0 marks a locked thread, 1 one that has only writes."""
    return int.from_bytes(os.urandom(8)) >> 1 | 2


def _limits(limits: Limits) -> Params:
    return {
        "idle": limits.idle_seconds,
        "max_age": limits.max_age_seconds,
        "interrupted": limits.interrupted_seconds,
        "refresh_on_read": int(limits.refresh_on_read),
    }


def _one_row_a_key(writes: Sequence[WriteRow]) -> list[Params]:
    """The rows by their key, the last of each: no statement may meet a key twice."""
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


def _checkpoint_row(row: SqlRow) -> CheckpointRow:
    thread_id, thread, namespace, name, parent, order_id, order_n, head, metadata, refresh = row
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
    )


def _write_row(row: SqlRow) -> WriteRow:
    namespace, name, task_id, idx, task_path, channel, body = row
    return WriteRow(
        text_out(namespace),
        text_out(name),
        text_out(task_id),
        idx,
        text_out(task_path),
        text_out(channel),
        bytes(body),
    )


def _text_or_none(text: str | None) -> str | None:
    return None if text is None else text_in(text)
