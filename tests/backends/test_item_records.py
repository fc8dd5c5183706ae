"""The primitives of items: whatever is done to them, they are as the contract has it."""

import random
import re
import secrets
import sqlite3
from contextlib import closing
from importlib import resources
from typing import Any

import pytest
from conftest import Clock, Database
from hypothesis import given, settings
from hypothesis import strategies as st
from item_model import FAR_AHEAD, WORDS, ItemModel, new_put, new_save, scan_all
from primitives import HOSTILE, Records, keys_of, on, open_records

from langgraph_sessionmem.backends.opening import open_backend
from langgraph_sessionmem.backends.sql import PACKAGE, QUERIES
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.item_records import ItemPut, ItemScan, ItemsSave, Scope, VersionRow

BEHIND = [("a",), ("a", "b"), ("ab",), ("a", "\x01")]
NAMES = ["k", "K", "\x00'"]
VECTORS = [(b"d" * 16, b"\x00\x01" * 4), (b"e" * 16, b"\xff" * 8)]
PLACES = [(namespace, key) for namespace in BEHIND for key in NAMES]


@pytest.fixture
async def records(database: Database, face_name: str) -> Records:
    return open_records(database, is_async=face_name == "async")


puts = st.builds(
    ItemPut,
    st.just(()),
    st.just(""),
    st.sampled_from([b'{"a":1}', b"{}", b'{"\xd1\x91":"\'"}']),
    st.sampled_from([None, 1.5, 3.5]),
    st.dictionaries(st.sampled_from(WORDS), st.sampled_from([1, 2, 255, 70_000])),
    st.sampled_from([None, 0, 1, 2, (1 << 32) - 1]),
    st.sampled_from([None, "s", "\x00"]),
    st.booleans(),
    st.lists(st.sampled_from(VECTORS), unique=True),
    st.lists(st.sampled_from(["=x", "=y"]), unique=True),
    st.sampled_from([None, [], ["text", "a[*].\x00"]]),
    *(st.none(), st.none(), st.just(())),
)
histories = st.lists(
    st.builds(VersionRow, st.sampled_from([b"{}", b'{"old":1}']), st.integers(1, 99)),
    unique_by=lambda version: version.updated_at,
    max_size=3,
).map(lambda versions: sorted(versions, key=lambda version: -version.updated_at))
times = st.tuples(st.integers(1, 50), st.integers(100, 200) | st.just(FAR_AHEAD + 1))
imports = st.tuples(times, histories)
expectations = st.sampled_from([None, None, None, "right", 0, 77])
writes = st.lists(
    st.tuples(
        st.sampled_from(PLACES), st.none() | puts, st.none() | st.none() | imports, expectations
    ),
    max_size=3,
    unique_by=lambda write: write[0],
)
saves = st.tuples(writes, st.lists(st.sampled_from(PLACES)), st.sampled_from([None, 0, 1, 2]))
steps = st.lists(
    st.tuples(st.just("save"), saves)
    | st.tuples(st.just("wait"), st.sampled_from([1.0, 2.0]))
    | st.tuples(st.just("sweep"), st.sampled_from([1, 100]))
    | st.tuples(
        st.just("drop"), st.builds(Scope, st.sampled_from([(), ("a",), ("ab",)]), st.booleans())
    ),
    min_size=2,
    max_size=7,
)


def built(model: ItemModel, drawn: Any) -> ItemsSave:
    """A save from what was drawn, under the model's root."""
    chosen, touched, keeps = drawn
    root = (model.root,)
    put_rows: list[ItemPut] = []
    drops = []
    expects = any(put is not None and expected is not None for _, put, _, expected in chosen)
    for (namespace, key), put, origin, expected in chosen:
        # A save that expects something is one in all databases if its first two labels are equal.
        namespace = root + (("a", *namespace[1:]) if expects else namespace)
        if any((one.namespace, one.key) == (namespace, key) for one in put_rows):
            continue
        if put is None:
            if (namespace, key) not in drops:
                drops.append((namespace, key))
            continue
        if (namespace, key) in drops:
            continue
        if expected == "right":
            kept = model.living(Scope(root)).get((namespace, key))
            expected = kept.row.updated_at if kept else 0
        times, versions = origin if origin else (None, ())
        put_rows.append(
            put._replace(
                namespace=namespace, key=key, expected=expected, times=times, versions=versions
            )
        )
    rows = [model.items.get((root + namespace, key)) for namespace, key in touched]
    ids = {kept.row.item_id for kept in rows if kept}
    return ItemsSave(put_rows, drops, sorted(ids), keeps)


async def live(records: Records, clock: Clock, plan: list[Any]) -> None:
    """Do what was drawn to a database and to the model."""
    root = secrets.token_hex(4)
    model = ItemModel(records, root, [((root, *namespace), key) for namespace, key in PLACES])
    for step, drawn in plan:
        if step == "save":
            await model.save(built(model, drawn))
        elif step == "wait":
            clock.advance(minutes=drawn)
            model.minutes += drawn
        elif step == "sweep":
            await model.sweep(drawn)
        else:
            await model.drop(Scope((root, *drawn.prefix), drawn.exact))
    await model.check_everything()
    await records("drop_items", Scope((root,)))


@settings(max_examples=8)
@given(plan=steps)
async def test_whatever_is_done_the_records_are_those_of_the_model(
    records: Records, clock: Clock, plan: list[Any]
) -> None:
    await live(records, clock, plan)


@pytest.fixture
async def plain(database: Database, records: Records) -> Records:
    """On a server that keeps no functions of ours."""
    await records("read_items", [])
    connection = database.servers.postgres_connection(database.url)
    names = connection.execute(
        "select p.oid::regprocedure::text from pg_proc p join pg_namespace n "
        "on n.oid = p.pronamespace where n.nspname = %s",
        [database.options["schema"]],
    )
    for (name,) in names.fetchall():
        connection.execute(f"drop function {name}".encode())
    backend = open_backend(database.url, setup=False, **database.options)
    return database.adopt(Records(backend, records.is_async))


@on("postgres")
@settings(max_examples=8)
@given(plan=steps)
async def test_without_functions_in_the_server_the_records_are_the_same(
    plain: Records, clock: Clock, plan: list[Any]
) -> None:
    await live(plain, clock, plan)


async def test_a_stamp_changes_with_what_is_written_in_a_scope_and_with_nothing_else(
    records: Records, clock: Clock
) -> None:
    inside, outside = Scope(("a",)), Scope(("ab",))
    seen = []

    async def changed() -> list[bool]:
        seen.append([(await records("read_scope", scope, ())).stamp for scope in (inside, outside)])
        return [new != old for new, old in zip(seen[-1], seen[-2], strict=True)]

    await records("save_items", new_save(new_put(("ab",), "k"), new_put(("a",), "k")))
    seen.append([0, 0])
    assert await changed() == [True, True]
    await records("save_items", new_save(new_put(("a", "b"), "k", ttl_minutes=1.0)))
    assert await changed() == [True, False]
    await records("save_items", new_save(new_put(("a", "b"), "k", ttl_minutes=1.0)))
    assert await changed() == [True, False]
    clock.advance(minutes=2)
    assert await changed() == [False, False]
    assert await records("drop_expired_items", 10) == 1
    assert await changed() == [True, False]
    await records("save_items", new_save(drops=[(("a",), "k")]))
    assert await changed() == [True, False]
    assert await records("drop_items", Scope(())) == 1
    assert await changed() == [False, True]


async def test_any_label_and_key_comes_back_in_order_and_is_in_its_own_scope_alone(
    records: Records,
) -> None:
    labels = [text for text in HOSTILE if text and "\x00" not in text]
    namespaces = sorted(
        [("n", label) for label in labels] + [("n", "a", label) for label in labels]
    )
    puts = [new_put(namespace, "k") for namespace in namespaces]
    puts += [new_put(("keys",), key, key.encode()) for key in HOSTILE]
    assert await records("save_items", new_save(*puts)) is True
    assert await records("scan_namespaces", ("n",), None, 100) == namespaces
    for namespace in namespaces:
        [row] = await records("scan_items", ItemScan(Scope(namespace, exact=True)))
        assert (row.namespace, row.key) == (namespace, "k")
        rows = await records("scan_items", ItemScan(Scope(namespace)))
        under = [other for other in namespaces if other[: len(namespace)] == namespace]
        assert sorted(row.namespace for row in rows) == under
    rows = await records("read_items", [(("keys",), key) for key in HOSTILE])
    assert sorted((row.key, row.value) for row in rows) == sorted(
        (key, key.encode()) for key in HOSTILE
    )
    assert await records("scan_items", ItemScan(Scope(("n",), exact=True))) == []


async def test_the_same_value_again_begins_no_version_and_is_there_since_it_was_first_put(
    records: Records,
) -> None:
    key, times = (("a",), "k"), []
    for value in (b"1", b"1", b"2", b"2", b"1"):
        await records("save_items", new_save(new_put(*key, value)))
        times += [row.updated_at for row in await records("read_items", [key])]
    found = await records("read_versions", key)
    assert found == [
        VersionRow(b"1", times[4]),
        VersionRow(b"2", times[2]),
        VersionRow(b"1", times[0]),
    ]


async def test_what_comes_from_a_clock_that_is_ahead_is_overwritten_later_still(
    records: Records,
) -> None:
    key = (("a",), "k")
    await records("save_items", new_save(new_put(*key, b"1", times=(1, FAR_AHEAD))))
    await records("save_items", new_save(new_put(*key, b"2")))
    assert await records("read_versions", key) == [
        VersionRow(b"2", FAR_AHEAD + 1),
        VersionRow(b"1", FAR_AHEAD),
    ]
    await records("save_items", new_save(new_put(("a",), "other")))
    [row] = await records("read_items", [(("a",), "other")])
    assert row.updated_at < FAR_AHEAD


async def test_former_values_are_kept_up_to_a_number_and_go_with_their_item(
    records: Records,
) -> None:
    key = (("a",), "k")
    for number in range(6):
        await records("save_items", new_save(new_put(*key, b"%d" % number), keeps=3))
    values = [version.value for version in await records("read_versions", key)]
    assert values == [b"5", b"4", b"3", b"2"]
    await records("save_items", new_save(new_put(*key, b"5"), keeps=1))
    assert [version.value for version in await records("read_versions", key)] == [b"5", b"4"]
    await records("save_items", new_save(drops=[key]))
    await records("save_items", new_save(new_put(*key, b"new")))
    assert [version.value for version in await records("read_versions", key)] == [b"new"]


async def test_an_expired_item_leaves_nothing_to_one_that_is_put_in_its_place(
    records: Records, clock: Clock
) -> None:
    key = (("a",), "k")
    vectors, versions = [(b"d" * 16, b"\x00" * 4)], [VersionRow(b"0", 1)]
    old = new_put(*key, b"1", ttl_minutes=1.0, tokens={"tea": 1}, terms=["=x"], vectors=vectors)
    await records("save_items", new_save(old._replace(times=(1, 2), versions=versions)))
    [before] = await records("read_items", [key])
    clock.advance(minutes=2)
    refused = new_put(*key, b"2", expected=before.updated_at)
    assert await records("save_items", new_save(refused)) is False
    assert await records("save_items", new_save(refused._replace(expected=0))) is True
    [row] = await records("read_items", [key])
    assert row.item_id != before.item_id
    assert row.created_at == row.updated_at
    assert await records("read_versions", key) == [VersionRow(b"2", row.updated_at)]
    assert await records("search_postings", Scope(()), ["tea", "=x"], None) == []
    assert await records("scan_vectors", Scope(())) == []
    assert (await records("read_scope", Scope(()), ["tea"]))[:3] == (0, 0, {})
    assert await records("drop_expired_items", 10) == 0


async def test_a_save_of_many_items_is_one(records: Records) -> None:
    many = [new_put(("a",), f"{number:05}", tokens={"tea": 1}) for number in range(1_500)]
    assert await records("save_items", new_save(*many, new_put(("a",), "x", expected=7))) is False
    assert await records("scan_namespaces", (), None, 10) == []
    assert await records("save_items", new_save(*many)) is True
    rows = await scan_all(records, Scope(()), 1_000)
    assert [row.key for row in reversed(rows)] == [put.key for put in many]
    times = [row.updated_at for row in reversed(rows)]
    assert times == list(range(times[0], times[0] + len(many)))


@on("postgres")
async def test_a_key_that_no_index_can_hold_is_refused_with_the_reason(records: Records) -> None:
    key = "".join(chr(0x4E00 + random.Random(place).randrange(20_000)) for place in range(2_000))
    with pytest.raises(InvalidArgument, match="too long for PostgreSQL"):
        await records("save_items", new_save(new_put(("a",), key)))
    assert await records("scan_namespaces", (), None, 10) == []


@pytest.mark.parametrize("end", ["dropped one by one", "dropped as a scope", "expired"])
async def test_of_what_is_deleted_nothing_is_left(
    database: Database, records: Records, clock: Clock, end: str
) -> None:
    await records("save_items", new_save())
    before = remains(database)
    keys = [(("a",), "k"), (("a", "b"), "k"), (("c",), "k")]
    for value in (b"1", b"2"):
        puts = [
            new_put(*key, value, ttl_minutes=1.0, tokens={"tea": 1}, terms=["=x"], vectors=VECTORS)
            for key in keys
        ]
        await records("save_items", new_save(*(put._replace(position=1) for put in puts)))
    assert remains(database) != before
    if end == "expired":
        clock.advance(minutes=2)
        assert await records("drop_expired_items", 10) == 3
    elif end == "dropped as a scope":
        assert await records("drop_items", Scope(())) == 3
    else:
        await records("save_items", new_save(drops=keys))
    assert remains(database) == before


def remains(database: Database) -> Any:
    """What is in the database of items: rows of tables, or Redis keys."""
    if "prefix" in database.options:
        return keys_of(database)
    names = ("namespaces", "items", "versions", "postings", "vectors")
    if database.name == "sqlite":
        with closing(sqlite3.connect(database.url.removeprefix("sqlite:///"))) as connection:
            counts = [f"(select count(*) from sessionmem_{name})" for name in names]
            return connection.execute(f"select {', '.join(counts)}").fetchone()
    schema = database.options["schema"]
    counts = [f'(select count(*) from "{schema}".sessionmem_{name})' for name in names]
    connection = database.servers.postgres_connection(database.url)
    return connection.execute(f"select {', '.join(counts)}".encode()).fetchone()


def test_no_file_of_queries_takes_the_name_of_another_ones() -> None:
    texts = [(resources.files(PACKAGE) / file).read_text("utf-8") for file in QUERIES]
    names = [
        name for text in texts for name in re.findall(r"^-- (?:name|part): (\w+)$", text, re.M)
    ]
    assert len(names) == len(set(names))
