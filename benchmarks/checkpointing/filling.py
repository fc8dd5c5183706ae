"""A million threads in minutes: those made by the saver, copied inside an SQL database."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg

from checkpointing.databases import Place, PostgresPlace, SqlitePlace

Execute = Callable[[str], Any]
ROWS = "thread"
"""The column that says whose row it is: a number, the same in every table."""
NAME = "thread_id"


def can_copy(place: Place) -> bool:
    """Whether `copy_threads` serves this database."""
    return isinstance(place, SqlitePlace | PostgresPlace)


def copy_threads(place: Place, times: int, step: Callable[[int], None]) -> None:
    """Copy every thread `times` times, rows and indexes, as if each had been saved.

    The n-th copy of thread `x` is called `n:x`. Bytes are the same as in the original, which a
    database doesn't look into.

    Args:
        place: where they are.
        times: how often.
        step: called with each n.
    """
    with _connected(place) as execute:
        tables = _tables(place, execute)
        schema = f"{place.options['schema']}." if isinstance(place, PostgresPlace) else ""
        [(low, high)] = execute(
            f"select min({ROWS}), max({ROWS}) from {schema}sessionmem_threads"  # noqa: S608
        ).fetchall()
        for count in range(1, times + 1):
            for table, columns in tables.items():
                execute(_copy(schema + table, columns, count, count * (high - low + 1), high))
            step(count)
        if isinstance(place, PostgresPlace):
            end = high + times * (high - low + 1)
            name = f"'{schema}sessionmem_threads', '{ROWS}'"
            execute(f"select setval(pg_get_serial_sequence({name}), {end})")
            for table in tables:
                execute(f"analyze {schema}{table}")


def _copy(table: str, columns: list[str], count: int, shift: int, high: int) -> str:
    changed = {ROWS: f"{ROWS} + {shift}", NAME: f"'{count}:' || {NAME}"}
    chosen = ", ".join(changed.get(column, column) for column in columns)
    into = f"insert into {table} ({', '.join(columns)})"
    return f"{into} select {chosen} from {table} where {ROWS} <= {high}"  # noqa: S608


def _tables(place: Place, execute: Execute) -> Mapping[str, list[str]]:
    """The columns of each table of ours that has rows of threads."""
    if isinstance(place, SqlitePlace):
        query = "select m.name, p.name from sqlite_master m, pragma_table_info(m.name) p"
        query += " where m.type = 'table' order by m.name, p.cid"
    else:
        query = "select table_name, column_name from information_schema.columns"
        query += " join information_schema.tables using (table_schema, table_name)"
        query += f" where table_type = 'BASE TABLE' and table_schema = '{place.options['schema']}'"
        query += " order by table_name, ordinal_position"
    tables: dict[str, list[str]] = {}
    for table, column in execute(query).fetchall():
        tables.setdefault(table, []).append(column)
    return {name: columns for name, columns in tables.items() if ROWS in columns}


@contextlib.contextmanager
def _connected(place: Place) -> Iterator[Execute]:
    if isinstance(place, SqlitePlace):
        with contextlib.closing(sqlite3.connect(place.path)) as connection, connection:
            yield connection.execute
    else:
        with psycopg.connect(place.url, autocommit=True) as connected:
            yield connected.execute  # type: ignore[misc]
