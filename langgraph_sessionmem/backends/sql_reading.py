"""Reading from an SQL database, written once for both dialects."""

from collections.abc import Iterable, Sequence

from typing_extensions import override

from langgraph_sessionmem.backends.sql import Params, SqlRow, Step, text_in, text_out
from langgraph_sessionmem.backends.sql_rows import (
    checkpoint_out,
    places_in,
    text_or_none,
    thread_out,
    write_out,
)
from langgraph_sessionmem.backends.sql_scripts import SqlScripts
from langgraph_sessionmem.rows import (
    CheckpointRow,
    CheckpointScan,
    Contents,
    Element,
    ElementPlace,
    OrderKey,
    OrderRow,
    Run,
    Stats,
    ThreadOrder,
    ThreadRow,
    ThreadScan,
    Wanted,
    WriteRow,
)

_NEVER = 1e300
"""Where `scan_threads_ranked` puts threads without a deadline."""


class SqlReading(SqlScripts):
    """The part of `CheckpointRecords` that reads."""

    @override
    async def read_checkpoint(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None
    ) -> tuple[CheckpointRow, list[WriteRow]] | None:
        rows = await self._rows("read_checkpoint", _place(thread_id, checkpoint_ns, checkpoint_id))
        if not rows:
            return None
        writes = [write_out(row[13:]) for row in rows if row[13] is not None]
        return checkpoint_out(rows[0][:13]), writes

    @override
    async def read_elements(
        self, thread_id: str, generation: int, runs: Sequence[Run]
    ) -> list[Element]:
        step = _elements_step(generation, runs)
        if not step.rows:
            return []
        [rows] = await self._link.execute([step])
        return _elements_out(rows)

    @override
    async def read_places(self, thread_id: str, generation: int) -> list[ElementPlace]:
        rows = await self._rows("read_places", {"generation": generation})
        return [ElementPlace(*row) for row in rows]

    @override
    async def read_writes(
        self, thread_id: str, generation: int, checkpoints: Sequence[tuple[str, str]]
    ) -> list[WriteRow]:
        step = _writes_step(generation, checkpoints)
        if not step.rows:
            return []
        [rows] = await self._link.execute([step])
        return [write_out(row) for row in rows]

    @override
    async def read_contents(self, wanted: Sequence[Wanted]) -> list[Contents]:
        pairs = [
            (
                _elements_step(each.generation, each.runs),
                _writes_step(each.generation, each.checkpoints),
            )
            for each in wanted
        ]
        script = [step for pair in pairs for step in pair if step.rows]
        results = iter(await self._link.execute(script) if script else ())
        contents = []
        for elements, writes in pairs:
            found = _elements_out(next(results) if elements.rows else ())
            rows = next(results) if writes.rows else ()
            contents.append(Contents(found, [write_out(row) for row in rows]))
        return contents

    @override
    async def read_orders(self, thread_id: str, checkpoint_ids: Sequence[str]) -> list[OrderRow]:
        if not checkpoint_ids:
            return []
        wanted = [{"checkpoint_id": text_in(name)} for name in checkpoint_ids]
        rows = await self._rows("read_orders", {"thread_id": text_in(thread_id)}, wanted)
        return [
            OrderRow(text_out(namespace), text_out(name), OrderKey(text_out(order_id), order_n))
            for namespace, name, order_id, order_n in rows
        ]

    @override
    async def read_ancestors(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None, limit: int
    ) -> list[CheckpointRow]:
        place = _place(thread_id, checkpoint_ns, checkpoint_id)
        rows = await self._rows("read_ancestors", {**place, "limit": limit})
        return [checkpoint_out(row) for row in rows]

    @override
    async def read_run_threads(self, run_ids: Sequence[str]) -> list[str]:
        if not run_ids:
            return []
        wanted = [{"run_id": text_in(run_id)} for run_id in run_ids]
        rows = await self._rows("read_run_threads", {}, wanted)
        return list(dict.fromkeys(text_out(thread_id) for (thread_id,) in rows))

    @override
    async def read_thread(self, thread_id: str) -> ThreadRow | None:
        rows = await self._rows("read_thread", {"thread_id": text_in(thread_id)})
        return thread_out(rows[0]) if rows else None

    @override
    async def read_expiry(self, thread_id: str) -> bool:
        params: Params = {"thread_id": text_in(thread_id), "mark": self._mark(thread_id)}
        return bool(await self._rows("read_expiry", params))

    @override
    async def read_clock(self) -> float:
        [(now,)] = await self._rows("read_clock", {})
        return float(now)

    @override
    async def read_stats(self) -> Stats:
        [row] = await self._rows("read_stats", {})
        return Stats(*map(int, row))

    @override
    async def scan_checkpoints(self, scan: CheckpointScan) -> list[CheckpointRow]:
        before, after = scan.before, scan.after
        params = {
            "thread_id": text_or_none(scan.thread_id),
            "checkpoint_ns": text_or_none(scan.checkpoint_ns),
            "checkpoint_id": text_or_none(scan.checkpoint_id),
            "before_id": text_or_none(before and before.id),
            "before_n": before and before.n,
            "after_id": text_or_none(after and after.order.id),
            "after_n": after and after.order.n,
            "after_thread_id": text_or_none(after and after.thread_id),
            "after_ns": text_or_none(after and after.checkpoint_ns),
            "after_checkpoint_id": text_or_none(after and after.checkpoint_id),
            "anchors": int(scan.anchors),
            "limit": scan.limit,
        }
        return [checkpoint_out(row) for row in await self._rows("scan_checkpoints", params)]

    @override
    async def scan_threads(self, scan: ThreadScan) -> list[ThreadRow]:
        after = scan.after
        after_id = text_or_none(after and after.thread_id)
        params = _range(scan.prefix) | {"after": after_id, "limit": scan.limit}
        match scan.order:
            case ThreadOrder.THREAD_ID:
                if after_id is not None:
                    params["first"] = max(after_id, str(params["first"]))
                rows = await self._rows("scan_threads", params)
            case ThreadOrder.SIZE:
                size = {"size": after and after.size}
                rows = await self._rows("scan_threads_by_size", params | size)
            case _:
                ranked = {
                    "order": scan.order.value,
                    "place": after and _place_of(after, scan.order),
                }
                rows = await self._rows("scan_threads_ranked", params | ranked)
        return [thread_out(row) for row in rows]

    @override
    async def scan_expired(self, limit: int, *, keep_latest: bool) -> list[ThreadRow]:
        query, params = "scan_idle" if keep_latest else "scan_expired", {"limit": limit, "saves": 1}
        return [thread_out(row) for row in await self._rows(query, params)]


def _place(thread_id: str, checkpoint_ns: str, checkpoint_id: str | None) -> dict[str, object]:
    return {
        "thread_id": text_in(thread_id),
        "checkpoint_ns": text_in(checkpoint_ns),
        "checkpoint_id": text_or_none(checkpoint_id),
    }


def _range(prefix: str) -> dict[str, object]:
    """The range of the thread ids that begin with `prefix`: `first` and all below `last`."""
    first = text_in(prefix)
    stem = first.rstrip("\U0010ffff")
    if not stem:
        return {"first": first, "last": None}
    code = ord(stem[-1]) + 1
    # The code points of surrogates are no text.
    following = chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)
    return {"first": first, "last": stem[:-1] + following}


def _place_of(row: ThreadRow, order: ThreadOrder) -> float:
    """Where `scan_threads_ranked` has a thread."""
    if order is ThreadOrder.UPDATED_AT:
        return -row.updated_at
    return _NEVER if row.expires_at is None else row.expires_at


def _elements_step(generation: int, runs: Sequence[Run]) -> Step:
    rows = [
        {"log": run.log, "start": run.start, "stop": run.end} for run in runs if run.start < run.end
    ]
    return Step("read_elements", {"generation": generation}, rows)


def _elements_out(rows: Iterable[SqlRow]) -> list[Element]:
    """Elements, each once, however many runs name it."""
    found = {(log, position): body for log, position, body in rows}
    return [Element(*place, bytes(body)) for place, body in found.items()]


def _writes_step(generation: int, checkpoints: Sequence[tuple[str, str]]) -> Step:
    return Step("read_writes", {"generation": generation}, places_in(checkpoints))
