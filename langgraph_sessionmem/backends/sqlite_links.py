"""A connection to SQLite: scripts as transactions, several of which may become one."""

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
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
_PARAM = re.compile(r"(?<![:\w]):([a-z_]+)")
_LONGEST_PLANNED = 16
"""Steps; longer scripts are rare, and of many shapes."""
_NOW = "select (julianday('now') - 2440587.5) * 86400.0"


class _Query(NamedTuple):
    """A query with numbered parameters, which take less time to fill in than named ones.

    Attributes:
        values: picks them from named ones, in order.
        is_at_once: all rows go to it at once, as a JSON array.
    """

    text: str
    values: Callable[[Params], Sequence[object]]
    reads: bool
    returns: bool
    is_at_once: bool


@lru_cache(512)
def _query(text: str) -> _Query:
    """A query with named parameters."""
    names = list(dict.fromkeys(_PARAM.findall(text)))

    def few(params: Params) -> Sequence[object]:
        return [params[name] for name in names]

    return _Query(
        _PARAM.sub(lambda found: f"?{names.index(found[1]) + 1}", text),
        itemgetter(*names) if len(names) > 1 else few,
        text.startswith(_READS),
        "\nreturning " in text,
        "rows" in names,
    )


class _Plan(NamedTuple):
    """How a script of these queries runs; `begin` is `None` for a single read."""

    queries: Sequence[_Query]
    begin: str | None
    drops: bool


class _Transaction:
    """Commits or rolls back what it encloses; inside a caller's transaction, a savepoint."""

    def __init__(self, cursor: sqlite3.Cursor, begin: str) -> None:
        self._cursor = cursor
        nested = cursor.connection.in_transaction
        self._begin = "savepoint sessionmem" if nested else begin
        self._commit = "release sessionmem" if nested else "commit"
        self._rollback = "rollback to sessionmem" if nested else "rollback"

    def __enter__(self) -> None:
        self._cursor.execute(self._begin)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                self._cursor.execute(self._commit)
            except sqlite3.Error:
                self._undo()
                raise
            return
        self._undo()

    def _undo(self) -> None:
        # SQLite may have rolled back by itself (a full disk), and then has nothing left to undo.
        with suppress(sqlite3.OperationalError):
            self._cursor.execute(self._rollback)


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
        self._only_cursor: sqlite3.Cursor | None = None
        self.is_sharing = self.has_begun = self._owes_pages = False

    def transaction(self, begin: str) -> _Transaction:
        """A transaction to run statements in, or what stands for one inside another."""
        cursor = self._cursor()
        if self.is_sharing and not self.has_begun and begin == "begin immediate":
            cursor.execute(begin)
            self.has_begun = True
        return _Transaction(cursor, begin)

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
        queries = [_query(self._queries[name]) for name in names]
        reads = all(query.reads for query in queries)
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
        """Leave nothing of what was deleted in the files, unless a transaction is open.

        Freed pages go back to the file system, and the log is emptied, if nobody reads from it.
        """
        self._owes_pages = self.has_begun
        if not self._connection.in_transaction:
            [milliseconds] = self._connection.execute("pragma busy_timeout").fetchone()
            # A script, since `execute` stops at the first page. It waits for no reader: the next
            # deletion, or closing, empties the log then.
            self._connection.executescript(
                "pragma incremental_vacuum;"
                "pragma busy_timeout = 0;"
                "pragma wal_checkpoint(truncate);"
                f"pragma busy_timeout = {milliseconds};"
            )

    def _run(self, queries: Sequence[_Query], script: Sequence[Step]) -> list[list[SqlRow]]:
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
        """The one for everything, since no two statements are ever under way: a new one costs."""
        cursor = self._only_cursor
        if cursor is None:
            cursor = self._only_cursor = self._connection.cursor()
            # The user's own connection may make something else of its rows.
            cursor.row_factory = None
        return cursor


def _step(
    cursor: sqlite3.Cursor, query: _Query, params: Params, rows: Sequence[Params] | None
) -> list[SqlRow]:
    text, values = query.text, query.values
    if rows is None:
        return cursor.execute(text, values(params)).fetchall()
    if query.is_at_once:
        all_rows = {"rows": json.dumps([*rows])}
        return cursor.execute(text, values({**params, **all_rows})).fetchall()
    if query.reads or query.returns:
        found: list[SqlRow] = []
        for row in rows:
            found += cursor.execute(text, values({**params, **row}))
        return found
    cursor.executemany(text, (values({**params, **row}) for row in rows))
    return []
