"""What the store can do beside LangGraph's contract, on every database and in both faces."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import Clock, Database, Face

from langgraph_sessionmem import ABSENT, ItemWrite
from langgraph_sessionmem.errors import InvalidArgument, ValueNotStorable

NS = ("users", "u1")


async def versions(store: Face, key: str = "k") -> list[int]:
    return [version.value["n"] for version in await store("history", NS, key)]


async def test_history_tells_what_an_item_was_the_latest_first(store: Face) -> None:
    assert await store("history", NS, "k") == []
    for n in (1, 2, 2, 3):
        await store("put", NS, "k", {"n": n})
    found = await store("history", NS, "k")
    assert [version.value for version in found] == [{"n": 3}, {"n": 2}, {"n": 1}]
    assert found[0].until is None
    for later, former in itertools.pairwise(found):
        assert former.since < former.until == later.since


async def test_as_of_gives_the_value_of_a_time(store: Face) -> None:
    for n in (1, 2, 3):
        await store("put", NS, "k", {"n": n})
    first = (await store("history", NS, "k"))[-1].since
    for version in await store("history", NS, "k"):
        assert (await store("as_of", NS, "k", version.since)).value == version.value
    assert (await store("as_of", NS, "k", datetime.max.replace(tzinfo=UTC))).value == {"n": 3}
    assert await store("as_of", NS, "k", first - timedelta(microseconds=1)) is None
    with pytest.raises(InvalidArgument, match="time zone"):
        await store("as_of", NS, "k", datetime(2026, 1, 1))


async def test_a_deleted_erased_or_expired_item_takes_its_history_with_it(
    store: Face, clock: Clock
) -> None:
    for way in ("delete", "erase", "expire"):
        for n in (1, 2):
            await store("put", NS, "k", {"n": n}, ttl=1 if way == "expire" else None)
        assert await versions(store) == [2, 1]
        if way == "expire":
            clock.advance(minutes=2)
        else:
            await (store("delete", NS, "k") if way == "delete" else store("erase", NS))
        assert await versions(store) == []
        await store("put", NS, "k", {"n": 9})
        assert await versions(store) == [9]
        await store("delete", NS, "k")


@pytest.mark.parametrize(("history", "kept"), [(0, [4]), (2, [4, 3, 2]), (None, [4, 3, 2, 1])])
async def test_as_many_former_values_are_kept_as_the_store_says(
    database: Database, face_name: str, history: int | None, kept: list[int]
) -> None:
    store = Face(database.open_store(history=history), face_name == "async")
    for n in (1, 2, 3, 4):
        await store("put", NS, "k", {"n": n})
    assert await versions(store) == kept


async def test_a_write_that_expects_what_is_not_there_writes_nothing(store: Face) -> None:
    new = ItemWrite(NS, "k", {"n": 1}, expected=ABSENT)
    assert await store("write", [new]) is True
    assert await store("write", [ItemWrite(NS, "other", {}), new]) is False
    assert await store("get", NS, "other") is None
    seen = await store("get", NS, "k")
    change = ItemWrite(NS, "k", {"n": 2}, expected=seen.updated_at)
    assert await store("write", [change, ItemWrite(NS, "other", {})]) is True
    assert await store("write", [change._replace(value={"n": 3})]) is False
    assert (await store("get", NS, "k")).value == {"n": 2}
    assert await store("write", [ItemWrite(NS, "other", None), ItemWrite(NS, "k", {})]) is True
    assert await store("get", NS, "other") is None


async def test_of_many_writers_who_count_no_count_is_lost(database: Database) -> None:
    stores = [Face(database.open_store(), is_async=True) for _ in range(3)]

    async def count(store: Face) -> None:
        for _ in range(10):
            while True:
                seen = await store("get", NS, "n")
                value = {"n": seen.value["n"] + 1 if seen else 1}
                expected = seen.updated_at if seen else ABSENT
                if await store("write", [ItemWrite(NS, "n", value, False, expected=expected)]):
                    break

    await asyncio.gather(*map(count, stores))
    assert (await stores[0]("get", NS, "n")).value == {"n": 30}


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        ([ItemWrite(NS, "k", {}), ItemWrite(NS, "k", {"n": 1})], "twice"),
        ([ItemWrite(NS, "k", None, expected=ABSENT)], "deletion"),
        ([ItemWrite(NS, "k", {}, expected=datetime(2026, 1, 1))], "time zone"),
        ([ItemWrite(NS, "k", {"n": {1}})], "n"),  # type: ignore[dict-item]
    ],
    ids=["twice", "deletion", "naive", "no_json"],
)
async def test_a_write_that_makes_no_sense_is_refused(
    store: Face, writes: list[ItemWrite], said: str
) -> None:
    with pytest.raises((InvalidArgument, ValueNotStorable), match=said):
        await store("write", [ItemWrite(NS, "first", {}), *writes])
    assert await store("search", NS) == []


async def test_an_exact_search_leaves_out_what_is_below(store: Face) -> None:
    for namespace in (NS, (*NS, "notes"), ("users", "u11"), ("users",)):
        await store("put", namespace, "k", {"text": "green tea", "n": 1})
    for asked in ({}, {"query": "tea"}, {"filter": {"n": 1}}, {"query": "tea", "filter": {"n": 1}}):
        found = await store("search_exact", NS, **asked)
        assert [item.namespace for item in found] == [NS]
    assert await store("search_exact", (), query="tea") == []
    assert len(await store("search", NS)) == 2


async def test_erasing_exactly_leaves_what_is_below(store: Face) -> None:
    for namespace in (NS, (*NS, "notes")):
        await store("put", namespace, "k", {})
    assert await store("erase", NS, exact=True) == 1
    assert await store("list_namespaces") == [(*NS, "notes")]


async def test_an_explanation_sums_up_to_the_score(store: Face) -> None:
    said = ["Which port is it?", "It is 6432.", "Tea or coffee?", "The port is closed."]
    for position, text in enumerate(said):
        value = {"text": text, "position": position, "session": 1}
        await store("put", NS, f"{position}", value, index=["text"])
    found = await store("search", NS, query="port")
    explained = await store("explain", NS, query="port")
    assert [one.item.key for one in explained] == [item.key for item in found]
    for one, item in zip(explained, found, strict=True):
        assert sum(one.shares) == pytest.approx(item.score)
        assert one.shares.meaning == 0
    by_key = {one.item.key: one.shares for one in explained}
    assert by_key["3"].words > 0
    assert by_key["1"].words == 0
    assert by_key["1"].surroundings > 0
    with pytest.raises(InvalidArgument, match="query"):
        await store("explain", NS, query=" ")


def embed(texts: list[str]) -> list[list[float]]:
    return [[float("port" in text), float("tea" in text), 0.1] for text in texts]


async def test_an_explanation_tells_what_the_meaning_adds(
    database: Database, face_name: str
) -> None:
    index: Any = {"embed": embed, "dims": 3, "fields": ["text"]}
    store = Face(database.open_store(index=index), face_name == "async")
    for key, text in (("a", "the port"), ("b", "portugal"), ("c", "tea")):
        await store("put", NS, key, {"text": text})
    found = await store("search", NS, query="port")
    explained = await store("explain", NS, query="port")
    assert [item.key for item in found] == ["a", "b", "c"]
    for one, item in zip(explained, found, strict=True):
        assert sum(one.shares) == pytest.approx(item.score)
    assert [round(one.shares.meaning, 3) for one in explained] == [0.3, 0.3, 0.0]


async def test_an_export_read_back_is_the_same_store(
    database: Database, store: Face, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for n in (1, 2):
        await store("put", NS, "k", {"text": "tea", "n": n})
    await store("put", (*NS, "notes"), "\x00 ключ", {"text": "rum"}, index=False, ttl=60)
    await store("put", ("others",), "k", {"text": "tea"})
    lines = await store("export", NS)
    assert [json.loads(line)["key"] for line in lines] == ["\x00 ключ", "k"]
    before = await seen(store)
    erased = await store("erase", NS)
    assert erased == await store("import_", [*lines, "\n"]) == 2
    assert await seen(store) == before
    assert await versions(store) == [2, 1]
    assert [item.key for item in await store("search", NS, query="tea rum")] == ["k"]
    assert await store("import_", lines) == 2  # again, over what is there
    assert await seen(store) == before
    assert await store("export", NS) == lines


async def seen(store: Face) -> list[dict[str, Any]]:
    return [item.dict() for item in await store("search", (), limit=100, refresh_ttl=False)]


@pytest.mark.parametrize(
    "wrong",
    [
        "not json",
        "[]",
        '{"format": 2}',
        {"surprise": 1},
        {"namespace": "users"},
        {"namespace": ["a.b"]},
        {"key": 5},
        {"value": None},
        {"created_at": "yesterday"},
        {"updated_at": "2026-01-31T12:00:00"},
        {"ttl_minutes": -1},
        {"index": "text"},
        {"versions": [{"value": {}}]},
    ],
    ids=str,
)
async def test_an_import_with_a_wrong_line_writes_nothing(store: Face, wrong: Any) -> None:
    good = {
        "format": 1,
        "namespace": [*NS],
        "key": "k",
        "value": {},
        "created_at": "2026-01-31T12:00:00+00:00",
        "updated_at": "2026-01-31T12:00:00+00:00",
    }
    bad = wrong if isinstance(wrong, str) else json.dumps({**good, **wrong})
    with pytest.raises(ValueError, match=r"."):
        await store("import_", [json.dumps(good), bad])
    assert await store("search", ()) == []


async def test_an_export_in_pages_has_each_item_once(store: Face) -> None:
    await store("import_", [line async for line in made(450)])
    lines = await store("export")
    assert sorted(json.loads(line)["key"] for line in lines) == sorted(f"{n}" for n in range(450))


async def made(count: int) -> AsyncIterator[str]:
    for n in range(count):
        time = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n // 3)).isoformat()
        told = {"format": 1, "namespace": [*NS], "key": f"{n}", "value": {"n": n}, "index": False}
        yield json.dumps({**told, "created_at": time, "updated_at": time})
