"""`sessionmem threads`, `show`, `diff` and `du`: looks into a database."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from langgraph_sessionmem.checkpoint.inspecting import Inspection, Peek
from langgraph_sessionmem.checkpoint.saver import SessionSaver
from langgraph_sessionmem.cli.console import output, plain, plain_errors, print_json, result_table
from langgraph_sessionmem.cli.database import (
    JsonOption,
    PrefixOption,
    SchemaOption,
    ThreadArgument,
    UrlOption,
    opened,
)
from langgraph_sessionmem.cli.differences import ChannelChange, changes, shown
from langgraph_sessionmem.cli.tree import thread_tree
from langgraph_sessionmem.cli.units import ago, ahead, size_text
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.rows import ThreadRow

_SHOWN = 200
"""So many characters of a value are shown."""


class Order(StrEnum):
    """How `threads` sorts."""

    thread_id = "thread_id"
    updated_at = "updated_at"
    expires_at = "expires_at"
    size = "size"


def threads(
    database: UrlOption,
    starting_with: Annotated[
        str, typer.Option(metavar="TEXT", help="Only threads whose ids begin so.", show_default="")
    ] = "",
    order: Annotated[
        Order,
        typer.Option(help="By id; or the last changed, the next to expire, the largest first."),
    ] = Order.updated_at,
    limit: Annotated[int, typer.Option(min=1, help="How many at the most.")] = 50,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """List threads: their size, when they were last written to, and when they expire."""
    with plain_errors(), opened(database, schema, prefix) as saver:
        rows = saver.threads(prefix=starting_with, order=order.value, limit=limit + 1)
        now = saver.clock()
    if as_json:
        print_json({"threads": list(map(thread_facts, rows[:limit])), "more": len(rows) > limit})
        return
    table = result_table("Threads")
    for name, justify in (("thread", "left"), ("checkpoints", "right"), ("size", "right")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]  # a literal
    for name in ("updated", "expires", ""):
        table.add_column(name)
    for row in rows[:limit]:
        table.add_row(
            plain(row.thread_id),
            f"{row.checkpoints:,}",
            size_text(row.size),
            ago(now - row.updated_at),
            ahead(None if row.expires_at is None else row.expires_at - now),
            "waits" if row.waiting else "",
        )
    console = output()
    console.print(table)
    if not rows:
        console.print("There are no threads.", style="dim")
    if len(rows) > limit:
        console.print(f"There are more than {limit}; --limit shows more.", style="dim")


def show(
    thread: ThreadArgument,
    database: UrlOption,
    limit: Annotated[
        int, typer.Option(min=1, help="Of each namespace the last so many checkpoints.")
    ] = 50,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a thread's checkpoints as a tree: branches, steps, what runs next, what is pending.

    A size is what a checkpoint added. → are the nodes that run next, ✎ the channels that a task
    has written to and that no later checkpoint has taken up.
    """
    with plain_errors(), opened(database, schema, prefix) as saver:
        found = _inspected(saver, thread)
    if as_json:
        checkpoints = [
            view._asdict() | {"tasks": [task._asdict() for task in view.tasks]}
            for view in found.checkpoints
        ]
        print_json({"thread": thread_facts(found.thread), "checkpoints": checkpoints})
    else:
        output().print(thread_tree(found, limit))


def diff(
    first: Annotated[
        str, typer.Argument(metavar="A", help="THREAD:CHECKPOINT; the start of its id is enough.")
    ],
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="B",
            help="Likewise, or a checkpoint of the same thread.",
            show_default="A against its parent",
        ),
    ] = None,
    *,
    database: UrlOption,
    namespace: Annotated[
        str | None, typer.Option(help="Only checkpoints of this namespace.", show_default="any")
    ] = None,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the values of two checkpoints: channels, and messages one by one.

    With one checkpoint, compare its parent with it: what did this step change?
    """
    with plain_errors(), opened(database, schema, prefix) as saver:
        before, after = _compared(saver, first, second, namespace)
    found = changes(before.values, after.values)
    if as_json:
        places = [
            {"checkpoint_ns": each.checkpoint_ns, "checkpoint_id": each.checkpoint_id}
            for each in (before, after)
        ]
        print_json({"a": places[0], "b": places[1], "channels": list(map(_change_facts, found))})
        return
    console = output()
    console.print(
        Text.assemble(
            "from ", plain(before.checkpoint_id, "bold"), " to ", plain(after.checkpoint_id, "bold")
        )
    )
    for change in found:
        _print_change(change)
    if not found:
        console.print("The values are the same.", style="dim")


def du(
    database: UrlOption,
    thread: Annotated[
        str | None,
        typer.Argument(metavar="THREAD", help="Only this one, by channel.", show_default="all"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="So many of the largest threads.")] = 10,
    schema: SchemaOption = None,
    prefix: PrefixOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say where the bytes are: in all, in the largest threads, and in a thread by channel."""
    with plain_errors(), opened(database, schema, prefix) as saver:
        if thread is not None:
            _show_usage([_inspected(saver, thread)], by_channel=True, as_json=as_json)
            return
        stats = saver.stats()
        rows = saver.threads(order="size", limit=limit)
        found = [each for row in rows if (each := saver.inspect(row.thread_id)) is not None]
    if as_json:
        print_json({"total": stats._asdict(), "threads": list(map(_usage_facts, found))})
        return
    table = result_table("In all")
    for name in stats._fields:
        table.add_column(name, justify="right")
    table.add_row(
        *(
            size_text(value) if name == "size" else f"{value:,}"
            for name, value in stats._asdict().items()
        )
    )
    output().print(table)
    _show_usage(found, by_channel=False, as_json=False)


def thread_facts(row: ThreadRow) -> dict[str, Any]:
    """A thread as JSON has it; times in seconds since the epoch."""
    return row._asdict() | {"limits": row.limits._asdict()}


def _inspected(saver: SessionSaver, thread: str) -> Inspection:
    found = saver.inspect(thread)
    if found is None:
        raise InvalidArgument(f"There is no thread {thread!r}; `sessionmem threads` lists them.")
    return found


def _compared(
    saver: SessionSaver, first: str, second: str | None, namespace: str | None
) -> tuple[Peek, Peek]:
    thread_id, separator, wanted = first.rpartition(":")
    if not separator:
        raise InvalidArgument(f"A is {first!r}: give THREAD:CHECKPOINT.")
    a = _peeked(saver, thread_id, wanted, namespace)
    if second is not None:
        other, _, wanted = second.rpartition(":")
        return a, _peeked(saver, other or thread_id, wanted, namespace)
    if a.parent_id is None:
        return Peek(a.checkpoint_ns, "nothing", None, {}, {}), a
    return _peeked(saver, thread_id, a.parent_id, a.checkpoint_ns), a


def _peeked(saver: SessionSaver, thread_id: str, wanted: str, namespace: str | None) -> Peek:
    places = [
        (view.checkpoint_ns, view.checkpoint_id)
        for view in _inspected(saver, thread_id).checkpoints
        if view.checkpoint_id.startswith(wanted) and namespace in (None, view.checkpoint_ns)
    ]
    exact = [place for place in places if place[1] == wanted]
    chosen = exact or places
    if len(chosen) != 1:
        many = f"{len(chosen)} checkpoints begin with it" if chosen else "it has no such checkpoint"
        raise InvalidArgument(
            f"{wanted!r} names no checkpoint of thread {thread_id!r}: {many}; "
            "`sessionmem show` lists them, --namespace narrows them."
        )
    [(checkpoint_ns, checkpoint_id)] = chosen
    found = saver.peek(
        {
            "configurable": {
                "thread_id": thread_id,
                "checkpoint_ns": checkpoint_ns,
                "checkpoint_id": checkpoint_id,
            }
        }
    )
    if found is None:
        raise InvalidArgument(f"Checkpoint {checkpoint_id!r} has just been deleted.")
    return found


_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def _print_change(change: ChannelChange) -> None:
    console = output()
    sign, style = _SIGNS[change.kind]
    console.print(plain(f"{sign} {change.channel}", f"bold {style}"))
    for part in change.parts:
        sign, style = _SIGNS[part.kind]
        at = "" if part.at is None else f"[{part.at}] "
        values = {"added": [part.after], "removed": [part.before]}.get(
            part.kind, [part.before, part.after]
        )
        text = " → ".join(_short(value) for value in values)
        console.print(plain(f"    {sign} {at}{text}", style))


def _short(value: Any) -> str:
    text = " ".join(shown(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def _change_facts(change: ChannelChange) -> dict[str, Any]:
    parts = [
        {"kind": part.kind, "at": part.at}
        | ({} if part.kind == "added" else {"before": shown(part.before)})
        | ({} if part.kind == "removed" else {"after": shown(part.after)})
        for part in change.parts
    ]
    return {"channel": change.channel, "kind": change.kind, "parts": parts}


def _usage_facts(found: Inspection) -> dict[str, Any]:
    return {
        "thread_id": found.thread.thread_id,
        "size": found.thread.size,
        "checkpoints": found.thread.checkpoints,
        "heads": found.heads,
        "elements": found.elements,
        "writes": found.writes,
        "unnamed": found.unnamed.size,
        "channels": {name: size._asdict() for name, size in found.channels.items()},
    }


def _show_usage(found: Sequence[Inspection], *, by_channel: bool, as_json: bool) -> None:
    if as_json:
        print_json(_usage_facts(found[0]))
        return
    console = output()
    table = result_table("The largest threads" if not by_channel else "The thread")
    table.add_column("thread", overflow="fold")
    for name in ("size", "checkpoints", "heads", "elements", "writes", "unnamed"):
        table.add_column(name, justify="right")
    for each in found:
        sizes = (each.heads, each.elements, each.writes, each.unnamed.size)
        table.add_row(
            plain(each.thread.thread_id),
            size_text(each.thread.size),
            f"{each.thread.checkpoints:,}",
            *map(size_text, sizes),
        )
    console.print(table)
    if by_channel:
        channels = result_table("Its elements by channel")
        channels.add_column("channel", overflow="fold")
        for name in ("elements", "size"):
            channels.add_column(name, justify="right")
        by_size = sorted(found[0].channels.items(), key=lambda each: -each[1].size)
        for channel, (elements, size) in by_size:
            channels.add_row(plain(channel), f"{elements:,}", size_text(size))
        console.print(channels)
