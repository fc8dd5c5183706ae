"""Listing checkpoints page by page: nothing is held in the database between pages.

The database narrows by thread, namespace, id and order key; metadata filters, and a `before` of
another namespace, are decided here.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.channels import runs_to_read
from langgraph_sessionmem.checkpoint.configs import read_name, read_thread_id
from langgraph_sessionmem.checkpoint.getting import (
    by_place,
    make_tuple,
    needs_sends,
)
from langgraph_sessionmem.checkpoint.head import Head, unpack_head
from langgraph_sessionmem.checkpoint.reading import read_page
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.whole import by_checkpoint
from langgraph_sessionmem.errors import InvalidArgument, ThreadDamaged
from langgraph_sessionmem.rows import CheckpointRow, CheckpointScan, OrderKey, ScanCursor, Wanted

PAGE_SIZE = 100


class Listing(NamedTuple):
    """What is still to be listed.

    Attributes:
        scan: the next page of the database.
        filter: metadata that must be equal.
        before_id: the checkpoint before which to list; None for all.
        left: how many checkpoints may still come; None for all.
    """

    scan: CheckpointScan
    filter: Mapping[str, Any]
    before_id: str | None
    left: int | None


class Page(NamedTuple):
    """Some checkpoints, and what is left after them; `rest` is None at the end."""

    tuples: list[CheckpointTuple]
    rest: Listing | None


def plan_listing(
    config: RunnableConfig | None,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Listing:
    """What `list` was asked for.

    Raises:
        InvalidArgument: the limit is no number of checkpoints, the filter no mapping, or the
            config names no thread; only `config=None` lists all of them.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        raise InvalidArgument(f"limit={limit!r}: give a whole number, or None for all.")
    if filter is not None and not isinstance(filter, Mapping):
        raise InvalidArgument(f"filter={filter!r}: give a mapping of metadata to equal values.")
    wanted: Mapping[str, Any] = (config or {}).get("configurable") or {}
    # The server's clients send `before` without "configurable".
    border: Mapping[str, Any] = (before or {}).get("configurable") or before or {}
    before_id = _name("checkpoint_id", border.get("checkpoint_id") or None)
    decided_here = filter or before_id is not None
    size = PAGE_SIZE if limit is None or decided_here else max(1, min(limit, PAGE_SIZE))
    scan = CheckpointScan(
        thread_id=read_thread_id(wanted.get("thread_id")) if config is not None else None,
        checkpoint_ns=_name("checkpoint_ns", wanted.get("checkpoint_ns")),
        checkpoint_id=_name("checkpoint_id", wanted.get("checkpoint_id") or None),
        limit=size,
    )
    return Listing(scan, filter or {}, before_id, limit)


async def next_page(records: Records, state: SaverState, listing: Listing) -> Page:
    """The next checkpoints, latest first, and what is left.

    Raises:
        ThreadDamaged: the database lost a part of a checkpoint.
        SessionExpired: the one thread to list expired, and the saver is to tell.
    """
    if listing.left is not None and listing.left <= 0:
        return Page([], None)
    rows = await read_page(records, state, listing.scan)
    metadata = {row: state.codec.decode(row.metadata) for row in rows}
    before = await _before(records, metadata, listing)
    kept = [row for row in before if _matches(metadata[row], listing.filter)][: listing.left]
    try:
        tuples = await _make_tuples(records, state, kept)
    except ThreadDamaged:
        # A thread deleted meanwhile is not listed; a damaged one raises again.
        alive = [
            row for row in kept if await records.read_orders(row.thread_id, [row.checkpoint_id])
        ]
        tuples = await _make_tuples(records, state, alive)
    if tuples and kept[0].refresh_on_read and listing.scan.thread_id is not None:
        # To list one thread is to read it; to list all of them is not.
        await records.touch_thread(kept[0].thread_id, kept[0].generation)
    left = None if listing.left is None else listing.left - len(tuples)
    if len(rows) < listing.scan.limit or left == 0:
        return Page(tuples, None)
    last = rows[-1]
    cursor = ScanCursor(last.order, last.thread_id, last.checkpoint_ns, last.checkpoint_id)
    return Page(tuples, listing._replace(scan=listing.scan._replace(after=cursor), left=left))


async def _make_tuples(
    records: Records, state: SaverState, rows: list[CheckpointRow]
) -> list[CheckpointTuple]:
    threads: dict[tuple[str, int], list[tuple[CheckpointRow, Head]]] = defaultdict(list)
    for row in rows:
        threads[row.thread_id, row.generation].append((row, unpack_head(row.head, state.codec)))
    contents = await records.read_contents([_wanted(*key, own) for key, own in threads.items()])
    made: dict[tuple[str, str, str], CheckpointTuple] = {}
    for own, (elements, found) in zip(threads.values(), contents, strict=True):
        bodies, writes = by_place(elements), by_checkpoint(found)
        for row, head in own:
            name = (row.checkpoint_ns, row.checkpoint_id)
            parent = (row.checkpoint_ns, row.parent_id or "")
            above = writes.get(parent, ()) if needs_sends(head) else ()
            own_writes = writes.get(name, ())
            made[row.thread_id, *name] = make_tuple(state, row, head, bodies, own_writes, above)
    return [made[row.thread_id, row.checkpoint_ns, row.checkpoint_id] for row in rows]


def _wanted(thread_id: str, generation: int, own: Sequence[tuple[CheckpointRow, Head]]) -> Wanted:
    """What the values and pending writes of a thread's checkpoints are made of."""
    names = {
        (row.checkpoint_ns, name)
        for row, head in own
        for name in (row.checkpoint_id, row.parent_id if needs_sends(head) else None)
        if name is not None
    }
    runs = runs_to_read([head for _, head in own])
    return Wanted(thread_id, generation, runs, sorted(names))


async def _before(
    records: Records, metadata: Mapping[CheckpointRow, Mapping[str, Any]], listing: Listing
) -> list[CheckpointRow]:
    """The rows that come before `listing.before_id`, in their own namespace or by their parents."""
    border = listing.before_id
    if border is None:
        return list(metadata)
    names: dict[str, set[str]] = defaultdict(set)
    for row, found in metadata.items():
        names[row.thread_id] |= {border, *_parents(found).values()}
    orders = {
        (thread_id, row.checkpoint_ns, row.checkpoint_id): row.order
        for thread_id, ids in names.items()
        for row in await records.read_orders(thread_id, sorted(ids))
    }
    return [row for row, found in metadata.items() if _comes_before(row, found, border, orders)]


def _comes_before(
    row: CheckpointRow,
    metadata: Mapping[str, Any],
    border: str,
    orders: Mapping[tuple[str, str, str], OrderKey],
) -> bool:
    own = orders.get((row.thread_id, row.checkpoint_ns, border))
    if own is not None:
        return row.order < own
    for namespace, ancestor in _parents(metadata).items():
        # The border is of a graph above: what ran below its earlier checkpoints came before it.
        there = orders.get((row.thread_id, namespace, border))
        above = orders.get((row.thread_id, namespace, ancestor))
        if there is not None and above is not None:
            return above < there
    return row.checkpoint_id < border


def _parents(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata.get("parents") or {}


def _matches(metadata: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Equality as `InMemorySaver` has it: an absent key equals None."""
    return all(value == metadata.get(key) for key, value in filter.items())


def _name(what: str, given: object) -> str | None:
    return None if given is None else read_name(what, given)
