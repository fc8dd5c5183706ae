"""Which items answer a query, best first: one pure function for every database.

BM25 over the statistics of the searched scope alone. Where items are turns of one thread, a turn is
read with its surroundings: what a neighbour says counts for it too, at a discount, an answer
inherits most of the words of its question, and a session in which something fits well is a better
place to look. A dense leg is mixed in by weight, the lexical one leading: equal ranks of a weak
dense leg make the result worse.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from langgraph_sessionmem.item_records import CandidateRow, Namespace, PostingsRow, ScopeRow

ENOUGH_ITEMS: Final = 1_000
"""So many items in which the rarest tokens occur are enough to choose from."""
MOST_TOKENS: Final = 64
"""So many of the rarest tokens of a query are looked up."""

_CLOSE: Final = 1e-9
"""Scores that differ by less may be equal but for rounding."""
_Floats = npt.NDArray[np.float64]
_Indexes = npt.NDArray[np.intp]
_POSITIONS: Final = 1 << 32  # far more than a thread has; leaves 30 bits to number threads


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much.

    Attributes:
        k1: how soon more of the same token stops counting.
        b: how much long texts are held back, 0 to 1.
        nearby: the share of a token's weight that a turn gets from the turns 1, 2, … before it.
        following: the same for turns after it, as a share of `nearby`.
        answer: the share that a turn gets from the turn before it, if that asks.
        asking: what a turn loses for asking, as a share.
        session: the share of the best turn's score that every turn of its session gets.
        dense: the share of the dense leg, 0 to 1.

    Source:
        Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, for
        the formula; the values come from LoCoMo, `benchmarks/retrieval.py`.
    """

    k1: float = 0.9
    b: float = 0.4
    nearby: tuple[float, ...] = (0.5, 0.4, 0.3, 0.2)
    following: float = 0.8
    answer: float = 0.8
    asking: float = 0.2
    session: float = 0.3
    dense: float = 0.3


DEFAULT_WEIGHTS: Final = Weights()


class Scored(NamedTuple):
    """An item and how well it fits; higher is better."""

    item: CandidateRow
    score: float


class Shares(NamedTuple):
    """What the score of an item is the sum of.

    Attributes:
        words: the query's words in its own text.
        surroundings: the same words in what was said around it.
        session: how well the best turn of its session fits.
        meaning: how near its text is to the query in meaning.
    """

    words: float
    surroundings: float
    session: float
    meaning: float


def rarest(scope: ScopeRow, tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tokens to choose items by, the rarest first, and those that only help to order them.

    Together at most `MOST_TOKENS`: a whole page may be a query, and its common words say little.
    """
    known = sorted(
        (token for token in tokens if token in scope.frequencies),
        key=lambda token: (scope.frequencies[token], token),
    )[:MOST_TOKENS]
    found = 0
    for taken, token in enumerate(known):
        if found >= ENOUGH_ITEMS:
            return known[:taken], known[taken:]
        found += scope.frequencies[token]
    return known, []


class Words(NamedTuple):
    """How well the own words of items fit: `(items,)` ids, ascending, and scores."""

    item_ids: npt.NDArray[np.int64]
    scores: _Floats

    def foremost(self, limit: int) -> npt.NDArray[np.int64]:
        """The ids of the best, ascending; more than `limit` if some tie."""
        if len(self.item_ids) <= limit:
            return self.item_ids
        found: npt.NDArray[np.int64] = self.item_ids[
            self.scores >= np.partition(self.scores, -limit)[-limit]
        ]
        return found

    def of(self, item_ids: npt.NDArray[np.int64]) -> _Floats:
        """`(n,)`: the score of each of some items, 0 of one that has none of the words."""
        if not len(self.item_ids):
            return np.zeros(len(item_ids))
        places = np.searchsorted(self.item_ids, item_ids).clip(max=len(self.item_ids) - 1)
        return np.where(self.item_ids[places] == item_ids, self.scores[places], 0.0)


def own_words(
    scope: ScopeRow, postings: Sequence[PostingsRow], weights: Weights = DEFAULT_WEIGHTS
) -> Words:
    """The score that the items' own words give, of all that have any."""
    if not postings:
        return Words(np.zeros(0, dtype=np.int64), np.zeros(0))
    item_ids, places = np.unique(
        np.concatenate([row.item_ids for row in postings]), return_inverse=True
    )
    ends = np.cumsum([len(row.item_ids) for row in postings])[:-1]
    own = zip(postings, np.split(places.reshape(-1), ends), strict=True)
    scores = np.zeros(len(item_ids))
    # In the order of tokens, so that sums are the same whatever the database's order.
    for row, at in sorted(own, key=lambda one: one[0].token):
        scores[at] += _weight(scope, row.token, row.occurrences, row.lengths, weights)
    return Words(item_ids, scores)


def likeliest(
    said: _Floats, near: _Floats, lowest: float, limit: int, weights: Weights = DEFAULT_WEIGHTS
) -> npt.NDArray[np.bool_]:
    """Which items may be among the first `limit` of `fuse`, or all that decide how it stretches.

    Args:
        said: `(items,)`, what `rank` gives each item; that is the score of its own words where
            none is a turn.
        near: `(items,)`, its similarity, NaN without a vector.
        lowest: as in `fuse`.
        limit: how many are wanted; those that tie with the last come too.
        weights: as in `fuse`.
    """
    if len(said) <= limit:
        return np.ones(len(said), dtype=np.bool_)
    nearest = np.nanmax(near) if not np.isnan(near).all() else lowest
    spread = max(nearest - lowest, 1e-12)
    meaning = np.nan_to_num(1 - (nearest - near) / spread)
    mixed = (1 - weights.dense) / max(said.max(), 1e-12) * said + weights.dense * meaning
    bound = np.partition(mixed, -limit)[-limit]
    best_said = (said == said.max()) & (said > 0)
    kept: npt.NDArray[np.bool_] = (mixed >= bound - _CLOSE) | best_said | (near == nearest)
    return kept


def best(
    scope: ScopeRow,
    postings: Sequence[PostingsRow],
    candidates: Sequence[CandidateRow],
    limit: int,
    weights: Weights = DEFAULT_WEIGHTS,
) -> list[Scored]:
    """The items that their own words put in front, at most `limit`, in the order of `rank`."""
    items = _in_key_order(candidates)
    own = _token_weights(scope, postings, items, weights).sum(axis=0)[:-1]
    return _best_first(items, own)[:limit]


def rank(
    scope: ScopeRow,
    postings: Sequence[PostingsRow],
    candidates: Sequence[CandidateRow],
    weights: Weights = DEFAULT_WEIGHTS,
) -> list[Scored]:
    """Order items by how well their texts fit.

    Args:
        scope: the statistics of the searched scope.
        postings: of the query's tokens; those of items that are no candidates don't count.
        candidates: the items that may be found, and their neighbours.
        weights: what counts how much.

    Returns:
        Candidates with a score above 0: the best first, then the latest, then by namespace and key.
    """
    items = _in_key_order(candidates)
    said = _token_weights(scope, postings, items, weights)
    return _best_first(items, sum(_legs(said, items, weights), start=np.zeros(len(items))))


def fuse(
    lexical: Sequence[Scored],
    dense: Sequence[Scored],
    lowest: float,
    weights: Weights = DEFAULT_WEIGHTS,
) -> list[Scored]:
    """Mix two legs: each stretched to 0…1, then added by weight.

    Args:
        lexical: from `rank`; its zero is no match at all, so only its best is moved, to 1.
        dense: the nearest items; their zero means nothing, so the best is moved to 1.
        lowest: the similarity of the farthest item of all, which is moved to 0.
        weights: `dense` is the share of the dense leg.

    Returns:
        Each item of either leg, in the order of `rank`; scores in 0…1.
    """
    meanings = _meanings(dense, lowest, weights)
    scale = _scale(lexical, weights)
    scores = dict(meanings)
    for item, score in lexical:
        scores[item.item_id] = scores.get(item.item_id, 0.0) + scale * score
    by_id = {scored.item.item_id: scored.item for scored in (*lexical, *dense)}
    items = _in_key_order(by_id.values())
    mixed = np.array([scores[item.item_id] for item in items])
    return _best_first(items, mixed, above=-1.0)


def explain(
    scope: ScopeRow,
    postings: Sequence[PostingsRow],
    candidates: Sequence[CandidateRow],
    dense: Sequence[Scored] | None,
    lowest: float,
    weights: Weights = DEFAULT_WEIGHTS,
) -> dict[int, Shares]:
    """The shares of the score that `rank`, or with a dense leg `fuse`, gives; by item id."""
    items = _in_key_order(candidates)
    legs = _legs(_token_weights(scope, postings, items, weights), items, weights)
    lexical = _best_first(items, sum(legs, start=np.zeros(len(items))))
    scale = 1.0 if dense is None else _scale(lexical, weights)
    meanings = _meanings(dense or (), lowest, weights)
    found = {
        item.item_id: Shares(words, around, session, meanings.get(item.item_id, 0.0))
        for item, (words, around, session) in zip(
            items, (scale * np.array(legs)).T.tolist(), strict=True
        )
    }
    unsaid = {item_id: Shares(0.0, 0.0, 0.0, share) for item_id, share in meanings.items()}
    return unsaid | found


def _scale(lexical: Sequence[Scored], weights: Weights) -> float:
    """What lexical scores are multiplied by so that they fill their share."""
    highest = max((scored.score for scored in lexical), default=0.0)
    return (1 - weights.dense) / highest if highest else 0.0


def _meanings(dense: Sequence[Scored], lowest: float, weights: Weights) -> dict[int, float]:
    nearest = max((scored.score for scored in dense), default=0.0)
    spread = nearest - lowest
    return {
        item.item_id: weights.dense * (1 - (nearest - score) / spread if spread > 0 else 1.0)
        for item, score in dense
    }


def _token_weights(
    scope: ScopeRow,
    postings: Sequence[PostingsRow],
    items: Sequence[CandidateRow],
    weights: Weights,
) -> _Floats:
    """`(tokens, items + 1)`: what each token adds to each item; the last column stays 0."""
    in_order = sorted(postings, key=attrgetter("token"))
    item_ids = np.array([item.item_id for item in items], dtype=np.int64)
    lengths = np.array([item.length for item in items], dtype=np.float64)
    weighted = np.zeros((len(in_order), len(items) + 1))
    if not items:
        return weighted
    order = np.argsort(item_ids)
    for line, row in enumerate(in_order):
        places = np.searchsorted(item_ids, row.item_ids, sorter=order).clip(max=len(items) - 1)
        columns = order[places]
        there = item_ids[columns] == row.item_ids
        columns, counts = columns[there], row.occurrences[there]
        weighted[line, columns] = _weight(scope, row.token, counts, lengths[columns], weights)
    return weighted


def _weight(
    scope: ScopeRow,
    token: str,
    occurrences: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64] | _Floats,
    weights: Weights,
) -> _Floats:
    """What a token adds to texts in which it occurs so often."""
    usual = scope.length / scope.items if scope.length else 1.0
    held_back = weights.k1 * (1 - weights.b + weights.b * lengths / usual)
    weight: _Floats = (
        _rarity(scope, token) * occurrences * (weights.k1 + 1) / (occurrences + held_back)
    )
    return weight


def _rarity(scope: ScopeRow, token: str) -> float:
    frequency = scope.frequencies.get(token, 0)
    return math.log1p((scope.items - frequency + 0.5) / (frequency + 0.5))


def _legs(
    said: _Floats, items: Sequence[CandidateRow], weights: Weights
) -> tuple[_Floats, _Floats, _Floats]:
    """`(items,)` each: what an item's own words, those around it, and its session add."""
    own = said.sum(axis=0)
    asks = np.array([*(item.asks and item.position is not None for item in items), False])
    at_position = _Positions(items)
    heard = said.copy()
    for distance, share in enumerate(weights.nearby, start=1):
        before, after = at_position.shifted(-distance), at_position.shifted(distance)
        heard[:, :-1] = np.maximum(heard[:, :-1], share * said[:, before])
        heard[:, :-1] = np.maximum(heard[:, :-1], share * weights.following * said[:, after])
        if distance == 1:
            answered = said[:, before] * asks[before]
            heard[:, :-1] = np.maximum(heard[:, :-1], weights.answer * answered)
    kept = 1 - weights.asking * asks[:-1]
    around = (heard.sum(axis=0) - own)[:-1]
    session = weights.session * _best_of_session(own, items)
    return own[:-1] * kept, around * kept, session * kept


def _best_of_session(own: _Floats, items: Sequence[CandidateRow]) -> _Floats:
    best_of: dict[tuple[Namespace, str], float] = {}
    for item, score in zip(items, own.tolist(), strict=False):
        if item.session is not None:
            session = (item.namespace, item.session)
            best_of[session] = max(best_of.get(session, 0.0), score)
    return np.array(
        [0.0 if item.session is None else best_of[item.namespace, item.session] for item in items]
    )


class _Positions:
    """Finds the neighbours of turns: the same namespace and session, a position some steps away."""

    def __init__(self, items: Sequence[CandidateRow]) -> None:
        threads: dict[tuple[Namespace, str | None], int] = {}
        self._places = np.array(
            [
                -1
                if item.position is None or not 0 <= item.position < _POSITIONS
                else item.position
                + 2 * _POSITIONS * threads.setdefault((item.namespace, item.session), len(threads))
                for item in items
            ],
            dtype=np.int64,
        )
        self._order = np.argsort(self._places, kind="stable")
        self._sorted = self._places[self._order]

    def shifted(self, steps: int) -> _Indexes:
        """For each item the index of the one `steps` further on, or of a last, empty column."""
        wanted = self._places + steps
        found = np.searchsorted(self._sorted, wanted).clip(max=len(self._sorted) - 1)
        there = (self._sorted[found] == wanted) & (self._places >= 0) & (wanted >= 0)
        indexes: _Indexes = np.where(there, self._order[found], len(self._places))
        return indexes


def _in_key_order(candidates: Iterable[CandidateRow]) -> list[CandidateRow]:
    """The same order whatever the database's: it decides between equals."""
    return sorted(candidates, key=attrgetter("namespace", "key"))


def _best_first(
    items: Sequence[CandidateRow], scores: _Floats, *, above: float = 0.0
) -> list[Scored]:
    """Those of `items`, which are in key order, whose score is above a bound."""
    latest = np.array([item.updated_at for item in items], dtype=np.int64)
    order = np.lexsort((-latest, -scores))  # stable: equals stay in key order
    in_order = zip(order.tolist(), scores[order].tolist(), strict=True)
    return [Scored(items[place], score) for place, score in in_order if score > above]
