"""What counts as the same, and in which calls writes are put so that they keep their order."""

import copy
import math
import random
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from threads import new_checkpoint, place

from langgraph_sessionmem.transfer.catalog import WritePath
from langgraph_sessionmem.transfer.comparing import differences, same
from langgraph_sessionmem.transfer.pending import batches, in_order


@dataclass
class Order:
    number: int


class Plain:
    """Without an equality of its own."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Plain({self.value})"


EQUAL: list[Any] = [
    None,
    1,
    math.nan,
    {"a": [1, (2, 3)], 5: {"b": math.nan}},
    np.arange(4).reshape(2, 2),
    {1, 2},
    deque([1, 2]),
    Order(3),
    [HumanMessage("hi", id="1"), AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}])],
]


@pytest.mark.parametrize("index", range(len(EQUAL)))
def test_a_value_is_the_same_as_its_copy_and_as_no_other(index: int) -> None:
    value = EQUAL[index]
    assert same(value, copy.deepcopy(value))
    assert not any(same(value, other) for other in EQUAL[:index] + EQUAL[index + 1 :])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        ([1], (1,)),
        ({"a": 1}, {"a": 1, "b": None}),
        (np.arange(3), np.arange(3, dtype=np.int16)),
        (HumanMessage("a", id="1"), HumanMessage("a", id="2")),
        (Plain(1), Plain(2)),
        ([[[1]]], [[[2]]]),
    ],
)
def test_another_type_or_content_is_never_the_same(one: Any, other: Any) -> None:
    assert not same(one, other)
    assert not same([one], [other])
    assert not same({"key": one}, {"key": other})


def found(**changed: Any) -> CheckpointTuple:
    parts: dict[str, Any] = {
        "values": {"a": 1, "b": [1]},
        "versions": {"a": "1"},
        "metadata": {"step": 1, "parents": {}, "counts": (1, 2)},
        "parent": "0",
        "writes": [("task", "a", 1)],
    } | changed
    return CheckpointTuple(
        place("t", "", "1"),
        new_checkpoint("1", parts["values"], parts["versions"]),
        parts["metadata"],
        parts["parent"] and place("t", "", parts["parent"]),
        parts["writes"],
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({}, []),
        ({"values": {"a": 2, "b": [1]}}, ["channel_values.a"]),
        ({"values": {"a": 1}}, ["checkpoint.updated_channels", "channel_values.b"]),
        (
            {"versions": {"a": "2"}},
            ["checkpoint.channel_versions", "checkpoint.versions_seen"],
        ),
        ({"metadata": {"step": 2, "parents": {}, "counts": (1, 2)}}, ["metadata.step"]),
        ({"metadata": {"step": 1, "parents": {}, "counts": [1, 2]}}, []),
        ({"parent": None}, ["parent"]),
        ({"writes": []}, ["pending_writes"]),
        ({"writes": [("other", "a", 1)]}, ["pending_writes"]),
    ],
)
def test_a_difference_is_named(changed: dict[str, Any], named: list[str]) -> None:
    assert list(differences(found(), found(**changed))) == named


def test_a_checkpoint_that_is_not_there_is_a_difference() -> None:
    assert list(differences(found(), None)) == ["the checkpoint is missing"]


def test_where_a_thread_went_on_more_writes_are_no_difference_and_lost_ones_are() -> None:
    source = found(writes=[("one", "a", 1), ("two", "__interrupt__", "?")])
    answered = found(writes=[("one", "a", 1), ("two", "__resume__", "!"), ("two", "a", 2)])
    assert list(differences(source, answered)) == ["pending_writes"]
    assert list(differences(source, answered, went_on=True)) == []
    lost = found(writes=[("two", "a", 2)])
    assert list(differences(source, lost, went_on=True)) == ["pending_writes"]


channels = st.sampled_from(["a", "b", "__interrupt__", "__resume__", "__error__"])
calls = st.lists(
    st.tuples(
        st.sampled_from("zyx"),
        st.sampled_from(["", "~p, 2", "~p, 10"]),
        st.lists(channels, min_size=1, max_size=4, unique=True),
    ),
    max_size=5,
    unique_by=lambda call: call[0],
)


@given(calls, st.booleans(), st.randoms(use_true_random=False))
def test_writes_that_are_put_again_come_back_in_the_same_order(
    calls: Any, known: bool, dice: random.Random
) -> None:
    before, after = InMemorySaver(), InMemorySaver()
    config = place("t", "", "1")
    for saver in (before, after):
        saver.put(place("t"), new_checkpoint("1", {}, {}), {}, {})
    for task_id, task_path, names in calls:
        before.put_writes(config, [(name, task_id + name) for name in names], task_id, task_path)
    stored = before.get_tuple(config)
    assert stored is not None
    writes = stored.pending_writes or []
    paths = [
        WritePath(task_id, task_path, idx, channel)
        for (task_id, idx), (_, channel, _, task_path) in before.writes["t", "", "1"].items()
    ]
    listed = dice.sample(writes, len(writes)) if known else writes
    for batch in batches(in_order(listed, paths if known else [])):
        after.put_writes(config, batch.writes, batch.task_id, batch.task_path)
    again = after.get_tuple(config)
    assert again is not None
    assert again.pending_writes == writes
    if known:
        kept = {(task, path) for task, _, _, path in after.writes["t", "", "1"].values()}
        assert kept == {(path.task_id, path.task_path) for path in paths}
