"""The schema of an SQL database: made, upgraded and checked.

Each migration is one transaction together with the row that records it. `sessionmem_meta` holds the
version, and the key that makes tombstones name nobody.
"""

import os
from collections.abc import Sequence
from typing import Protocol

from langgraph_sessionmem.backends.sql import Migration, Params, SqlRow
from langgraph_sessionmem.errors import SchemaMissing, SchemaTooNew


class Statements(Protocol):
    """A connection inside a transaction."""

    async def statement(self, text: str, params: Params) -> list[SqlRow]:
        """Run one statement and return its rows."""
        ...

    async def has_table(self, name: str) -> bool:
        """Whether the table `name`, schema and all, is there."""
        ...


async def migrate(link: Statements, migrations: Sequence[Migration], schema: str) -> bytes:
    """Bring the schema up to date, inside the caller's transaction and lock.

    Returns:
        The database's own key for tombstones, 16 bytes.

    Raises:
        SchemaTooNew: a newer version of the package made it; nothing was written.
    """
    meta = f"{schema}.sessionmem_meta"
    if not await link.has_table(meta):
        # Not `if not exists`: a role without the right to create would fail though it is there.
        await link.statement(meta_table(meta), {})
    found = await _read(link, meta)
    version = _checked_version(found, migrations)
    for migration in migrations[version:]:
        for statement in migration.statements:
            await link.statement(statement, {})
    facts = {
        "version": str(len(migrations)),
        "mark_key": found.get("mark_key") or os.urandom(16).hex(),
    }
    for name, value in facts.items():
        if found.get(name) != value:
            await link.statement(
                f"insert into {meta} (name, value) values (:name, :value) "  # noqa: S608 - quoted
                "on conflict (name) do update set value = excluded.value",
                {"name": name, "value": value},
            )
    return bytes.fromhex(facts["mark_key"])


def meta_table(meta: str) -> str:
    """The statement that makes the table of the database's own facts, under this name."""
    return f"create table {meta} (name text primary key, value text not null)"


async def check(link: Statements, migrations: Sequence[Migration], schema: str) -> bytes:
    """What `migrate` returns, without changing anything.

    Raises:
        SchemaMissing: the schema isn't there, or older than this package needs.
        SchemaTooNew: a newer version of the package made it.
    """
    meta = f"{schema}.sessionmem_meta"
    found = await _read(link, meta) if await link.has_table(meta) else {}
    version = _checked_version(found, migrations)
    if version < len(migrations):
        raise SchemaMissing(
            f"The database has schema version {version}, this package needs {len(migrations)}: "
            "call setup() once, with a role that may create tables."
        )
    return bytes.fromhex(found["mark_key"])


async def read_version(link: Statements, schema: str) -> int:
    """The version of the schema that is there, whatever this package needs; 0: none is."""
    meta = f"{schema}.sessionmem_meta"
    found = await _read(link, meta) if await link.has_table(meta) else {}
    return int(found.get("version", "0"))


async def _read(link: Statements, meta: str) -> dict[str, str]:
    rows = await link.statement(f"select name, value from {meta}", {})  # noqa: S608 - quoted
    return dict(rows)


def _checked_version(found: dict[str, str], migrations: Sequence[Migration]) -> int:
    version = int(found.get("version", "0"))
    if version > len(migrations):
        raise SchemaTooNew(version, len(migrations))
    return version
