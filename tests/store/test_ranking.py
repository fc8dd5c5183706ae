import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_sessionmem.item_records import CandidateRow, PostingsRow, ScopeRow
from langgraph_sessionmem.store.ranking import (
    DEFAULT_WEIGHTS,
    Scored,
    best,
    explain,
    fuse,
    likeliest,
    own_words,
    rank,
    rarest,
)

PLAIN = replace(DEFAULT_WEIGHTS, nearby=(), answer=0.0, asking=0.0, session=0.0)


def item(item_id: int, text: str, **changes: object) -> CandidateRow:
    row = CandidateRow(item_id, ("ns",), f"{item_id:03}", 0, len(text.split()), None, None, False)
    return row._replace(**changes)


def turns(texts: Sequence[str], session: str | None = None) -> list[CandidateRow]:
    return [
        item(place, text, position=place, session=session, asks=text.endswith("?"))
        for place, text in enumerate(texts)
    ]


def scope_of(texts: Sequence[str]) -> ScopeRow:
    words = [text.replace("?", " ?").split() for text in texts]
    frequencies = Counter(token for text in words for token in set(text))
    return ScopeRow(len(texts), sum(map(len, words)), frequencies, 1)


def postings_of(texts: Sequence[str], query: str) -> list[PostingsRow]:
    counts = [Counter(text.replace("?", " ?").split()) for text in texts]
    rows = []
    for token in dict.fromkeys(query.split()):
        columns = [
            (place, count[token], count.total())
            for place, count in enumerate(counts)
            if count[token]
        ]
        if columns:
            rows.append(PostingsRow(token, *np.array(columns, dtype=np.int64).T))
    return rows


def found(texts: Sequence[str], query: str, rows: Sequence[CandidateRow] = ()) -> list[int]:
    rows = rows or [item(place, text) for place, text in enumerate(texts)]
    ranked = rank(scope_of(texts), postings_of(texts, query), rows)
    return [scored.item.item_id for scored in ranked]


def test_a_score_is_that_of_bm25() -> None:
    texts = ["tea green", "tea tea black strong", "coffee"]
    ranked = rank(
        scope_of(texts),
        postings_of(texts, "tea"),
        [item(place, text) for place, text in enumerate(texts)],
        PLAIN,
    )
    rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    expected = {
        place: rarity * count * 1.9 / (count + 0.9 * (0.6 + 0.4 * length / (7 / 3)))
        for place, count, length in [(0, 1, 2), (1, 2, 4)]
    }
    scores = {scored.item.item_id: scored.score for scored in ranked}
    assert scores == pytest.approx(expected)


def test_what_has_no_word_of_the_query_is_not_found() -> None:
    assert found(["tea", "coffee"], "tea") == [0]
    assert found(["tea", "coffee"], "milk") == []
    assert rank(ScopeRow(0, 0, {}, 0), [], []) == []


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    texts = ["tea cup", "tea pot", "tea jar", "rum cup"]
    assert found(texts, "tea rum")[0] == 3


def test_equal_scores_come_latest_first_then_by_namespace_and_key() -> None:
    texts = ["tea"] * 5
    rows = [
        item(0, "tea", namespace=("b",), key="a"),
        item(1, "tea", namespace=("a",), key="b"),
        item(2, "tea", namespace=("a",), key="a"),
        item(3, "tea", namespace=("a", "b"), key="a"),
        item(4, "tea", namespace=("z",), key="z", updated_at=1),
    ]
    assert found(texts, "tea", rows) == [4, 2, 1, 3, 0]


def test_a_turn_is_found_by_what_its_neighbours_say() -> None:
    texts = ["we talked", "about lisbon", "it was sunny", "and then", "we ate", "fish", "bye"]
    order = found(texts, "lisbon", turns(texts))
    assert order[:2] == [1, 2]
    assert sorted(order) == [0, 1, 2, 3, 4, 5]


def test_an_answer_comes_before_other_neighbours_of_its_question() -> None:
    texts = ["hello again", "where is lisbon ?", "far away", "indeed it is"]
    assert found(texts, "lisbon", turns(texts))[:2] == [1, 2]


def test_a_turn_that_tells_comes_before_one_that_asks_the_same() -> None:
    texts = ["to lisbon ?", *["so so"] * 9, "to lisbon !"]
    assert found(texts, "lisbon", turns(texts))[0] == 10


def test_neighbours_are_of_the_same_namespace_and_session() -> None:
    texts = ["lisbon", "one", "two", "three"]
    rows = [
        item(0, "lisbon", position=0, session="s"),
        item(1, "one", position=1, session="t"),
        item(2, "two", position=1, session="s", namespace=("other",)),
        item(3, "three", session="s"),
    ]
    ranked = rank(scope_of(texts), postings_of(texts, "lisbon"), rows)
    # The last one has no place in the thread, yet is of the session in which something fits.
    assert [scored.item.item_id for scored in ranked] == [0, 3]


def test_items_that_are_no_turns_have_no_neighbours() -> None:
    assert found(["lisbon", "one", "two"], "lisbon") == [0]


WORDS = st.sampled_from(["tea", "rum", "cup", "jar", "pot", "?"])
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=12)


@given(TEXTS, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_the_database_plays_no_part(
    texts: list[str], chance: random.Random, as_turns: bool
) -> None:
    rows = turns(texts) if as_turns else [item(place, text) for place, text in enumerate(texts)]
    postings = postings_of(texts, "tea rum")
    expected = rank(scope_of(texts), postings, rows)
    chance.shuffle(rows)
    chance.shuffle(postings)
    assert rank(scope_of(texts), postings, rows) == expected


@given(TEXTS)
def test_every_score_is_positive_and_no_item_comes_twice(texts: list[str]) -> None:
    ranked = rank(scope_of(texts), postings_of(texts, "tea rum cup"), turns(texts, "s"))
    assert all(scored.score > 0 for scored in ranked)
    assert len({scored.item.item_id for scored in ranked}) == len(ranked)
    assert ranked == sorted(ranked, key=lambda one: -one.score)


@given(TEXTS, TEXTS)
def test_what_is_outside_the_candidates_changes_nothing(
    texts: list[str], others: list[str]
) -> None:
    rows = turns(texts)
    scope, postings = scope_of(texts), postings_of(texts, "tea rum")
    elsewhere = [
        row._replace(item_ids=row.item_ids + 1_000) for row in postings_of(others, "tea rum")
    ]
    assert rank(scope, postings + elsewhere, rows) == rank(scope, postings, rows)


@given(TEXTS, st.integers(0, 5))
def test_the_best_by_their_own_words_are_the_first_of_the_plain_ranking(
    texts: list[str], limit: int
) -> None:
    rows = [item(place, text) for place, text in enumerate(texts)]
    scope, postings = scope_of(texts), postings_of(texts, "tea rum")
    assert best(scope, postings, rows, limit) == rank(scope, postings, rows, PLAIN)[:limit]


@given(TEXTS, st.integers(1, 5))
def test_the_foremost_are_the_best_by_their_own_words_and_those_that_tie_with_them(
    texts: list[str], limit: int
) -> None:
    rows = [item(place, text) for place, text in enumerate(texts)]
    scope, postings = scope_of(texts), postings_of(texts, "tea rum cup")
    ranked = rank(scope, postings, rows, PLAIN)
    last = ranked[:limit][-1].score if ranked else 0.0
    expected = [one.item.item_id for one in ranked if one.score >= last]
    assert own_words(scope, postings).foremost(limit).tolist() == sorted(expected)


@given(TEXTS, st.data(), st.integers(1, 5))
def test_the_first_of_a_mixed_ranking_are_the_same_when_only_the_likeliest_are_ranked(
    texts: list[str], data: st.DataObject, limit: int
) -> None:
    rows = [item(place, text) for place, text in enumerate(texts)]
    scope, postings = scope_of(texts), postings_of(texts, "tea rum cup")
    some = st.none() | st.sampled_from([-0.5, 0.0, 0.25, 0.75])
    near = data.draw(st.lists(some, min_size=len(rows), max_size=len(rows)))
    lowest = min((one for one in near if one is not None), default=0.0)

    def first(kept: Sequence[bool]) -> list[Scored]:
        left = [row for row, is_kept in zip(rows, kept, strict=True) if is_kept]
        dense = [
            Scored(row, similarity)
            for row, similarity, is_kept in zip(rows, near, kept, strict=True)
            if is_kept and similarity is not None
        ]
        return fuse(rank(scope, postings, left), dense, lowest)[:limit]

    said = own_words(scope, postings).of(np.array([row.item_id for row in rows], dtype=np.int64))
    kept = likeliest(said, np.array(near, dtype=np.float64), lowest, limit)
    assert first(kept.tolist()) == first([True] * len(rows))


def test_the_rarest_tokens_choose_until_there_are_items_enough() -> None:
    scope = ScopeRow(5_000, 50_000, {"a": 4_000, "b": 3, "c": 997, "d": 990}, 1)
    assert rarest(scope, ["a", "b", "c", "d", "unknown"]) == (["b", "d", "c"], ["a"])
    assert rarest(scope, ["a"]) == (["a"], [])
    assert rarest(scope, ["unknown"]) == ([], [])


def test_of_a_very_long_query_the_rarest_tokens_are_looked_up() -> None:
    scope = ScopeRow(500, 5_000, {f"{n:03}": n + 1 for n in range(200)}, 1)
    choosing, ordering = rarest(scope, sorted(scope.frequencies, reverse=True))
    assert choosing + ordering == [f"{n:03}" for n in range(64)]


def test_fusion_lets_the_lexical_leg_lead() -> None:
    one, two, three = (item(place, "x") for place in range(3))
    lexical = [Scored(one, 8.0), Scored(two, 4.0)]
    dense = [Scored(three, 0.9), Scored(two, 0.8), Scored(one, 0.5)]
    fused = fuse(lexical, dense, 0.5)
    assert [scored.item.item_id for scored in fused] == [0, 1, 2]
    assert [scored.score for scored in fused] == pytest.approx([0.7, 0.7 * 0.5 + 0.3 * 0.75, 0.3])


def test_fusion_of_the_nearest_alone_gives_them_the_scores_that_they_have_among_all() -> None:
    rows = [item(place, "x") for place in range(4)]
    lexical = [Scored(rows[0], 8.0), Scored(rows[1], 4.0)]
    dense = [Scored(row, 0.9 - 0.2 * place) for place, row in enumerate(rows)]
    among_all = {one.item.item_id: one.score for one in fuse(lexical, dense, dense[-1].score)}
    for one in fuse(lexical, dense[:2], dense[-1].score):
        assert one.score == among_all[one.item.item_id]


def test_fusion_without_lexical_matches_is_the_order_of_the_similarities() -> None:
    rows = [item(place, "x") for place in range(3)]
    dense = [Scored(rows[2], 0.2), Scored(rows[0], 0.1), Scored(rows[1], -0.5)]
    assert [scored.item.item_id for scored in fuse([], dense, -0.5)] == [2, 0, 1]
    assert fuse([], [], 0.0) == []


def test_fusion_of_equal_similarities_keeps_the_lexical_order() -> None:
    rows = [item(place, "x") for place in range(2)]
    lexical = [Scored(rows[1], 2.0), Scored(rows[0], 1.0)]
    fused = fuse(lexical, [Scored(row, 0.4) for row in rows], 0.4)
    assert [scored.item.item_id for scored in fused] == [1, 0]


@given(st.lists(st.sampled_from(["tea", "tea?", "milk", "tea milk"]), max_size=8), st.data())
def test_the_shares_of_an_explanation_are_what_the_score_is_the_sum_of(
    texts: list[str], data: st.DataObject
) -> None:
    candidates = turns(texts, session="1")
    scope, postings = scope_of(texts), postings_of(texts, "tea milk")
    near = data.draw(st.none() | st.lists(st.floats(-1, 1), min_size=len(texts)))
    dense = None if near is None else list(map(Scored, candidates, near))
    lowest = min(near or [0.0])
    scored = rank(scope, postings, candidates)
    if dense is not None:
        scored = fuse(scored, dense, lowest)
    shares = explain(scope, postings, candidates, dense, lowest)
    for one in scored:
        assert sum(shares[one.item.item_id]) == pytest.approx(one.score)
