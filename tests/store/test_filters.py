from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_sessionmem.errors import InvalidFilter
from langgraph_sessionmem.store import filters

VALUES: dict[str, dict[str, Any]] = {
    "a": {"n": 9, "s": "x", "b": True, "d": {"k": 1}, "l": [1, 2], "none": None},
    "b": {"n": 10, "s": "y", "b": False, "d": {"k": 2}, "l": [1]},
    "c": {"n": 100, "s": "10"},
    "e": {},
}

TABLE: list[tuple[dict[str, Any], str]] = [
    ({}, "abce"),
    ({"n": {"$gt": 9}}, "bc"),
    ({"n": {"$gte": 10}}, "bc"),
    ({"n": {"$lt": 100}}, "ab"),
    ({"n": {"$lte": 9.0}}, "a"),
    ({"n": {"$gt": 1, "$lt": 50}}, "ab"),
    ({"n": 9}, "a"),
    ({"n": 9.0}, "a"),
    ({"n": "9"}, ""),
    ({"n": {"$ne": 9}}, "bce"),
    ({"n": {"$eq": 10}, "s": "y"}, "b"),
    ({"n": {"$in": [9, 100]}}, "ac"),
    ({"n": {"$in": [9, None]}}, "ae"),
    ({"n": {"$nin": [9, 100]}}, "be"),
    ({"n": {"$in": []}}, ""),
    ({"n": {"gt": 9}}, ""),
    ({"s": {"$gt": "x"}}, "b"),
    ({"s": {"$gt": 5}}, ""),
    ({"n": {"$gt": "5"}}, ""),
    ({"n": {"$lt": True}}, ""),
    ({"b": {"$lt": True}}, "b"),
    ({"b": 1}, ""),
    ({"b": True}, "a"),
    ({"b": {"$in": [1, 0]}}, ""),
    ({"none": None}, "abce"),
    ({"none": {"$exists": True}}, "a"),
    ({"none": {"$exists": False}}, "bce"),
    ({"none": {"$ne": None}}, ""),
    ({"n": {"$ne": None}}, "abc"),
    ({"d": {"k": 1}}, "a"),
    ({"d": {}}, ""),
    ({"d": {"$eq": {"k": 2}}}, "b"),
    ({"d.k": 1}, "a"),
    ({"d.k": {"$gte": 1}}, "ab"),
    ({"d.k.deeper": None}, "abce"),
    ({"l": [1, 2]}, "a"),
    ({"l": [2, 1]}, ""),
    ({"l": 1}, ""),
    ({"l": {"$contains": 2}}, "a"),
    ({"l": {"$contains": True}}, ""),
    ({"l.0": 1}, "ab"),
    ({"l.7": {"$exists": True}}, ""),
    ({"s": {"$contains": "1"}}, "c"),
    ({"n": {"$not": {"$gt": 9}}}, "ae"),
    ({"$not": {"n": 9}}, "bce"),
    ({"$and": [{"n": {"$gt": 9}}, {"s": "y"}]}, "b"),
    ({"$or": [{"n": 9}, {"s": "10"}]}, "ac"),
    ({"$or": [{"n": 9}, {"$and": [{"s": "10"}, {"n": 1}]}]}, "a"),
    ({"n": {"$gt": float("nan")}}, ""),
    ({"n": float("nan")}, ""),
    ({"n": {"$lt": float("inf")}}, "abc"),
    ({"n": 10**400}, ""),
    ({"n": {"$lt": 10**400}}, "abc"),
    ({"n": {"$ne": 10**5_000}, "s": {"$exists": True}}, "abc"),
    ({"s": "a') OR 1=1 --"}, ""),
    ({"a') OR 1=1 --": 1}, ""),
    ({"т": {"$exists": False}, "with space": None, "naïve": None}, "abce"),
]


@pytest.mark.parametrize(
    ("asked", "expected"), TABLE, ids=[f"{place}" for place in range(len(TABLE))]
)
def test_a_filter_matches_what_mongodb_would_match(asked: dict[str, Any], expected: str) -> None:
    filters.validate(asked)
    assert (
        "".join(key for key, value in VALUES.items() if filters.matches(asked, value)) == expected
    )


def test_a_dotted_path_and_a_dotted_field_are_both_addressable() -> None:
    literal, nested = {"a.b": 1}, {"a": {"b": 1}}
    assert filters.matches({"a.b": 1}, nested)
    assert not filters.matches({"a.b": 1}, literal)
    assert filters.matches({r"a\.b": 1}, literal)
    assert not filters.matches({r"a\.b": 1}, nested)


def test_a_field_that_begins_with_a_dollar_is_addressed_with_a_backslash() -> None:
    filters.validate({r"\$ref": 1})
    assert filters.matches({r"\$ref": 1}, {"$ref": 1})
    assert filters.matches({"d": {"$eq": {"$ref": 1}}}, {"d": {"$ref": 1}})


def test_a_backslash_before_any_other_character_is_plain() -> None:
    assert filters.split_path(r"C:\temp\\.x") == ("C:\\temp\\", "x")


def test_whole_numbers_beyond_53_bits_compare_exactly() -> None:
    large = 2**53
    assert filters.matches({"n": large + 1}, {"n": large + 1})
    assert not filters.matches({"n": large + 1}, {"n": large})
    assert not filters.matches({"n": float(large)}, {"n": large + 1})
    assert filters.matches({"n": {"$gt": float(large)}}, {"n": large + 1})


def test_a_missing_field_matches_no_comparison_and_raises_nothing() -> None:
    assert not filters.matches({"n": {"$gt": 5}}, {})
    assert not filters.matches({"n": {"$lte": 5}}, {"n": None})


@pytest.mark.parametrize(
    "bad",
    [
        [],
        "n",
        {1: 2},
        {"$nor": [{"n": 1}]},
        {"$and": []},
        {"$and": {"n": 1}},
        {"$or": ["n"]},
        {"$not": 5},
        {"n": {"$regex": "x"}},
        {"n": {"$gt": 1, "k": 2}},
        {"n": {"$gt": None}},
        {"n": {"$gt": [1]}},
        {"n": {"$in": 5}},
        {"n": {"$in": "text"}},
        {"n": {"$exists": 1}},
        {"n": {"$not": 5}},
        {"n": {"$not": {"$regex": "x"}}},
        {"n": {1, 2}},
        {"n": b"bytes"},
        {"n": {"$eq": object()}},
        {"d": {"k": {1: 2}}},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidFilter):
        filters.validate(bad)


def test_a_filter_that_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["$not"] = endless
    with pytest.raises(InvalidFilter, match="levels deep"):
        filters.validate(endless)


def test_an_unknown_operator_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidFilter, match=r"\$regex.*\$contains"):
        filters.validate({"n": {"$regex": "x"}})


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([2**53, 2**53 + 1, float(2**53), 0.5, 1.0])
    | st.sampled_from(["", "a", "b", "1"])
)
JSON = st.recursive(
    SCALARS,
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(st.sampled_from(["k", "a.b", "0"]), part, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from(["n", "k", "a.b"])
OBJECTS = st.dictionaries(FIELDS, JSON, max_size=3)


def escaped(field: str) -> str:
    return field.replace(".", r"\.")


@given(OBJECTS, FIELDS, JSON)
def test_ne_nin_and_not_say_the_opposite(value: dict[str, Any], field: str, operand: Any) -> None:
    path = escaped(field)
    equal = filters.matches({path: {"$eq": operand}}, value)
    assert filters.matches({path: {"$ne": operand}}, value) is not equal
    assert filters.matches({path: {"$in": [operand]}}, value) is equal
    assert filters.matches({path: {"$nin": [operand]}}, value) is not equal
    assert filters.matches({path: {"$not": {"$eq": operand}}}, value) is not equal
    assert filters.matches({"$not": {path: {"$eq": operand}}}, value) is not equal


@given(OBJECTS, FIELDS)
def test_every_field_equals_its_own_value(value: dict[str, Any], field: str) -> None:
    assert filters.matches({escaped(field): {"$eq": value.get(field)}}, value)


@given(OBJECTS, FIELDS, SCALARS, st.booleans())
def test_preselection_never_leaves_out_a_match(
    value: dict[str, Any], field: str, operand: Any, negated: bool
) -> None:
    asked: dict[str, Any] = {"$and": [{escaped(field): operand}]}
    if negated:
        asked["$not"] = {"n": {"$eq": operand}}
    if filters.matches(asked, value):
        assert set(filters.terms_for(asked)) <= set(filters.terms_of(value))


@pytest.mark.parametrize(
    ("stored", "asked"), [(1, 1.0), (1.0, 1), (int(1e300), 1e300), ("x", "x"), (True, True)]
)
def test_equal_scalars_are_preselected_alike(stored: Any, asked: Any) -> None:
    assert filters.terms_of({"n": stored}) == filters.terms_for({"n": {"$eq": asked}})


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, "1"), ("x", "X"), (0.5, 0.25)])
def test_different_scalars_are_preselected_apart(one: Any, other: Any) -> None:
    assert filters.terms_of({"n": one}) != filters.terms_for({"n": other})


@pytest.mark.parametrize(
    "asked",
    [
        {"l.0": 1},
        {"d.k": 1},
        {"n": None},
        {"n": [1]},
        {"n": "long" * 30},
        {"n": {"$gt": 1}},
        {"n": 10**5_000},
        {"$or": [{"n": 1}]},
        {"$not": {"n": 1}},
    ],
)
def test_what_names_no_scalar_of_a_field_is_left_to_the_filter(asked: dict[str, Any]) -> None:
    assert filters.terms_for(asked) == []
