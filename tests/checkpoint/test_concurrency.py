"""Many threads, loops, tasks and processes at once: nobody waits for ever, nothing gets lost."""

import asyncio
import contextlib
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from conftest import Database, Face
from langchain_core.messages import HumanMessage
from threads import Thread, new_checkpoint, next_id, place, stored

from langgraph_sessionmem.errors import ThreadDeleted, TimedOut

WRITER = """
import json, sys
from langgraph_sessionmem import SessionSaver
url, options, name, count = json.loads(sys.argv[1])
saver = SessionSaver.from_conn_string(url, **options)
config = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
texts = []
for n in range(count):
    texts.append(f"{name} {n} " * 10)
    values, versions = {"list": list(texts), "n": n}, {"list": f"{n:05}", "n": f"{n:05}"}
    checkpoint = {"v": 4, "id": f"{n:05}", "ts": "", "channel_values": values,
        "channel_versions": versions, "versions_seen": {}, "updated_channels": None}
    config = saver.put(config, checkpoint, {"step": n}, versions)
    saver.put_writes(config, [("n", n)], "task")
    saver.put_writes({"configurable": {"thread_id": "shared", "checkpoint_ns": "",
        "checkpoint_id": "c"}}, [("n", [name, n])], f"{name} {n}")
saver.close()
"""
HOLDER = """
import json, sqlite3, sys
path, times = json.loads(sys.argv[1])
connection = sqlite3.connect(path, timeout=60, isolation_level=None)
connection.execute("create table if not exists mine (n)")
numbers = "with recursive r(n) as (select 1 union all select n + 1 from r where n < 400000)"
for n in range(times):
    connection.execute("begin immediate")
    connection.execute(f"insert into mine {numbers} select sum(n) from r")
    connection.execute("commit")
    print("held", flush=True)
    connection.execute(f"{numbers} select sum(n) from r where n < 200000").fetchall()
"""


def start(program: str, *arguments: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(arguments)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    """The results of `call(0)` to `call(count - 1)`, begun together in threads."""
    barrier = threading.Barrier(count)

    def begin(index: int) -> Any:
        barrier.wait()
        return call(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def put(saver: Any, config: Any, n: int, values: dict[str, Any]) -> Any:
    versions = {channel: f"{n:010}.{next_id()}" for channel in values}
    return saver.put(config, new_checkpoint(next_id(), values, versions), {"step": n}, versions)


def test_eight_threads_share_a_saver(database: Database) -> None:
    saver = database.open_saver()

    def talk(index: int) -> None:
        config, texts = place(f"t{index}"), []
        for n in range(6):
            texts = [*texts, f"text {index} {n} " * 10]
            config = put(saver, config, n, {"list": texts})
            saver.put_writes(config, [("list", n)], "task")
            found = saver.get_tuple(place(f"t{index}"))
            assert found.checkpoint["channel_values"] == {"list": texts}
            assert found.pending_writes == [("task", "list", n)]
            assert len(list(saver.list(place(f"t{index}")))) == n + 1

    at_once(8, talk)
    assert stored(database, saver)["elements"] == 8 * 6


async def test_many_tasks_share_a_saver(database: Database) -> None:
    saver = Face(database.open_saver(), True)

    async def talk(index: int) -> None:
        thread = Thread(saver, f"t{index}")
        for n in range(5):
            await thread.put({"list": [f"text {index} {i} " * 10 for i in range(n + 1)]})
            await asyncio.gather(*(thread.write([("list", n)], f"task {i}") for i in range(4)))
        found = await saver("get_tuple", place(f"t{index}"))
        assert len(found.checkpoint["channel_values"]["list"]) == 5
        assert len(found.pending_writes) == 4

    await asyncio.gather(*map(talk, range(8)))
    assert stored(database, saver.target)["elements"] == 8 * 5


def test_writers_that_meet_on_one_thread_each_get_their_own_branch(database: Database) -> None:
    savers = [database.open_saver() for _ in range(4)]
    texts = [f"shared {n} " * 10 for n in range(10)]
    root = put(savers[0], place(), 0, {"list": texts})

    def branch(index: int) -> Any:
        saver, config, own = savers[index], root, list(texts)
        for n in range(4):
            own.append(f"branch {index} {n} " * 10)
            config = put(saver, config, n, {"list": own})
        return config, own

    for config, own in at_once(4, branch):
        assert savers[0].get_tuple(config).checkpoint["channel_values"] == {"list": own}
    assert len(list(savers[1].list(place()))) == 17
    assert stored(database, savers[0])["elements"] == 10 + 16


def test_one_checkpoint_put_by_many_at_once_is_stored_once(database: Database) -> None:
    savers = [database.open_saver() for _ in range(4)]
    root = put(savers[0], place(), 0, {"list": ["x" * 200]})
    values, versions = {"list": ["x" * 200, "y" * 200]}, {"list": "2"}
    checkpoint = new_checkpoint(next_id(), values, versions)
    at_once(4, lambda index: savers[index].put(root, checkpoint, {"step": 1}, versions))
    assert len(list(savers[0].list(place()))) == 2
    found = savers[0].get_tuple(place())
    assert found.checkpoint == checkpoint
    assert found.parent_config == root


def test_a_thread_deleted_under_its_writers_is_gone_whole(database: Database) -> None:
    saver, other = database.open_saver(), database.open_saver()
    config = put(saver, place(), 0, {"list": ["x" * 200]})

    def act(index: int) -> None:
        if index == 0:
            other.delete_thread("t")
            return
        for n in range(10):
            with contextlib.suppress(ThreadDeleted):
                saver.put_writes(config, [("n", n)], f"{index} {n}")

    at_once(4, act)
    assert saver.get_tuple(place()) is None
    left = stored(database, saver)
    assert not any(count for kind, count in left.items() if kind != "tombstones")


@pytest.mark.parametrize("backend_name", ["sqlite", "postgres"])
def test_processes_write_one_database_while_it_is_read(database: Database) -> None:
    saver = database.open_saver()
    saver.setup()
    names = ["p0", "p1", "p2"]
    count = 40
    processes = [start(WRITER, database.url, database.options, name, count) for name in names]
    seen = dict.fromkeys(names, -1)
    while any(process.poll() is None for process in processes):
        for found in saver.list(None, limit=3):
            values = found.checkpoint["channel_values"]
            name = found.config["configurable"]["thread_id"]
            assert len(values["list"]) == values["n"] + 1
            assert all(text.startswith(name) for text in values["list"])
        for name in names:
            latest = saver.get_tuple(place(name))
            n = latest.checkpoint["channel_values"]["n"] if latest else -1
            assert n >= seen[name]
            seen[name] = n
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    for name in names:
        assert len(list(saver.list(place(name)))) == count
    put(saver, place("shared"), 0, {"n": 0})
    checkpoint = new_checkpoint("c", {"n": 1}, {"n": "1"})
    saver.put(place("shared"), checkpoint, {}, {"n": "1"})
    assert len(saver.get_tuple(place("shared", "", "c")).pending_writes) == count * len(names)
    assert stored(database, saver)["elements"] == count * len(names)


def test_many_set_up_an_empty_database_at_once(database: Database) -> None:
    savers = [database.open_saver() for _ in range(8)]
    at_once(8, lambda index: savers[index].setup())
    at_once(8, lambda index: put(savers[index], place(f"t{index}"), 0, {"n": index}))
    assert len(savers[0].threads()) == 8


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend_name", ["sqlite"])
def test_writers_of_one_file_wait_for_each_other_and_for_strangers(
    database: Database, count: int
) -> None:
    """Beside somebody who reads all the time, and somebody who holds the lock for long."""
    saver = database.open_saver()
    saver.setup()
    put(saver, place("first"), 0, {"n": 0})
    path = database.url.removeprefix("sqlite:///")
    reader = sqlite3.connect(path)
    reading = reader.execute("select * from sessionmem_checkpoints, sessionmem_meta")
    assert reading.fetchone()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, json.dumps([path, count // 4])],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    names = ["p0", "p1", "p2", "p3"]
    options = database.options
    processes = [start(WRITER, database.url, options, name, count) for name in names]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert reading.fetchone()
    reader.close()
    holder.communicate()
    assert holder.returncode == 0
    for name in names:
        assert len(list(saver.list(place(name)))) == count


@pytest.mark.parametrize("backend_name", ["sqlite"])
def test_a_file_that_somebody_holds_is_an_error_in_time(database: Database) -> None:
    saver = database.open_saver(timeout=timedelta(seconds=0.2))
    config = put(saver, place(), 0, {"n": 0})
    with sqlite3.connect(database.url.removeprefix("sqlite:///"), isolation_level=None) as holder:
        holder.execute("begin immediate")
        for _ in range(2):
            with pytest.raises(TimedOut, match=r"0\.2 s"):
                put(saver, config, 1, {"n": 1})
        assert saver.get_tuple(place()).config == config
        holder.execute("commit")
    holder.close()
    put(saver, config, 2, {"n": 2})
    assert saver.get_tuple(place()).checkpoint["channel_values"] == {"n": 2}


async def test_blocking_calls_work_inside_a_running_loop(database: Database) -> None:
    saver = database.open_saver()
    config = put(saver, place(), 0, {"n": 1})
    saver.put_writes(config, [("n", 2)], "task")
    found = saver.get_tuple(place())
    assert await saver.aget_tuple(place()) == found
    assert list(saver.list(place())) == [found]
    saver.delete_thread("t")
    assert await saver.aget_tuple(place()) is None


def test_one_saver_serves_one_loop_after_another_and_several_at_once(database: Database) -> None:
    saver = database.open_saver()

    async def talk(index: int) -> int:
        thread = Thread(Face(saver, True), f"t{index % 4}")
        found = (await thread.load() or {"n": 0})["n"]
        await thread.put({"n": found + 1, "messages": [HumanMessage("x" * 100, id="h")]})
        listed = [each async for each in saver.alist(place(f"t{index % 4}"))]
        return len(listed)

    assert asyncio.run(talk(0)) == 1
    assert asyncio.run(talk(0)) == 2
    assert at_once(4, lambda index: asyncio.run(talk(4 + index))) == [3, 1, 1, 1]
    asyncio.run(saver.aclose())
