"""How ops are answered from records: each an `async def` that reads only."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from langgraph.store.base import ListNamespacesOp, SearchOp

from langgraph_sessionmem.item_records import (
    CandidateRow,
    ItemCursor,
    ItemRecords,
    ItemRow,
    ItemScan,
    Namespace,
    PostingsRow,
    Scope,
    ScopeRow,
)
from langgraph_sessionmem.store import filters
from langgraph_sessionmem.store.ops import listing_prefix, matches_listing
from langgraph_sessionmem.store.ranking import (
    DEFAULT_WEIGHTS,
    Scored,
    Shares,
    best,
    explain,
    foremost,
    fuse,
    rank,
    rarest,
)
from langgraph_sessionmem.store.text import query_tokens
from langgraph_sessionmem.store.values import decode
from langgraph_sessionmem.store.vectors import Dense, Matrices, dense_leg

_SMALLEST_PAGE: Final = 100
_LARGEST_PAGE: Final = 1_000
_LONGEST_QUERY: Final = 10_000
"""So many characters of a query are read."""
_LEADERS: Final = 200
"""So many of the best items bring in the turns around them."""
_FOREMOST: Final = 300
"""So many of the items that have a word of the query are looked at, those with the best words."""
_NEAREST: Final = 300
"""So many of the nearest vectors are looked at beside what the words find."""


class Found(NamedTuple):
    """An item that a search returns; `score` is None without a query."""

    row: ItemRow
    value: dict[str, Any]
    score: float | None


class ExactSearchOp(SearchOp):
    """A search in the very namespace that it names, and in none below it."""

    __slots__ = ()


class Asked(NamedTuple):
    """A query, as it is looked up.

    Attributes:
        text: as it was given.
        vector: `(dims,)` float32 of length 1; `None` goes by words alone.
    """

    text: str
    vector: bytes | None


class Evidence(NamedTuple):
    """All that the ranking of an answer goes by.

    Attributes:
        is_whole: no item that the query finds is left out.
    """

    statistics: ScopeRow
    postings: Sequence[PostingsRow]
    candidates: Sequence[CandidateRow]
    dense: Dense | None
    is_whole: bool

    def ranked(self) -> list[Scored]:
        """What was found, the best first."""
        lexical = rank(self.statistics, self.postings, self.candidates)
        return fuse(lexical, self.dense.scored, self.dense.lowest) if self.dense else lexical

    def shares(self) -> dict[int, Shares]:
        """What the score of each is the sum of, by item id."""
        near, lowest = (self.dense.scored, self.dense.lowest) if self.dense else (None, 0.0)
        return explain(self.statistics, self.postings, self.candidates, near, lowest)


def scope_of(op: SearchOp) -> Scope:
    """Where a search looks."""
    return Scope(op.namespace_prefix, isinstance(op, ExactSearchOp))


def is_asked(query: str | None) -> bool:
    """Whether a query asks for anything; an empty one is none, as in LangGraph."""
    return bool(query) and not str(query).isspace()


async def search(
    records: ItemRecords, matrices: Matrices, op: SearchOp, vector: bytes | None
) -> tuple[list[Found], Evidence | None]:
    """What a search finds, in its order, and with a query what that went by."""
    if op.limit == 0:
        return [], None
    if not is_asked(op.query):
        return await _scan(records, op), None
    asked, most = Asked(op.query or "", vector), max(_NEAREST, op.offset + op.limit)
    while True:
        evidence = await _gather(records, matrices, scope_of(op), asked, most)
        found = await _pick(records, op, evidence.ranked())
        if len(found) == op.limit or evidence.is_whole:
            return found, evidence
        most *= 8  # a filter takes most of them away


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
        rows = await records.scan_items(ItemScan(scope_of(op), terms, after, size))
        found += _matching(rows, asked, {})
        if len(rows) < size:
            break
        last = rows[-1]
        after = ItemCursor(last.updated_at, last.namespace, last.key)
    return found[op.offset : wanted]


async def _gather(
    records: ItemRecords, matrices: Matrices, scope: Scope, asked: Asked, most: int
) -> Evidence:
    tokens = query_tokens(asked.text[:_LONGEST_QUERY])
    statistics = await records.read_scope(scope, tokens)
    postings = await _search_words(records, scope, statistics, tokens)
    limit = max(most, _FOREMOST)
    chosen = foremost(statistics, postings, limit)
    candidates = await _read_around(records, statistics, postings, chosen)
    is_whole, dense = len(chosen) < limit, None
    if asked.vector is not None:
        stamp, vector = statistics.stamp, asked.vector
        dense = await dense_leg(records, matrices, scope, stamp, vector, candidates, most)
        is_whole = is_whole and dense.is_whole
        # What is near in meaning may have words of the query too.
        there = {row.item_id for row in candidates}
        said = {item_id for row in postings for item_id in row.item_ids.tolist()} - there
        candidates += [scored.item for scored in dense.scored if scored.item.item_id in said]
    return Evidence(statistics, postings, candidates, dense, is_whole)


async def _search_words(
    records: ItemRecords, scope: Scope, statistics: ScopeRow, tokens: Sequence[str]
) -> list[PostingsRow]:
    choosing, ordering = rarest(statistics, tokens)
    if not choosing:
        return []
    postings = await records.search_postings(scope, choosing, None)
    if ordering:
        item_ids = np.unique(np.concatenate([row.item_ids for row in postings])).tolist()
        postings += await records.search_postings(scope, ordering, item_ids)
    return postings


async def _read_around(
    records: ItemRecords,
    statistics: ScopeRow,
    postings: Sequence[PostingsRow],
    chosen: Sequence[int],
) -> list[CandidateRow]:
    """The chosen items, and the turns around the best of them."""
    if not chosen:
        return []
    candidates = await records.read_candidates(chosen)
    if all(row.position is None for row in candidates):
        return candidates
    leaders = [
        scored.item.item_id
        for scored in best(statistics, postings, candidates, _LEADERS)
        if scored.item.position is not None
    ]
    if leaders:
        distance = len(DEFAULT_WEIGHTS.nearby)
        candidates += await records.read_neighbours(leaders, distance, chosen)
    return candidates


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
