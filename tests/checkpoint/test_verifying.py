"""Values that would not come back as they are: found, named, and written down in docs/types.md."""

import ast
import dataclasses
import math
import re
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import user_models
from conftest import Database, Face
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.types import Command, Interrupt, Send
from pydantic import BaseModel, PrivateAttr
from threads import Thread, new_checkpoint, next_id, place, values_of

from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.checkpoint.verifying import find_change, locate, verify
from langgraph_sessionmem.errors import ValueNotStorable

PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text(encoding="utf-8")
CODEC = Codec(Types())


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Order(BaseModel):
    number: int
    note: Any = None


class Secretive(BaseModel):
    shown: int
    _hidden: int = PrivateAttr(default=0)


NAMES: dict[str, Any] = {
    **{"defaultdict": defaultdict, "Counter": Counter, "OrderedDict": OrderedDict, "deque": deque},
    **{"Text": Text, "Number": Number, "Order": Order, "np": np, "Fraction": Fraction},
    **{"datetime": datetime, "timedelta": timedelta, "timezone": timezone, "ZoneInfo": ZoneInfo},
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading of docs/types.md; code without its backticks."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]


def value_of(code: str) -> Any:
    return eval(compile(ast.parse(code.strip(), mode="eval"), "types.md", "eval"), dict(NAMES))  # noqa: S307 - our own page


CHANGES = rows("As something else")
REFUSALS = rows("Not at all")


def refusal_of(value: Any, channel: str = "c") -> ValueNotStorable:
    with pytest.raises(ValueNotStorable) as refusal:
        verify(CODEC, channel, value, CODEC.encode(value))
    return refusal.value


@pytest.mark.parametrize("row", CHANGES, ids=lambda row: row[0])
def test_a_value_of_the_page_comes_back_as_it_says(row: list[str]) -> None:
    value, expected = value_of(row[0]), value_of(row[1])
    found = CODEC.decode(CODEC.encode(value))
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)
    assert "would come back as" in str(refusal_of(value))


@pytest.mark.parametrize("backend_name", ["sqlite"])
@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row[0])
async def test_a_value_of_the_page_that_cant_be_stored_leaves_the_thread_as_it_was(
    row: list[str], database: Database
) -> None:
    saver = Face(database.open_saver(), False)
    thread = Thread(saver)
    config = await thread.put({"a": 1})
    for changed in (
        {"bad": value_of(row[0])},
        {"bad": {"deep": [1, value_of(row[0])]}},
        {"bad": ["x", {"deep": [1, value_of(row[0])]}]},
    ):
        with pytest.raises(ValueNotStorable, match=r"^bad") as refusal:
            await Thread(saver).put(changed)
        if isinstance(changed["bad"], dict | list):
            assert refusal.value.path.endswith("deep[1]")
        with pytest.raises(ValueNotStorable, match=r"^bad"):
            await saver("put_writes", config, [("bad", changed["bad"])], "task")
    assert (await saver("get_tuple", place())).pending_writes == []
    assert await values_of(saver, place()) == {"a": 1}
    assert await thread.put({"a": 2})


SAME: list[Any] = [
    *(None, True, 0, -0.0, math.nan, math.inf, "", "x\ud800\x00", 2**80, b""),
    *(
        [],
        {},
        [[]],
        {(1, (2,))},
        {"a": [1, {"b": math.nan}]},
        {1: 2, "b": 3, None: 4},
        {(1, 2): [3]},
    ),
    *({1, 2}, {"a", 1}, frozenset({frozenset({1})}), {math.nan}, deque([1, [2]])),
    *(datetime(2026, 1, 1, tzinfo=UTC), timedelta(1), UUID(int=5), Decimal("1.10"), Decimal("NaN")),
    *(Path("/a/b"), re.compile("a+", re.I), ZoneInfo("UTC")),
    *(np.arange(6).reshape(2, 3), np.array([1.5, math.nan]), np.array(["a"]), np.float32([1])),
    *(np.array(["2026-01-01"], dtype="datetime64[D]"), np.asfortranarray(np.ones((2, 3)))),
    *(HumanMessage("x", id="1"), AIMessage("", tool_calls=[], response_metadata={"n": math.nan})),
    *(ToolMessage("x", tool_call_id="1", artifact={"a": [1]}), HumanMessage("x", extra={"a": 1})),
    *(Document("x", metadata={"a": 1}), Send("n", {"a": [1]}), Command(goto="n"), Interrupt("v")),
    *(user_models.Order(number=1, items=[user_models.Item(name="x")]), user_models.Point(1, 2)),
    *(user_models.Frozen(user_models.Point(3), ["a"]), user_models.OldOrder(number=2)),
    *(user_models.Pair(1), user_models.Status.OPEN, user_models.Level.LOW),
    *(user_models.Login(password="secret"), Secretive(shown=1), bytearray(b"x")),
]


@pytest.mark.parametrize("value", SAME, ids=lambda value: type(value).__name__)
def test_a_value_that_comes_back_as_it_is_is_not_refused(value: Any) -> None:
    inside = [] if isinstance(value, bytearray) else [[value], {"a": [value]}]
    for outer in (value, *inside):
        verify(CODEC, "c", outer, CODEC.encode(outer))


@dataclasses.dataclass
class Counted:
    n: int
    seen: list[int] = dataclasses.field(init=False, default_factory=list)


MESSAGE = AIMessage("x", additional_kwargs={"when": (1, 2)})
CASES: list[tuple[Any, str, str]] = [
    ([1, (2,)], "[1]", "a tuple would come back as a list"),
    ({"a": {"b c": [0, (1,)]}}, "a['b c'][1]", "a tuple would come back as a list"),
    ({"a": {7: (1,)}}, "a[7]", "a tuple"),
    ([1, 2, 3, MESSAGE], "[3].additional_kwargs.when", "a tuple would come back as a list"),
    ({"d": defaultdict(list)}, "d", "a defaultdict would come back as a dict"),
    ([Counter("a")], "[0]", "a Counter would come back as a dict"),
    (deque([1], maxlen=2), "", "maxlen 2 would come back as None"),
    (deque([(1,)]), "[0]", "a tuple"),
    ({"e": [ValueError("x")]}, "e[0]", "a ValueError would come back as a str"),
    (Send("n", {"a": (1,)}), "arg.a", "a tuple"),
    (Interrupt((1, 2)), "value", "a tuple"),
    (Order(number=1, note=Order(number=2)), "note", "an Order would come back as a dict"),
    (user_models.Pair(1, (2,)), "[1]", "a tuple"),  # type: ignore[arg-type]
    (datetime(2026, 1, 1, fold=1), "", "fold=1) would come back as"),
    ([{"a": bytearray(b"x")}], "[0].a", "a bytearray would come back as a bytes"),
]


def test_a_dataclass_field_that_init_does_not_take_is_compared_too() -> None:
    counted = Counted(1)
    counted.seen.append((3,))  # type: ignore[arg-type]
    assert refusal_of(counted).path == "c.seen[0]"
    hidden = Secretive(shown=1)
    hidden._hidden = 5
    assert "_hidden" in str(refusal_of([hidden]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]!r:.40}")
def test_what_would_change_is_named_with_its_place(case: tuple[Any, str, str]) -> None:
    value, path, what = case
    refusal = refusal_of(value)
    assert refusal.path == "c" + (path if path[:1] in ("", "[") else f".{path}")
    assert what in refusal.reason


def test_a_class_that_nobody_can_import_is_named_before_it_is_stored() -> None:
    class Local(BaseModel):
        n: int

    refusal = refusal_of({"a": [1, {"b": Local(n=1)}]})
    assert refusal.path == "c.a[1].b"
    assert "types=[" in refusal.reason


def test_the_innermost_value_that_cant_be_stored_is_named() -> None:
    class Odd:
        pass

    loop: list[Any] = [1]
    loop.append(loop)
    for value, path in (
        ({"a": [Odd()]}, "a[0]"),
        (Send("n", {"x": Odd()}), "arg.x"),
        (Order(number=1, note={"y": [Odd()]}), "note.y[0]"),
        (HumanMessage("x", additional_kwargs={"z": Odd()}), "additional_kwargs.z"),
        (user_models.Frozen(user_models.Point(1), [Odd()]), "tags[0]"),  # type: ignore[list-item]
        ({"loop": loop}, "loop"),
    ):
        with pytest.raises(ValueNotStorable) as refusal:
            CODEC.encode(value)
        assert locate(CODEC, value, refusal.value).path == path


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.sampled_from([*user_models.Status, Decimal("1.0"), UUID(int=1)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 3), inner, max_size=3)
        | st.builds(lambda value: HumanMessage("x", additional_kwargs={"v": value}), inner)
        | st.builds(lambda value: Order(number=1, note=value), inner)
    ),
    max_leaves=8,
)


def has_tuple(value: Any) -> bool:
    if isinstance(value, BaseModel):
        value = value.__dict__
    if isinstance(value, dict):
        return any(map(has_tuple, value.values()))
    return type(value) is tuple or (isinstance(value, list) and any(map(has_tuple, value)))


@given(values)
def test_only_what_changes_is_refused(value: Any) -> None:
    found = CODEC.decode(CODEC.encode(value))
    assert find_change(value, value) is None
    change = find_change(value, found)
    if has_tuple(value):
        assert change is not None


@pytest.fixture
def strict(database: Database, face_name: str) -> Face:
    return Face(database.open_saver(verify="raise"), face_name == "async")


async def test_a_saver_that_verifies_refuses_before_anything_is_written(strict: Face) -> None:
    thread = Thread(strict)
    messages = [HumanMessage(f"{n}", id=f"{n}") for n in range(5)]
    config = await thread.put({"messages": messages, "plain": {"a": [1]}})
    for changed, path in (
        (
            {"messages": [*messages[:3], MESSAGE]},
            r"^messages\[3\]\.additional_kwargs\.when: a tuple ",
        ),
        ({"plain": {"a": (1,)}}, r"^plain\.a: a tuple would come back as a list\.$"),
        ({"plain": (1,)}, r"^plain: a tuple"),
        ({"messages": [(1, 2)]}, r"^messages\[0\]: a tuple"),
    ):
        with pytest.raises(ValueNotStorable, match=path):
            await thread.put(changed)
        thread.values = {"messages": messages, "plain": {"a": [1]}}
        channel, value = next(iter(changed.items()))
        with pytest.raises(ValueNotStorable, match=path):
            await strict("put_writes", config, [("other", 1), (channel, value)], "task")
    with pytest.raises(ValueNotStorable, match=r"^metadata\.odd: a tuple"):
        await thread.put({"plain": 1}, metadata={"odd": (1,)})
    found = await strict("get_tuple", place())
    assert (found.config, found.pending_writes) == (config, [])
    assert found.checkpoint["channel_values"] == {"messages": messages, "plain": {"a": [1]}}


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_what_langgraph_packs_by_itself_is_not_refused(strict: Face) -> None:
    thread = Thread(strict)
    config = await thread.put(
        {"branch:to:n": (None, True), "join:a+b:c": ({"a"}, False)},
        metadata={"counters_since_delta_snapshot": {"items": (1, 2)}},
    )
    writes = [(INTERRUPT, (Interrupt("why?", id="i"),)), (ERROR, ValueError("no"))]
    await strict("put_writes", config, writes, "task")
    found = await strict("get_tuple", config)
    assert {channel: value for _, channel, value in found.pending_writes} == {
        INTERRUPT: [Interrupt("why?", id="i")],
        ERROR: "ValueError('no')",
    }
    with pytest.raises(ValueNotStorable, match=r"^__interrupt__\[0\]\.value: a tuple"):
        await strict("put_writes", config, [(INTERRUPT, (Interrupt((1,)),))], "other")


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_list_that_goes_on_is_verified_where_it_is_new(strict: Face) -> None:
    thread = Thread(strict)
    texts: list[Any] = [f"text {n} " * 9 for n in range(9)]
    await thread.put({"list": texts})
    await thread.put({"list": [*texts, "more " * 20]})
    await thread.put({"list": [*texts[:4], "edited " * 20, *texts[5:]]})
    with pytest.raises(ValueNotStorable, match=r"^list\[4\]\[1\]: a tuple"):
        await thread.put({"list": [*texts[:4], ["x" * 99, (1,)], *texts[5:]]})


@pytest.mark.parametrize("backend_name", ["sqlite"])
def test_without_verify_such_a_value_is_stored_as_langgraphs_savers_do(database: Database) -> None:
    saver = database.open_saver()
    versions = {"a": "1"}
    config = saver.put(place(), new_checkpoint(next_id(), {"a": (1, 2)}, versions), {}, versions)
    assert saver.get_tuple(config).checkpoint["channel_values"] == {"a": [1, 2]}
