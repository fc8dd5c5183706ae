"""How ops are answered from records: each an `async def` that reads only."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
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
    Words,
    best,
    explain,
    fuse,
    likeliest,
    own_words,
    rank,
    rarest,
)
from langgraph_sessionmem.store.text import query_tokens
from langgraph_sessionmem.store.values import decode
from langgraph_sessionmem.store.vectors import Dense, Matrices, Near, first_living, nearness

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
_NO_IDS: Final[npt.NDArray[np.int64]] = np.zeros(0, dtype=np.int64)


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


class Sought(NamedTuple):
    """How far a search looks.

    Attributes:
        window: so many of the nearest vectors, and of the best words if it's more than `_FOREMOST`.
        first: so many of the first items are wanted.
    """

    window: int
    first: int


class Looked(NamedTuple):
    """What the ranking goes by, before its surroundings.

    Attributes:
        chosen: ids of items that have words of the query.
        window: ids of the nearest living items.
        rows: of all of them, and others, by id.
        is_whole: as in `Evidence`.
    """

    chosen: Sequence[int]
    window: Sequence[int]
    rows: dict[int, CandidateRow]
    is_whole: bool


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
    asked, wanted = Asked(op.query or "", vector), op.offset + op.limit
    window = max(_NEAREST, wanted)
    sought = Sought(window, window if op.filter else wanted)
    while True:
        evidence = await _gather(records, matrices, scope_of(op), asked, sought)
        found = await _pick(records, op, evidence.ranked())
        if len(found) == op.limit or evidence.is_whole:
            return found, evidence
        # A filter takes most of them away.
        sought = Sought(8 * sought.window, max(8 * sought.first, window))


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
    records: ItemRecords, matrices: Matrices, scope: Scope, asked: Asked, sought: Sought
) -> Evidence:
    tokens = query_tokens(asked.text[:_LONGEST_QUERY])
    statistics = await records.read_scope(scope, tokens)
    postings = await _search_words(records, scope, statistics, tokens)
    words, near = own_words(statistics, postings), None
    if asked.vector is not None:
        near = await nearness(records, matrices, scope, statistics.stamp, asked.vector)
    chosen, window, rows, is_whole = await _look(records, statistics, words, near, sought)
    candidates = [rows[item_id] for item_id in chosen if item_id in rows]
    candidates += await _read_around(records, statistics, postings, candidates)
    dense = None
    if near is not None:
        farthest = await first_living(records, near.in_order()[::-1], 1, rows)
        known = {row.item_id: row for row in candidates}
        known |= {item_id: rows[item_id] for item_id in window}
        lowest = min((scored.score for scored in near.scored(farthest)), default=0.0)
        dense = Dense(near.scored(list(known.values())), lowest)
        # What is near in meaning may have words of the query too.
        there = {row.item_id for row in candidates}
        said = np.array(window, dtype=np.int64)[np.isin(window, words.item_ids)].tolist()
        candidates += [rows[item_id] for item_id in said if item_id not in there]
    return Evidence(statistics, postings, candidates, dense, is_whole)


async def _look(
    records: ItemRecords, statistics: ScopeRow, words: Words, near: Near | None, sought: Sought
) -> Looked:
    """Read the items that the ranking goes by, with the farthest, from which it measures."""
    chosen = words.foremost(max(sought.window, _FOREMOST))
    in_order = near.in_order() if near else _NO_IDS
    window = in_order[: sought.window]
    is_whole = len(chosen) == len(words.item_ids) and len(window) == len(in_order)
    item_ids = np.unique(np.concatenate([chosen, window, in_order[-1:]]))
    if not statistics.turns:
        # Each item stands for itself: what it says and how near it is puts it where it belongs.
        likely = item_ids[_likeliest(words, near, item_ids, sought.first)]
        asked = np.union1d(likely, in_order[-1:]).tolist()
        rows = {row.item_id: row for row in await records.read_candidates(asked)}
        if len(rows) == len(asked):  # else the first or the farthest may be another
            chosen, window = chosen[np.isin(chosen, likely)], window[np.isin(window, likely)]
            is_whole = is_whole and len(likely) == len(item_ids)
            return Looked(chosen.tolist(), window.tolist(), rows, is_whole)
    asked = item_ids.tolist()
    rows = {row.item_id: row for row in await records.read_candidates(asked)} if asked else {}
    living = await first_living(records, in_order, sought.window, rows)
    return Looked(chosen.tolist(), [row.item_id for row in living], rows, is_whole)


def _likeliest(
    words: Words, near: Near | None, item_ids: npt.NDArray[np.int64], first: int
) -> npt.NDArray[np.bool_]:
    said = words.of(item_ids)
    if near is None or not len(near.order):
        return likeliest(said, np.full(len(item_ids), np.nan), 0.0, first)
    lowest = float(near.similarities[near.order[-1]])
    return likeliest(said, near.of(item_ids), lowest, first)


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
    candidates: Sequence[CandidateRow],
) -> list[CandidateRow]:
    """The turns around the best of the candidates, without those that are candidates."""
    if all(row.position is None for row in candidates):
        return []
    leaders = [
        scored.item.item_id
        for scored in best(statistics, postings, candidates, _LEADERS)
        if scored.item.position is not None
    ]
    if not leaders:
        return []
    known = [row.item_id for row in candidates]
    return await records.read_neighbours(leaders, len(DEFAULT_WEIGHTS.nearby), known)


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
