"""The keys and bytes of Redis and Valkey, and what becomes of them."""

from datetime import timedelta

import pytest
from conftest import Database
from hypothesis import given
from hypothesis import strategies as st
from primitives import elements, fill, keys_of, new_write, on, open_records

from langgraph_sessionmem.backends.redis_rows import (
    escape,
    join_place,
    order_bytes,
    split_place,
    unescape,
)
from langgraph_sessionmem.errors import (
    ThreadDamaged,
)
from langgraph_sessionmem.records import CheckpointScan, Element, Limits, OrderKey, Outcome, Run

on_all_servers = on("valkey", "redis", "cluster")
on_valkey = on("valkey")

ids = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x00\x01ab"), max_size=6)


def thread_key(database: Database) -> str:
    """The key of the only thread's hash, without prefix."""
    [key] = [key for key in keys_of(database) if ":t:" in key and key.count(":") == 2]
    return key


def all_keys(database: Database) -> set[bytes]:
    return set(database.servers.redis_client(database.url).scan_iter(count=1_000))


# Keys


@on_all_servers
async def test_every_key_is_under_the_prefix(database: Database) -> None:
    before = all_keys(database)
    records = open_records(database)
    for thread_id in ("t", "}{", "{x}", "a*"):
        await fill(records, thread_id)
        await records("drop_thread", thread_id)
        await fill(records, thread_id)
    prefix = database.options["prefix"].encode()
    assert all(key.startswith(prefix) for key in all_keys(database) - before)


@on_all_servers
async def test_only_a_tombstone_is_left_of_a_deleted_thread(database: Database) -> None:
    records = open_records(database)
    await fill(records)
    await records("drop_thread", "t")
    left = keys_of(database)
    assert left.pop("meta") == -1
    [(name, milliseconds)] = left.items()
    assert name.endswith("}:tombstones")
    assert 0 < milliseconds <= 3_600_000


@on_all_servers
async def test_nothing_is_left_of_a_swept_thread_but_its_tombstones(database: Database) -> None:
    records = open_records(database)
    await fill(records, limits=Limits(60.0))
    await records.write("c1", [new_write("c1", 0, b"early")], thread_id="u")
    database.advance(timedelta(minutes=11))
    assert await records("drop_expired", 10) == 1
    assert set(keys_of(database)) == {"meta"}


@on_all_servers
async def test_the_server_deletes_all_keys_of_a_thread_at_its_expiry(database: Database) -> None:
    records = open_records(database)
    database.advance(timedelta(days=30))  # which must not show in the server's own deadlines
    generation = await fill(records, limits=Limits(60.0))
    for renew in (("touch_thread", "t", generation), ("save_limits", "t", Limits(90.0, None, 5.0))):
        keys = keys_of(database)
        assert keys.pop("meta") == -1
        registry = [keys.pop(key) for key in list(keys) if key.endswith((":ids", ":due"))]
        assert len(keys) == 5
        assert all(60_000 <= milliseconds <= 63_750 for milliseconds in keys.values())
        assert max(keys.values()) - min(keys.values()) < 1_000
        # Writes whose checkpoint hasn't come are swept ten minutes after them.
        assert all(595_000 < milliseconds <= 1_200_000 for milliseconds in registry)
        await records(*renew)
    keys = [milliseconds for key, milliseconds in keys_of(database).items() if ":t:" in key]
    assert all(90_000 <= milliseconds <= 95_625 for milliseconds in keys)
    await records("save_limits", "t", Limits())
    assert set(keys_of(database).values()) == {-1}


@on_valkey
async def test_the_registry_goes_with_the_last_thread(database: Database) -> None:
    records = open_records(database)
    await records.put("c1", limits=Limits(1.0))
    assert all(900 < left < 1_100 for key, left in keys_of(database).items() if key != "meta")


@on_valkey
async def test_native_deadlines_follow_a_thread_that_lives_on(database: Database) -> None:
    records = open_records(database)
    for _ in range(6):
        await records.put("c1", limits=Limits(60.0), elements=elements(5, [b"a"]))
        await records.put("c2", "c1", limits=Limits(60.0), elements=elements(6, [b"a"]))
        keys = keys_of(database)
        del keys["meta"]
        assert len(keys) == 6
        assert all(59_000 < left <= 63_750 for left in keys.values())
        threads = [left for key, left in keys.items() if ":t:" in key]
        assert max(threads) - min(threads) < 1_000
        # The server's own time all but stands still here.
        database.advance(timedelta(seconds=3))
    database.advance(timedelta(seconds=59))
    assert await records("drop_expired", 10) == 1


@on_all_servers
async def test_early_writes_alone_live_for_ten_minutes(database: Database) -> None:
    records = open_records(database)
    await records.write("c1", [new_write("c1", 0, b"early")])
    keys = keys_of(database)
    del keys["meta"]
    assert all(595_000 < milliseconds <= 600_000 for milliseconds in keys.values())
    await records.put("c1")
    assert set(keys_of(database).values()) == {-1}


@on_valkey
async def test_what_the_server_expired_itself_leaves_the_registry(database: Database) -> None:
    records = open_records(database)
    client = database.servers.redis_client(database.url)
    await records.put("c1", limits=Limits(60.0))
    key = thread_key(database)
    registry = f"{database.options['prefix']}{key.partition(':')[0]}"
    client.delete(f"{database.options['prefix']}{key}")  # as its native deadline does
    assert await records("scan_threads", None, 10) == []
    assert await records("scan_checkpoints", CheckpointScan()) == []
    database.advance(timedelta(minutes=2))
    assert await records("drop_expired", 10) == 0
    assert client.zcard(f"{registry}:ids") == client.zcard(f"{registry}:due") == 0


# Damage


@on_valkey
async def test_a_log_that_was_evicted_is_left_out_and_takes_no_more(database: Database) -> None:
    records = open_records(database)
    generation = await fill(records)
    client = database.servers.redis_client(database.url)
    [key] = client.scan_iter(match=f"{database.options['prefix']}*:5")
    client.delete(key)
    found = await records("read_elements", "t", generation, [Run(5, 0, 2), Run(6, 0, 1)])
    assert found == [Element(6, 0, b"x")]
    saved = await records.put("c6", "c5", elements=elements(5, [b"c"], start=2))
    assert saved.outcome is Outcome.LOG_TAKEN


@on_valkey
async def test_an_index_that_was_evicted_is_an_error_not_a_shorter_list(
    database: Database,
) -> None:
    records = open_records(database)
    await fill(records)
    client = database.servers.redis_client(database.url)
    [key] = client.scan_iter(match=f"{database.options['prefix']}*:i")
    client.delete(key)
    await records.put("c7", "c5")
    for scan in (CheckpointScan("t"), CheckpointScan()):
        with pytest.raises(ThreadDamaged, match="'t'"):
            await records("scan_checkpoints", scan)
    with pytest.raises(ThreadDamaged, match="'t'"):
        await records("read_orders", "t", ["c5"])
    latest = await records.latest()
    assert latest is not None
    assert latest.checkpoint_id == "c7"


@on_valkey
async def test_a_thread_that_was_evicted_begins_anew(database: Database) -> None:
    records = open_records(database)
    await fill(records)
    client = database.servers.redis_client(database.url)
    client.delete(f"{database.options['prefix']}{thread_key(database)}")
    assert await records.latest() is None
    assert await records("scan_checkpoints", CheckpointScan("t")) == []
    await records.put("d1", begins=True)
    assert await records.orders() == {"d1": OrderKey("d1", 0)}


# Bytes


@on_all_servers
async def test_what_is_stored_has_the_documented_bytes(database: Database) -> None:
    records = open_records(database)
    limits = Limits(60.0, None, 120.0, True)
    await records.put("c1", elements=[Element(7, 0, b"\x01x")], limits=limits, head=b"H")
    await records.put("c0", "c1", checkpoint_ns="n\x00", limits=limits, head=b"H", sticky=True)
    await records.put("c0", "c1", run_id="r", limits=limits, head=b"H", pending=True)
    await records.write("c1", [new_write("c1", -1, b"\x00v")])
    client, prefix = database.servers.redis_client(database.url), database.options["prefix"]
    assert thread_key(database) == "{8e}:t:8efd86fb78a56a5145ed7739"
    key = f"{prefix}{thread_key(database)}"
    varying = ("generation", "created", "updated", "idle_until", "native")
    fields = {name: value for name, value in client.hgetall(key).items() if b"\x00" in name}
    facts = client.hgetall(key).keys() - fields.keys()
    metadata = b"\xc4\x08metadata"
    assert fields == {
        b"c\x00c1": b"0 0 \x94\xc0\xc0\xc4\x01H" + metadata,
        b"cn\x00\xff\x00c0": b"0 0 \x94\xa2c1\xc0\xc4\x01H" + metadata,
        b"c\x00c0": b"1 2 c1\x94\xa2c1\xa1r\xc4\x01H" + metadata,
        b"h\x00": b"c1\x0011\x00+c0",
        b"hn\x00\xff\x00": b"c0\x0010n\x00\xff\x00",
        b"mc0\x00": b"0 ",
        b"nn\x00\xff\x00c1": b"",
        b"w\x00c1": b"4 -1 19 task\x93\xa5~path\xa7channel\xc4\x02\x00v",
    }
    assert {
        name: client.hget(key, name) for name in facts - {name.encode() for name in varying}
    } == {
        b"thread": b"t",
        b"count": b"3",
        b"limits": b"60000 - 120000 1 1",
        b"waiting": b"1",
        b"logs": b"7 ",
    }
    index = [b"c0\x0010n\x00\xff\x00", b"c1\x0010\x00", b"c1\x0011\x00+c0"]
    assert client.zrange(f"{key}:i", 0, -1) == index
    assert client.lrange(f"{key}:7", 0, -1) == [b"\x01x"]
    assert client.zrange(f"{prefix}{{8e}}:ids", 0, -1) == [b"t"]
    assert client.zrange(f"{prefix}{{8e}}:due", 0, -1) == [b"tt"]


@given(ids, ids)
def test_escaped_texts_come_back_and_keep_their_order(a: str, b: str) -> None:
    assert unescape(escape(a)) == a
    assert (escape(a) + b"\x00" < escape(b) + b"\x00") == (a < b)


@given(ids, ids)
def test_places_come_back(namespace: str, checkpoint_id: str) -> None:
    assert split_place(join_place(namespace, checkpoint_id)) == (namespace, checkpoint_id)


@given(
    st.builds(OrderKey, ids, st.integers(0, 10**6)), st.builds(OrderKey, ids, st.integers(0, 10**6))
)
def test_order_bytes_have_the_order_of_the_keys(a: OrderKey, b: OrderKey) -> None:
    assert (order_bytes(a) < order_bytes(b)) == (a < b)
    assert a == b or not order_bytes(a).startswith(order_bytes(b))
