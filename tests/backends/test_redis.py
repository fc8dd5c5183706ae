"""The keys and bytes of Redis and Valkey, and what becomes of them."""

from datetime import timedelta

import ormsgpack
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
from langgraph_sessionmem.rows import (
    Anchor,
    Block,
    CheckpointScan,
    Element,
    Limits,
    OrderKey,
    Outcome,
    Prune,
    Run,
    ThreadScan,
)

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
    limits = Limits(60.0, 600.0, keep_latest=True, tells_expiry=True)
    for thread_id in ("t", "}{", "{x}", "a*"):
        await fill(records, thread_id)
        await records("drop_thread", thread_id)
        await fill(records, thread_id)
        await records.put("c7", thread_id=thread_id, run_id="r", limits=limits)
    kinds = {key.rpartition(":")[2] for key in keys_of(database)}
    assert kinds >= {"meta", "ids", "due", "cuts", "runs", "marks", "tombstones", "i"}
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
    for number in range(2):
        keys = keys_of(database)
        assert keys.pop("meta") == -1
        registry = [keys.pop(key) for key in list(keys) if key.endswith((":ids", ":due"))]
        assert len(keys) == 3
        assert all(60_000 <= milliseconds <= 63_750 for milliseconds in keys.values())
        assert max(keys.values()) - min(keys.values()) < 1_000
        # Writes whose checkpoint hasn't come are swept ten minutes after them.
        assert all(595_000 < milliseconds <= 1_200_000 for milliseconds in registry)
        if number == 0:
            await records("touch_thread", "t", generation)
        else:
            await records("save_limits", "t", Limits(90.0, None, 5.0), own=True)
    keys = [milliseconds for key, milliseconds in keys_of(database).items() if ":t:" in key]
    assert all(90_000 <= milliseconds <= 95_625 for milliseconds in keys)
    await records("save_limits", "t", Limits(), own=True)
    assert set(keys_of(database).values()) == {-1}


@on_valkey
async def test_the_registry_goes_with_the_last_thread(database: Database) -> None:
    records = open_records(database)
    await records.put("c1", limits=Limits(1.0))
    assert all(900 < left < 1_200 for key, left in keys_of(database).items() if key != "meta")


@on_valkey
async def test_native_deadlines_follow_a_thread_that_lives_on(database: Database) -> None:
    records = open_records(database)
    for _ in range(6):
        await records.put("c1", limits=Limits(60.0), elements=elements(5, [b"a", b"b"]))
        await records.put("c2", "c1", limits=Limits(60.0), elements=elements(6, [b"a", b"b"]))
        keys = keys_of(database)
        del keys["meta"]
        assert len(keys) == 6
        threads = [left for key, left in keys.items() if ":t:" in key]
        assert all(59_000 < left <= 63_750 for left in threads)
        assert all(59_000 < left <= 68_000 for left in keys.values())
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
    threads = [milliseconds for key, milliseconds in keys.items() if ":t:" in key]
    assert all(595_000 < milliseconds <= 600_000 for milliseconds in threads)
    assert all(595_000 < milliseconds <= 640_000 for milliseconds in keys.values())
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
    assert await records("scan_threads", ThreadScan()) == []
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
    limits = Limits(60.0, None, 120.0, refresh_on_read=True)
    logs = elements(7, [b"\x01x", b"\x01y"]) + elements(8, [b"\x01z"])
    await records.put("c1", elements=logs, limits=limits, head=b"H")
    await records.put("c0", "c1", checkpoint_ns="n\x00", limits=limits, head=b"H", sticky=True)
    await records.put("c0", "c1", run_id="r", limits=limits, head=b"H", pending=True, owner="ann")
    await records.put("b", "c1", limits=limits, head=b"H", pending=True)
    await records.write("c1", [new_write("c1", -1, b"\x00v")])
    await records.write("c9", [new_write("c9", 0, b"\x00v")])
    client, prefix = database.servers.redis_client(database.url), database.options["prefix"]
    assert thread_key(database) == "{8e}:t:fd86fb78a56a5145ed"
    key = f"{prefix}{thread_key(database)}"
    fields = client.hgetall(key)
    metadata, row = b"\xc4\x08metadata", b"task\x93\xa5~path\xa7channel\xc4\x02\x00v"
    life, facts = (ormsgpack.unpackb(fields.pop(name)) for name in (b"life", b"facts"))
    assert fields.pop(b"early").split(b" ", 1)[1] == b"3 \x00c9"
    assert fields == {
        b"thread": b"t",
        b"logs": b"7 ",
        b"owner": b"ann",
        b"e8\x00": b"\x01z",
        b"c\x00c1": b"0 0 1 0 \x94\xc0\xc0\xc4\x01H" + metadata,
        b"cn\x00\xff\x00c0": b"0 0 2 0 \x94\xa2c1\xc0\xc4\x01H" + metadata,
        b"c\x00c0": b"1 2 3 0 c1\x94\xa2c1\xa1r\xc4\x01H" + metadata,
        b"c\x00b": b"2 2 4 3 c1\x94\xa2c1\xc0\xc4\x01H" + metadata,
        b"h\x00": b"c1\x0012\x00+b",
        b"hn\x00\xff\x00": b"c0\x0010n\x00\xff\x00",
        b"mc0\x00": b"1 0 ",
        b"mb\x00": b"2 0 ",
        b"f\x00": b"4 2 c1",
        b"nn\x00\xff\x00c1": b"",
        b"w\x00c1": b"4 -1 19 4 " + row,
        b"w\x00c9": b"4 0 19 4 " + row,
    }
    assert life[2:] == [60_000, 0, 120_000, 1, 1, 0, 0]
    assert facts[1:7] == [4, 2, 0, 4, 3, 1]
    assert facts[7] - facts[0] in range(120_000, 130_000)
    assert (facts[8], facts[11], len(facts)) == (0, 0, 13)
    index = [b"c0\x0010n\x00\xff\x00", b"c1\x0010\x00", b"c1\x0011\x00+c0", b"c1\x0012\x00+b"]
    assert client.zrange(f"{key}:i", 0, -1) == index
    assert client.lrange(f"{key}:7", 0, -1) == [b"\x01x", b"\x01y"]
    assert client.zrange(f"{prefix}{{8e}}:ids", 0, -1) == [b"t"]
    assert client.zrange(f"{prefix}{{8e}}:due", 0, -1) == [b"tt", b"et"]
    assert client.zrange(f"{prefix}{{8e}}:runs", 0, -1) == [b"rr\x00t", b"tt\x00r"]


@on_all_servers
async def test_what_is_sealed_or_cut_has_the_documented_bytes(database: Database) -> None:
    records = open_records(database)
    bodies = [b"\x01%d" % number for number in range(8)]
    limits = Limits(60.0, 600.0, keep_latest=True, tells_expiry=True)
    saved = await records.put("c1", elements=elements(7, bodies), limits=limits)
    block = Block(7, 4, 6, b"\x10block")
    await records.put("c2", "c1", elements=elements(8, [b"\x01x"]), blocks=[block], limits=limits)
    cut = Prune(
        "t",
        saved.generation,
        2,
        [],
        [Run(7, 0, 2), Run(8, 0, 1)],
        [Anchor("", "c1", b"A", b"M", [])],
    )
    assert await records("save_pruned", cut) is True
    client, prefix = database.servers.redis_client(database.url), database.options["prefix"]
    key = f"{prefix}{thread_key(database)}"
    holes = [b"\x00", b"\x00", b"\x012", b"\x013", b"", b"", b"\x10block", b"\x017"]
    assert client.lrange(f"{key}:7", 0, -1) == holes
    assert client.exists(f"{key}:8") == client.hexists(key, b"e8\x00") == 0
    assert client.hget(key, "logs") == b"7 "
    assert client.hget(key, "anchors") == b"1 3 \x00c1"
    assert client.hget(key, "c\x00c1") == b"-1 0 1 0 \x94\xc0\xc0\xc4\x01A\xc4\x01M"
    assert client.zrange(f"{prefix}{{8e}}:cuts", 0, -1) == [b"t"]
    marks = client.zrange(f"{prefix}{{8e}}:marks", 0, -1, withscores=True)
    assert [mark[:1] for mark, _ in marks] == [b"a", b"e"]
    assert len({mark[1:] for mark, _ in marks}) == 1
    aged, told = (score for _, score in marks)
    assert told - aged == 30 * 86_400_000 - 3_600_000


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
