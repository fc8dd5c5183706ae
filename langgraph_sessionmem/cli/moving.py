"""`sessionmem import` and `export`: moving in from LangGraph's savers and stores, and out again."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, Any, TypeAlias

import typer
from langgraph.store.base import BaseStore
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
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument, SessionMemoryError
from langgraph_sessionmem.transfer import (
    ItemReport,
    Report,
    Step,
    copy_saver,
    copy_store,
    open_saver,
    open_store,
)

DIFFERENT = 1
"""The exit code when something did not arrive as it left."""

_SHOWN = 20
_OFFICIAL = "langgraph+sqlite:///file.db, langgraph+postgresql://…, langgraph+redis://…"

ThreadOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--thread", metavar="THREAD", help="Only this one; may be given again."),
]
StoreOption: TypeAlias = Annotated[
    bool,
    typer.Option("--store", help="The items of a store instead of the threads of a saver."),
]
NamespaceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="LABEL.LABEL", help="With --store: only this namespace and those below."),
]


def import_(
    source: Annotated[
        str, typer.Option("--from", metavar="URL", help=f"LangGraph's own: {_OFFICIAL}.")
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
    store: StoreOption = False,
    namespace: NamespaceOption = None,
    types: TypesOption = None,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy what one of LangGraph's own savers or stores has into our database, and compare it.

    All threads: ids, parents, order, values, metadata and pending writes stay what they are. With
    --store all items: namespaces, keys, values, times, times to live. It may be stopped and started
    again; what is complete is only compared. The exit code is 1 if anything did not arrive as it
    left.
    """
    with plain_errors():
        _check(store, namespace, thread, types)
    if store:
        _move_items(
            open_store(source),
            open_store(target, create=True, schema=schema, prefix=prefix),
            namespace,
            as_json,
        )
        return
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
        str, typer.Option("--to", metavar="URL", help=f"LangGraph's own: {_OFFICIAL}.")
    ],
    thread: ThreadOption = None,
    store: StoreOption = False,
    namespace: NamespaceOption = None,
    types: TypesOption = None,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy all threads, or items, into one of LangGraph's own savers or stores; compare them.

    As careful as import, in the other direction; but LangGraph's own stores say themselves when an
    item was created and updated.
    """
    with plain_errors():
        _check(store, namespace, thread, types)
    if store:
        _move_items(
            open_store(database, schema=schema, prefix=prefix),
            open_store(target, create=True),
            namespace,
            as_json,
        )
        return
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


def _check(
    store: bool, namespace: str | None, threads: list[str] | None, types: list[str] | None
) -> None:
    if store and threads:
        raise InvalidArgument(f"--thread {threads[0]}: a store has no threads; leave it out.")
    if store and types:
        raise InvalidArgument(f"--types {types[0]}: a store's values are JSON; leave it out.")
    if namespace is not None and not store:
        raise InvalidArgument(f"--namespace {namespace}: only a store has one; add --store.")


def _move_items(
    source: AbstractContextManager[BaseStore],
    target: AbstractContextManager[BaseStore],
    namespace: str | None,
    as_json: bool,
) -> None:
    prefix = () if namespace is None else tuple(namespace.split("."))
    with (
        plain_errors(),
        drivers_errors(),
        source as from_store,
        target as to_store,
        progress_bar() as progress,
    ):
        task = progress.add_task("", total=None)

        def show(report: ItemReport) -> None:
            progress.update(task, description=f"{report.items:,} items")

        report = copy_store(from_store, to_store, prefix=prefix, progress=show)
    _finish_items(report, as_json)


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
        _print_report(
            report,
            threads=report.threads,
            complete_before=report.complete,
            checkpoints=report.checkpoints,
            writes=report.writes,
            compared=report.compared,
        )
    else:
        output().print(
            f"{report.threads:,} threads, {report.complete:,} of them complete before: "
            f"{report.checkpoints:,} checkpoints and {report.writes:,} writes were copied, "
            f"{report.compared:,} checkpoints compared."
        )
        rows = [(each.thread_id, each.checkpoint_id or "", each.what) for each in report.problems]
        _show_problems(report.problem_count, ("thread", "checkpoint", "what"), rows)
    _exit_if(report)


def _finish_items(report: ItemReport, as_json: bool) -> None:
    if as_json:
        _print_report(
            report, items=report.items, complete_before=report.complete, copied=report.copied
        )
    else:
        output().print(
            f"{report.items:,} items, {report.complete:,} of them complete before: "
            f"{report.copied:,} were copied."
        )
        rows = [(".".join(each.namespace), each.key, each.what) for each in report.problems]
        _show_problems(report.problem_count, ("namespace", "key", "what"), rows)
    _exit_if(report)


def _print_report(report: Report | ItemReport, **counts: int) -> None:
    problems = [problem._asdict() for problem in report.problems]
    print_json(
        {"ok": report.ok, **counts, "problem_count": report.problem_count, "problems": problems}
    )


def _exit_if(report: Report | ItemReport) -> None:
    if not report.ok:
        raise typer.Exit(DIFFERENT)


def _show_problems(count: int, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    console = output()
    if not count:
        console.print("Everything arrived as it left.", style="green")
        return
    table = result_table(f"{count:,} differences")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows[:_SHOWN]:
        table.add_row(*map(plain, row))
    console.print(table)
