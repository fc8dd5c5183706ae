"""How a checked batch is answered and written: each an `async def` over records, for both faces."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Result, SearchItem, SearchOp

from langgraph_sessionmem.item_records import ItemKey, ItemPut, ItemRecords, ItemRow, ItemsSave
from langgraph_sessionmem.store import search, values
from langgraph_sessionmem.store.batch import Work, with_vectors
from langgraph_sessionmem.store.ranking import Shares
from langgraph_sessionmem.store.times import to_time
from langgraph_sessionmem.store.vectors import Matrices
from langgraph_sessionmem.store.writes import ItemVersion


class Vectors(NamedTuple):
    """What the model said: vectors of texts by digest, and of queries."""

    of_texts: Mapping[bytes, bytes]
    of_queries: Mapping[str, bytes]


class Habits(NamedTuple):
    """What the answers of a store depend on beside its items.

    Attributes:
        matrices: the vectors it remembers.
        refreshes: a read begins an item's time to live anew, unless it says otherwise.
        keeps: how many former values of an item are kept; `None` is all.
    """

    matrices: Matrices
    refreshes: bool
    keeps: int | None


class Explained(NamedTuple):
    """An item that a search finds, and what its score is the sum of."""

    item: SearchItem
    shares: Shares


async def answer(
    records: ItemRecords, habits: Habits, work: Work, vectors: Vectors
) -> list[Result]:
    """The results of a batch, of the state before it; then what it writes is written."""
    wanted = {(op.namespace, op.key): None for op in work.ops if isinstance(op, GetOp)}
    rows = await records.read_items(list(wanted)) if wanted else []
    there = {(row.namespace, row.key): row for row in rows}
    results: list[Result] = []
    touched: set[int] = set()
    for op in work.ops:
        if isinstance(op, GetOp):
            row = there.get((op.namespace, op.key))
            results.append(None if row is None else _item(row))
            touched.update(_renewed(habits, op, [row] if row else []))
        elif isinstance(op, SearchOp):
            vector = vectors.of_queries.get(op.query or "")
            found, _ = await search.search(records, habits.matrices, op, vector)
            results.append([_search_item(one) for one in found])
            touched.update(_renewed(habits, op, [one.row for one in found]))
        elif isinstance(op, ListNamespacesOp):
            results.append(await search.list_namespaces(records, op))
        else:
            results.append(None)
    await save(records, habits, with_vectors(work.puts, vectors.of_texts), work.drops, touched)
    return results


async def save(
    records: ItemRecords,
    habits: Habits,
    puts: Sequence[ItemPut],
    drops: Sequence[ItemKey] = (),
    touched: set[int] | frozenset[int] = frozenset(),
) -> bool:
    """Write, if there is anything to write; False: an item is not as a put expects it."""
    if not (puts or drops or touched):
        return True
    return await records.save_items(ItemsSave(puts, drops, sorted(touched), habits.keeps))


async def explain(
    records: ItemRecords, habits: Habits, op: SearchOp, vectors: Vectors
) -> list[Explained]:
    """What a search with a query finds, with the shares of each score."""
    vector = vectors.of_queries.get(op.query or "")
    found, evidence = await search.search(records, habits.matrices, op, vector)
    shares = evidence.shares() if evidence is not None else {}
    return [Explained(_search_item(one), shares[one.row.item_id]) for one in found]


async def read_versions(records: ItemRecords, key: ItemKey) -> list[ItemVersion]:
    """The present value of an item and its former ones, the latest first."""
    rows = await records.read_versions(key)
    untils = [None, *(row.updated_at for row in rows)]
    return [
        ItemVersion(
            values.decode(row.value),
            to_time(row.updated_at),
            None if until is None else to_time(until),
        )
        for row, until in zip(rows, untils, strict=False)
    ]


def _renewed(habits: Habits, op: GetOp | SearchOp, read: Sequence[ItemRow]) -> list[int]:
    asked: bool | None = op.refresh_ttl
    renews = habits.refreshes if asked is None else asked
    return [row.item_id for row in read if row.ttl_minutes is not None] if renews else []


def _item(row: ItemRow) -> Item:
    return Item(
        value=values.decode(row.value),
        key=row.key,
        namespace=row.namespace,
        created_at=to_time(row.created_at),
        updated_at=to_time(row.updated_at),
    )


def _search_item(found: search.Found) -> SearchItem:
    row = found.row
    created_at, updated_at = to_time(row.created_at), to_time(row.updated_at)
    return SearchItem(row.namespace, row.key, found.value, created_at, updated_at, found.score)
