"""What SQLite and PostgreSQL share: named queries, scripts of them, and the link they run on.

A query stands in a text file, under its name; `QUERIES` serve both dialects, and what a
dialect's own file holds wins by name. A script is a list of steps that one link runs as one
transaction, and on PostgreSQL in one round trip.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple, Protocol, TypeAlias

from langgraph_sessionmem.errors import InvalidArgument

SqlRow: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Mapping[str, object]

QUERIES = ("saving.sql", "reading.sql", "life.sql", "items.sql", "item_saving.sql")

PACKAGE = "langgraph_sessionmem.backends"
_NAME = re.compile(r"^-- (name|part): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*$", re.MULTILINE)


class Step(NamedTuple):
    """One query of a script.

    Attributes:
        query: its name.
        params: its parameters.
        rows: run it for each of these too, each with `params` beside it.
    """

    query: str
    params: Params
    rows: Sequence[Params] | None = None


class Refused(Exception):
    """A column refused a null: how a query says that a rule of its script is broken.

    Attributes:
        column: the column, without its table.
    """

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


class Link(Protocol):
    """A connection to an SQL database."""

    async def execute(self, script: Sequence[Step]) -> list[list[SqlRow]]:
        """Run all steps or none, and return the rows of each.

        `:now` and `:offset` are filled in by the link.

        Raises:
            Refused: a column refused a null; nothing was written.
        """
        ...


def load_queries(files: Iterable[str], schema: str) -> dict[str, str]:
    """The queries of `files`, later files winning by name.

    `{schema}` is filled in, and for the name of a part in braces its text; a part may use those
    above it.
    """
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for file in files:
        _, *pieces = _NAME.split(_read(file))
        for kind, name, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            found[kind][name] = _COMMENT.sub("", text).strip()

    def filled(query: str) -> str:
        for name, text in reversed(found["part"].items()):
            query = query.replace(f"{{{name}}}", text)
        return query.replace("{schema}", schema)

    return {name: filled(query) for name, query in found["name"].items()}


class Migration(NamedTuple):
    """One numbered change of the schema."""

    version: int
    statements: list[str]


def load_migrations(dialect: str, schema: str) -> list[Migration]:
    """The dialect's migrations, in order."""
    folder = resources.files(PACKAGE) / "migrations" / dialect
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        Migration(int(name[:4]), _statements((folder / name).read_text("utf-8"), schema))
        for name in names
    ]


def quote_identifier(name: str) -> str:
    """`name` as a quoted SQL identifier.

    Raises:
        InvalidArgument: it is empty, too long for PostgreSQL, or has a NUL.
    """
    if not name or "\x00" in name or len(name.encode()) > 63:
        raise InvalidArgument(f"schema={name!r}: give a name of 1 to 63 bytes without NUL.")
    return '"' + name.replace('"', '""') + '"'


def unquote_identifier(quoted: str) -> str:
    """The name that `quote_identifier` quoted."""
    return quoted[1:-1].replace('""', '"')


def text_in(text: str) -> str:
    """`text` as a text column holds it: without NUL, which PostgreSQL refuses; the order is kept.

    Raises:
        InvalidArgument: it has a lone surrogate, which is no text.
    """
    if text.isprintable():
        return text
    if "\x00" in text or "\x01" in text:
        text = text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{text!r} has a lone surrogate, which no database can hold in an id; remove it."
        ) from error
    return text


def text_out(text: str) -> str:
    """What `text_in` was given."""
    if "\x01" in text:
        text = text.replace("\x01\x01", "\x00").replace("\x01\x02", "\x01")
    return text


def _read(file: str) -> str:
    return (resources.files(PACKAGE) / file).read_text("utf-8")


def _statements(text: str, schema: str) -> list[str]:
    statements = map(str.strip, _COMMENT.sub("", text).split(";"))
    return [statement.replace("{schema}", schema) for statement in statements if statement]
