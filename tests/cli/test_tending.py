"""`sweep`, `prune`, `verify` and `schema` keep a database in order, on every backend."""

import json
import sqlite3
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Database, Face, Servers
from test_looks import facts, run
from threads import Thread, place
from typer.testing import CliRunner

from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.cli import app


async def fill(saver: Any, names: str = "abc") -> None:
    for thread_id in names:
        thread = Thread(Face(saver, is_async=False), thread_id)
        for turn in range(4):
            await thread.put({"messages": [f"{turn} " * 80, *thread.values.get("messages", [])]})
        await thread.write([("messages", "pending")])


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_sweep_counts_first_and_then_deletes(database: Database) -> None:
    saver = database.open_saver(ttl=timedelta(minutes=5))
    saver.backend.offset_seconds = -3600  # so that they have expired by the command's own clock
    await fill(saver)
    assert facts(database, "sweep", "--dry-run") == {"dry_run": True, "threads": 3}
    assert "3 expired threads would go." in run(database, "sweep", "--dry-run").stdout
    assert facts(database, "sweep") == {"dry_run": False, "threads": 3}
    assert facts(database, "sweep") == {"dry_run": False, "threads": 0}


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_pruning_leaves_the_latest_and_says_what_went(database: Database) -> None:
    saver = database.open_saver()
    await fill(saver)
    latest = saver.get_tuple(place("a"))
    assert facts(database, "prune", "a", "--keep-last", "2")["checkpoints"] == 2
    assert facts(database, "prune", "--all")["checkpoints"] == 7
    found = database.open_saver().get_tuple(place("a"))
    assert found.checkpoint == latest.checkpoint
    assert facts(database, "prune", "b", "--strategy", "delete")["threads"] == 1
    assert [row.thread_id for row in saver.threads()] == ["a", "c"]
    assert facts(database, "prune", "--all", "--strategy", "delete", "--yes")["threads"] == 2
    assert saver.stats().threads == 0


@pytest.mark.parametrize("backend_name", ["sqlite"])
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "Name threads, or give --all"),
        (["a", "--all"], "not both"),
        (["a", "--older-than", "30"], "give a number with s, min, h, d or w"),
        (["a", "--strategy", "delete", "--keep-last", "2"], "strategy='delete'"),
        (["--all", "--strategy", "delete"], "add --yes if that is meant"),
    ],
)
async def test_pruning_that_makes_no_sense_is_refused(
    database: Database, arguments: list[str], named: str
) -> None:
    await fill(database.open_saver(), "a")
    assert named in " ".join(run(database, "prune", *arguments, code=2).stderr.split())


async def test_a_whole_database_is_verified(database: Database) -> None:
    await fill(database.open_saver())
    found = facts(database, "verify")
    assert found["ok"] is True
    assert (found["threads"], found["checkpoints"], found["writes"]) == (3, 12, 3)
    assert found["elements"] == 12
    assert found["orphan_elements"] == found["orphan_writes"] == 0
    assert "Everything is there and can be read." in run(database, "verify", "a", "b").stdout


async def test_a_lost_element_is_found_and_the_exit_code_says_so(database: Database) -> None:
    await fill(database.open_saver())
    lose_an_element(database)
    result = run(database, "verify", "--json", code=1)
    damage = json.loads(result.stdout)["damage"]
    assert damage
    assert {each["thread_id"] for each in damage} == {"b"}
    assert all("channel 'messages' lost" in each["what"] for each in damage)
    assert "damages" in run(database, "verify", code=1).stdout
    assert facts(database, "verify", "a", "c")["ok"] is True


@pytest.mark.parametrize("backend_name", ["sqlite"])
def test_a_type_that_is_not_imported_is_counted_and_is_no_damage(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "shop_of_this_test.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Order:\n    number: int\n"
    )
    writer = (
        "import sys; sys.path[:0] = sys.argv[1:4]\n"
        "import asyncio, json, shop_of_this_test as shop\n"
        "from langgraph_sessionmem import SessionSaver\n"
        "from conftest import Face\nfrom threads import Thread\n"
        "saver = SessionSaver.from_conn_string(sys.argv[4], **json.loads(sys.argv[5]))\n"
        "thread = Thread(Face(saver, is_async=False), 'shop')\n"
        "orders = [shop.Order(number) for number in range(9)]\n"
        "asyncio.run(thread.put({'order': shop.Order(7), 'orders': orders}))\n"
        "saver.close()\n"
    )
    tests = str(Path(__file__).parents[1])
    arguments = [str(tmp_path), tests, "", database.url, json.dumps(database.options)]
    subprocess.run([sys.executable, "-c", writer, *arguments], check=True)
    found = facts(database, "verify")
    assert (found["ok"], found["unbuilt"]) == (True, {"shop_of_this_test.Order": 10})
    assert "shop_of_this_test" not in sys.modules
    assert "10 values need shop_of_this_test.Order" in run(database, "verify").stdout
    checkpoint = facts(database, "show", "shop")["checkpoints"][0]["checkpoint_id"]
    [order, _] = facts(database, "diff", f"shop:{checkpoint}")["channels"]
    assert order["parts"][0]["after"].startswith("<shop_of_this_test.Order ")


@pytest.mark.parametrize("backend_name", ["sqlite", "postgres"])
async def test_the_printed_schema_is_one_that_a_saver_accepts(
    database: Database, servers: Servers, tmp_path: Path
) -> None:
    options = [part for name, value in database.options.items() for part in (f"--{name}", value)]
    result = CliRunner().invoke(app, ["schema", database.url, *options])
    assert result.exit_code == 0
    if database.name == "postgres":
        servers.postgres_connection(database.url).execute(result.stdout)
    else:
        import_script(tmp_path / "test.db", result.stdout)
    saver = database.open_saver(setup=False)
    await fill(saver, "a")
    assert saver.schema_version() == database.open_saver().schema_version()
    newest = saver.schema_version()
    result = CliRunner().invoke(app, ["schema", database.url, *options, "--from", str(newest)])
    assert "create table" not in result.stdout
    result = CliRunner().invoke(app, ["schema", database.url, *options, "--from", str(newest + 1)])
    assert result.exit_code == 2


@pytest.mark.parametrize("backend_name", ["redis", "valkey"])
async def test_the_printed_rights_are_enough_for_everything(
    database: Database, servers: Servers
) -> None:
    prefix = database.options["prefix"]
    result = CliRunner().invoke(app, ["schema", database.url, "--prefix", prefix])
    assert result.exit_code == 0
    rule = result.stdout.splitlines()[-1].replace("sessionmem on", "limited on")
    client = servers.redis_client(database.url)
    client.execute_command(*rule.split())
    scheme, _, rest = database.url.partition("://")
    limited = f"{scheme}://limited:PASSWORD@{rest.rpartition('@')[2]}"
    try:
        with SessionSaver.from_conn_string(limited, prefix=prefix) as saver:
            await fill(saver)
            saver.copy_thread("a", "d")
            saver.prune(["d"])
            assert saver.verify().ok
            assert saver.sweep() == 0
            saver.delete_thread("a")
            assert len(saver.threads()) == 3
    finally:
        client.execute_command("ACL", "DELUSER", "limited")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["mysql://x"], "Unknown scheme 'mysql'"),
        (["redis://x", "--schema", "a"], "Redis has no such option"),
        (["sqlite:///a.db", "--prefix", "a"], "sqlite has no such option"),
        (["postgresql://x", "--from", "-1"], "give a version from 0"),
    ],
)
def test_a_schema_that_can_not_be_is_refused(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(app, ["schema", *arguments])
    assert result.exit_code == 2
    assert named in " ".join(result.stderr.split())


def import_script(path: Path, script: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()


def lose_an_element(database: Database) -> None:
    """Take one element of thread `b` out of the database, behind the package's back."""
    row = (
        "thread = (select thread from {0}sessionmem_threads where thread_id = 'b') and position = 1"
    )
    if database.name == "sqlite":
        connection = database.open_saver().backend._connection
        connection.execute(f"delete from sessionmem_elements where {row.format('')}")
        connection.commit()
    elif database.name == "postgres":
        schema = f'"{database.options["schema"]}".'
        connection = database.servers.postgres_connection(database.url)
        connection.execute(f"delete from {schema}sessionmem_elements where {row.format(schema)}")
    else:
        client = database.servers.redis_client(database.url)
        logs = [
            key
            for key in client.scan_iter(match=f"{database.options['prefix']}*")
            if client.type(key) == b"list"
        ]
        owner = next(log for log in logs if client.hget(log.rpartition(b":")[0], "thread") == b"b")
        client.rpop(owner)
