"""The `sessionmem` command."""

from collections.abc import Callable
from typing import Annotated

import typer

from langgraph_sessionmem import __version__
from langgraph_sessionmem.cli.console import output
from langgraph_sessionmem.cli.demo import demo
from langgraph_sessionmem.cli.looks import diff, du, show, threads
from langgraph_sessionmem.cli.moving import export, import_
from langgraph_sessionmem.cli.replay import replay
from langgraph_sessionmem.cli.upkeep import prune, schema, sweep, verify

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
    """Memory for LangGraph agents: see it work, look into a database, keep it, move it."""


_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "See it work": {"demo": demo, "replay": replay},
    "Look into a database": {"threads": threads, "show": show, "diff": diff, "du": du},
    "Keep it in order": {"sweep": sweep, "prune": prune, "verify": verify, "schema": schema},
    "Move in and out": {"import": import_, "export": export},
}
for _panel, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_command)


def main() -> None:
    """Run the command line."""
    app()
