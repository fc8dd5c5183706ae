"""Scans of one thread, or of all of them bucket by bucket."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from langgraph_sessionmem.backends.redis_arguments import Value
from langgraph_sessionmem.backends.redis_calls import Calls
from langgraph_sessionmem.backends.redis_rows import (
    escape,
    join_place,
    order_bytes,
    read_checkpoint_row,
    read_thread_row,
    to_bytes,
)
from langgraph_sessionmem.errors import ThreadDamaged
from langgraph_sessionmem.rows import (
    ANCHOR_ORDER,
    CheckpointRow,
    CheckpointScan,
    OrderKey,
    ScanCursor,
    Stats,
    ThreadOrder,
    ThreadRow,
    ThreadScan,
)

FIRST_PAGE = 4
"""Of each bucket's threads, when all of them are asked for a page."""
LOOKED_AT = 500
"""Threads of a bucket that one script looks at, so that it is done in a few milliseconds."""
_NEVER = 2**53


class _Found(NamedTuple):
    """A thread in its place; the row as it was sent."""

    value: int
    name: bytes
    packed: bytes


async def scan_checkpoints(calls: Calls, scan: CheckpointScan) -> list[CheckpointRow]:
    """A page of checkpoints, as `CheckpointRecords` has it; memory for a page of each bucket."""
    if scan.thread_id is None:
        return await _scan_all(calls, scan)
    least = scan.limit + (scan.after is not None)  # for the cursor's own row
    while True:
        rows, horizon = await _scan_thread(calls, scan, scan.thread_id, least)
        page = _in_order(row for row in rows if _is_in(row, scan, horizon))
        if horizon is None or len(page) >= scan.limit:
            return page[: scan.limit]
        least *= 4


async def scan_threads(calls: Calls, scan: ThreadScan) -> list[ThreadRow]:
    """A page of threads, as `CheckpointRecords` has it; memory for a page of each bucket."""
    prefix, after = to_bytes(scan.prefix), scan.after
    by_id = scan.order is ThreadOrder.THREAD_ID
    lowest = b"[" + prefix
    named: dict[str, Value] = {
        "highest": b"(" + prefix + b"\xff",  # a byte that UTF-8 never has
        "order": scan.order.value,
        "limit": scan.limit,
    }
    if after is not None and by_id:
        lowest = max(lowest, b"(" + to_bytes(after.thread_id), key=lambda bound: bound[1:])
    elif after is not None:
        named |= {"value": _value(after, scan.order), "after": to_bytes(after.thread_id)}
    best: list[_Found] = []
    places = dict.fromkeys(calls.keys.buckets(), lowest)
    while places:
        replies = await calls.call_all(
            "scan_threads",
            [
                (key, {**named, "lowest": place, "page": _page(scan)})
                for key, place in places.items()
            ],
        )
        found = (_read_found(rows) for _, *rows in replies)
        best = heapq.nsmallest(scan.limit, [*best, *(each for rows in found for each in rows)])
        places = {key: b"(" + last for key, (last, *_) in zip(places, replies, strict=True) if last}
        if by_id and len(best) == scan.limit:
            places = {key: place for key, place in places.items() if place[1:] < best[-1].name}
    return [read_thread_row(found.packed) for found in best]


async def scan_expired(calls: Calls, limit: int, *, keep_latest: bool) -> list[ThreadRow]:
    """Expired threads, the longest first."""
    named: dict[str, Value] = {"limit": limit, "keep_latest": keep_latest}
    replies = await calls.call_all("scan_expired", [(key, named) for key in calls.keys.buckets()])
    found = heapq.nsmallest(
        limit, ((int(since), packed) for reply in replies for since, packed in reply)
    )
    return [read_thread_row(packed) for _, packed in found]


async def read_stats(calls: Calls) -> Stats:
    """What all buckets hold."""
    totals = [0] * 8
    places: dict[bytes, bytes | None] = dict.fromkeys(calls.keys.buckets())
    while places:
        replies = await calls.call_all(
            "read_stats",
            [(key, {"after": place, "limit": LOOKED_AT}) for key, place in places.items()],
        )
        for _, *numbers in replies:
            totals = [total + number for total, number in zip(totals, numbers, strict=True)]
        places = {key: last for key, (last, *_) in zip(places, replies, strict=True) if last}
    return Stats(*totals)


def check_index(thread_id: str, is_whole: int) -> None:
    """Raise where a thread's index has lost checkpoints.

    Raises:
        ThreadDamaged: it has.
    """
    if not is_whole:
        raise ThreadDamaged(thread_id, "its index has lost checkpoints")


async def _scan_thread(
    calls: Calls, scan: CheckpointScan, thread_id: str, least: int
) -> tuple[list[CheckpointRow], OrderKey | None]:
    """Rows, and the order key below which some may be missing (`None`: none is)."""
    named = {**_conditions(scan), "limit": least, "anchors": scan.anchors}
    found = await calls.call_thread("scan_checkpoints", thread_id, named)
    if found is None:
        return [], None
    generation, flags, is_whole, was_cut, *entries = found
    check_index(thread_id, is_whole)
    rows = [read_checkpoint_row(thread_id, generation, flags, *entry) for entry in entries]
    return rows, rows[-1].order if was_cut else None


async def _scan_all(calls: Calls, scan: CheckpointScan) -> list[CheckpointRow]:
    """A page of all threads, a part of each bucket at a time."""
    named = {**_conditions(scan), "limit": scan.limit, "page": FIRST_PAGE}
    if scan.after is not None:
        order, thread_id, *names = scan.after
        named |= {
            "after_order": order_bytes(order),
            "after_thread": to_bytes(thread_id),
            "after_place": join_place(*names),
        }
    best: list[CheckpointRow] = []
    places = dict.fromkeys(calls.keys.buckets(), b"+")
    while places:
        replies = await calls.call_all(
            "scan_all", [(key, {**named, "last": place}) for key, place in places.items()]
        )
        for _, *pages in replies:
            for name, generation, flags, is_whole, *entries in pages:
                thread_id = name.decode()
                check_index(thread_id, is_whole)
                best += (
                    read_checkpoint_row(thread_id, generation, flags, *entry) for entry in entries
                )
        best = _in_order(best)[: scan.limit]
        if len(best) == scan.limit:
            named["floor"] = order_bytes(best[-1].order)
        named["page"] = LOOKED_AT
        places = {key: b"(" + last for key, (last, *_) in zip(places, replies, strict=True) if last}
    return best


def _conditions(scan: CheckpointScan) -> dict[str, Value]:
    """Which checkpoints, as scripts take it."""
    return {
        "highest": _highest(scan),
        "ns": None if scan.checkpoint_ns is None else escape(scan.checkpoint_ns) + b"\x00",
        "checkpoint": None if scan.checkpoint_id is None else escape(scan.checkpoint_id),
    }


def _in_order(rows: Iterable[CheckpointRow]) -> list[CheckpointRow]:
    found = sorted(rows, key=_cursor)
    found.sort(key=lambda row: row.order, reverse=True)  # stable: ties stay ascending
    return found


def _page(scan: ThreadScan) -> int:
    if scan.order is ThreadOrder.THREAD_ID:
        return min(LOOKED_AT, scan.limit // 64 + FIRST_PAGE)
    return LOOKED_AT


def _value(row: ThreadRow, order: ThreadOrder) -> int:
    """What an order goes by, as `scan_threads.lua` has it."""
    if order is ThreadOrder.UPDATED_AT:
        return -round(row.updated_at * 1000)
    if order is ThreadOrder.EXPIRES_AT:
        return _NEVER if row.expires_at is None else round(row.expires_at * 1000)
    return -row.size


def _read_found(rows: Sequence[Any]) -> Iterator[_Found]:
    for value, name, packed in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        yield _Found(int(value), name, packed)


def _highest(scan: CheckpointScan) -> bytes:
    """The bound of a scan in the index; the rest of a tie with the cursor is inside."""
    if scan.after is not None:
        if scan.after.order == ANCHOR_ORDER:
            return b"-"  # anchors are behind the index
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
