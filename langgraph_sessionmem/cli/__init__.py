"""The `sessionmem` command."""

from typing import Annotated

import typer

from langgraph_sessionmem import __version__
from langgraph_sessionmem.cli.console import output
from langgraph_sessionmem.cli.demo import demo
from langgraph_sessionmem.cli.replay import replay

app = typer.Typer(
    name="sessionmem",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        output().print(__version__)
        raise typer.Exit


@app.callback()
def _sessionmem(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Memory for LangGraph agents: see it work, or replay a conversation of yours."""


app.command()(demo)
app.command()(replay)


def main() -> None:
    """Run the command line."""
    app()
