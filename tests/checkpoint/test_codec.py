"""Values as bytes: what comes back, and what a mark tells apart."""

import copy
import ipaddress
import math
import operator
import pathlib
import re
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import user_models
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item
from langgraph.types import Command, Interrupt, Send

from langgraph_sessionmem.checkpoint.codec import BYTES, Codec
from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.errors import CorruptData, ValueNotStorable

CODEC = Codec(Types())
THEIRS = JsonPlusSerializer()

CALL = {"name": "find", "args": {"id": 7, "deep": [{}]}, "id": "c1", "type": "tool_call"}
USAGE: Any = {
    "input_tokens": 3,
    "output_tokens": 4,
    "total_tokens": 7,
    "input_token_details": {"cache_read": 1},
}


class LoudMessage(HumanMessage):
    volume: int = 11


MESSAGES: list[BaseMessage] = [
    HumanMessage("hi"),
    HumanMessage("", id="", name=""),
    HumanMessage([{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "u"}}]),
    HumanMessage(["a", {"type": "text", "text": "b"}], additional_kwargs={"k": [1, None, 2.5]}),
    HumanMessage("x\x00y \U0001f600"),
    HumanMessage("x", extra_field={"a": 1}),
    HumanMessage("x", additional_kwargs={"at": datetime(2026, 1, 1, tzinfo=UTC)}),
    HumanMessage("x", additional_kwargs={"n": 2**60, "deep": [[[]]]}),
    AIMessage("x", id="a", tool_calls=[CALL], usage_metadata=USAGE),
    AIMessage(
        "", invalid_tool_calls=[{**CALL, "args": "{", "error": "bad", "type": "invalid_tool_call"}]
    ),
    AIMessage("x", response_metadata={"logprobs": None, "nan": math.inf}),
    AIMessageChunk(
        "x", tool_call_chunks=[{**CALL, "args": "{", "index": 0, "type": "tool_call_chunk"}]
    ),
    AIMessageChunk("", chunk_position="last"),
    SystemMessage("be kind", id="s"),
    ToolMessage("7", tool_call_id="c1"),
    ToolMessage([{"type": "text", "text": "7"}], tool_call_id="c1", status="error", artifact=[1]),
    RemoveMessage(id="r"),
    ChatMessage("x", role="judge"),
    FunctionMessage("x", name="f"),
    HumanMessageChunk("x"),
    LoudMessage("x", volume=3),
]

SAME_AS_THEIRS: list[Any] = [
    *(None, True, 1, 1.5, "x", b"x", bytearray(b"x"), [], {}, [1, [2]], {"a": {"b": [None]}}),
    *(2**64 - 1, -(2**63), math.inf, "\x00"),
    *((1, 2), [(1, 2)], {1, 2}, frozenset({1}), deque([1, 2]), {"t": (1, (2,))}, {1: 2, None: 3}),
    *(datetime(2026, 1, 2, 3, 4, 5, 6), datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2)),
    *(time(1, 2, 3), timedelta(1, 2, 3), timezone(timedelta(hours=2)), UTC),
    *(zoneinfo.ZoneInfo("UTC"), UUID(int=1), Decimal("1.10"), Decimal("NaN").is_nan()),
    *(ipaddress.ip_address("::1"), ipaddress.ip_network("10.0.0.0/8"), pathlib.Path("/a/b")),
    *(re.compile("a+", re.IGNORECASE), Send("n", {"x": 1}), Interrupt("v", id="i")),
    *(Command(update={"a": 1}, goto="n"), Document("text", metadata={"a": 1}), ValueError("no")),
    *(OrderedDict(a=1), defaultdict(int, a=1), Counter("aa"), [HumanMessage("x"), 1, b"y"]),
    *({"messages": MESSAGES[:3]}, [user_models.Order(number=1)], [[HumanMessage("x")]]),
    Item(
        value={"a": 1},
        key="k",
        namespace=("n",),
        created_at=datetime(2026, 1, 1),
        updated_at=datetime(2026, 1, 1),
    ),
]

OWN: list[Any] = [
    *(
        user_models.Status.OPEN,
        user_models.Status.CLOSED,
        user_models.Level.LOW,
        user_models.Pair(1),
        user_models.Point(1, 2),
    ),
    *(user_models.Frozen(user_models.Point(3), ["a"]), user_models.OldOrder(number=2)),
    user_models.Order(
        number=7, items=[user_models.Item(name="x", status=user_models.Status.CLOSED)], note="n"
    ),
    user_models.Login(password="secret"),
]


def through(value: Any, codec: Codec = CODEC) -> Any:
    return codec.decode(codec.encode(value))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: BaseMessage) -> None:
    found = through(message)
    assert type(found) is type(message)
    assert found == message == THEIRS.loads_typed(THEIRS.dumps_typed(message))
    assert found.model_dump() == message.model_dump()
    assert found.model_dump_json() == message.model_dump_json()
    assert found.model_copy(deep=True) == message
    assert CODEC.mark(found) == CODEC.mark(message)
    assert CODEC.decode(CODEC.encode_mark(CODEC.mark(message))) == message
    found.additional_kwargs["new"] = 1
    assert "new" not in through(message).additional_kwargs


@pytest.mark.parametrize(
    "inside", [(1, 2), {"t": (1,)}, user_models.Order(number=1), {1: 2}, {1, 2}]
)
def test_what_a_message_holds_beside_plain_data_comes_back_as_from_langgraphs_serializer(
    inside: Any,
) -> None:
    messages = [
        ToolMessage("7", tool_call_id="c1", artifact=inside),
        AIMessage("x", additional_kwargs={"inside": inside}),
    ]
    for message in messages:
        assert through(message) == THEIRS.loads_typed(THEIRS.dumps_typed(message))


@pytest.mark.parametrize("value", SAME_AS_THEIRS, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_from_langgraphs_serializer(value: Any) -> None:
    found, theirs = through(value), THEIRS.loads_typed(THEIRS.dumps_typed(value))
    assert found == theirs
    assert type(found) is type(theirs)
    assert repr(found) == repr(theirs)


@pytest.mark.parametrize(
    "value",
    [
        *("x\ud800", "\udfff", 2**64, -(2**63) - 1, 10**400, {"\ud800": ["\udc00", 2**70, 1.5]}),
        *([math.inf, -0.0, "\ud800"], {"a": [None, True, {"b": -(2**80)}], "\x00": "\U0001f600"}),
    ],
    ids=repr,
)
def test_lone_surrogates_and_large_integers_come_back_exactly(value: Any) -> None:
    assert same(through(value), value)
    for message in (
        HumanMessage("x\ud800", additional_kwargs={"k": value}),
        AIMessage("", tool_calls=[{**CALL, "args": {"v": value}}], id="\udfff"),
    ):
        found = through(message)
        assert type(found) is type(message)
        assert same(found.model_dump(), message.model_dump())
        assert CODEC.mark(found) == CODEC.mark(message)
        changed = message.model_copy(update={"name": "n"})
        assert CODEC.mark(changed) != CODEC.mark(message)


def test_arrays_of_times_come_back_and_such_that_could_not_are_refused() -> None:
    times = np.array(["2026-01-01", "NaT"], dtype="datetime64[s]")
    for array in (times, times - times, np.asfortranarray(np.stack([times, times]))):
        found = through([array])[0]
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    for bad in (np.array([object()]), np.zeros(2, dtype=[("a", "i4")])):
        with pytest.raises(ValueNotStorable, match="dtype"):
            CODEC.encode({"a": bad})


def test_arrays_come_back_with_type_shape_and_order() -> None:
    plain = np.arange(6, dtype=np.float32).reshape(2, 3)
    for array in (plain, np.asfortranarray(plain), plain[:, ::2], np.zeros((0, 4)), np.array(3)):
        found = through({"a": array})["a"]
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        np.testing.assert_array_equal(found, array)
    snapshot = through(_DeltaSnapshot([HumanMessage("x")]))
    assert type(snapshot) is _DeltaSnapshot
    assert snapshot.value == [HumanMessage("x")]


@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
def test_data_classes_of_the_users_own_come_back_as_themselves(value: Any) -> None:
    for outer in (value, [value], {"v": value}, (value,)):
        found = through(outer)
        inner = found if outer is value else (found["v"] if isinstance(found, dict) else found[0])
        assert type(inner) is type(value)
        assert inner == value


def test_a_field_that_init_does_not_take_keeps_its_value() -> None:
    point = user_models.Point(1, 2)
    point.total, point.label = 99, "set"
    assert vars(through(point)) == {"x": 1, "y": 2, "total": 99, "label": "set"}


def test_a_model_that_was_valid_when_stored_comes_back_though_its_validators_refuse_it() -> None:
    odd = user_models.Order.model_construct(number=-1, items=[], note=None)
    found = through(odd)
    assert type(found) is user_models.Order
    assert found.number == -1


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner, max_size=3
        )
    ),
    max_leaves=10,
)
any_values = st.recursive(
    plain_values
    | st.binary(max_size=5)
    | st.datetimes()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.sampled_from([user_models.Status.OPEN, user_models.Level.LOW]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(left: Any, right: Any) -> bool:
    """Equal with types, signs and NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
    if isinstance(left, float):
        return repr(left) == repr(right)
    return bool(left == right)


@given(plain_values)
def test_plain_data_comes_back_exactly_down_to_its_types(value: Any) -> None:
    assert same(through(value), value)
    message = HumanMessage("x", additional_kwargs={"value": value})
    assert same(through(message).additional_kwargs, message.additional_kwargs)


@given(any_values)
def test_any_value_comes_back_as_from_langgraphs_serializer(value: Any) -> None:
    assert same(through(value), THEIRS.loads_typed(THEIRS.dumps_typed(value)))


@given(plain_values, plain_values)
def test_equal_marks_mean_equal_values(left: Any, right: Any) -> None:
    assert (CODEC.mark(left) == CODEC.mark(right)) == same(left, right)
    messages = [HumanMessage("x", additional_kwargs={"v": value}) for value in (left, right)]
    assert (CODEC.mark(messages[0]) == CODEC.mark(messages[1])) == same(left, right)


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every `(container, key)` within a value of plain data."""
    keys = range(len(value)) if isinstance(value, list) else list(value)
    found = [(value, key) for key in keys]
    for _, key in list(found):
        if isinstance(value[key], list | dict):
            found += spots(value[key])
    return found


@given(st.sampled_from(MESSAGES), plain_values, plain_values, st.data())
def test_a_change_anywhere_in_a_message_changes_its_mark(
    message: BaseMessage, inside: Any, new: Any, data: st.DataObject
) -> None:
    message = copy.deepcopy(message)
    message.additional_kwargs["inside"] = {"value": inside, "list": [inside]}
    before = CODEC.mark(message)
    places = spots(message.additional_kwargs) + spots(message.response_metadata)
    container, key = data.draw(st.sampled_from(places))
    old = copy.deepcopy(container[key])
    container[key] = new
    assert (CODEC.mark(message) == before) == same(old, new)
    container[key] = old
    assert CODEC.mark(message) == before
    message.content = f"{message.content} and more"
    assert CODEC.mark(message) != before


@given(st.data())
def test_marks_of_many_are_the_marks_of_each_whatever_has_changed(data: st.DataObject) -> None:
    kinds: list[Any] = [
        lambda n: HumanMessage(f"{n}", additional_kwargs={"n": [n]}),
        lambda n: Document(f"{n}", metadata={"n": [n]}),
        lambda n: {"n": [n], "text": f"{n}"},
        lambda n: [n, [n]],
        str,
        int,
    ]
    chosen = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    values = [chosen[n % len(chosen)](n) for n in range(data.draw(st.integers(0, 100)))]
    likely = CODEC.marks(values)
    assert likely == [CODEC.mark(value) for value in values]
    unchanged = CODEC.marks(values, likely)
    whole = len(values) // 32 * 32
    assert all(map(operator.is_, unchanged[:whole], likely))
    assert unchanged == likely
    for index in data.draw(st.lists(st.integers(0, 99), max_size=3)):
        if index < len(values):
            odd = [None, (1,), {"n": (1,)}, b"x", SystemMessage(f"{index}"), 1.0, True]
            values[index] = data.draw(st.sampled_from(odd))
    if values and data.draw(st.booleans()):
        values.insert(data.draw(st.integers(0, len(values))), "new")
    assert CODEC.marks(values, likely) == [CODEC.mark(value) for value in values]
    before = len(values)
    assert CODEC.marks(values[: before // 2], likely) == CODEC.marks(values)[: before // 2]


@given(st.data())
def test_many_values_are_decoded_as_each_by_itself(data: st.DataObject) -> None:
    kinds = data.draw(
        st.lists(st.sampled_from([*MESSAGES, 1, "x", {"a": [1]}, None, b"x", (1,)]), min_size=1)
    )
    values = [kinds[n % len(kinds)] for n in range(data.draw(st.integers(0, 150)))]
    bodies = [CODEC.encode(value) for value in values]
    found = CODEC.decode_all(bodies)
    assert found == [CODEC.decode(body) for body in bodies]
    assert list(map(type, found)) == [type(CODEC.decode(body)) for body in bodies]
    assert len({id(value) for value in found if isinstance(value, dict)}) == sum(
        isinstance(value, dict) for value in found
    )
    if bodies:
        index = data.draw(st.integers(0, len(bodies) - 1))
        bodies[index] = bodies[index][: data.draw(st.integers(0, len(bodies[index]) - 1))]
        if bodies[index][:1] != BYTES:
            with pytest.raises(CorruptData):
                CODEC.decode_all(bodies)


ALIKE: list[Any] = [
    *(1, True, 1.0, "1", [1], (1,), {1}, frozenset({1}), deque([1])),
    *(0, False, 0.0, -0.0, None, "", b"", [], (), {}, set(), "0", math.nan, math.inf),
    *([1, 2], [2, 1], (1, 2), [[1], 2], {"a": 1}, {"a": 1.0}, {"a": True}, {1: 1}, {"1": 1}),
    *({"a": 1, "b": 2}, {"b": 2, "a": 1}, "é", "e\u0301", "a\x00", "a"),
    *(UUID(int=1), UUID(int=1).hex, date(2026, 1, 1), "2026-01-01", datetime(2026, 1, 1)),
    *(user_models.Level.LOW, user_models.Status.OPEN, "open"),
]
ALIKE_OBJECTS: list[Any] = [
    *(HumanMessage("x"), AIMessage("x"), HumanMessageChunk("x"), LoudMessage("x"), "x"),
    *(Document("x"), Document("x", metadata={"type": "Document"}), {"page_content": "x"}),
    *(
        user_models.Pair(1, "r"),
        (1, "r"),
        user_models.Order(number=1),
        user_models.Order(number=1).model_dump(),
    ),
    *(b"1", bytearray(b"1")),
]


def test_what_looks_alike_has_another_mark() -> None:
    marks = [CODEC.mark(value) for value in ALIKE + ALIKE_OBJECTS]
    assert len(set(marks)) == len(marks)
    wrapped = [CODEC.mark(HumanMessage("x", additional_kwargs={"v": value})) for value in ALIKE]
    assert len(set(wrapped)) == len(wrapped)


def test_the_users_own_serializer_writes_every_element_and_reads_it_back() -> None:
    class Reversed:
        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            kind, data = THEIRS.dumps_typed(value)
            return kind, data[::-1]

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return THEIRS.loads_typed((data[0], data[1][::-1]))

    codec = Codec(Types(), Reversed())
    for value in (HumanMessage("secret text"), [HumanMessage("secret text")], "secret text", None):
        body = codec.encode(value)
        assert b"secret text" not in body
        assert codec.decode(body) == value
