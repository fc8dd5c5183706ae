"""The schema: made once by whoever comes first, never half, and not where that is not wanted."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import psycopg.sql
import pytest
import redis
from conftest import BACKENDS, Database, Face
from primitives import on
from processes import wait_until
from servers import Redis, valkey_binary
from threads import Thread, new_checkpoint, next_id, place, values_of

from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.backends.sql import load_migrations
from langgraph_sessionmem.errors import BackendUnavailable, SchemaMissing, SchemaTooNew

on_postgres = on("postgres")
MANNERS = [("sqlite", "blocking"), ("postgres", "async"), ("cluster", "async")]
MANNERS += [("valkey", "blocking"), ("valkey", "async")]
in_each_manner = pytest.mark.parametrize(
    ("backend_name", "face_name"),
    [manner for manner in MANNERS if manner[0] in BACKENDS],
    indirect=["face_name"],
)
forks = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

AT_ONCE = """
import json, os, sys
from langgraph_sessionmem import SessionSaver
import langgraph_sessionmem.backends.postgres, langgraph_sessionmem.backends.redis
url, options, count = json.loads(sys.argv[1])
start, go = os.pipe()
children = []
for n in range(count):
    child = os.fork()
    if not child:
        os.close(go)
        os.read(start, 1)  # until the parent closes its end
        try:
            with SessionSaver.from_conn_string(url, **options) as saver:
                saver.setup()
                assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None
        except BaseException as error:
            print(type(error), error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    children.append(child)
os.close(go)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""
KILLED = """
import json, os, signal, sqlite3, sys
import psycopg
from langgraph_sessionmem import SessionSaver
url, options, step = json.loads(sys.argv[1])
said = 0
def note(statement=None):
    global said
    said += 1
    if said > last:
        os.kill(os.getpid(), signal.SIGKILL)
class Cursor(psycopg.ClientCursor):
    def execute(self, *arguments, **keywords):
        note()
        return super().execute(*arguments, **keywords)
psycopg.ClientCursor = Cursor
for last in range(1, 1000, step):
    child = os.fork()
    if not child:
        if url.startswith("sqlite"):
            source = sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)
            source.set_trace_callback(note)
        else:
            source = psycopg.connect(url, autocommit=True)
        SessionSaver(source, **options).setup()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status == 0:
        print(last, flush=True)
        break
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    if last % 5 == 1:  # somebody else looks in between
        assert SessionSaver.from_conn_string(url, **options, setup=False).schema_version() == 0
"""


def run(program: str, *arguments: Any) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@forks
@on("sqlite", "postgres", "valkey")
def test_processes_set_up_an_empty_database_at_once(database: Database) -> None:
    run(AT_ONCE, database.url, database.options, 8)
    saver = database.open_saver(setup=False)
    assert saver.get_tuple(place()) is None
    assert saver.schema_version() > 0


@forks
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@on("sqlite", "postgres")
async def test_a_setup_killed_at_any_statement_is_finished_by_the_next(
    database: Database, step: int
) -> None:
    statements = int(run(KILLED, database.url, database.options, step))
    assert statements > 10
    saver = Face(database.open_saver(), False)
    await Thread(saver).put({"n": 1})
    assert await values_of(saver, place()) == {"n": 1}


@in_each_manner
async def test_the_version_of_the_schema_can_be_asked(database: Database, face_name: str) -> None:
    saver = Face(database.open_saver(setup=False), face_name == "async")
    assert await saver("schema_version") == 0
    with pytest.raises(SchemaMissing):
        await saver("get_tuple", place())
    await saver("setup")
    version = await saver("schema_version")
    assert version > 0
    assert await Face(database.open_saver(), face_name == "async")("schema_version") == version
    set_version(database, version + 7)
    assert await saver("schema_version") == version + 7


def set_version(database: Database, version: int) -> None:
    """Let the database say that its schema is of another version."""
    statement = "update {}sessionmem_meta set value = '{}' where name = 'version'"
    if database.name == "sqlite":
        connection = sqlite3.connect(database.url.removeprefix("sqlite:///"))
        with connection:
            connection.execute(statement.format("", version))
        connection.close()
    elif database.name == "postgres":
        connection = database.servers.postgres_connection(database.url)
        connection.execute(statement.format(f'"{database.options["schema"]}".', version))
    else:
        client = database.servers.redis_client(database.url)
        client.hset(f"{database.options['prefix']}meta", "version", version)


@in_each_manner
@pytest.mark.parametrize(
    ("version", "error", "message"),
    [(0, SchemaMissing, r"version 0.*setup\(\)"), (999, SchemaTooNew, "999.*upgrade")],
)
async def test_another_version_is_refused_before_anything_is_written(
    database: Database, face_name: str, version: int, error: type[Exception], message: str
) -> None:
    saver = Face(database.open_saver(), face_name == "async")
    thread = Thread(saver)
    await thread.put({"n": 1})
    current = await saver("schema_version")
    set_version(database, version)
    other = Face(database.open_saver(setup=False), face_name == "async")
    checkpoint = new_checkpoint(next_id(), {"n": 2}, {"n": "2"})
    for call in (
        ("get_tuple", place()),
        ("put", thread.config, checkpoint, {}, {"n": "2"}),
        ("put_writes", thread.config, [("n", 2)], "task"),
        ("delete_thread", "t"),
        ("list", None),
    ):
        with pytest.raises(error, match=message):
            await other(*call)
    set_version(database, current)
    found = await other("get_tuple", place())
    assert found.checkpoint["channel_values"] == {"n": 1}
    assert found.pending_writes == []


# Where nothing may be made


@in_each_manner
async def test_a_database_for_reading_is_opened_without_a_word_of_ddl(
    database: Database, face_name: str
) -> None:
    await Thread(Face(database.open_saver(), face_name == "async")).put({"n": 1})
    for source in reading(database):
        saver = Face(SessionSaver(source, **database.options), face_name == "async")
        await saver("setup")
        assert await saver("schema_version") > 0
        assert await values_of(saver, place()) == {"n": 1}
        assert len(await saver("list", None)) == 1
        with pytest.raises(BackendUnavailable, match=r"read.?only|permission|can't run"):
            await Thread(saver, "u").put({"n": 1})
        await saver("close")


@in_each_manner
async def test_a_schema_that_is_missing_and_may_not_be_made_is_a_clear_error(
    database: Database, face_name: str
) -> None:
    if database.name == "sqlite":
        sqlite3.connect(database.url.removeprefix("sqlite:///")).close()
    for source in reading(database):
        saver = Face(SessionSaver(source, **database.options), face_name == "async")
        for call in (("get_tuple", place()), ("setup",), ("delete_thread", "t")):
            with pytest.raises(SchemaMissing, match=r"version 0.*\(.*(read|perm|can't run).*\)"):
                await saver(*call)
        await saver("close")


def test_an_older_schema_that_may_not_be_upgraded_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "older.db"
    first, *_ = migrations = load_migrations("sqlite", '"main"')
    assert len(migrations) > 1
    with sqlite3.connect(path) as connection:
        connection.execute("create table sessionmem_meta (name text primary key, value text)")
        facts = [("version", "1"), ("mark_key", "00" * 16)]
        connection.executemany("insert into sessionmem_meta values (?, ?)", facts)
        for statement in first.statements:
            connection.execute(statement)
    connection.close()
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    with pytest.raises(SchemaMissing, match=r"version 1, .* needs 2: .*setup\(\).*readonly"):
        SessionSaver(connection).get_tuple(place())
    connection.close()
    with SessionSaver(path) as saver:
        assert saver.get_tuple(place()) is None
        assert saver.schema_version() == 2


def reading(database: Database) -> Iterator[Any]:
    """What only reads the database."""
    if database.name == "sqlite":
        path = database.url.removeprefix("sqlite:///")
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
        yield connection
        connection.close()
    elif database.name == "postgres":
        yield f"{database.url}?options=-c%20default_transaction_read_only%3Don"
    else:
        client = database.servers.redis_client(database.url)
        nodes = client.get_nodes() if "+cluster" in database.url else [None]
        name = f"reader{id(database)}"
        rights = ["+@all", "-@write", "-@admin", "+cluster|slots", "+script|load"]
        for node in nodes:
            target = {"target_nodes": node} if node else {}
            client.execute_command("ACL SETUSER", name, "on", ">word", "~*", *rights, **target)
        yield database.url.replace("://", f"://{name}:word@")
        for node in nodes:
            target = {"target_nodes": node} if node else {}
            client.execute_command("ACL DELUSER", name, **target)


@on("valkey")
async def test_a_replica_of_redis_is_opened_for_reading(
    database: Database, start_server: Any
) -> None:
    at_once = ["--repl-diskless-sync-delay", "0"]
    main, replica = (start_server(Redis, valkey_binary(), options=at_once) for _ in range(2))
    saver = SessionSaver(main.url)
    await Thread(Face(saver, False)).put({"n": 1})
    with redis.Redis.from_url(replica.url) as client:
        client.replicaof("127.0.0.1", main.port)
        wait_until(lambda: client.dbsize() > 0, 30, "the replica has nothing")
    reader = SessionSaver(replica.url)
    for is_async in (False, True):
        face = Face(reader, is_async)
        assert await values_of(face, place()) == {"n": 1}
        with pytest.raises(BackendUnavailable, match="read only replica"):
            await Thread(face, "u").put({"n": 1})
    await reader.aclose()
    saver.close()


@on_postgres
async def test_a_role_without_the_right_to_create_is_enough(database: Database) -> None:
    schema, role = database.options["schema"], f"r_{database.options['schema']}"
    connection = database.servers.postgres_connection(database.url)
    if not connection.execute("select rolsuper from pg_roles where rolname = user").fetchone()[0]:  # type: ignore[index]
        pytest.skip("the tests' own role may make no other one")
    connection.execute(f"create role {role} login password 'word'")
    url = psycopg.conninfo.make_conninfo(database.url, user=role, password="word")
    fields = psycopg.conninfo.conninfo_to_dict(url)
    address = f"{fields['host']}:{fields['port']}/{fields['dbname']}"
    url = f"postgresql://{role}:word@{address}"
    try:
        saver = Face(SessionSaver(url, **database.options), True)
        with pytest.raises(SchemaMissing, match="permission denied"):
            await saver("get_tuple", place())
        await saver("close")
        database.open_saver().setup()
        connection.execute(f'grant usage on schema "{schema}" to {role}')
        tables = f'all tables in schema "{schema}"'
        connection.execute(f"grant select, insert, update, delete on {tables} to {role}")
        connection.execute(f'grant usage on all sequences in schema "{schema}" to {role}')
        for setup in (False, True):
            saver = Face(SessionSaver(url, setup=setup, **database.options), True)
            thread = Thread(saver, f"t{setup}")
            await thread.put({"n": 1, "list": ["x" * 100] * 3})
            await thread.write([("n", 2)])
            assert (await values_of(saver, place(f"t{setup}")))["n"] == 1
            await saver("delete_thread", f"t{setup}")
            await saver("close")
    finally:
        connection.execute(f"drop owned by {role}")
        connection.execute(f"drop role {role}")


# In a caller's transaction


@on("sqlite", "postgres")
async def test_what_was_made_in_a_transaction_that_was_rolled_back_is_made_again(
    database: Database,
) -> None:
    source: Any
    if database.name == "sqlite":
        path = database.url.removeprefix("sqlite:///")
        source = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        begin, rollback = "begin", "rollback"
    else:
        source = psycopg.connect(database.url, autocommit=True)
        begin, rollback = "begin", "rollback"
    saver = Face(database.adopt(SessionSaver(source, **database.options)), False)
    for call in (("setup",), ("get_tuple", place())):
        source.execute(begin)
        await saver(*call)
        source.execute(rollback)
        assert await saver("schema_version") == 0
    source.execute(begin)
    await saver("setup")
    await Thread(saver).put({"n": 1})
    source.execute("commit")
    assert await values_of(saver, place()) == {"n": 1}
    assert await values_of(Face(database.open_saver(setup=False), False), place()) == {"n": 1}
    source.close()


def test_a_file_that_may_not_be_written_is_opened_for_reading(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with SessionSaver(path) as saver:
        saver.put(place(), new_checkpoint(next_id(), {"n": 1}, {"n": "1"}), {}, {"n": "1"})
    connection = sqlite3.connect(f"file:{path}?immutable=1", uri=True, check_same_thread=False)
    saver = SessionSaver(connection)
    found = saver.get_tuple(place())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"n": 1}
    connection.close()
