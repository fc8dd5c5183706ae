"""A connection to SQLite: scripts as transactions, several of which may become one."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from typing_extensions import override

from langgraph_sessionmem.backends.schema import Statements
from langgraph_sessionmem.backends.sql import (
    QUERIES,
    Link,
    Params,
    Refused,
    SqlRow,
    Step,
    load_queries,
)

SCHEMA = '"main"'

_READS = ("select", "with")
_LONGEST_PLANNED = 16
"""Steps; longer scripts are rare, and of many shapes."""
_NOW = "select (julianday('now') - 2440587.5) * 86400.0"


class _Plan(NamedTuple):
    """How a script of these queries runs; `begin` is `None` for a single read."""

    queries: Sequence[str]
    begin: str | None
    drops: bool


class _Transaction:
    """Commits or rolls back what it encloses; inside a caller's transaction, a savepoint."""

    def __init__(self, connection: sqlite3.Connection, begin: str) -> None:
        self._connection = connection
        nested = connection.in_transaction
        self._begin = "savepoint sessionmem" if nested else begin
        self._commit = "release sessionmem" if nested else "commit"
        self._rollback = "rollback to sessionmem" if nested else "rollback"

    def __enter__(self) -> None:
        self._connection.execute(self._begin)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                self._connection.execute(self._commit)
            except sqlite3.Error:
                self._undo()
                raise
            return
        self._undo()

    def _undo(self) -> None:
        # SQLite may have rolled back by itself (a full disk), and then has nothing left to undo.
        with suppress(sqlite3.OperationalError):
            self._connection.execute(self._rollback)


class SqliteLink(Link, Statements):
    """The backend's connection; nothing in it waits for an event loop.

    Args:
        connection: where the queries run.
        offset: gives the seconds to add to the database's clock.

    Attributes:
        is_sharing: the scripts of several calls share a transaction, once one of them writes.
        has_begun: it has begun.
    """

    def __init__(self, connection: sqlite3.Connection, offset: Callable[[], float]) -> None:
        self._connection, self._offset = connection, offset
        self._queries = load_queries([*QUERIES, "sqlite.sql"], SCHEMA)
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self.is_sharing = self.has_begun = self._owes_pages = False

    def transaction(self, begin: str) -> _Transaction:
        """A transaction to run statements in, or what stands for one inside another."""
        if self.is_sharing and not self.has_begun and begin == "begin immediate":
            self._connection.execute(begin)
            self.has_begun = True
        return _Transaction(self._connection, begin)

    def end_sharing(self) -> None:
        """Go back to a transaction for each script."""
        self.is_sharing = self.has_begun = False
        if self._owes_pages:
            self._return_pages()

    @override
    async def execute(self, script: Sequence[Step]) -> list[list[SqlRow]]:
        names = tuple([step.query for step in script])
        plan = self._plans.get(names) or self._plan(names)
        if plan.begin is None:
            return self._run(plan.queries, script)
        with self.transaction(plan.begin):
            found = self._run(plan.queries, script)
        if plan.drops:
            self._return_pages()
        return found

    @override
    async def statement(self, text: str, params: Params) -> list[SqlRow]:
        return self._cursor().execute(text, dict(params)).fetchall()

    @override
    async def has_table(self, name: str) -> bool:
        found = "select 1 from sqlite_master where type = 'table' and name = :name"
        return bool(await self.statement(found, {"name": name.rpartition(".")[2]}))

    def _plan(self, names: Sequence[str]) -> "_Plan":
        queries = [self._queries[name] for name in names]
        reads = all(query.startswith(_READS) for query in queries)
        begin = "begin" if reads else "begin immediate"
        plan = _Plan(
            queries,
            None if reads and len(names) == 1 else begin,
            any(name.startswith("drop_") for name in names),
        )
        if len(names) <= _LONGEST_PLANNED:
            self._plans[tuple(names)] = plan
        return plan

    def _return_pages(self) -> None:
        """Give freed pages back to the file system, unless a caller's transaction is open."""
        self._owes_pages = self.has_begun
        if not self._connection.in_transaction:
            # A script, since `execute` stops at the first page.
            self._connection.executescript("pragma incremental_vacuum")

    def _run(self, queries: Sequence[str], script: Sequence[Step]) -> list[list[SqlRow]]:
        cursor = self._cursor()
        [now] = cursor.execute(_NOW).fetchone()
        now += self._offset()
        given: Params | None = None
        params: Params = {}
        found = []
        try:
            for query, step in zip(queries, script, strict=True):
                if step.params is not given:  # most scripts have the same for all steps
                    given = step.params
                    params = {**given, "now": now}
                found.append(_step(cursor, query, params, step.rows))
            return found
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_NOTNULL:
                raise
            raise Refused(str(error).rpartition(".")[2]) from error

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        # The user's own connection may make something else of its rows.
        cursor.row_factory = None
        return cursor


def _step(
    cursor: sqlite3.Cursor, query: str, params: Params, rows: Sequence[Params] | None
) -> list[SqlRow]:
    if rows is None:
        return cursor.execute(query, params).fetchall()
    if ":rows" in query:
        all_rows = {"rows": json.dumps([*rows])}
        return cursor.execute(query, {**params, **all_rows}).fetchall()
    if query.startswith(_READS):
        found: list[SqlRow] = []
        for row in rows:
            found += cursor.execute(query, {**params, **row})
        return found
    if "\nreturning " in query:
        return [row for each in rows for row in cursor.execute(query, {**params, **each})]
    cursor.executemany(query, ({**params, **row} for row in rows))
    return []
