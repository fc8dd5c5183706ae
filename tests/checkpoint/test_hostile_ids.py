"""Ids are opaque text: through every method each names its own and no other, whatever it holds."""

from collections.abc import Sequence
from typing import Any

import pytest
from conftest import Database, Face
from threads import Thread, new_checkpoint, place, remains, values_of

from langgraph_sessionmem.errors import InvalidArgument

IDS = [
    *(
        "a",
        "A",
        "a*",
        "[ab]",
        "a?",
        "a\\b",
        "a|b",
        "%",
        "_",
        "a%",
        "{x}",
        "{a}{b}",
        "a:b",
        ":",
        "::",
    ),
    *(
        "*",
        "?",
        "^",
        "-",
        "+",
        "(",
        "[",
        "inf",
        "+inf",
        "-inf",
        "0",
        "00",
        "-1",
        "1e3",
        "null",
        "None",
    ),
    *(
        "a ",
        " a",
        " ",
        "\t",
        "a\nb",
        "\r\n$3\r\nfoo\r\n",
        "\x00",
        "a\x00",
        "a\x00b",
        "\x01",
        "\x01\x01",
    ),
    *(
        "\x01\x02",
        "\x7f",
        "\x80",
        "\xff",
        "\ufeff",
        "\u200b",
        "\ufffd",
        "\U0001f600",
        "e\u0301",
        "\u00e9",
    ),
    *(
        "ß",
        "SS",
        "İ",
        "ﬁ",
        "مرحبا",
        "\u202ea",
        "'; drop table sessionmem_threads; --",
        '"',
        "`",
        "$1",
    ),
    *(
        ":name",
        "%s",
        "%(id)s",
        "?1",
        "\\x00",
        "\\u0000",
        "../../etc",
        "__proto__",
        "true",
        "x" * 1_000,
    ),
    *("sessionmem:", "{00}:ids", "thread_id", "a|", "|a", "a/b", "a//b", "a,b", "~", "#", "&=;"),
]
SURROGATES = ["\ud800", "a\udfff"]


async def put_all(saver: Face, ids: Sequence[str], **more: Any) -> None:
    """A thread under each id, whose value is the id and whose writes name it."""
    for name in ids:
        thread = Thread(saver, name, **more)
        await thread.put({"id": name}, metadata={"run_id": name, "key": name})
        await thread.write([("out", name)], f"task {name}", name)


async def test_each_id_is_a_thread_of_its_own(saver: Face) -> None:
    await put_all(saver, IDS)
    for name in IDS:
        found = await saver("get_tuple", place(name))
        assert found.config["configurable"]["thread_id"] == name
        assert found.checkpoint["channel_values"] == {"id": name}
        assert found.pending_writes == [(f"task {name}", "out", name)]
        assert await saver("list", place(name)) == [found]
        assert await saver("list", place(name), filter={"key": name}) == [found]
    rows = await saver("threads", limit=1_000)
    assert [row.thread_id for row in rows] == sorted(IDS)
    assert len(await saver("list", None)) == len(IDS)


async def test_a_prefix_of_thread_ids_is_plain_text(saver: Face) -> None:
    await put_all(saver, IDS)
    for prefix in ("", "a", "a%", "_", "*", "[", "{", "\\", "\x00", "\x01", "+", "e", "\U0001f600"):
        rows = await saver("threads", prefix=prefix, limit=1_000)
        expected = sorted(name for name in IDS if name.startswith(prefix))
        assert [row.thread_id for row in rows] == expected, prefix


async def test_pages_of_threads_meet_each_id_once(saver: Face) -> None:
    await put_all(saver, IDS)
    for order in ("thread_id", "updated_at", "expires_at", "size"):
        seen: list[str] = []
        cursor = None
        while rows := await saver("threads", order=order, limit=17, cursor=cursor):
            seen += [row.thread_id for row in rows]
            cursor = rows[-1]
        assert sorted(seen) == sorted(IDS), order


async def test_what_is_done_to_one_thread_is_done_to_no_other(
    saver: Face, database: Database
) -> None:
    await put_all(saver, IDS)
    kept, gone = IDS[::2], IDS[1::2]
    for name in gone[::3]:
        await saver("delete_thread", name)
    for name in gone[1::3]:
        await saver("delete_for_runs", [name])
    await saver("prune", gone[2::3], strategy="delete")
    await saver("prune", kept, strategy="keep_latest")
    for name in kept:
        assert await values_of(saver, place(name)) == {"id": name}
    for name in gone:
        assert await saver("get_tuple", place(name)) is None
    for name in kept:
        await saver("delete_thread", name)
    assert remains(database, saver.target) == {}


async def test_a_copy_goes_from_any_id_to_any_other(saver: Face) -> None:
    names = IDS[::3]
    await put_all(saver, names)
    for name in names:
        await saver("copy_thread", name, f"copy of {name}")
        await saver("copy_thread", f"copy of {name}", f"{name} again")
    for name in names:
        for copy in (f"copy of {name}", f"{name} again"):
            found = await saver("get_tuple", place(copy))
            assert found.checkpoint["channel_values"] == {"id": name}
            assert found.pending_writes == [(f"task {name}", "out", name)]


async def test_each_id_is_a_namespace_and_a_checkpoint_of_its_own(saver: Face) -> None:
    names = ["", *IDS[::2]]
    for namespace in names:
        thread = Thread(saver, "t", namespace)
        for name in IDS[::7]:
            await thread.put({"id": [namespace, name]}, checkpoint_id=name)
    for namespace in names:
        for name in IDS[::7]:
            config = place("t", namespace, name)
            assert await values_of(saver, config) == {"id": [namespace, name]}
            history = await saver("get_delta_channel_history", config=config, channels=["id"])
            assert set(history) == {"id"}
        assert len(await saver("list", place("t", namespace))) == len(IDS[::7])


async def test_tasks_paths_and_channels_may_have_any_name(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({name: name for name in IDS})
    for name in IDS:
        await thread.write([(name, name), (name, [name])], name, name)
    found = await saver("get_tuple", place())
    assert found.checkpoint["channel_values"] == {name: name for name in IDS}
    assert len(found.pending_writes) == 2 * len(IDS)
    assert [task for task, _, _ in found.pending_writes[::2]] == sorted(IDS)


async def test_parts_of_a_place_are_told_apart(saver: Face) -> None:
    places = [
        *(("a", "b:c", "d"), ("a:b", "c", "d"), ("a", "b", "c:d"), ("a:b:c", "", "d")),
        *(("a|b", "c", "d"), ("a", "b|c", "d"), ("a\x00b", "c", "d"), ("a", "b\x00c", "d")),
        *(("a", "b", "c\x00d"), ("a\x00", "b", "d"), ("a", "\x00b", "d"), ("ab", "", "d")),
        *(
            ("a", "b", "d"),
            ("a\x01", "\x01b", "d"),
            ("a\x01\x01", "b", "d"),
            ("a", "\x01\x01b", "d"),
        ),
    ]
    for i, (thread_id, namespace, checkpoint_id) in enumerate(places):
        await Thread(saver, thread_id, namespace).put({"i": i}, checkpoint_id=checkpoint_id)
    for i, parts in enumerate(places):
        assert await values_of(saver, place(*parts)) == {"i": i}


@pytest.mark.parametrize("name", SURROGATES)
async def test_a_lone_surrogate_in_an_id_is_refused_before_anything_is_written(
    saver: Face, database: Database, name: str
) -> None:
    checkpoint = new_checkpoint("c", {"n": 1}, {"n": "1"})
    calls: list[tuple[Any, ...]] = [
        ("get_tuple", place(name)),
        ("put", place(name), checkpoint, {}, {"n": "1"}),
        ("put", place("t", name), checkpoint, {}, {"n": "1"}),
        ("put", place("t", "", name), checkpoint, {}, {"n": "1"}),
        ("put", place(), {**checkpoint, "id": name}, {}, {"n": "1"}),
        ("put_writes", place(name, "", "c"), [("n", 1)], "task"),
        ("put_writes", place("t", name, "c"), [("n", 1)], "task"),
        ("put_writes", place("t", "", name), [("n", 1)], "task"),
        ("put_writes", place("t", "", "c"), [("n", 1)], name),
        ("put_writes", place("t", "", "c"), [("n", 1)], "task", name),
        ("put_writes", place("t", "", "c"), [(name, 1)], "task"),
        ("delete_thread", name),
        ("delete_for_runs", [name]),
        ("prune", [name]),
        ("copy_thread", name, "u"),
        ("copy_thread", "t", name),
        ("list", place(name)),
        ("set_ttl", name, None),
    ]
    for method, *arguments in calls:
        with pytest.raises(InvalidArgument):
            await saver(method, *arguments)
    assert remains(database, saver.target) == {}
