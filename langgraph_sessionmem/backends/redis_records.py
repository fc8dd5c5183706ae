"""All rows in Redis or Valkey; of them checkpoints, each primitive one script.

The keys of all threads of a bucket share a hash tag. `docs/format.md` has the layout.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from langgraph_sessionmem.backends import redis_scans
from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.backends.redis_arguments import Value
from langgraph_sessionmem.backends.redis_calls import Calls
from langgraph_sessionmem.backends.redis_items import RedisItems
from langgraph_sessionmem.backends.redis_keys import Keys
from langgraph_sessionmem.backends.redis_links import Link
from langgraph_sessionmem.backends.redis_rows import (
    escape,
    join_place,
    pack_limits,
    read_checkpoint_row,
    read_element_rows,
    read_order_row,
    read_thread_row,
    read_write_rows,
)
from langgraph_sessionmem.backends.redis_saves import (
    Arguments,
    checkpoint_arguments,
    copy_arguments,
    prune_arguments,
    writes_arguments,
)
from langgraph_sessionmem.rows import (
    CheckpointRow,
    CheckpointSave,
    CheckpointScan,
    Contents,
    Element,
    ElementPlace,
    Limits,
    OrderRow,
    Outcome,
    Prune,
    Run,
    Saved,
    Stats,
    ThreadCopy,
    ThreadRow,
    ThreadScan,
    Wanted,
    WriteRow,
    WritesSave,
)


class RedisRecords(RedisItems, Records):
    """What an operation is given: checkpoints, and items, over a link.

    Args:
        link: where the scripts run.
        prefix: of every key.
        mark_key: the database's own key, so that a tombstone names nobody.
        offset_seconds: added to the server's clock.
    """

    def __init__(self, link: Link, prefix: bytes, mark_key: bytes, offset_seconds: float) -> None:
        self._calls = Calls(link, Keys(prefix, mark_key), offset_seconds)

    @override
    async def read_checkpoint(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None
    ) -> tuple[CheckpointRow, list[WriteRow]] | None:
        named = _checkpoint(checkpoint_ns, checkpoint_id)
        found = await self._calls.call_thread("read_checkpoint", thread_id, named)
        if found is None:
            return None
        generation, flags, [place, value, *chunks] = found
        row = read_checkpoint_row(thread_id, generation, flags, place, value)
        return row, list(read_write_rows(place, chunks))

    @override
    async def read_elements(
        self, thread_id: str, generation: int, runs: Sequence[Run]
    ) -> list[Element]:
        [contents] = await self.read_contents([Wanted(thread_id, generation, runs, ())])
        return contents.elements

    @override
    async def read_places(self, thread_id: str, generation: int) -> list[ElementPlace]:
        named = {"generation": generation}
        found = await self._calls.call_thread("read_places", thread_id, named)
        return [
            ElementPlace(int(log), position, size)
            for log, numbers in found
            for position, size in zip(numbers[::2], numbers[1::2], strict=True)
        ]

    @override
    async def read_writes(
        self, thread_id: str, generation: int, checkpoints: Sequence[tuple[str, str]]
    ) -> list[WriteRow]:
        [contents] = await self.read_contents([Wanted(thread_id, generation, (), checkpoints)])
        return contents.writes

    @override
    async def read_contents(self, wanted: Sequence[Wanted]) -> list[Contents]:
        logged = {
            index: runs
            for index, each in enumerate(wanted)
            if (runs := [run for run in each.runs if run.end > run.start])
        }
        contents = [Contents([], []) for _ in wanted]
        asked: dict[int, dict[str, Value]] = {
            index: {"runs": [[str(run.log), run.start, run.end - 1] for run in runs]}
            for index, runs in logged.items()
        }
        for index, found in (await self._read_each("read_elements", wanted, asked)).items():
            contents[index].elements.extend(read_element_rows(logged[index], found))
        asked = {
            index: {"places": [join_place(*names) for names in dict.fromkeys(each.checkpoints)]}
            for index, each in enumerate(wanted)
            if each.checkpoints
        }
        for index, found in (await self._read_each("read_writes", wanted, asked)).items():
            for place, *chunks in found:
                contents[index].writes.extend(read_write_rows(place, chunks))
        return contents

    async def _read_each(
        self, script: str, wanted: Sequence[Wanted], asked: Mapping[int, Mapping[str, Value]]
    ) -> dict[int, Any]:
        """What a script gives for each thread that is asked for something, by its index."""
        if not asked:
            return {}
        calls = [
            (wanted[index].thread_id, {"generation": wanted[index].generation, **named})
            for index, named in asked.items()
        ]
        found = await self._calls.call_threads(script, calls)
        return dict(zip(asked, found, strict=True))

    @override
    async def read_orders(self, thread_id: str, checkpoint_ids: Sequence[str]) -> list[OrderRow]:
        if not checkpoint_ids:
            return []
        ids = [escape(identity) for identity in dict.fromkeys(checkpoint_ids)]
        found = await self._calls.call_thread("read_orders", thread_id, {"checkpoints": ids})
        if found is None:
            return []
        is_whole, *rows = found
        redis_scans.check_index(thread_id, is_whole)
        return [read_order_row(place, value) for place, value in rows]

    @override
    async def read_ancestors(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None, limit: int
    ) -> list[CheckpointRow]:
        named = {**_checkpoint(checkpoint_ns, checkpoint_id), "limit": limit}
        found = await self._calls.call_thread("read_ancestors", thread_id, named)
        if found is None:
            return []
        generation, flags, *entries = found
        return [read_checkpoint_row(thread_id, generation, flags, *entry) for entry in entries]

    @override
    async def read_run_threads(self, run_ids: Sequence[str]) -> list[str]:
        if not run_ids:
            return []
        named: dict[str, Value] = {"runs": [escape(run_id) for run_id in dict.fromkeys(run_ids)]}
        found = await self._calls.call_all(
            "read_runs", [(key, named) for key in self._calls.keys.buckets()]
        )
        return [name.decode() for names in found for name in names]

    @override
    async def read_thread(self, thread_id: str) -> ThreadRow | None:
        found = await self._calls.call_thread("read_thread", thread_id, {})
        return None if found is None else read_thread_row(found)

    @override
    async def read_expiry(self, thread_id: str) -> bool:
        return bool(await self._calls.call_thread("read_expiry", thread_id, {}))

    @override
    async def read_clock(self) -> float:
        key = next(iter(self._calls.keys.buckets()))
        return int(await self._calls.call("read_clock", key, {})) / 1000

    @override
    async def read_stats(self) -> Stats:
        return await redis_scans.read_stats(self._calls)

    @override
    async def scan_checkpoints(self, scan: CheckpointScan) -> list[CheckpointRow]:
        return await redis_scans.scan_checkpoints(self._calls, scan)

    @override
    async def scan_threads(self, scan: ThreadScan) -> list[ThreadRow]:
        return await redis_scans.scan_threads(self._calls, scan)

    @override
    async def scan_expired(self, limit: int, *, keep_latest: bool) -> list[ThreadRow]:
        return await redis_scans.scan_expired(self._calls, limit, keep_latest=keep_latest)

    @override
    async def save_checkpoint(self, save: CheckpointSave) -> Saved:
        return await self._save("save_checkpoint", save.thread_id, checkpoint_arguments(save))

    @override
    async def save_writes(self, save: WritesSave) -> Saved:
        return await self._save("save_writes", save.thread_id, writes_arguments(save))

    @override
    async def save_copy(self, copy: ThreadCopy) -> Saved:
        return await self._save("save_copy", copy.thread_id, copy_arguments(copy))

    @override
    async def save_pruned(self, prune: Prune) -> bool:
        named, _ = prune_arguments(prune)
        return bool(await self._calls.call_thread("save_pruned", prune.thread_id, named))

    @override
    async def save_limits(self, thread_id: str, limits: Limits, *, own: bool) -> bool:
        named: dict[str, Value] = {"limits": pack_limits(limits), "own": own}
        return bool(await self._calls.call_thread("save_limits", thread_id, named))

    @override
    async def touch_thread(self, thread_id: str, generation: int) -> None:
        await self._calls.call_thread("touch_thread", thread_id, {"generation": generation})

    @override
    async def drop_thread(self, thread_id: str, seq: int | None = None) -> bool:
        return bool(await self._calls.call_thread("drop_thread", thread_id, {"saves": seq}))

    @override
    async def drop_expired(self, limit: int) -> int:
        keys = list(self._calls.keys.buckets())
        counts = await self._calls.call_all("count_due", [(key, {}) for key in keys])
        dropped = 0
        for key, count in zip(keys, counts, strict=True):
            if count and dropped < limit:
                named = {"limit": limit - dropped}
                dropped += int(await self._calls.call("drop_expired", key, named))
        return dropped

    async def _save(self, script: str, thread_id: str, arguments: Arguments) -> Saved:
        outcome, generation = await self._calls.call_thread(script, thread_id, *arguments)
        return Saved(Outcome(outcome.decode()), int(generation))


def _checkpoint(checkpoint_ns: str, checkpoint_id: str | None) -> dict[str, Value]:
    """A checkpoint, or the latest, as scripts take it."""
    return {
        "ns": escape(checkpoint_ns) + b"\x00",
        "checkpoint": None if checkpoint_id is None else escape(checkpoint_id),
    }
