"""Namespaces: whole labels, never patterns; listed, searched below and erased as such."""

import itertools
from typing import Any

import pytest
from conftest import Database, Face
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import InvalidNamespaceError, PutOp
from langgraph.store.memory import InMemoryStore

from langgraph_sessionmem import LongTermStore
from langgraph_sessionmem.errors import InvalidArgument

NS = ("users", "u1")


LABELS = [
    "a", "A", "ab", "a b", "a-b", "a%", "%", "_", "*", "a*", "\x01", "a\x01", "\x02", "é",
    "e\u0301", "/", "0", "a/", "\n", "u", "the", "👤",
]  # fmt: skip
NAMESPACES = [(one,) for one in LABELS] + [(one, two) for one in LABELS for two in LABELS[:6]]


async def test_a_prefix_is_whole_labels_and_nothing_else(store: Face) -> None:
    await store("batch", [PutOp(namespace, "k", {}) for namespace in NAMESPACES])
    for prefix in [(), *NAMESPACES[::3]]:
        found = await store("search", prefix, limit=1_000)
        assert {item.namespace for item in found} == {
            namespace for namespace in NAMESPACES if namespace[: len(prefix)] == prefix
        }


async def test_namespaces_are_listed_in_order_each_once(store: Face) -> None:
    await store("batch", [PutOp(ns, key, {}) for ns in NAMESPACES for key in "xy"])
    assert await store("list_namespaces", limit=1_000) == sorted(NAMESPACES)
    pages = [await store("list_namespaces", limit=7, offset=start) for start in range(0, 200, 7)]
    assert list(itertools.chain(*pages)) == sorted(NAMESPACES)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["a", "a b c", "a b d e", "a b d i", "a b f", "a c f", "x b f"]),
        ({"prefix": ("a", "b")}, ["a b c", "a b d e", "a b d i", "a b f"]),
        ({"prefix": ("a", "b"), "max_depth": 3}, ["a b c", "a b d", "a b f"]),
        ({"prefix": ("*", "b")}, ["a b c", "a b d e", "a b d i", "a b f", "x b f"]),
        ({"prefix": ("*", "b", "f")}, ["a b f", "x b f"]),
        ({"suffix": ("f",)}, ["a b f", "a c f", "x b f"]),
        ({"suffix": ("*", "f"), "prefix": ("a",)}, ["a b f", "a c f"]),
        ({"suffix": ("a", "b", "c", "d", "e")}, []),
        ({"max_depth": 1}, ["a", "x"]),
        ({"max_depth": 2, "limit": 2, "offset": 1}, ["a b", "a c"]),
        ({"prefix": ("nowhere",)}, []),
        ({"limit": 0}, []),
    ],
    ids=str,
)
async def test_a_listing_follows_its_conditions(
    store: Face, asked: dict[str, Any], expected: list[str]
) -> None:
    for path in ["a", "a b c", "a b d e", "a b d i", "a b f", "a c f", "x b f"]:
        await store("put", tuple(path.split()), "k", {})
    found = await store("list_namespaces", **asked)
    assert [" ".join(namespace) for namespace in found] == expected


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple)
PATTERNS = st.lists(st.sampled_from("abc*"), min_size=1, max_size=3).map(tuple)


@given(
    st.lists(PATHS, max_size=12),
    st.none() | PATTERNS,
    st.none() | PATTERNS,
    st.none() | st.integers(1, 4),
)
def test_a_listing_is_that_of_langgraphs_own_store(
    namespaces: list[tuple[str, ...]], prefix: Any, suffix: Any, max_depth: int | None
) -> None:
    asked = {"prefix": prefix, "suffix": suffix, "max_depth": max_depth}
    theirs = InMemoryStore()
    with LongTermStore() as ours:
        for store in (ours, theirs):
            store.batch([PutOp(namespace, "k", {}) for namespace in namespaces])
        assert ours.list_namespaces(**asked) == sorted(theirs.list_namespaces(**asked))


async def test_erase_takes_a_prefix_with_all_it_holds_and_nothing_beside(store: Face) -> None:
    for namespace in [("u", "1"), ("u", "1", "deep"), ("u", "10"), ("v",)]:
        await store("put", namespace, "k", {"text": "tea"})
    assert await store("erase", ("u", "1")) == 2
    assert await store("erase", ("u", "1")) == 0
    assert await store("list_namespaces") == [("u", "10"), ("v",)]
    found = await store("search", (), query="tea")
    assert {item.namespace for item in found} == {("u", "10"), ("v",)}


@pytest.mark.parametrize("prefix", [(), "u", ("a.b",)])
async def test_erase_needs_a_prefix_that_names_something(store: Face, prefix: Any) -> None:
    await store("put", NS, "k", {})
    with pytest.raises((InvalidArgument, InvalidNamespaceError)):
        await store("erase", prefix)
    assert await store("get", NS, "k") is not None


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_namespace_leaves_no_name_behind_when_its_last_item_goes(
    database: Database,
) -> None:
    store = database.open_store()
    store.put(("users", "canary"), "k", {"text": "canary"})
    store.delete(("users", "canary"), "k")
    tables = ("namespaces", "items", "postings", "vectors")
    connection = store.backend._connection
    for table in tables:
        assert connection.execute(f"select count(*) from sessionmem_{table}").fetchone() == (0,)
