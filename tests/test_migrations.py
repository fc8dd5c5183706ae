"""Migrations: released files never change, an older schema is upgraded, a newer one is left."""

import hashlib
import re
import sqlite3
from contextlib import closing
from importlib import resources
from typing import Any

import psycopg
import pytest
from conftest import Database, Face
from langgraph.checkpoint.base import empty_checkpoint

from langgraph_sessionmem.backends.schema import Statements, migrate
from langgraph_sessionmem.backends.sql import Params, SqlRow, load_migrations, quote_identifier
from langgraph_sessionmem.errors import SchemaMissing, SchemaTooNew
from langgraph_sessionmem.running import run_now

# The SHA-256 of every migration, line ends as \n. A released line never changes: what is wrong in a
# released file is put right by a new one. For a new file, and for one that was not released yet,
# copy what the failing test shows here.
HASHES = {
    "postgres/0001_checkpoints.sql": (
        "28a39da9221e432bc9778cb69f982518aa6e182f9044076095acf9b2fb0e63dd"
    ),
    "postgres/0002_items.sql": "ddb98ebc2c013c1fc1b0eca2de3001e39dff260cdf607e6d8289524efe6f2d6f",
    "sqlite/0001_checkpoints.sql": (
        "1b8291d5b55e12e62e1bc4209504b41512ec151fb22212db8a8c63a3cbd3a04e"
    ),
    "sqlite/0002_items.sql": "dd11a3822fdb7998e370b4628c227844cfe590b2652a27393477d0433bff09f1",
}

DIALECTS = ("sqlite", "postgres")
on_each_dialect = pytest.mark.parametrize("backend_name", DIALECTS)

PUT = (
    {"configurable": {"thread_id": "1", "checkpoint_ns": ""}},
    empty_checkpoint(),
    {"source": "input", "step": -1, "parents": {}},
    {},
)
FIND = {"configurable": {"thread_id": "1"}}


def migration_files() -> dict[str, str]:
    """The hash of every file among the migrations, by its path."""
    folder = resources.files("langgraph_sessionmem.backends") / "migrations"
    return {
        f"{dialect.name}/{file.name}": hashlib.sha256(file.read_text("utf-8").encode()).hexdigest()
        for dialect in folder.iterdir()
        for file in dialect.iterdir()
    }


def names(dialect: str) -> list[str]:
    """The dialect's migrations, in order."""
    paths = sorted(path.split("/") for path in migration_files())
    return [name for folder, name in paths if folder == dialect]


def schema_of(database: Database) -> str:
    """The database's schema, quoted."""
    return quote_identifier(database.options.get("schema", "main"))


def sql(database: Database, text: str, params: Params | None = None) -> list[SqlRow]:
    """The rows of one statement, run and committed behind the package's back."""
    if database.name == "sqlite":
        path = database.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return connection.execute(text, params or {}).fetchall()
    if params:
        text = re.sub(r":(\w+)", r"%(\1)s", text)
    found = database.servers.postgres_connection(database.url).execute(text.encode(), params)
    return found.fetchall() if found.description else []


def structure(database: Database) -> list[SqlRow]:
    """Every table, column and index."""
    if database.name == "sqlite":
        return sql(database, "select type, name, sql from sqlite_master order by type, name")
    found: list[SqlRow] = []
    for query in (
        "select table_name, column_name, data_type, is_nullable, column_default, collation_name, "
        "identity_generation from information_schema.columns where table_schema = :schema "
        "order by table_name, ordinal_position",
        "select tablename, indexdef from pg_indexes where schemaname = :schema order by indexname",
    ):
        found += sql(database, query, {"schema": database.options["schema"]})
    return found


def content(database: Database) -> dict[str, list[SqlRow]]:
    """The structure, and every row of every table."""
    if database.name == "sqlite":
        listing = "select name from sqlite_master where type = 'table'"
    else:
        listing = "select tablename from pg_tables where schemaname = :schema"
    tables = sql(database, listing, {"schema": database.options.get("schema")})
    rows = {
        table: sorted(sql(database, f'select * from {schema_of(database)}."{table}"'), key=repr)
        for (table,) in tables
    }
    return {"structure": structure(database), **rows}


def version(database: Database) -> int:
    """The version that the database says it has."""
    meta = f"{schema_of(database)}.sessionmem_meta"
    [(found,)] = sql(database, f"select value from {meta} where name = 'version'")
    return int(found)


def empty(database: Database) -> None:
    """Remove everything that is in the database."""
    if database.name == "postgres":
        sql(database, f"drop schema if exists {schema_of(database)} cascade")
        return
    made = sql(database, "select type, name from sqlite_master where type in ('table', 'view')")
    for kind, name in made:
        if not name.startswith("sqlite_"):
            sql(database, f'drop {kind} "{name}"')


class Raw(Statements):
    """A database as `migrate` wants it, without the package's backends."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def statement(self, text: str, params: Params) -> list[SqlRow]:
        return sql(self._database, text, params)

    async def has_table(self, name: str) -> bool:
        try:
            await self.statement(f"select 1 from {name}", {})
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
            return False
        return True


def set_up_version(database: Database, number: int) -> None:
    """Make the schema as the package had it after its first migrations."""
    schema = schema_of(database)
    if database.name == "postgres":
        sql(database, f"create schema {schema}")
    run_now(migrate(Raw(database), load_migrations(database.name, schema)[:number], schema))


def test_a_released_migration_never_changes() -> None:
    assert migration_files() == HASHES


@pytest.mark.parametrize("dialect", DIALECTS)
def test_migrations_are_numbered_from_one_without_a_gap(dialect: str) -> None:
    assert all(re.fullmatch(r"\d{4}_[a-z_]+\.sql", name) for name in names(dialect))
    versions = [migration.version for migration in load_migrations(dialect, '"main"')]
    assert versions == list(range(1, len(names(dialect)) + 1))


def test_a_number_stands_for_the_same_change_in_both_dialects() -> None:
    assert names("postgres") == names("sqlite")


@on_each_dialect
async def test_an_empty_database_is_set_up(database: Database, face_name: str) -> None:
    await Face(database.open_saver(), face_name == "async")("setup")
    assert version(database) == len(names(database.name))
    assert sql(database, f"select * from {schema_of(database)}.sessionmem_threads") == []


@on_each_dialect
async def test_setting_up_twice_changes_nothing(database: Database, face_name: str) -> None:
    saver = Face(database.open_saver(), face_name == "async")
    await saver("setup")
    await saver("put", *PUT)
    before = content(database)
    await saver("setup")
    await Face(database.open_saver(), face_name == "async")("setup")
    assert content(database) == before
    assert await saver("get_tuple", FIND) is not None


@pytest.mark.parametrize("face_name", ["blocking"])
@on_each_dialect
async def test_every_older_schema_is_brought_up_to_date(database: Database, face_name: str) -> None:
    fresh = Face(database.open_saver(), face_name == "async")
    await fresh("setup")
    await fresh("close")
    newest, wanted = len(names(database.name)), structure(database)
    for number in range(newest):
        empty(database)
        set_up_version(database, number)
        assert structure(database) != wanted
        saver = Face(database.open_saver(), face_name == "async")
        await saver("put", *PUT)
        assert await saver("get_tuple", FIND) is not None
        assert (version(database), structure(database)) == (newest, wanted)
        await saver("close")


@on_each_dialect
@pytest.mark.parametrize("is_empty", [True, False], ids=["no schema", "an older schema"])
async def test_without_setup_a_missing_schema_is_told_and_nothing_is_written(
    database: Database, face_name: str, is_empty: bool
) -> None:
    if not is_empty:
        set_up_version(database, len(names(database.name)) - 1)
    before = content(database)
    saver = Face(database.open_saver(setup=False), face_name == "async")
    with pytest.raises(SchemaMissing, match=r"setup\(\)"):
        await saver("put", *PUT)
    assert content(database) == before


CALLS: dict[str, tuple[Any, ...]] = {
    "setup": (),
    "put": PUT,
    "get_tuple": (FIND,),
    "list": (FIND,),
    "delete_thread": ("1",),
    "sweep": (),
}


@pytest.mark.parametrize("face_name", ["blocking"])
@on_each_dialect
@pytest.mark.parametrize("setup", [True, False], ids=["with setup", "without setup"])
async def test_a_newer_schema_is_refused_by_every_call_and_nothing_is_written(
    database: Database, face_name: str, setup: bool
) -> None:
    ours = Face(database.open_saver(), face_name == "async")
    await ours("put", *PUT)
    await ours("close")
    known = len(names(database.name))
    meta = f"{schema_of(database)}.sessionmem_meta"
    sql(database, f"update {meta} set value = '{known + 1}' where name = 'version'")
    before = content(database)
    for method, arguments in CALLS.items():
        saver = Face(database.open_saver(setup=setup), face_name == "async")
        with pytest.raises(SchemaTooNew) as raised:
            await saver(method, *arguments)
        assert (raised.value.found, raised.value.known) == (known + 1, known)
        await saver("close")
    assert content(database) == before
