"""`list`: the same answers as `InMemorySaver`, a page at a time, holding nothing meanwhile."""

from typing import Any

import pytest
from conftest import Database, Face
from langgraph.checkpoint.memory import InMemorySaver
from threads import Thread, new_checkpoint, next_id, place
from watched import watch

from langgraph_sessionmem.checkpoint.listing import next_page, plan_listing

METADATA: list[dict[str, Any]] = [
    {"source": "input", "step": -1},
    {"source": "loop", "step": 0, "n": None},
    {"source": "loop", "step": 1, "b": True, "tags": ["a"]},
    {"source": "loop", "step": 1.0, "b": 1, "tags": ["a", "b"]},
    {"source": "update", "step": 2, "d": {"x": 1, "y": 2}, "k.e": "v"},
    {"source": "fork", "step": 3, "d": {"x": 1}, "text": "a%_'\"\\", "": "empty"},
]
FILTERS: list[Any] = [
    None,
    {},
    {"source": "loop"},
    {"source": "loop", "step": 1},
    {"step": 1},
    {"step": True},
    {"step": "1"},
    {"n": None},
    {"absent": None},
    {"absent": 1},
    {"b": 1},
    {"b": True},
    {"b": False},
    {"tags": ["a"]},
    {"tags": []},
    {"tags": ["b", "a"]},
    {"d": {"x": 1}},
    {"d": {"y": 2, "x": 1}},
    {"d": {}},
    {"k.e": "v"},
    {"d.x": 1},
    {"k": {"e": "v"}},
    {"text": "a%_'\"\\"},
    {"text": "a%"},
    {"": "empty"},
    {"thread_id": "t"},
    {"user_id": "u"},
    {"user_id": "other"},
    {"source": {"$ne": "loop"}},
    {"' or 1=1 --": 1},
    {"step": 1.0},
    {"step": -1},
    {"step": 0},
    {"step": False},
    {"step": None},
    {"step": float("nan")},
    {"step": [1]},
    {"step": 2**70},
    {"n": 0},
    {"n": ""},
    {"n": False},
    {"b": None},
    {"b": 1, "tags": ["a", "b"]},
    {"b": 1, "tags": ["a"]},
    {"tags": "a"},
    {"tags": ("a",)},
    {"tags": {"a"}},
    {"tags": ["a", None]},
    {"d": {"x": True}},
    {"d": {"x": 1.0}},
    {"d": {"x": 1, "y": 2, "z": None}},
    {"d": None},
    {"d": [["x", 1]]},
    {"k.e": None},
    {"text": "A%_'\"\\"},
    {"text": "a%_'\"\\ "},
    {"text": "a\x00"},
    {"text": "\ud800"},
    {"": ""},
    {"source": "LOOP"},
    {"source": ["loop", "fork"]},
    {"source": "loop", "absent": None},
    {"source": "loop", "step": 0, "n": None, "b": None},
    {"checkpoint_ns": ""},
    {"__class__": "dict"},
]


@pytest.fixture
async def both(saver: Face) -> tuple[Face, Face]:
    """Ours and LangGraph's own, with the same history."""
    theirs = Face(InMemorySaver(), saver.is_async)
    for namespace in ("", "sub:1"):
        first = int(next_id())
        for kind in (saver, theirs):
            thread = Thread(kind, namespace=namespace, user_id="u")
            for i, metadata in enumerate(METADATA):
                await thread.put({"n": i}, checkpoint_id=str(first + i), metadata=metadata)
        for _ in METADATA:
            next_id()
    return saver, theirs


def key(found: Any) -> tuple[str, str]:
    configurable = found.config["configurable"]
    return configurable["checkpoint_ns"], configurable["checkpoint_id"]


async def test_filters_mean_what_they_mean_in_memory(both: tuple[Face, Face]) -> None:
    ours, theirs = both
    for wanted in FILTERS:
        found = await ours("list", place(), filter=wanted)
        expected = await theirs("list", place(), filter=wanted)
        assert [key(each) for each in found] == [key(each) for each in expected], wanted
        assert [each.metadata for each in found] == [each.metadata for each in expected]


async def test_config_before_and_limit_narrow_as_in_memory(both: tuple[Face, Face]) -> None:
    ours, theirs = both
    everything = await theirs("list", {"configurable": {"thread_id": "t"}})
    configs: list[Any] = [{"configurable": {"thread_id": "t"}}, place(), place("t", "sub:1")]
    configs += [place("t", "none"), place("u"), everything[2].config]
    borders = [None, everything[1].config, everything[-1].config, place("t", "", "zzz")]
    for config in configs:
        for before in borders:
            for limit in (None, 0, 1, 4, 100):
                for wanted in (None, {"source": "loop"}):
                    narrowed = {"before": before, "limit": limit, "filter": wanted}
                    found = [key(each) for each in await ours("list", config, **narrowed)]
                    expected = [key(each) for each in await theirs("list", config, **narrowed)]
                    if "checkpoint_ns" in config["configurable"]:
                        assert found == expected, (config, narrowed)
                    elif limit is None:
                        assert sorted(found) == sorted(expected), (config, narrowed)
                    else:
                        assert len(found) == len(expected), (config, narrowed)


async def test_before_may_come_without_configurable(both: tuple[Face, Face]) -> None:
    ours, _ = both
    everything = await ours("list", place())
    border = everything[2].config["configurable"]
    assert await ours("list", place(), before=border) == everything[3:]
    assert await ours("list", place(), before={}) == everything
    assert await ours("list", place(), before={"configurable": {"thread_id": "t"}}) == everything


async def test_none_lists_all_threads_and_a_config_without_thread_none(saver: Face) -> None:
    for thread_id in ("a", "b", "c"):
        await Thread(saver, thread_id).put({"n": thread_id})
    everything = await saver("list", None)
    assert [each.config["configurable"]["thread_id"] for each in everything] == ["c", "b", "a"]
    assert len(await saver("list", None, limit=2)) == 2
    assert len(await saver("list", None, filter={"source": "loop"})) == 3
    for config in ({}, {"configurable": {}}, {"configurable": {"thread_id": None}}):
        with pytest.raises(ValueError, match="thread"):
            await saver("list", config)


async def test_more_than_a_page_comes_in_order_and_once(saver: Face) -> None:
    thread = Thread(saver)
    for n in range(205):
        await thread.put({"n": n}, metadata={"even": n % 2 == 0})
    found = await saver("list", place())
    assert [each.checkpoint["channel_values"]["n"] for each in found] == list(range(204, -1, -1))
    even = await saver("list", place(), filter={"even": True}, limit=101)
    numbers = [each.checkpoint["channel_values"]["n"] for each in even]
    assert numbers == list(range(204, 3, -2))
    later = await saver("list", place(), before=found[150].config, limit=3)
    assert later == found[151:154]


async def test_the_thread_can_be_written_while_it_is_listed(
    database: Database, face_name: str
) -> None:
    saver = database.open_saver()
    thread = Thread(Face(saver, face_name == "async"))
    for n in range(3):
        await thread.put({"n": n})
    numbers = []
    if face_name == "async":
        async for found in saver.alist(place(), limit=3):
            numbers.append(found.checkpoint["channel_values"]["n"])
            await saver.aput_writes(found.config, [("n", 9)], "task")
            await thread.put({"n": 10})
    else:
        for found in saver.list(place(), limit=3):
            numbers.append(found.checkpoint["channel_values"]["n"])
            saver.put_writes(found.config, [("n", 9)], "task")
            await thread.put({"n": 10})
    assert numbers == [2, 1, 0]
    other = database.open_saver()
    listing = saver.list(place())
    next(listing)
    other.delete_thread("t")
    assert list(saver.list(place())) == []
    listing.close()


async def test_threads_are_paged_by_id_without_their_state(saver: Face) -> None:
    for thread_id in ("b", "a", "c\x00", "c"):
        thread = Thread(saver, thread_id)
        await thread.put({"n": 1})
        await thread.put({"n": 2})
        await thread.write([("n", 3)])
    page = await saver("threads", limit=3)
    assert [row.thread_id for row in page] == ["a", "b", "c"]
    assert [row.checkpoints for row in page] == [2, 2, 2]
    assert all(row.expires_at is None and row.updated_at >= row.created_at for row in page)
    [last] = await saver("threads", cursor=page[-1], limit=3)
    assert last.thread_id == "c\x00"


async def test_listing_shares_what_it_read_with_later_puts(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"list": list(range(100))})
    [found] = await saver("list", place())
    values = found.checkpoint["channel_values"]
    versions = found.checkpoint["channel_versions"] | {"list": "2"}
    values["list"].append(100)
    checkpoint = new_checkpoint(next_id(), values, versions)
    config = await saver("put", found.config, checkpoint, {}, {"list": "2"})
    found = await saver("get_tuple", config)
    assert found.checkpoint["channel_values"]["list"] == list(range(101))


async def test_a_page_takes_two_round_trips_however_many_threads_it_shows(saver: Face) -> None:
    for number in range(6):
        thread = Thread(saver, f"t{number}")
        await thread.put({"text": "long " * 60, "list": ["element " * 30]})
        await thread.write([("text", "next")])
        await thread.put({"list": ["element " * 30, "more " * 30]})
    for config, count in ((None, 12), (place("t1"), 2)):
        listing = plan_listing(config, None, None, 100)
        page, calls = await watch(
            saver, lambda records, page=listing: next_page(records, saver.target._state, page)
        )
        assert (len(page.tuples), page.rest) == (count, None)
        assert calls == ["scan_checkpoints", "read_contents"]
    assert [len(each.pending_writes or ()) for each in page.tuples] == [0, 1]


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_page_takes_three_statements(database: Database) -> None:
    saver = database.open_saver()
    thread = Thread(Face(saver, False))
    for number in range(3):
        await thread.put({"list": ["element " * 30] * number})
    statements: list[str] = []
    saver.backend._connection.set_trace_callback(statements.append)
    assert len(list(saver.list(place(), limit=100))) == 3
    saver.backend._connection.set_trace_callback(None)
    tables = [each for each in statements if "sessionmem_" in each]
    assert len(tables) <= 3, tables
