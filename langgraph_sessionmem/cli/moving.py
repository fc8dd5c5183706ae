"""`sessionmem import` and `export`: moving in from LangGraph's own savers, and out again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

import typer
from rich.progress import Progress, TaskID

from langgraph_sessionmem.cli.console import (
    output,
    plain,
    plain_errors,
    print_json,
    progress_bar,
    result_table,
)
from langgraph_sessionmem.cli.database import (
    JsonOption,
    PrefixOption,
    SchemaOption,
    TypesOption,
    UrlOption,
)
from langgraph_sessionmem.errors import BackendUnavailable, SessionMemoryError
from langgraph_sessionmem.transfer import Report, Step, copy_saver, open_saver

DIFFERENT = 1
"""The exit code when something did not arrive as it left."""

_SHOWN = 20
_OFFICIAL = "langgraph+sqlite:///file.db, langgraph+postgresql://…, langgraph+redis://…"

ThreadOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--thread", metavar="THREAD", help="Only this one; may be given again."),
]


def import_(
    source: Annotated[
        str, typer.Option("--from", metavar="URL", help=f"An official saver: {_OFFICIAL}.")
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="URL",
            envvar="SESSIONMEM_DATABASE",
            help="Our database; made if it isn't there.",
            show_default=False,
        ),
    ],
    thread: ThreadOption = None,
    types: TypesOption = None,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy all threads of one of LangGraph's own savers into our database, and compare them.

    Ids, parents, order, values, metadata and pending writes stay what they are. It may be stopped
    and started again; threads that are complete are only compared. The exit code is 1 if anything
    did not arrive as it left.
    """
    own = {"schema": schema, "prefix": prefix, "types": types or ()}
    with (
        plain_errors(),
        drivers_errors(),
        open_saver(source) as official,
        open_saver(target, create=True, **own) as ours,  # type: ignore[arg-type]  # they are its options
    ):
        report = _copy(official, ours, thread)
    _finish(report, as_json)


def export(
    database: UrlOption,
    target: Annotated[
        str, typer.Option("--to", metavar="URL", help=f"An official saver: {_OFFICIAL}.")
    ],
    thread: ThreadOption = None,
    types: TypesOption = None,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy all threads into one of LangGraph's own savers, which goes on with them; compare them.

    As careful as import, in the other direction.
    """
    own = {"schema": schema, "prefix": prefix, "types": types or ()}
    with (
        plain_errors(),
        drivers_errors(),
        open_saver(database, **own) as ours,  # type: ignore[arg-type]  # they are its options
        open_saver(target, create=True) as official,
    ):
        report = _copy(ours, official, thread)
    _finish(report, as_json)


@contextmanager
def drivers_errors() -> Iterator[None]:
    """Say what a driver raised as an error of ours; the official savers let it through."""
    try:
        yield
    except SessionMemoryError:
        raise
    except Exception as error:
        raise BackendUnavailable(f"{type(error).__name__}: {error}".strip()) from error


def _copy(source: Any, target: Any, threads: list[str] | None) -> Report:
    with progress_bar() as progress:
        shown = _Shown(progress)
        return copy_saver(source, target, thread_ids=threads or None, progress=shown.show)


class _Shown:
    """A bar for the thread that is being copied."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("", total=None)

    def show(self, step: Step) -> None:
        name = step.thread_id if len(step.thread_id) <= 36 else f"{step.thread_id[:35]}…"
        text = f"{step.threads:,} threads, {step.stage} {plain(name)}"
        self._progress.update(self._task, description=text, completed=step.done, total=step.total)


def _finish(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "ok": report.ok,
                "threads": report.threads,
                "complete_before": report.complete,
                "checkpoints": report.checkpoints,
                "writes": report.writes,
                "compared": report.compared,
                "problem_count": report.problem_count,
                "problems": [problem._asdict() for problem in report.problems],
            }
        )
    else:
        _show(report)
    if not report.ok:
        raise typer.Exit(DIFFERENT)


def _show(report: Report) -> None:
    console = output()
    console.print(
        f"{report.threads:,} threads, {report.complete:,} of them complete before: "
        f"{report.checkpoints:,} checkpoints and {report.writes:,} writes were copied, "
        f"{report.compared:,} checkpoints compared."
    )
    if report.ok:
        console.print("Everything arrived as it left.", style="green")
        return
    table = result_table(f"{report.problem_count:,} differences")
    for name in ("thread", "checkpoint", "what"):
        table.add_column(name, overflow="fold")
    for problem in report.problems[:_SHOWN]:
        place = plain(problem.checkpoint_id or "")
        table.add_row(plain(problem.thread_id), place, plain(problem.what))
    console.print(table)
