"""A connection to PostgreSQL: scripts as one message, or as a function that the server keeps."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import Escaping
from psycopg.rows import tuple_row
from typing_extensions import override

from langgraph_sessionmem.backends.postgres_functions import ServerFunction, columns_of
from langgraph_sessionmem.backends.postgres_text import written
from langgraph_sessionmem.backends.schema import Statements
from langgraph_sessionmem.backends.sql import (
    Link,
    Params,
    Refused,
    SqlRow,
    Step,
    unquote_identifier,
)


class Scripts(NamedTuple):
    """What a link can run.

    Attributes:
        queries: by name.
        functions: those that the server has, by the query whose rows they return.
    """

    queries: Mapping[str, str]
    functions: Mapping[str, ServerFunction]


class PostgresLink(Link, Statements):
    """What both faces share: parameters written into the text, rules broken told by a column."""

    def __init__(self, scripts: Scripts, offset_seconds: float) -> None:
        self._scripts, self._offset_seconds = scripts, offset_seconds

    async def _send(self, text: str) -> list[list[SqlRow]]:
        """Send `text`, one statement or several, and return the rows of each."""
        raise AssertionError(text)

    def _quote(self, text: str) -> str:
        """`text` as a literal, by the connection's own rules."""
        raise AssertionError(text)

    @override
    async def execute(self, script: Sequence[Step]) -> list[list[SqlRow]]:
        try:
            return await self._call(script) or await self._send(";\n".join(map(self._step, script)))
        except psycopg.errors.NotNullViolation as error:
            raise Refused(error.diag.column_name or "") from error

    async def _call(self, script: Sequence[Step]) -> list[list[SqlRow]]:
        """What `execute` returns, if the server keeps this script as a function, else nothing."""
        for index, step in enumerate(script):
            function = self._scripts.functions.get(step.query)
            arguments = function and function.arguments_of(script)
            if function and arguments:
                results: list[list[SqlRow]] = [[] for _ in script]
                [results[index]] = await self._send(self._written(function.call, arguments))
                return results
        return []

    @override
    async def statement(self, text: str, params: Params) -> list[SqlRow]:
        [rows] = await self._send(self._written(text, params))
        return rows

    @override
    async def has_table(self, name: str) -> bool:
        [(found,)] = await self.statement("select to_regclass(:name) is not null", {"name": name})
        return bool(found)

    async def functions_among(
        self, functions: Mapping[str, ServerFunction]
    ) -> dict[str, ServerFunction]:
        """Those of `functions` that the server has, and that we may call."""
        asked = (
            "select name from unnest(:names) as name "
            "where has_function_privilege(cast(to_regproc(name) as oid), 'execute')"
        )
        names = [function.name for function in functions.values()]
        found = {name for (name,) in await self.statement(asked, {"names": names})}
        return {key: each for key, each in functions.items() if each.name in found}

    async def may_create(self, schema: str) -> bool:
        """Whether this connection may make something in a schema, a quoted one."""
        asked = (
            "select has_schema_privilege(oid, 'create') "
            "and current_setting('transaction_read_only') = 'off' "
            "from pg_namespace where nspname = :name"
        )
        found = await self.statement(asked, {"name": unquote_identifier(schema)})
        return any(may for (may,) in found)

    async def raw_statement(self, text: str) -> None:
        """Run one statement in which nothing is a parameter."""
        await self._send(text)

    def _step(self, step: Step) -> str:
        columns = {} if step.rows is None else columns_of(step.rows)
        return self._written(self._scripts.queries[step.query], {**step.params, **columns})

    def _written(self, query: str, params: Params) -> str:
        return written(query, {**params, "offset": self._offset_seconds}, self._quote)


class BlockingLink(PostgresLink):
    """A blocking connection."""

    def __init__(
        self, scripts: Scripts, offset_seconds: float, connection: psycopg.Connection[Any]
    ) -> None:
        super().__init__(scripts, offset_seconds)
        self._cursor = psycopg.ClientCursor(connection, row_factory=tuple_row)
        self._escaping = Escaping(connection.pgconn)

    @override
    async def _send(self, text: str) -> list[list[SqlRow]]:
        cursor = self._cursor.execute(text.encode())
        results = [cursor.fetchall() if _has_rows(cursor) else []]
        while cursor.nextset():
            results.append(cursor.fetchall() if _has_rows(cursor) else [])
        return results

    @override
    def _quote(self, text: str) -> str:
        return bytes(self._escaping.escape_literal(text.encode())).decode()


class AsyncLink(PostgresLink):
    """An async connection, in its own loop."""

    def __init__(
        self, scripts: Scripts, offset_seconds: float, connection: psycopg.AsyncConnection[Any]
    ) -> None:
        super().__init__(scripts, offset_seconds)
        self._cursor = psycopg.AsyncClientCursor(connection, row_factory=tuple_row)
        self._escaping = Escaping(connection.pgconn)

    @override
    async def _send(self, text: str) -> list[list[SqlRow]]:
        cursor = await self._cursor.execute(text.encode())
        results = [await cursor.fetchall() if _has_rows(cursor) else []]
        while cursor.nextset():
            results.append(await cursor.fetchall() if _has_rows(cursor) else [])
        return results

    @override
    def _quote(self, text: str) -> str:
        return bytes(self._escaping.escape_literal(text.encode())).decode()


def _has_rows(cursor: psycopg.Cursor[SqlRow] | psycopg.AsyncCursor[SqlRow]) -> bool:
    # `description` would say it too, and make an object for each column.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0
