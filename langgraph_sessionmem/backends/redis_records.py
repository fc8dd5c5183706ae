"""Checkpoints in Redis or Valkey: `CheckpointRecords`, each primitive one script.

The keys of all threads of a bucket share a hash tag. `docs/format.md` has the layout.
"""

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha1
from typing import NamedTuple

import ormsgpack
from typing_extensions import override

from langgraph_sessionmem.backends.redis_links import Argument, Link
from langgraph_sessionmem.backends.redis_rows import (
    escape,
    join_place,
    order_bytes,
    read_checkpoint_row,
    read_order_row,
    read_thread_row,
    read_write_rows,
    to_bytes,
)
from langgraph_sessionmem.errors import InvalidArgument, ThreadDamaged
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
    ScanCursor,
    ThreadRow,
    WriteRow,
    WritesSave,
)

BUCKETS = 256
FIRST_PAGE = 4
"""Of each bucket's threads, or each thread's checkpoints, when all of them are asked for a page."""


class Bucket(NamedTuple):
    """The keys that the threads of one bucket share; `base` is what thread keys begin with."""

    ids: bytes
    due: bytes
    tombstones: bytes
    base: bytes


class RedisRecords(CheckpointRecords):
    """Checkpoints over a link.

    Args:
        link: where the scripts run.
        prefix: of every key.
        mark_key: the database's own key, so that a tombstone names nobody.
        offset_seconds: added to the server's clock.
    """

    def __init__(self, link: Link, prefix: bytes, mark_key: bytes, offset_seconds: float) -> None:
        self._link, self._prefix, self._mark_key = link, prefix, mark_key
        self._offset = round(offset_seconds * 1000)

    @override
    async def read_checkpoint(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None
    ) -> tuple[CheckpointRow, list[WriteRow]] | None:
        name, key, _ = self._thread(thread_id)
        wanted = b"-" if checkpoint_id is None else b"+" + escape(checkpoint_id)
        args: list[Argument] = [self._offset, name, escape(checkpoint_ns), wanted]
        found = await self._link.call("read_checkpoint", [key], args)
        if found is None:
            return None
        generation, refresh, [place, value, *chunks] = found
        row = read_checkpoint_row(thread_id, generation, refresh, place, value)
        return row, list(read_write_rows(place, chunks))

    @override
    async def read_elements(
        self, thread_id: str, generation: int, runs: Sequence[Run]
    ) -> list[Element]:
        runs = [run for run in runs if run.end > run.start]
        if not runs:
            return []
        name, key, _ = self._thread(thread_id)
        ends = [position for run in runs for position in (run.start, run.end - 1)]
        keys = [key, *(_log_key(key, run.log) for run in runs)]
        found = await self._link.call(
            "read_elements", keys, [self._offset, name, generation, *ends]
        )
        bodies = {
            (run.log, position): body
            for run, elements in zip(runs, found, strict=False)  # nothing, if the thread is gone
            for position, body in enumerate(elements, run.start)
        }
        return [Element(log, position, body) for (log, position), body in bodies.items()]

    @override
    async def read_writes(
        self, thread_id: str, generation: int, checkpoints: Sequence[tuple[str, str]]
    ) -> list[WriteRow]:
        if not checkpoints:
            return []
        name, key, _ = self._thread(thread_id)
        places = [
            join_place(namespace, identity) for namespace, identity in dict.fromkeys(checkpoints)
        ]
        found = await self._link.call(
            "read_writes", [key], [self._offset, name, generation, *places]
        )
        return [row for place, *chunks in found for row in read_write_rows(place, chunks)]

    @override
    async def read_orders(self, thread_id: str, checkpoint_ids: Sequence[str]) -> list[OrderRow]:
        if not checkpoint_ids:
            return []
        name, key, _ = self._thread(thread_id)
        ids = [escape(identity) for identity in dict.fromkeys(checkpoint_ids)]
        found = await self._link.call("read_orders", [key], [self._offset, name, *ids])
        if found is None:
            return []
        is_whole, *rows = found
        _check_index(thread_id, is_whole)
        return [read_order_row(place, value) for place, value in rows]

    @override
    async def scan_checkpoints(self, scan: CheckpointScan) -> list[CheckpointRow]:
        per_thread = scan.limit if scan.thread_id is not None else min(scan.limit, FIRST_PAGE)
        per_thread += scan.after is not None  # for the cursor's own row
        while True:
            rows, horizon = await self._scan(scan, per_thread)
            page = sorted(filter(lambda row: _is_in(row, scan, horizon), rows), key=_cursor)
            page.sort(key=lambda row: row.order, reverse=True)  # stable: ties stay ascending
            if horizon is None or len(page) >= scan.limit:
                return page[: scan.limit]
            per_thread *= 4

    @override
    async def scan_threads(self, after: str | None, limit: int) -> list[ThreadRow]:
        lowest = b"-" if after is None else b"(" + to_bytes(after)
        per_bucket = min(limit, limit // (BUCKETS // FIRST_PAGE) + FIRST_PAGE)
        while True:
            pages = await self._link.call_all(
                "scan_threads",
                [
                    ([bucket.ids], [self._offset, bucket.base, lowest, per_bucket])
                    for bucket in self._buckets()
                ],
            )
            # Of a bucket that had more, nothing is known behind its last thread.
            horizon = min((page[-1][0] for page in pages if len(page) == per_bucket), default=None)
            rows = sorted(row for page in pages for row in page)
            known = [row for row in rows if horizon is None or row[0] <= horizon]
            if horizon is None or len(known) >= limit:
                return [read_thread_row(row) for row in known[:limit]]
            per_bucket = min(limit, per_bucket * 4)

    @override
    async def save_checkpoint(self, save: CheckpointSave) -> Saved:
        name, key, bucket = self._thread(save.thread_id)
        parent = b"-" if save.parent_id is None else b"+" + escape(save.parent_id)
        body = (save.parent_id, save.run_id, save.head, save.metadata)
        keys = [key, bucket.ids, bucket.due, bucket.tombstones]
        args: list[Argument] = [
            self._offset,
            name,
            self._mark(name),
            _generation(save.generation),
            _new_generation(),
            int(save.begins),
            _limits(save.limits, own=save.sticky),
            int(save.pending),
            escape(save.checkpoint_ns),
            escape(save.checkpoint_id),
            parent,
            ormsgpack.packb(body),
        ]
        for log, start, bodies in _by_log(save.elements):
            keys.append(_log_key(key, log))
            args += [start, len(bodies), *bodies]
        return _saved(await self._link.call("save_checkpoint", keys, args))

    @override
    async def save_writes(self, save: WritesSave) -> Saved:
        name, key, bucket = self._thread(save.thread_id)
        args: list[Argument] = [
            self._offset,
            name,
            self._mark(name),
            _generation(save.generation),
            _new_generation(),
            join_place(save.checkpoint_ns, save.checkpoint_id),
            int(save.interrupts),
        ]
        rows = {(write.task_id, write.idx): write for write in save.writes}
        for write in rows.values():
            body = ormsgpack.packb((write.task_path, write.channel, write.body))
            args += [to_bytes(write.task_id), write.idx, body]
        keys = [key, bucket.ids, bucket.due, bucket.tombstones]
        return _saved(await self._link.call("save_writes", keys, args))

    @override
    async def save_limits(self, thread_id: str, limits: Limits) -> bool:
        name, key, bucket = self._thread(thread_id)
        args: list[Argument] = [self._offset, name, _limits(limits, own=True)]
        return bool(await self._link.call("save_limits", [key, bucket.ids, bucket.due], args))

    @override
    async def touch_thread(self, thread_id: str, generation: int) -> None:
        name, key, bucket = self._thread(thread_id)
        args: list[Argument] = [self._offset, name, generation]
        await self._link.call("touch_thread", [key, bucket.ids, bucket.due], args)

    @override
    async def drop_thread(self, thread_id: str) -> None:
        name, key, bucket = self._thread(thread_id)
        keys = [key, bucket.ids, bucket.due, bucket.tombstones]
        await self._link.call("drop_thread", keys, [self._offset, name, self._mark(name)])

    @override
    async def drop_expired(self, limit: int) -> int:
        buckets = list(self._buckets())
        counts = await self._link.call_all(
            "count_due", [([bucket.due, bucket.tombstones], [self._offset]) for bucket in buckets]
        )
        dropped = 0
        for bucket, count in zip(buckets, counts, strict=True):
            if count and dropped < limit:
                keys = [bucket.ids, bucket.due, bucket.tombstones]
                args: list[Argument] = [self._offset, bucket.base, limit - dropped]
                dropped += int(await self._link.call("drop_expired", keys, args))
        return dropped

    async def _scan(
        self, scan: CheckpointScan, per_thread: int
    ) -> tuple[list[CheckpointRow], OrderKey | None]:
        """Rows, and the order key below which some may be missing (`None`: none is)."""
        thread = b"-" if scan.thread_id is None else b"+" + to_bytes(scan.thread_id)
        places = [
            b"-" if text is None else b"+" + escape(text)
            for text in (scan.checkpoint_ns, scan.checkpoint_id)
        ]
        args: list[Argument] = [thread, _highest(scan), *places, per_thread]
        buckets = self._buckets()
        if scan.thread_id is not None:
            buckets = [self._thread(scan.thread_id)[2]]
        calls = [([bucket.ids], [self._offset, bucket.base, *args]) for bucket in buckets]
        found = await self._link.call_all("scan_checkpoints", calls)
        rows: list[CheckpointRow] = []
        horizon: OrderKey | None = None
        for name, generation, refresh, is_whole, was_cut, *entries in (
            page for pages in found for page in pages
        ):
            thread_id = name.decode()
            _check_index(thread_id, is_whole)
            for place, value in entries:
                rows.append(read_checkpoint_row(thread_id, generation, refresh, place, value))
            if was_cut:
                last = rows[-1].order
                horizon = last if horizon is None else max(horizon, last)
        return rows, horizon

    def _thread(self, thread_id: str) -> tuple[bytes, bytes, Bucket]:
        """The thread's id as bytes, the key of its hash, its bucket."""
        name = to_bytes(thread_id)
        # SHA-1, for scripts can compute it too; the id itself is stored and compared.
        digest = sha1(name, usedforsecurity=False).hexdigest()[:24].encode()
        bucket = self._bucket(int(digest[:2], 16))
        return name, bucket.base + digest, bucket

    def _buckets(self) -> Iterable[Bucket]:
        return map(self._bucket, range(BUCKETS))

    def _bucket(self, number: int) -> Bucket:
        tagged = b"%b{%02x}:" % (self._prefix, number)
        return Bucket(tagged + b"ids", tagged + b"due", tagged + b"tombstones", tagged + b"t:")

    def _mark(self, name: bytes) -> bytes:
        return blake2b(name, key=self._mark_key, digest_size=16).digest()


def _log_key(key: bytes, log: int) -> bytes:
    return b"%b:%d" % (key, log)


def _saved(reply: Sequence[bytes]) -> Saved:
    outcome, generation = reply
    return Saved(Outcome(outcome.decode()), int(generation))


def _generation(known: int | None) -> Argument:
    return b"" if known is None else known


def _new_generation() -> int:
    """A number no other life has; a Lua number or a JSON one would hold it too."""
    return int.from_bytes(os.urandom(7)) >> 3 | 1


def _limits(limits: Limits, *, own: bool) -> str:
    seconds = (limits.idle_seconds, limits.max_age_seconds, limits.interrupted_seconds)
    words = ["-" if given is None else str(max(1, round(given * 1000))) for given in seconds]
    return " ".join([*words, str(int(limits.refresh_on_read)), str(int(own))])


def _by_log(elements: Sequence[Element]) -> Iterable[tuple[int, int, list[bytes]]]:
    """Each log with the position of its first element here and the bodies from there on.

    Raises:
        InvalidArgument: a position is missing between others, or is there twice.
    """
    logs: dict[int, list[Element]] = {}
    for element in sorted(elements, key=lambda element: element.position):
        logs.setdefault(element.log, []).append(element)
    for log, found in logs.items():
        start = found[0].position
        if [element.position for element in found] != list(range(start, start + len(found))):
            raise InvalidArgument(f"Log {log}: elements must follow each other without a gap.")
        yield log, start, [element.body for element in found]


def _highest(scan: CheckpointScan) -> bytes:
    """The bound of a scan in the index; the rest of a tie with the cursor is inside."""
    if scan.after is not None:
        return b"(" + order_bytes(scan.after.order) + b"\xff"
    return b"+" if scan.before is None else b"(" + order_bytes(scan.before)


def _cursor(row: CheckpointRow) -> tuple[str, str, str]:
    return row.thread_id, row.checkpoint_ns, row.checkpoint_id


def _is_in(row: CheckpointRow, scan: CheckpointScan, horizon: OrderKey | None) -> bool:
    if horizon is not None and row.order < horizon:
        return False
    if scan.before is not None and row.order >= scan.before:
        return False
    after: ScanCursor | None = scan.after
    if after is None or row.order < after.order:
        return True
    return row.order == after.order and _cursor(row) > after[1:]


def _check_index(thread_id: str, is_whole: int) -> None:
    if not is_whole:
        raise ThreadDamaged(thread_id, "its index has lost checkpoints")
