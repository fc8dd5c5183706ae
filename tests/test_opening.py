"""What a saver can be opened from, what is refused, and who closes what."""

import asyncio
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import psycopg.sql
import pytest
from conftest import Database, Servers
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from threads import new_checkpoint, next_id, place

from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.errors import (
    BackendUnavailable,
    InvalidArgument,
    SchemaMissing,
    SchemaTooNew,
    UnknownScheme,
)

postgres_only = pytest.mark.parametrize("backend_name", ["postgres"])


def put(saver: Any, n: int, thread_id: str = "t") -> Any:
    checkpoint = new_checkpoint(next_id(), {"n": n}, {"n": f"{n:05}"})
    return saver.put(place(thread_id), checkpoint, {"step": n}, {"n": f"{n:05}"})


async def aput(saver: Any, n: int, thread_id: str = "t") -> Any:
    checkpoint = new_checkpoint(next_id(), {"n": n}, {"n": f"{n:05}"})
    return await saver.aput(place(thread_id), checkpoint, {"step": n}, {"n": f"{n:05}"})


def latest(saver: Any, thread_id: str = "t") -> Any:
    found = saver.get_tuple(place(thread_id))
    return found and found.checkpoint["channel_values"]["n"]


# Connection strings


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///relative.db", "relative.db"),
        ("sqlite:///with space & %41.sqlite", "with space & %41.sqlite"),
        ("sqlite:///no_ending", "no_ending"),
        ("sqlite:///{folder}/absolute.db", "absolute.db"),
        ("bare.db", "bare.db"),
        ("bare.sqlite", "bare.sqlite"),
        ("{folder}/bare.sqlite3", "bare.sqlite3"),
    ],
)
def test_a_file_is_opened_where_the_string_says(
    url: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with SessionSaver.from_conn_string(url.format(folder=tmp_path)) as saver:
        put(saver, 1)
    assert (tmp_path / file).exists()
    with SessionSaver(tmp_path / file) as again:
        assert latest(again) == 1


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", ":memory:", None])
def test_a_database_in_memory_is_alone(url: str | None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = () if url is None else (url,)
    with SessionSaver(*arguments) as one, SessionSaver(*arguments) as other:
        put(one, 1)
        assert latest(one) == 1
        assert latest(other) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["mysql://host/db", "SQLITEE:///x.db", "http://host", "://x", "mongodb+srv://h"]
)
def test_an_unknown_scheme_names_those_that_are_known(url: str) -> None:
    with pytest.raises(UnknownScheme, match=r"postgresql.*redis.*sqlite") as refusal:
        SessionSaver(url)
    assert refusal.value.scheme == url.partition("://")[0]
    assert {"sqlite", "postgres", "rediss+cluster", "unix"} <= set(refusal.value.known)


@pytest.mark.parametrize(
    "source",
    [
        *("", "agent", "host:5432", "sqlite://host/x.db", "sqlite:///x.db?mode=ro"),
        *("postgresql://host/db?no_such_option=1", 5, None, object(), b"x.db"),
    ],
)
def test_what_is_no_database_is_refused_before_anything_is_made(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument):
        SessionSaver(source)
    assert list(tmp_path.iterdir()) == []


def test_an_option_of_another_database_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="schema"):
        SessionSaver(":memory:", schema="s")
    with pytest.raises(InvalidArgument, match="prefix"):
        SessionSaver(":memory:", prefix="p")
    with pytest.raises(InvalidArgument, match="prefix"):
        SessionSaver("postgresql://localhost/db", prefix="p")
    for schema in ("", "x" * 64, "a\x00b"):
        with pytest.raises(InvalidArgument, match="schema"):
            SessionSaver("postgresql://localhost/db", schema=schema)


def test_a_database_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="no_such_folder"):
        SessionSaver(str(tmp_path / "no_such_folder" / "x.db"))
    (tmp_path / "text.db").write_text("no database " * 100)
    with SessionSaver(tmp_path / "text.db") as saver, pytest.raises(BackendUnavailable):
        latest(saver)


# The schema


async def test_without_setup_a_missing_schema_is_an_error_and_nothing_is_made(
    database: Database,
) -> None:
    saver = database.open_saver(setup=False)
    for call in (lambda: latest(saver), lambda: put(saver, 1)):
        with pytest.raises(SchemaMissing, match=r"setup\(\)"):
            call()
    with pytest.raises(SchemaMissing):
        await saver.aget_tuple(place())
    database.open_saver().setup()
    put(saver, 1)
    assert latest(saver) == 1
    assert latest(database.open_saver(setup=False)) == 1


@pytest.mark.parametrize("backend_name", ["sqlite", "postgres"])
def test_a_schema_of_a_newer_version_is_left_alone(database: Database) -> None:
    put(database.open_saver(), 1)
    statement = "update {}sessionmem_meta set value = '999' where name = 'version'"
    if database.name == "sqlite":
        with sqlite3.connect(database.url.removeprefix("sqlite:///")) as connection:
            connection.execute(statement.format(""))
        connection.close()
    else:
        connection = database.servers.postgres_connection(database.url)
        connection.execute(statement.format(f'"{database.options["schema"]}".'))
    for setup in (True, False):
        saver = database.open_saver(setup=setup)
        for call in (lambda: latest(saver), lambda: put(saver, 2), lambda: saver.setup()):  # noqa: B023
            with pytest.raises(SchemaTooNew, match="upgrade") as refusal:
                call()
            assert refusal.value.found == 999


@postgres_only
def test_two_schemas_in_one_database_never_meet(database: Database) -> None:
    names = ['Tenant-1"x', "tenant-1x", 'a"; drop table x; -- :now %s {}', "é" * 31]
    connection = database.servers.postgres_connection(database.url)
    try:
        savers = [database.open_saver(schema=name) for name in names]
        for n, saver in enumerate(savers):
            put(saver, n)
        assert [latest(saver) for saver in savers] == [0, 1, 2, 3]
        savers[0].delete_thread("t")
        assert [latest(saver) for saver in savers] == [None, 1, 2, 3]
    finally:
        for name in names:
            schema = psycopg.sql.Identifier(name)
            connection.execute(psycopg.sql.SQL("drop schema if exists {} cascade").format(schema))


# What the user has opened


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "own.db", check_same_thread=False)
    yield connection
    connection.close()


async def test_a_connection_of_the_users_own_serves_both_faces_and_stays_open(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    connection.row_factory = sqlite3.Row
    async with SessionSaver(connection) as saver:
        put(saver, 1)
        await aput(saver, 2)
        assert latest(saver) == 2
    with SessionSaver(tmp_path / "own.db") as other:
        assert latest(other) == 2
    assert connection.row_factory is sqlite3.Row
    assert connection.execute("select 1").fetchone()[0] == 1


def test_a_row_factory_of_the_users_own_does_no_harm(connection: sqlite3.Connection) -> None:
    connection.row_factory = lambda cursor, row: {"n": row[0]}
    saver = SessionSaver(connection)
    put(saver, 1)
    saver.put_writes(put(saver, 2), [("n", 3)], "task")
    assert latest(saver) == 2
    assert connection.execute("select 5").fetchone() == {"n": 5}


def test_a_connection_bound_to_its_thread_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "own.db")
    with pytest.raises(InvalidArgument, match="check_same_thread=False"):
        SessionSaver(connection)
    connection.close()


def test_a_connection_that_waits_for_the_users_commit_is_refused(tmp_path: Path) -> None:
    class Waiting(sqlite3.Connection):
        autocommit = False

    connection = sqlite3.connect(tmp_path / "own.db", factory=Waiting, check_same_thread=False)
    with pytest.raises(InvalidArgument, match="autocommit"):
        SessionSaver(connection)
    connection.close()


def test_a_callers_sqlite_transaction_stays_the_callers(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    saver = SessionSaver(connection)
    saver.setup()
    connection.execute("create table mine (n)")
    connection.commit()
    connection.execute("insert into mine values (1)")
    put(saver, 1)
    connection.rollback()
    assert latest(saver) is None
    assert connection.execute("select count(*) from mine").fetchone() == (0,)
    connection.execute("insert into mine values (1)")
    put(saver, 2)
    connection.commit()
    with SessionSaver(tmp_path / "own.db") as other:
        assert latest(other) == 2


@postgres_only
@pytest.mark.parametrize("autocommit", [True, False])
def test_what_a_postgres_connection_stored_is_there_whatever_its_autocommit(
    database: Database, autocommit: bool
) -> None:
    with psycopg.connect(database.url, autocommit=autocommit, row_factory=dict_row) as connection:
        saver = database.adopt(SessionSaver(connection, **database.options))
        put(saver, 1)
        assert latest(database.open_saver()) == 1
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: put(saver, n, f"t{n}"), range(24)))
        other = database.open_saver()
        assert [latest(other, f"t{n}") for n in range(24)] == list(range(24))
        asyncio.run(aput(saver, 2))
        assert latest(other) == 2
        saver.close()
        assert connection.execute("select 5 as five").fetchone() == {"five": 5}


@postgres_only
def test_a_callers_postgres_transaction_stays_the_callers(database: Database) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        saver = database.adopt(SessionSaver(connection, **database.options))
        with connection.transaction():
            saver.setup()
            put(saver, 1)
            with connection.transaction():
                put(saver, 2)
                assert latest(saver) == 2
                raise psycopg.Rollback
        assert latest(database.open_saver()) == 1
        with connection.transaction():
            put(saver, 3)
            raise psycopg.Rollback
        assert latest(saver) == 1
    with psycopg.connect(database.url) as connection:
        saver = database.adopt(SessionSaver(connection, **database.options))
        connection.execute("select 1")
        put(saver, 4)
        assert latest(database.open_saver()) == 1
        connection.commit()
        assert latest(database.open_saver()) == 4


@postgres_only
@pytest.mark.parametrize("autocommit", [True, False])
async def test_a_pool_of_the_users_own_serves_both_faces_and_stays_open(
    database: Database, autocommit: bool
) -> None:
    options = {"autocommit": autocommit}
    with ConnectionPool(database.url, min_size=1, max_size=3, kwargs=options, open=True) as pool:
        async with SessionSaver(pool, **database.options) as saver:
            await asyncio.gather(*(aput(saver, n, f"t{n}") for n in range(8)))
            put(saver, 9)
        other = database.open_saver()
        assert [latest(other, f"t{n}") for n in range(8)] == list(range(8))
        assert latest(other) == 9
        assert not pool.closed
        with pool.connection() as connection:
            assert connection.execute("select 1").fetchone() == (1,)


@postgres_only
@pytest.mark.parametrize("autocommit", [True, False])
async def test_an_async_connection_serves_the_async_face_and_stays_open(
    database: Database, autocommit: bool
) -> None:
    connection = await psycopg.AsyncConnection.connect(database.url, autocommit=autocommit)
    async with connection:
        async with SessionSaver(connection, **database.options) as saver:
            await asyncio.gather(*(aput(saver, n, f"t{n}") for n in range(8)))
            await aput(saver, 9)
            listed = [found async for found in saver.alist(None)]
            assert len(listed) == 9
            with pytest.raises(InvalidArgument, match="async"):
                put(saver, 1)
        cursor = await connection.execute("select 1")
        assert await cursor.fetchone() == (1,)
        other = database.open_saver()
        await connection.commit()
        assert [latest(other, f"t{n}") for n in range(8)] == list(range(8))
        async with connection.transaction():
            await aput(SessionSaver(connection, **database.options), 10)
        assert latest(other) == 10


@postgres_only
async def test_an_async_pool_serves_the_async_face_and_stays_open(database: Database) -> None:
    pool = AsyncConnectionPool(database.url, min_size=1, max_size=3, open=False)
    async with pool:
        async with SessionSaver(pool, **database.options) as saver:
            await asyncio.gather(*(aput(saver, n, f"t{n}") for n in range(8)))
            with pytest.raises(InvalidArgument, match="async"):
                latest(saver)
        assert not pool.closed
        async with pool.connection() as connection:
            cursor = await connection.execute("select 1")
            assert await cursor.fetchone() == (1,)
    other = database.open_saver()
    assert [latest(other, f"t{n}") for n in range(8)] == list(range(8))


@postgres_only
def test_every_form_of_a_postgres_address_is_understood(
    servers: Servers, database: Database
) -> None:
    if "127.0.0.1" not in database.url:
        pytest.skip("the forms are of the server that the tests start")
    address = database.url.partition("://")[2]
    host_and_port = address.partition("@")[2].partition("/")[0]
    port = host_and_port.rpartition(":")[2]
    for url in (
        f"postgres://{address}",
        f"postgresql://postgres:pass%40word@{host_and_port}/postgres",
        f"postgresql:///postgres?host=127.0.0.1&port={port}&user=postgres",
        f"postgresql://postgres@127.0.0.1:{port},127.0.0.1:1/postgres",
        f"postgresql://postgres@{host_and_port}/postgres?application_name=mine&connect_timeout=5",
    ):
        with SessionSaver(url, **database.options) as saver:
            assert latest(saver) is None


def test_closing_twice_is_allowed_and_a_closed_saver_says_so(database: Database) -> None:
    saver = database.open_saver()
    put(saver, 1)
    saver.close()
    saver.close()
    with pytest.raises(BackendUnavailable):
        latest(saver)


async def test_a_saver_works_without_with_and_in_both_kinds_of_with(database: Database) -> None:
    plain = SessionSaver(database.url, **database.options)
    put(plain, 1)
    plain.close()
    with SessionSaver.from_conn_string(database.url, **database.options) as saver:
        assert latest(saver) == 1
    async with SessionSaver.from_conn_string(database.url, **database.options) as saver:
        found = await saver.aget_tuple(place())
        assert found is not None
        await saver.setup()
