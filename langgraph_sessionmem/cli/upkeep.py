"""`sessionmem sweep`, `prune`, `verify` and `schema`: keeping a database in order."""

from enum import StrEnum
from typing import Annotated

import typer

from langgraph_sessionmem.backends.ddl import schema_text
from langgraph_sessionmem.checkpoint.integrity import Verified
from langgraph_sessionmem.checkpoint.saver import SessionSaver
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
    UrlOption,
    opened,
)
from langgraph_sessionmem.cli.units import read_duration, size_text
from langgraph_sessionmem.errors import InvalidArgument

DAMAGED = 1
"""The exit code when something is not as it should be."""

_BATCH = 100
_SHOWN = 20


class Strategy(StrEnum):
    """What `prune` leaves."""

    keep_latest = "keep_latest"
    delete = "delete"


def sweep(
    database: UrlOption,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would go.")] = False,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete what has expired, in batches; other programs may go on meanwhile."""
    with plain_errors(), opened(database, schema, prefix) as saver:
        swept = due = saver.sweep(dry_run=True)
        if not dry_run:
            swept = _sweep(saver, due)
    if as_json:
        print_json({"dry_run": dry_run, "threads": swept})
    else:
        done = "would go" if dry_run else "went"
        output().print(f"{swept:,} expired threads {done}.")


def prune(
    database: UrlOption,
    threads: Annotated[
        list[str] | None, typer.Argument(metavar="THREAD", help="Thread ids.", show_default=False)
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All threads.")] = False,
    strategy: Annotated[
        Strategy,
        typer.Option(help="Keep the latest checkpoint of each namespace, or nothing."),
    ] = Strategy.keep_latest,
    keep_last: Annotated[
        int | None,
        typer.Option(min=1, help="Keep so many of each namespace.", show_default="1"),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Keep what is younger too: 30d, 12h, 90min.", show_default="none"
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Really delete all threads.")] = False,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cut threads down to their latest checkpoints; what stays reads as before."""
    with plain_errors(), opened(database, schema, prefix) as saver:
        if bool(threads) == every:
            raise InvalidArgument("Name threads, or give --all for all of them; not both.")
        if every and strategy is Strategy.delete and not yes:
            raise InvalidArgument(
                "--all --strategy delete deletes every thread; add --yes if that is meant."
            )
        age = None if older_than is None else read_duration("--older-than", older_than)
        names = list(threads or _all_threads(saver))
        before = saver.stats()
        with progress_bar() as progress:
            for name in progress.track(names, description="prune"):
                saver.prune([name], strategy=strategy.value, keep_last=keep_last, older_than=age)
        after = saver.stats()
    dropped, freed = before.checkpoints - after.checkpoints, before.size - after.size
    if as_json:
        print_json({"threads": len(names), "checkpoints": dropped, "bytes": freed})
    else:
        output().print(
            f"{len(names):,} threads were cut: {dropped:,} checkpoints and {size_text(freed)} less."
        )


def verify(
    database: UrlOption,
    threads: Annotated[
        list[str] | None,
        typer.Argument(metavar="THREAD", help="Only these.", show_default="all"),
    ] = None,
    *,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read everything that checkpoints name; find what is damaged, and what is left over.

    Nothing is imported and nothing is changed. The exit code is 1 if anything can't be read.
    """
    with plain_errors(), opened(database, schema, prefix) as saver:
        total = len(threads) if threads else saver.stats().threads
        with progress_bar() as progress:
            task = progress.add_task("verify", total=total)
            found = saver.verify(threads or None, progress=lambda _: progress.advance(task))
    if as_json:
        print_json(_facts(found))
    else:
        _show(found)
    if not found.ok:
        raise typer.Exit(DAMAGED)


def schema(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="A connection string; only its scheme counts.")
    ],
    since: Annotated[
        int, typer.Option("--from", metavar="VERSION", help="The version that is there.")
    ] = 0,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the DDL that setup() would run, or the rights that Redis must give.

    For those who make their schema themselves, and open the saver with setup=False.
    """
    with plain_errors():
        text = schema_text(url, schema=schema, prefix=prefix, since=since)
    if as_json:
        print_json({"text": text})
    else:
        typer.echo(text, nl=False)


def _sweep(saver: SessionSaver, due: int) -> int:
    swept = 0
    with progress_bar() as progress:
        task = progress.add_task("sweep", total=due)
        while batch := saver.sweep(limit=_BATCH):
            swept += batch
            progress.update(task, completed=swept, total=max(due, swept))
            if batch < _BATCH:
                break
    return swept


def _all_threads(saver: SessionSaver) -> list[str]:
    names: list[str] = []
    cursor = None
    while page := saver.threads(limit=1_000, cursor=cursor):
        names += [row.thread_id for row in page]
        cursor = page[-1]
    return names


def _facts(found: Verified) -> dict[str, object]:
    return {
        "ok": found.ok,
        "threads": found.threads,
        "checkpoints": found.checkpoints,
        "elements": found.elements,
        "writes": found.writes,
        "damage": [damage._asdict() for damage in found.damage],
        "unbuilt": dict(found.unbuilt),
        "orphan_elements": found.orphan_elements,
        "orphan_bytes": found.orphan_bytes,
        "orphan_writes": found.orphan_writes,
    }


def _show(found: Verified) -> None:
    console = output()
    console.print(
        f"{found.threads:,} threads: {found.checkpoints:,} checkpoints, {found.elements:,} "
        f"elements and {found.writes:,} writes were read."
    )
    for name, count in found.unbuilt.most_common():
        kind = name or "a serializer of your own"
        console.print(plain(f"{count:,} values need {kind} and were not built.", "dim"))
    if found.orphan_elements or found.orphan_writes:
        console.print(
            f"Left over: {found.orphan_elements:,} elements ({size_text(found.orphan_bytes)}) that "
            f"no checkpoint names, {found.orphan_writes or 0:,} writes of checkpoints that are not "
            "there.",
            style="yellow",
        )
    if found.ok:
        console.print("Everything is there and can be read.", style="green")
        return
    table = result_table(f"{len(found.damage):,} damages")
    for name in ("thread", "checkpoint", "what"):
        table.add_column(name, overflow="fold")
    for damage in found.damage[:_SHOWN]:
        table.add_row(
            plain(damage.thread_id), plain(damage.checkpoint_id or ""), plain(damage.what)
        )
    console.print(table)
    if len(found.damage) > _SHOWN:
        console.print(f"… and {len(found.damage) - _SHOWN:,} more; --json has all.", style="red")
