"""Opening the database that a command is about, and the options that say which it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, TypeAlias

import typer

from langgraph_sessionmem.checkpoint.saver import SessionSaver
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.transfer.official import check_file

PATIENCE = timedelta(minutes=10)
"""How long one look at a large database may take."""

UrlOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--database",
        "-d",
        envvar="SESSIONMEM_DATABASE",
        metavar="URL",
        help="sqlite:///file.db or its path, postgresql://…, redis://…",
        show_default=False,
    ),
]
SchemaOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="The PostgreSQL schema of the tables.", show_default="public"),
]
PrefixOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="What all Redis keys begin with.", show_default="sessionmem:"),
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON, for programs; sizes in bytes.")
]
TypesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--types",
        metavar="MODULE",
        help="Import this module: values may become its types. May be given again.",
    ),
]
ThreadArgument: TypeAlias = Annotated[str, typer.Argument(metavar="THREAD", help="A thread id.")]


@contextmanager
def opened(url: str, schema: str | None, prefix: str | None) -> Iterator[SessionSaver]:
    """A saver on a database that is there; its schema is neither made nor upgraded.

    Raises:
        InvalidArgument: there is no such file, or an option isn't the database's.
        UnknownScheme: the URL names no database we know.
    """
    if url in ("sqlite://", "sqlite:///", ":memory:", "sqlite:///:memory:"):
        raise InvalidArgument(f"--database {url}: a database in memory is always empty.")
    check_file(url)
    with SessionSaver.from_conn_string(
        url, schema=schema, prefix=prefix, setup=False, timeout=PATIENCE
    ) as saver:
        yield saver
