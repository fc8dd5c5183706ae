"""How ops are answered from records: each an `async def` that reads only."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from langgraph.store.base import ListNamespacesOp, SearchOp

from langgraph_sessionmem.item_records import (
    CandidateRow,
    ItemCursor,
    ItemRecords,
    ItemRow,
    ItemScan,
    Namespace,
)
from langgraph_sessionmem.store import filters
from langgraph_sessionmem.store.embedding import similar
from langgraph_sessionmem.store.ops import listing_prefix, matches_listing
from langgraph_sessionmem.store.ranking import DEFAULT_WEIGHTS, Scored, best, fuse, rank, rarest
from langgraph_sessionmem.store.text import query_tokens
from langgraph_sessionmem.store.values import decode

_SMALLEST_PAGE: Final = 100
_LARGEST_PAGE: Final = 1_000
_LONGEST_QUERY: Final = 10_000
"""So many characters of a query are read."""
_LEADERS: Final = 200
"""So many of the best items bring in the turns around them."""


class Found(NamedTuple):
    """An item that a search returns; `score` is None without a query."""

    row: ItemRow
    value: dict[str, Any]
    score: float | None


async def search(records: ItemRecords, op: SearchOp, query_vector: bytes | None) -> list[Found]:
    """What a search finds, in its order."""
    if op.limit == 0:
        return []
    if not op.query or op.query.isspace():
        return await _scan(records, op)
    ranked = await _rank(records, op.namespace_prefix, op.query, query_vector)
    return await _pick(records, op, ranked)


async def list_namespaces(records: ItemRecords, op: ListNamespacesOp) -> list[Namespace]:
    """The namespaces that a listing asks for, in order, each once."""
    wanted, prefix = op.offset + op.limit, listing_prefix(op)
    found: list[Namespace] = []
    after: Namespace | None = None
    while len(found) < wanted:
        page = await records.scan_namespaces(prefix, after, _LARGEST_PAGE)
        for namespace in page:
            if matches_listing(op, namespace):
                cut = namespace[: op.max_depth]
                # In order, those that are cut to the same stand together.
                if not found or found[-1] != cut:
                    found.append(cut)
        if len(page) < _LARGEST_PAGE:
            break
        after = page[-1]
    return found[op.offset : wanted]


async def _scan(records: ItemRecords, op: SearchOp) -> list[Found]:
    asked = op.filter or {}
    wanted = op.offset + op.limit
    size = min(max(2 * wanted, _SMALLEST_PAGE) if asked else wanted, _LARGEST_PAGE)
    terms = filters.terms_for(asked)
    found: list[Found] = []
    after: ItemCursor | None = None
    while len(found) < wanted:
        rows = await records.scan_items(ItemScan(op.namespace_prefix, terms, after, size))
        found += _matching(rows, asked, {})
        if len(rows) < size:
            break
        last = rows[-1]
        after = ItemCursor(last.updated_at, last.namespace, last.key)
    return found[op.offset : wanted]


async def _rank(
    records: ItemRecords, prefix: Namespace, query: str, query_vector: bytes | None
) -> list[Scored]:
    lexical = await _rank_by_words(records, prefix, query_tokens(query[:_LONGEST_QUERY]))
    if query_vector is None:
        return lexical
    embedded = await records.scan_embedded(prefix)
    vectors = await records.scan_vectors(prefix)
    return fuse(lexical, similar(query_vector, vectors, embedded))


async def _rank_by_words(
    records: ItemRecords, prefix: Namespace, tokens: Sequence[str]
) -> list[Scored]:
    scope = await records.read_scope(prefix, tokens)
    choosing, ordering = rarest(scope, tokens)
    if not choosing:
        return []
    postings = await records.search_postings(prefix, choosing, None)
    item_ids = sorted({posting.item_id for posting in postings})
    if ordering:
        postings += await records.search_postings(prefix, ordering, item_ids)
    candidates = {row.item_id: row for row in await records.read_candidates(item_ids)}
    leaders = [
        scored.item.item_id
        for scored in best(scope, postings, list(candidates.values()), _LEADERS)
        if scored.item.position is not None
    ]
    if leaders:
        distance = len(DEFAULT_WEIGHTS.nearby)
        around: list[CandidateRow] = await records.read_neighbours(leaders, distance, item_ids)
        candidates |= {row.item_id: row for row in around}
    return rank(scope, postings, list(candidates.values()))


async def _pick(records: ItemRecords, op: SearchOp, ranked: Sequence[Scored]) -> list[Found]:
    asked = op.filter or {}
    wanted = op.offset + op.limit
    size = max(wanted, _SMALLEST_PAGE) if asked else wanted
    found: list[Found] = []
    for start in range(0, len(ranked), size):
        page = {scored.item.item_id: scored.score for scored in ranked[start : start + size]}
        rows = {row.item_id: row for row in await records.read_items_by_id(list(page))}
        found += _matching([rows[item_id] for item_id in page if item_id in rows], asked, page)
        if len(found) >= wanted:
            break
    return found[op.offset : wanted]


def _matching(
    rows: Sequence[ItemRow], asked: filters.Filter, scores: dict[int, float]
) -> list[Found]:
    found = [Found(row, decode(row.value), scores.get(row.item_id)) for row in rows]
    return [one for one in found if filters.matches(asked, one.value)]
