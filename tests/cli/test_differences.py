"""What is shown of sizes, times and changes is right."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_sessionmem.checkpoint.inspecting import Unbuilt
from langgraph_sessionmem.cli.differences import changes, shown
from langgraph_sessionmem.cli.units import ago, ahead, read_duration, size_text, time_text
from langgraph_sessionmem.errors import InvalidArgument


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 KB"),
        (99_949, "99.9 KB"),
        (99_950, "100 KB"),
        (999_499, "999 KB"),
        (999_500, "1.0 MB"),
        (1_810_000_000, "1.8 GB"),
        (5 * 10**15, "5,000 TB"),
    ],
)
def test_a_size_has_a_unit_that_keeps_it_short(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (900, "15 min"),
        (3_600 + 60, "1 h 1 min"),
        (86_400 * 3 + 3_600 * 5, "3 d 5 h"),
        (86_400 * 400, "400 d"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_deadlines_and_ages_are_told_in_words() -> None:
    assert (ago(0.3), ago(61)) == ("now", "1 min 1 s ago")
    assert (ahead(None), ahead(-5), ahead(120)) == ("never", "due", "in 2 min")


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("30d", timedelta(days=30)),
        ("1.5 h", timedelta(minutes=90)),
        ("90min", timedelta(minutes=90)),
        ("2w", timedelta(days=14)),
        ("10s", timedelta(seconds=10)),
    ],
)
def test_a_duration_is_read_as_one_writes_it(text: str, duration: timedelta) -> None:
    assert read_duration("--older-than", text) == duration


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1 year", "1d2h", "nan d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--older-than"):
        read_duration("--older-than", text)


def parts(before: Any, after: Any) -> list[tuple[str, Any]]:
    [change] = changes({"c": before}, {"c": after})
    return [(part.kind, part.at) for part in change.parts]


def test_channels_come_go_and_change() -> None:
    found = changes({"a": 1, "b": 1, "c": 1}, {"b": 2, "c": 1, "d": 1})
    assert [(change.channel, change.kind) for change in found] == [
        ("a", "removed"),
        ("b", "changed"),
        ("d", "added"),
    ]


def test_messages_are_matched_by_their_ids() -> None:
    one, two, three = (HumanMessage(str(n), id=str(n)) for n in range(3))
    edited = AIMessage("1", id="1")
    assert parts([one, two], [one, edited, three]) == [("changed", "1"), ("added", "2")]
    assert parts([one, two, three], [three]) == [("removed", "0"), ("removed", "1")]
    assert parts([one, two], [two, one]) == [("changed", None)]


def test_messages_without_an_id_are_matched_by_their_place() -> None:
    one, two = HumanMessage("a"), HumanMessage("b")
    assert parts([one], [one, two]) == [("added", 1)]
    assert parts([one, two], [one]) == [("removed", 1)]


def test_mappings_are_compared_by_their_keys() -> None:
    assert parts({"a": 1, "b": 2, "c": 3}, {"b": 3, "c": 3, "d": 4}) == [
        ("removed", "a"),
        ("changed", "b"),
        ("added", "d"),
    ]


def test_what_was_not_built_is_the_same_if_its_stored_form_is() -> None:
    one, two = Unbuilt("shop.Order", "00"), Unbuilt("shop.Order", "01")
    assert changes({"a": [one]}, {"a": [Unbuilt("shop.Order", "00")]}) == []
    assert parts([one, one], [one, two]) == [("changed", 1)]
    assert shown(two) == "<shop.Order 01>"


lists = st.lists(st.integers(0, 3), max_size=12)


@given(lists, lists)
def test_every_element_is_kept_or_named(before: list[int], after: list[int]) -> None:
    found = changes({"c": before}, {"c": after})
    if before == after:
        assert found == []
        return
    [change] = found
    kinds = [part.kind for part in change.parts]
    assert kinds.count("added") - kinds.count("removed") == len(after) - len(before)
    for part in change.parts:
        assert isinstance(part.at, int)
        if part.kind != "removed":
            assert after[part.at] == part.after
        if part.kind == "removed":
            assert before[part.at] == part.before


def test_long_lists_that_differ_all_over_take_no_time() -> None:
    found = changes({"c": list(range(5_000))}, {"c": list(range(5_000, 10_000))})
    assert len(found[0].parts) == 10_000
