"""Items by namespace and key: what is put is there, exactly, and nothing else."""

import itertools
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from conftest import Database, Face
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from langgraph_sessionmem import LongTermStore
from langgraph_sessionmem.errors import (
    InvalidArgument,
    InvalidFilter,
    SchemaMissing,
    SessionMemoryError,
    UnknownScheme,
    ValueNotStorable,
)

NS = ("users", "u1")


async def test_what_was_put_is_there_and_equal(store: Face) -> None:
    value = {"text": "tea", "n": 1, "deep": {"list": [1, 2.5, None, True, "x"]}}
    await store("put", NS, "k", value)
    item = await store("get", NS, "k")
    assert (item.namespace, item.key, item.value) == (NS, "k", value)
    assert await store("get", NS, "other") is None
    assert await store("get", ("users",), "k") is None


async def test_a_deleted_item_is_gone_and_deleting_again_is_fine(store: Face) -> None:
    await store("put", NS, "k", {"a": 1})
    await store("delete", NS, "k")
    await store("delete", NS, "k")
    assert await store("get", NS, "k") is None
    assert await store("search", NS) == []
    assert await store("list_namespaces") == []


async def test_an_overwrite_keeps_created_at_and_is_strictly_later(store: Face) -> None:
    seen = []
    for number in range(5):
        await store("put", NS, "k", {"n": number})
        seen.append(await store("get", NS, "k"))
    assert {item.created_at for item in seen} == {seen[0].created_at}
    assert all(one.updated_at < other.updated_at for one, other in itertools.pairwise(seen))


async def test_times_are_aware_utc_and_now(store: Face) -> None:
    await store("put", NS, "k", {})
    item = await store("get", NS, "k")
    assert item.created_at.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - item.created_at) < timedelta(minutes=5)
    assert item.dict()["created_at"] == item.created_at.isoformat()


async def test_the_latest_comes_first(store: Face) -> None:
    for key in "abc":
        await store("put", NS, key, {})
    await store("put", NS, "a", {"again": True})
    assert [item.key for item in await store("search", NS)] == ["a", "c", "b"]


async def test_neither_arguments_nor_results_are_tied_to_the_store(store: Face) -> None:
    value: dict[str, Any] = {"list": [1]}
    await store("put", NS, "k", value)
    value["list"].append(2)
    first, second = await store("batch", [GetOp(NS, "k"), GetOp(NS, "k")])
    first.value["list"].append(3)
    assert second.value == {"list": [1]}
    assert (await store("get", NS, "k")).value == {"list": [1]}


async def test_reading_makes_nothing(store: Face) -> None:
    assert await store("get", ("ghost",), "k") is None
    assert await store("search", ("ghost",)) == []
    assert await store("list_namespaces") == []


async def test_a_batch_reads_the_state_before_it(store: Face) -> None:
    await store("put", NS, "k", {"n": 1})
    results = await store(
        "batch",
        [
            PutOp(NS, "k", {"n": 2}),
            GetOp(NS, "k"),
            PutOp(NS, "new", {"n": 3}),
            SearchOp(NS),
            ListNamespacesOp(),
            GetOp(NS, "missing"),
        ],
    )
    assert results[0] is None
    assert results[1].value == {"n": 1}
    assert results[2] is None
    assert [item.value for item in results[3]] == [{"n": 1}]
    assert results[4] == [NS]
    assert results[5] is None
    assert (await store("get", NS, "k")).value == {"n": 2}


async def test_the_last_put_of_a_key_in_a_batch_wins(store: Face) -> None:
    await store(
        "batch",
        [
            PutOp(NS, "twice", {"n": 1}),
            PutOp(NS, "twice", {"n": 2}),
            PutOp(NS, "gone", {"n": 1}),
            PutOp(NS, "gone", None),
            PutOp(NS, "back", None),
            PutOp(NS, "back", {"n": 1}),
        ],
    )
    assert [item.key for item in await store("search", NS)] == ["back", "twice"]
    assert (await store("get", NS, "twice")).value == {"n": 2}


async def test_ops_are_iterated_once(store: Face) -> None:
    await store("put", NS, "k", {"n": 1})
    results = await store("batch", (op for op in [GetOp(NS, "k"), GetOp(NS, "x")]))
    assert [result and result.value for result in results] == [{"n": 1}, None]
    assert await store("batch", iter(())) == []


async def test_thousands_of_puts_fit_in_one_batch(store: Face) -> None:
    await store("batch", [PutOp(NS, f"{n}", {"n": n}, index=False) for n in range(3_000)])
    found = await store("search", NS, limit=5_000)
    assert [item.value["n"] for item in found] == list(reversed(range(3_000)))


BAD_OPS: list[Any] = [
    GetOp(("a.b",), "k"),
    GetOp("abc", "k"),
    GetOp(["a"], "k"),
    GetOp(("a", ""), "k"),
    GetOp(("a", 1), "k"),
    GetOp(("a\x00b",), "k"),
    GetOp(("a\ud800",), "k"),
    GetOp(("a",), 5),
    GetOp(("a",), "\ud800"),
    PutOp((), "k", {}),
    PutOp(("langgraph", "x"), "k", {}),
    PutOp(("a.b",), "k", {}),
    PutOp((None, "x"), "k", {}),
    PutOp("abc", "k", {}),
    PutOp(("a",), 5, {}),
    PutOp(("a",), "k", [1]),
    PutOp(("a",), "k", {"x": {1}}),
    PutOp(("a",), "k", {}, index=True),
    PutOp(("a",), "k", {}, index="text"),
    PutOp(("a",), "k", {}, index=[1]),
    PutOp(("a",), "k", {}, ttl=0),
    PutOp(("a",), "k", {}, ttl=-1),
    PutOp(("a",), "k", {}, ttl=float("nan")),
    PutOp(("a",), "k", {}, ttl=True),
    PutOp(("a",), "k", {}, ttl="5"),
    SearchOp("abc"),
    SearchOp(("a.b",)),
    SearchOp(("a",), limit=-1),
    SearchOp(("a",), limit=None),
    SearchOp(("a",), offset=-1),
    SearchOp(("a",), query=5),
    SearchOp(("a",), {"n": {"$regex": "x"}}),
    ListNamespacesOp(max_depth=0),
    ListNamespacesOp(limit=-1),
    ListNamespacesOp((MatchCondition("prefix", ("a.b",)),)),
    ListNamespacesOp((MatchCondition("prefix", "abc"),)),
    ListNamespacesOp((MatchCondition("infix", ("a",)),)),
    "no op",
]


@pytest.mark.parametrize("bad", BAD_OPS, ids=repr)
async def test_a_bad_op_fails_its_batch_before_anything_is_written(store: Face, bad: Any) -> None:
    with pytest.raises((InvalidNamespaceError, InvalidArgument)):
        await store("batch", [PutOp(NS, "k", {"n": 1}), bad])
    assert await store("get", NS, "k") is None


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("langgraph",), (None,), ("a", 1), "a"])
async def test_a_put_under_an_impossible_namespace_is_refused(store: Face, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError):
        await store("put", namespace, "k", {})


@pytest.mark.parametrize("namespace", [(), ("langgraph",)])
async def test_reading_under_a_namespace_that_holds_nothing_just_misses(
    store: Face, namespace: Any
) -> None:
    assert await store("get", namespace, "k") is None
    await store("delete", namespace, "k")


async def test_a_whole_number_as_key_is_the_key_of_that_text(store: Face) -> None:
    await store("put", NS, 5, {})
    assert (await store("get", NS, "5")).key == "5"


class Colour(StrEnum):
    RED = "red"


ENDLESS: dict[str, Any] = {}
ENDLESS["self"] = [ENDLESS]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": float("nan")}]}, r"value\.a\[1\]\.b: nan"),
        ({"a": float("inf")}, r"value\.a: inf"),
        ({"when": datetime(2026, 1, 1, tzinfo=UTC)}, r"value\.when: .*datetime"),
        ({"a": (1, 2)}, r"value\.a: .*tuple"),
        ({"a": {1, 2}}, r"value\.a: .*set"),
        ({"a": b"x"}, r"value\.a: .*bytes"),
        ({"a": {1: 2}}, r"value\.a: the key 1"),
        ({1: 2}, r"value: the key 1"),
        ({"a": object()}, r"value\.a: .*object"),
        ({"a": 10**5_000}, r"value\.a: .*digits"),
        (ENDLESS, "nested"),
        ([1], "value: a mapping"),
        ("text", "value: a mapping"),
    ],
)
async def test_a_value_that_is_no_json_is_refused_with_its_place(
    store: Face, value: Any, path: str
) -> None:
    with pytest.raises(ValueNotStorable, match=path):
        await store("put", NS, "k", value)
    assert await store("get", NS, "k") is None


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"": ""},
        {"n": 2**53 + 1, "large": -(10**4_000), "float": 5e-324, "zero": -0.0},
        {"NUL \x00 ключ": "\x00 \x01 \u2028 \U0001f600"},
        {"lone": "\ud800 text"},
        {"\udfff": [[], {}, [[]]]},
        {"quotes": "'; drop table items; --", "$op": {"$gt": 1}},
        {"enum": Colour.RED},
        MappingProxyType({"a": 1}),
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_any_json_comes_back_equal(store: Face, value: Any) -> None:
    await store("put", NS, "k", value)
    assert (await store("get", NS, "k")).value == value
    assert [item.value for item in await store("search", NS)] == [value]


KEYS = [
    "", " ", "k", "K", "k ", "%", "_", "*", "?", "[a]", "a b{c}|d-1", "'", '"', "\\", "\n",
    "\x00", "\x01", "\x01\x01", "\x00\x01", "ключ", "é", "e\u0301", "\U0001f600", "a.b", "/",
    ":", "😀" * 300,
]  # fmt: skip


async def test_keys_are_opaque_and_exact(store: Face) -> None:
    await store("batch", [PutOp(NS, key, {"at": place}) for place, key in enumerate(KEYS)])
    items = await store("batch", [GetOp(NS, key) for key in KEYS])
    assert [(item.key, item.value["at"]) for item in items] == [
        (key, place) for place, key in enumerate(KEYS)
    ]
    for key in KEYS[::2]:
        await store("delete", NS, key)
    left = await store("search", NS, limit=100)
    assert sorted(item.key for item in left) == sorted(KEYS[1::2])


async def test_items_outlive_the_store_that_put_them(database: Database) -> None:
    with database.open_store() as store:
        store.put(NS, "k", {"n": 1})
    async with database.open_store(setup=False) as store:
        assert (await store.aget(NS, "k")).value == {"n": 1}


async def test_without_setup_missing_tables_are_an_error(database: Database) -> None:
    store = database.open_store(setup=False)
    with pytest.raises(SchemaMissing):
        store.get(NS, "k")
    await store.asetup()
    assert store.get(NS, "k") is None


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("mysql://host/db", UnknownScheme),
        ("nonsense", InvalidArgument),
    ],
)
def test_a_connection_string_that_cannot_be_used_is_refused(
    url: str, error: type[SessionMemoryError]
) -> None:
    with pytest.raises(error):
        LongTermStore.from_conn_string(url)


@pytest.mark.parametrize(
    "arguments",
    [
        {"ttl": {"default_ttl": 0}},
        {"ttl": {"default_ttl": "5"}},
        {"ttl": {"refresh_on_read": "yes"}},
        {"ttl": {"default": 5}},
        {"ttl": 5},
        {"index": {"dims": 3, "embed": len, "distance": "l2"}},
        {"index": {"embed": len}},
        {"index": {"embed": len, "dims": 0}},
        {"index": {"fields": "text"}},
        {"index": []},
        {"prefix": "p"},
        {"schema": "s"},
    ],
    ids=str,
)
def test_an_argument_that_cannot_be_used_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        LongTermStore(**arguments)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_every_json_value_comes_back_equal(value: dict[str, Any]) -> None:
    with LongTermStore() as store:
        store.put(NS, "k", value)
        found = store.get(NS, "k")
        assert found is not None
        assert repr(found.value) == repr(value)  # 1, 1.0 and True are equal, and not the same


async def test_an_unknown_operator_is_refused_before_anything_is_searched(store: Face) -> None:
    with pytest.raises(InvalidFilter, match=r"\$regex"):
        await store("search", NS, filter={"n": {"$regex": "x"}})
