"""What was acknowledged survives: the writer's end, the server's end, a copied file."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from random import Random
from typing import Any

import pytest
from conftest import BACKENDS, Database
from servers import Postgres, Redis, valkey_binary
from threads import new_checkpoint, next_id, place

from langgraph_sessionmem import SessionSaver

SECONDS = 60

WRITER = """
import json, sys
from langgraph_sessionmem import SessionSaver
url, options, first = json.loads(sys.argv[1])
saver = SessionSaver.from_conn_string(url, **options)
config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
found = saver.get_tuple(config)
texts = found.checkpoint["channel_values"]["list"] if found else []
config = found.config if found else config
for n in range(first, first + 100_000):
    texts.append(f"text {n} " * 20)
    values, versions = {"list": texts, "n": n, "big": "x" * 20_000 + str(n)}, {}
    versions = dict.fromkeys(values, f"{n:010}")
    checkpoint = {"v": 4, "id": f"{n:010}", "ts": "", "channel_values": values,
        "channel_versions": versions, "versions_seen": {}, "updated_channels": None}
    config = saver.put(config, checkpoint, {"step": n}, versions)
    print("put", n, flush=True)
    saver.put_writes(config, [("n", n), ("list", texts[-1])], "task")
    print("write", n, flush=True)
"""


def texts(count: int) -> list[str]:
    return [f"text {n} " * 20 for n in range(count)]


def write_until(url: str, options: Any, first: int, lines: int) -> dict[str, list[int]]:
    """Run the writer until it has acknowledged so much, kill it, and give all it acknowledged."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, json.dumps([url, options, first])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    done: dict[str, list[int]] = {"put": [], "write": []}

    def note(line: str) -> None:
        kind, _, n = line.partition(" ")
        done[kind].append(int(n))

    for _ in range(lines):
        line = writer.stdout.readline()
        assert line, writer.stderr and writer.stderr.read()
        note(line)
    writer.kill()
    rest = writer.stdout.read()  # `communicate` would miss what `readline` has buffered
    writer.communicate(timeout=SECONDS)
    for line in rest.splitlines():
        note(line)
    assert writer.returncode == -signal.SIGKILL
    return done


def check(saver: Any, last_put: int, written: Collection[int]) -> int:
    """That all acknowledged is there, and whole; gives the latest checkpoint's number."""
    found = saver.get_tuple(place())
    if found is None:
        assert last_put == -1
        return -1
    n: int = found.checkpoint["channel_values"]["n"]
    assert last_put <= n <= last_put + 1
    listed = list(saver.list(place()))
    assert len(listed) == n + 1
    for number, each in zip(range(n, -1, -1), listed, strict=True):
        values = each.checkpoint["channel_values"]
        assert values == {"list": texts(number + 1), "n": number, "big": "x" * 20_000 + str(number)}
        if number in written:
            assert each.pending_writes == [
                ("task", "n", number),
                ("task", "list", values["list"][-1]),
            ]
        else:
            assert len(each.pending_writes) in (0, 2)
    return n


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("rounds", [2, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "backend_name", [name for name in ("sqlite", "postgres", "valkey") if name in BACKENDS]
)
def test_what_a_killed_writer_had_acknowledged_is_there_and_whole(
    database: Database, rounds: int
) -> None:
    first, written, chance = 0, set(), Random(rounds)
    for _ in range(rounds):
        done = write_until(database.url, database.options, first, chance.randint(1, 30))
        written |= set(done["write"])
        saver = database.open_saver()
        last_put = done["put"][-1] if done["put"] else first - 1
        first = check(saver, last_put, written) + 1
        saver.close()


def put(saver: Any, config: Any, n: int) -> Any:
    values = {"list": texts(n + 1), "n": n, "big": "x" * 20_000 + str(n)}
    versions = dict.fromkeys(values, f"{n:010}")
    return saver.put(config, new_checkpoint(next_id(), values, versions), {"step": n}, versions)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("rounds", [2, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["postgres", "valkey"])
def test_what_a_killed_server_had_acknowledged_is_there_and_whole(
    start_server: Callable[..., Any], name: str, rounds: int
) -> None:
    make = {"postgres": (Postgres,), "valkey": (Redis, valkey_binary())}[name]
    server = start_server(*make, durable=True)
    acknowledged: Queue[int] = Queue()
    stop, chance = threading.Event(), Random(rounds)

    def write(saver: Any) -> int:
        config, n = place(), 0
        while not stop.is_set():
            config = put(saver, config, n)
            saver.put_writes(config, [("n", n), ("list", texts(n + 1)[-1])], "task")
            acknowledged.put(n)
            n += 1
        return n

    with SessionSaver(server.url) as saver, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write, saver)
        try:
            for _ in range(rounds):
                for _ in range(chance.randint(1, 6)):
                    acknowledged.get(timeout=SECONDS)
                server.kill()  # in the middle of the next one
                server.start()
        finally:
            stop.set()
        count = writing.result()
    with SessionSaver(server.url) as saver:
        assert check(saver, count - 1, range(count)) == count - 1


def test_a_file_copied_while_it_is_written_is_a_database(tmp_path: Path) -> None:
    """As after a power cut: the database and its log as they were at one moment."""
    path = tmp_path / "live.db"
    with SessionSaver(path) as saver:
        config: Any = place()
        for n in range(6):
            config = put(saver, config, n)
            saver.put_writes(config, [("n", n), ("list", texts(n + 1)[-1])], "task")
            copy = tmp_path / f"copy{n}.db"
            for suffix in ("", "-wal"):
                source = Path(f"{path}{suffix}")
                if source.exists():
                    Path(f"{copy}{suffix}").write_bytes(source.read_bytes())
            with SessionSaver(copy) as copied:
                assert check(copied, n, range(n + 1)) == n
