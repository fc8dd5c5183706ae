"""Where the commands write, and how they say what went wrong."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from langgraph_sessionmem.errors import SessionMemoryError

BAD_INPUT = 2
"""The exit code when an argument or a file can't be used."""

DatabaseOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Keep the database in this SQLite file.",
        dir_okay=False,
        show_default="a temporary one",
    ),
]

_WIDTH = 100
"""The width of what is piped or written to a file; a terminal has its own."""


def output() -> Console:
    """Where results go."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    return console


def side_output() -> Console:
    """Where progress and errors go, so that results can be piped."""
    return Console(stderr=True, highlight=False)


def result_table(title: str) -> Table:
    """An empty table in the commands' one style; it is to fit 100 columns."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        header_style="bold",
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def print_json(facts: object) -> None:
    """Print JSON, for programs."""
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can write
        text = json.dumps(facts, indent=2)
    typer.echo(text)


def plain(text: str, style: str = "") -> Text:
    """Text from a database, without markup; what would steer the terminal is escaped."""
    visible = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
    return Text(visible, style=style)


def progress_bar() -> Progress:
    """A bar beside the results, on a terminal only; gone when it is done."""
    console = side_output()
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say an error of the package as its sentence, in red, without a traceback, and exit with 2."""
    try:
        yield
    except SessionMemoryError as error:
        side_output().print(Text(str(error), style="red"))
        raise typer.Exit(BAD_INPUT) from None
