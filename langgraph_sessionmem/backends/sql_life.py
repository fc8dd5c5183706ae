"""Threads of an SQL database as a whole: deleted, expired, pruned, copied."""

from collections.abc import Sequence

from typing_extensions import override

from langgraph_sessionmem.backends.sql import Params, Refused, Step, text_in, text_out
from langgraph_sessionmem.backends.sql_rows import (
    limits_in,
    places_in,
    text_or_none,
    whole_writes_in,
)
from langgraph_sessionmem.backends.sql_scripts import MARKS, SqlScripts, drop_locked, new_token
from langgraph_sessionmem.rows import Outcome, Prune, Saved, ThreadCopy


class SqlLife(SqlScripts):
    """The part of `CheckpointRecords` that changes whole threads."""

    @override
    async def save_copy(self, copy: ThreadCopy) -> Saved:
        token = new_token()
        held = {"thread_id": text_in(copy.thread_id), "token": token}
        life = {
            "seq": copy.seq,
            "owner": text_or_none(copy.owner),
            "sticky": int(copy.sticky),
            "waiting": int(copy.waiting),
            **limits_in(copy.limits),
        }
        rows = [
            {
                "checkpoint_ns": text_in(row.checkpoint_ns),
                "checkpoint_id": text_in(row.checkpoint_id),
                "parent_id": text_or_none(row.parent_id),
                "order_id": None if row.order == (row.checkpoint_id, 0) else text_in(row.order.id),
                "order_n": row.order.n,
                "seq": row.seq,
                "elder": row.elder,
                "head": row.head,
                "metadata": row.metadata,
            }
            for row in copy.rows
        ]
        runs = [{"run_id": text_in(run_id)} for run_id in {*copy.run_ids} if run_id is not None]
        content: dict[str, Sequence[Params]] = {
            "copy_checkpoints": rows,
            "copy_writes": whole_writes_in(copy.writes),
            "save_elements": [element._asdict() for element in sorted(copy.elements)],
            "save_runs": runs,
        }
        drops = drop_locked([copy.thread_id], token)
        found = await self._link.execute(
            [
                Step("lock_expired", {**held, "shells": 1}),
                *drops,
                Step("copy_thread", {**held, **life}),
                *(Step(name, held, rows) for name, rows in content.items() if rows),
            ]
        )
        made = found[len(drops) + 1]
        return Saved(Outcome.SAVED, made[0][0]) if made else Saved(Outcome.CONFLICT, 0)

    @override
    async def save_pruned(self, prune: Prune) -> bool:
        thread = {"generation": prune.generation}
        held = {"thread_id": text_in(prune.thread_id), "token": new_token(), **thread}
        kept = [(anchor.checkpoint_ns, anchor.checkpoint_id) for anchor in prune.anchors]
        content: dict[str, Sequence[Params]] = {
            "drop_pruned_writes": places_in([*prune.checkpoints, *kept]),
            "drop_pruned_checkpoints": places_in(prune.checkpoints),
            "drop_pruned_elements": [
                {"log": run.log, "start": run.start, "stop": run.end} for run in prune.elements
            ],
            "save_roots": places_in(prune.roots),
            "save_anchors": [
                {**place, "head": anchor.head, "metadata": anchor.metadata}
                for place, anchor in zip(places_in(kept), prune.anchors, strict=True)
            ],
            "copy_writes": whole_writes_in(
                [write for anchor in prune.anchors for write in anchor.writes]
            ),
        }
        hold = Step("hold_for_pruning", {**held, "seq": prune.seq, "wakes": int(prune.wakes)})
        steps = [Step(name, held, rows) for name, rows in content.items() if rows]
        if prune.checkpoints or prune.anchors:
            emptied = new_token()
            steps.append(Step("lock_emptied", {**held, "emptied": emptied}))
            steps += drop_locked([prune.thread_id], emptied)
        try:
            found, *_ = await self._link.execute([hold, *steps])
        except Refused:
            return False
        return bool(found)

    @override
    async def drop_thread(self, thread_id: str, seq: int | None = None) -> bool:
        token = new_token()
        held: Params = {"thread_id": text_in(thread_id), "token": token}
        mark = {"mark": self._mark(thread_id)}
        locked, *_, left = await self._link.execute(
            [
                Step("lock_thread", {**held, "seq": seq}),
                Step("save_tombstone", {**held, **mark}),
                *drop_locked([thread_id], token),
                Step("forget_expiry", {**held, **mark}),
                Step("find_thread", held),
            ]
        )
        return bool(locked or not left)

    @override
    async def drop_expired(self, limit: int) -> int:
        dropped = 0
        while dropped < limit:
            found = await self._rows("find_expired", {"limit": limit - dropped, "saves": 0})
            if not found:
                break
            token = new_token()
            thread_ids = [text_out(thread_id) for (thread_id,) in found]
            rows: list[Params] = [
                {"thread_id": text_in(thread_id), "mark": self._mark(thread_id)}
                for thread_id in thread_ids
            ]
            *_, gone = await self._link.execute(
                [
                    Step("claim_expired", {"token": token}, rows),
                    *(Step(name, {"token": token}, rows) for name in MARKS),
                    *drop_locked(thread_ids, token),
                ]
            )
            dropped += sum(saves > 0 for (saves,) in gone)
            if not gone:
                break  # another sweeper is at them
        names = ("drop_early_writes", "forget_early_writes", "drop_tombstones")
        await self._link.execute([Step(name, {}) for name in names])
        return dropped
