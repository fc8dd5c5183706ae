"""What was acknowledged survives: the writer's end, the server's end, a lost connection."""

import json
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from faults import CutProxy
from servers import Postgres
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
    rest, _ = writer.communicate(timeout=SECONDS)
    for line in rest.splitlines():
        note(line)
    assert writer.returncode == -signal.SIGKILL
    return done


def check(saver: Any, last_put: int, written: Collection[int]) -> int:
    """That all acknowledged is there, and whole; gives the latest checkpoint's number."""
    found = saver.get_tuple(place())
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
@pytest.mark.parametrize("backend_name", ["sqlite", "postgres"])
def test_what_a_killed_writer_had_acknowledged_is_there_and_whole(database: Database) -> None:
    first, written = 0, set()
    for lines in (1, 40, 75):
        done = write_until(database.url, database.options, first, lines)
        written |= set(done["write"])
        saver = database.open_saver()
        first = check(saver, done["put"][-1], written) + 1
        saver.close()


def put(saver: Any, config: Any, n: int) -> Any:
    values = {"list": texts(n + 1), "n": n, "big": "x" * 20_000 + str(n)}
    versions = dict.fromkeys(values, f"{n:010}")
    return saver.put(config, new_checkpoint(next_id(), values, versions), {"step": n}, versions)


def test_what_a_killed_server_had_acknowledged_is_there_and_the_saver_goes_on(
    start_server: Any,
) -> None:
    server = start_server(Postgres, durable=True)
    with SessionSaver(server.url) as saver:
        config: Any = place()
        for n in range(10):
            config = put(saver, config, n)
            saver.put_writes(config, [("n", n), ("list", texts(n + 1)[-1])], "task")
        for n in range(10, 14):
            server.kill()
            server.start()
            if n % 2:
                assert saver.get_tuple(place()).checkpoint["channel_values"]["n"] == n - 1
            config = put(saver, config, n)
            server.kill()
            server.start()
            saver.put_writes(config, [("n", n), ("list", texts(n + 1)[-1])], "task")
        assert check(saver, 13, range(14)) == 13


@pytest.mark.parametrize("backend_name", ["postgres"])
async def test_lost_connections_and_lost_replies_are_no_errors(database: Database) -> None:
    with CutProxy(database.url) as proxy, SessionSaver(proxy.url, **database.options) as saver:
        config: Any = place()
        breaks = [proxy.cut, proxy.reset, proxy.lose_reply]
        for n in range(9):
            if n:
                breaks[n % 3]()
            config = put(saver, config, n)
            breaks[(n + 1) % 3]()
            saver.put_writes(config, [("n", n), ("list", texts(n + 1)[-1])], "task")
            breaks[(n + 2) % 3]()
            found = await saver.aget_tuple(place())
            assert found is not None
            assert found.checkpoint["channel_values"]["n"] == n
        proxy.pass_on()
        assert check(saver, 8, range(9)) == 8


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
