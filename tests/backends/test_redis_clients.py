"""Faults of servers and connections to Redis and Valkey, and the clients that are given."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from conftest import Database
from faults import CutProxy
from primitives import Records, elements, fill, keys_of, new_write, on, open_records
from servers import Cluster, Redis, valkey_binary

from langgraph_sessionmem.backends.redis import RedisBackend
from langgraph_sessionmem.backends.redis_clients import read_url
from langgraph_sessionmem.errors import (
    BackendUnavailable,
    InvalidArgument,
    SchemaMissing,
    SchemaTooNew,
    TimedOut,
)
from langgraph_sessionmem.rows import (
    CheckpointScan,
    Limits,
    Outcome,
    Prune,
    Run,
    ThreadCopy,
    ThreadOrder,
    ThreadScan,
)

on_all_servers = on("valkey", "redis", "cluster")
on_valkey = on("valkey")


# Faults


@on_valkey
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_lost_reply_doubles_nothing(database: Database, is_async: bool) -> None:
    with CutProxy(database.url) as proxy:
        records = open_records(database, proxy.url, is_async=is_async)
        await records.put("c1", elements=elements(5, [b"a"]))
        proxy.lose_reply()
        added = elements(5, [b"b", b"c"], start=1)
        saved = await records.put("c2", "c1", elements=added)
        assert saved.outcome is Outcome.SAVED
        found = await records("read_elements", "t", saved.generation, [Run(5, 0, 9)])
        assert sorted(found) == elements(5, [b"a", b"b", b"c"])
        proxy.lose_reply()
        await records.write("c2", [new_write("c2", 0, b"w")])
        assert await records.writes("c2") == {("task", 0): b"w"}
        [thread] = await records("scan_threads", ThreadScan())
        assert thread.checkpoints == 2
        await records.aclose()


@on_valkey
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_server_that_forgot_the_scripts_is_told_again(
    database: Database, is_async: bool
) -> None:
    records = open_records(database, is_async=is_async)
    await records.put("c1")
    database.servers.redis_client(database.url).script_flush()
    await records.put("c2", "c1")
    database.servers.redis_client(database.url).script_flush()
    assert len(await records("scan_threads", ThreadScan())) == 1


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_restarted_server_costs_no_error(
    start_server: Callable[..., Any], is_async: bool
) -> None:
    server = start_server(Redis, valkey_binary(), durable=True)
    records = Records(RedisBackend.from_url(server.url, timeout_seconds=0.5), is_async)
    await records.put("c1")
    server.kill()
    with pytest.raises(TimedOut, match=r"no answer within 0\.5 s \(Error 111 connecting"):
        await records.put("c2", "c1")
    server.start()
    assert (await records.put("c3", "c1")).outcome is Outcome.SAVED
    assert list(await records.orders()) == ["c3", "c1"]
    await records.aclose()


async def test_a_node_that_is_down_costs_only_its_own_threads(
    start_server: Callable[..., Any],
) -> None:
    cluster = start_server(Cluster, valkey_binary(), durable=True)
    both, hasty = (
        [
            Records(RedisBackend.from_url(cluster.url, timeout_seconds=seconds), is_async)
            for is_async in (False, True)
        ]
        for seconds in (10.0, 0.3)
    )
    threads = [f"t{number}" for number in range(6)]
    for records in both + hasty:
        for thread_id in threads:
            await records.put("c1", thread_id=thread_id)
    cluster.nodes[0].kill()
    for records in hasty:
        up = []
        for thread_id in threads:
            with contextlib.suppress(BackendUnavailable):
                await records.put("c2", "c1", thread_id=thread_id)
                up.append(thread_id)
        assert 0 < len(up) < 6
        await records.aclose()
    cluster.nodes[0].start()
    cluster.wait_until_ok()
    for records in both:
        for thread_id in threads:
            await records.put("c3", "c1", thread_id=thread_id)
            assert set(await records.orders(thread_id)) >= {"c1", "c3"}
        await records.aclose()


@on_valkey
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_server_that_says_nothing_is_an_error(database: Database, is_async: bool) -> None:
    with CutProxy(database.url) as proxy:
        backend = RedisBackend.from_url(proxy.url, timeout_seconds=0.2, **database.options)
        records = Records(backend, is_async)
        await records.put("c1")
        proxy.stall()
        with pytest.raises(TimedOut, match=r"within 0\.2 s"):
            await records.latest()
        proxy.pass_on()
        assert await records.latest() is not None
        await records.aclose()


async def test_a_full_server_is_an_error_and_stores_nothing(
    start_server: Callable[..., Any],
) -> None:
    server = start_server(Redis, valkey_binary(), options=["--maxmemory", "8mb"])
    records = Records(RedisBackend.from_url(server.url), False)

    async def fill_up() -> None:
        for number in range(1_000):
            bodies = elements(number, [bytes(20_000)])
            await records.put(f"c{number:03}", elements=bodies, limits=Limits(600.0))

    with pytest.raises(BackendUnavailable, match="maxmemory"):
        await fill_up()
    stored = await records.orders()
    assert list(stored) == [f"c{number:03}" for number in reversed(range(len(stored)))]
    [thread] = await records("scan_threads", ThreadScan())
    assert thread.checkpoints == len(stored) > 10
    runs = [Run(number, 0, 1) for number in range(1_000)]
    found = await records("read_elements", "t", thread.generation, runs)
    assert len(found) == len(stored)
    await records.aclose()


async def test_a_user_with_few_rights_and_one_prefix_is_enough(
    start_server: Callable[..., Any],
) -> None:
    server = start_server(Redis, valkey_binary())
    rights = "+@read +@write +@connection +@transaction +eval +evalsha +script|load +time"
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL SETUSER", "app", "on", ">secret", "~p:*", *rights.split())
    url = server.url.replace("redis://", "redis://app:secret@")
    for is_async in (False, True):
        records = Records(RedisBackend.from_url(url, prefix="p:"), is_async)
        limits = Limits(60.0, 600.0, tells_expiry=True)
        generation = await fill(records, limits=limits)
        assert len(await records("read_elements", "t", generation, [Run(5, 0, 2)])) == 2
        await records("touch_thread", "t", generation)
        await records("save_limits", "t", limits, own=True)
        for order in ThreadOrder:
            assert len(await records("scan_threads", ThreadScan(order=order))) == 1
        rows = await records("scan_checkpoints", CheckpointScan())
        assert len(rows) == 3
        cut = Prune("t", generation, 3, [("", "c5")], [Run(5, 0, 1)], roots=[("", "c4")])
        assert await records("save_pruned", cut) is True
        copy = ThreadCopy("u", limits, True, False, None, 3, rows, ["r", "r", "r"], [], [])
        assert (await records("save_copy", copy)).outcome is Outcome.SAVED
        assert await records("read_run_threads", ["r"]) == ["u"]
        assert len(await records("read_places", "t", generation)) == 3
        assert (await records("read_stats")).threads == 2
        assert (await records("read_ancestors", "u", "", None, 9)) != []
        assert await records("scan_expired", 9, keep_latest=True) == []
        assert await records("read_expiry", "t") is False
        for thread_id in ("t", "u"):
            await records("drop_thread", thread_id)
        await records("drop_expired", 10)
        await records.aclose()


# Setting up


@on_valkey
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_newer_schema_is_refused_and_left_alone(database: Database, is_async: bool) -> None:
    client, meta = database.servers.redis_client(database.url), f"{database.options['prefix']}meta"
    client.hset(meta, "version", 99)
    records = open_records(database, is_async=is_async)
    with pytest.raises(SchemaTooNew, match="99"):
        await records.put("c1")
    assert client.hget(meta, "version") == b"99"
    assert set(keys_of(database)) == {"meta"}


@on_valkey
async def test_without_setup_nothing_is_made(database: Database) -> None:
    backend = RedisBackend.from_url(database.url, setup=False, **database.options)
    records = database.adopt(Records(backend, False))
    with pytest.raises(SchemaMissing, match="call setup"):
        await records.put("c1")
    assert keys_of(database) == {}
    backend.setup()
    assert (await records.put("c1")).outcome is Outcome.SAVED


@on_valkey
async def test_all_openers_share_one_key_for_tombstones(database: Database) -> None:
    first, second = open_records(database), open_records(database, is_async=True)
    saved = await first.put("c1")
    await second("drop_thread", "t")
    late = await first.put("c2", "c1", generation=saved.generation)
    assert late.outcome is Outcome.DELETED


# Clients


@on_valkey
async def test_a_client_that_was_given_serves_its_face_and_stays_open(database: Database) -> None:
    with redis.Redis.from_url(database.url) as client:
        records = database.adopt(Records(RedisBackend(client, **database.options), False))
        await records.put("c1")
        with pytest.raises(InvalidArgument, match="blocking calls only"):
            await records.backend.asetup()
        await records.aclose()
        assert client.ping()
    async with redis.asyncio.Redis.from_url(database.url) as async_client:
        records = database.adopt(Records(RedisBackend(async_client, **database.options), True))
        assert await records.latest() is not None
        with pytest.raises(InvalidArgument, match="async calls only"):
            records.backend.setup()
        await records.aclose()
        assert await async_client.ping()


@on("cluster")
async def test_a_cluster_client_that_was_given_serves_its_face(database: Database) -> None:
    url = database.servers.cluster_url().replace("+cluster", "").split(",")[0]
    with redis.RedisCluster.from_url(url) as client:
        records = database.adopt(Records(RedisBackend(client, **database.options), False))
        await records.put("c1")
        await records.aclose()
    async with redis.asyncio.RedisCluster.from_url(url) as async_client:
        records = database.adopt(Records(RedisBackend(async_client, **database.options), True))
        assert await records.latest() is not None
        await records.aclose()


def test_what_is_no_client_of_ours_is_refused() -> None:
    for client in (
        redis.Redis(decode_responses=True),
        redis.asyncio.Redis(decode_responses=True),
    ):
        with pytest.raises(InvalidArgument, match="decode_responses"):
            RedisBackend(client)
    with pytest.raises(InvalidArgument, match="no client of redis-py"):
        RedisBackend(object())
    with pytest.raises(InvalidArgument, match="braces"):
        RedisBackend.from_url("redis://localhost", prefix="a{b}:")


PROGRAM = """
import asyncio, sys, threading
from langgraph_sessionmem.backends.redis import RedisBackend
backend = RedisBackend.from_url(sys.argv[1], prefix=sys.argv[2])
async def scan():
    await asyncio.gather(*(backend.arun(lambda r: r.read_orders('t', 'c')) for _ in range(9)))
asyncio.run(scan())
asyncio.run(scan())
threads = [threading.Thread(target=asyncio.run, args=(scan(),)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
async def close_inside():
    await scan()
    backend.run(lambda r: r.read_orders('t', 'c'))  # safe inside a running loop
    {close}
asyncio.run(close_inside())
backend.close()
print("done")
"""


@pytest.mark.parametrize("close", ["await backend.aclose()", "backend.close()", "pass"])
@on("valkey", "cluster")
async def test_many_loops_leave_no_warning_behind(
    database: Database, close: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("{close}", close))
    command = [
        sys.executable,
        "-W",
        "error",
        program,
        database.url,
        database.options["prefix"],
    ]
    result = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("done\n", "")


@on_valkey
async def test_more_calls_at_once_than_connections_wait_for_each_other(database: Database) -> None:
    records = open_records(database, is_async=True)
    saves = [records.put(f"c{number:03}") for number in range(300)]
    outcomes = {saved.outcome for saved in await asyncio.gather(*saves)}
    assert outcomes == {Outcome.SAVED}
    assert len(await records.orders()) == 300


async def test_a_unix_socket_serves_both_faces(start_server: Callable[..., Any]) -> None:
    server = start_server(Redis, valkey_binary())
    for is_async in (False, True):
        records = Records(RedisBackend.from_url(server.socket_url), is_async)
        assert (await records.put("c1")).outcome is Outcome.SAVED
        await records.aclose()


# Connection strings


@pytest.mark.parametrize(
    ("url", "first", "others"),
    [
        ("redis://h:1/2", "redis://h:1/2", []),
        ("unix:///tmp/r.sock?db=1", "unix:///tmp/r.sock?db=1", []),
        ("redis+cluster://a:1,b:2,c", "redis://a:1/", [("b", 2), ("c", 6379)]),
        (
            "rediss+cluster://me:p%40ss@[::1]:1,[fe80::2]:3/?socket_timeout=3",
            "rediss://me:p%40ss@[::1]:1/?socket_timeout=3",
            [("fe80::2", 3)],
        ),
        ("redis+cluster://[::1]?socket_timeout=3", "redis://[::1]:6379/?socket_timeout=3", []),
    ],
)
def test_a_connection_string_is_read(url: str, first: str, others: list[tuple[str, int]]) -> None:
    assert read_url(url) == (first, others)
    RedisBackend.from_url(url).close()


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://",
        "redis+cluster://a:1,,b:2",
        "redis+cluster://a:x",
        "redis+cluster://:1",
        "redis://h:x",
        "redis://h?decode_responses=true",
        "redis://h?socket_timeout=soon",
    ],
)
def test_a_bad_connection_string_is_refused_without_its_password(url: str) -> None:
    secret = url.replace("://", "://me:secret@")
    with pytest.raises(InvalidArgument) as refused:
        RedisBackend.from_url(secret)
    assert "secret" not in str(refused.value)
