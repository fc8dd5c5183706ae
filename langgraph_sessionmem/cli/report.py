"""What a replay came to, as tables and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from langgraph_sessionmem.cli.console import result_table
from langgraph_sessionmem.cli.evidence import Asked, Found, by_category
from langgraph_sessionmem.cli.playback import Played

_ALL = "all"


class Stored(NamedTuple):
    """Bytes in database files.

    Attributes:
        checkpoints: the thread's state; with the archive, where both are in one file.
        archive: the raw turns in the store; None where both are in one file.
    """

    checkpoints: int
    archive: int | None

    @property
    def total(self) -> int:
        """Both together."""
        return self.checkpoints + (self.archive or 0)

    def since(self, before: "Stored") -> "Stored":
        """What was added."""
        archive = None if self.archive is None else self.archive - (before.archive or 0)
        return Stored(self.checkpoints - before.checkpoints, archive)


@dataclass(frozen=True, slots=True)
class Replayed:
    """One conversation, replayed.

    Attributes:
        name: its id.
        turns: how many messages it has.
        played: what was measured meanwhile.
        stored: the bytes it added to the database.
        asked: the questions, if any were asked.
    """

    name: str
    turns: int
    played: Played
    stored: Stored
    asked: Sequence[Asked] = ()

    @property
    def evicted(self) -> int:
        """How many turns are out of the window in the end."""
        return sum(turn.slid_out for turn in self.played.status)

    @property
    def held(self) -> int:
        """How many of them the archive gives back as they were said."""
        return sum(turn.slid_out and turn.held for turn in self.played.status)

    @property
    def recalled(self) -> int:
        """How many turns came back into a view at least once."""
        return len(frozenset().union(*(call.shown.recalled for call in self.played.calls)))

    @property
    def recalled_per_call(self) -> float:
        """How many turns came back into a view, on average."""
        return fmean(len(call.shown.recalled) for call in self.played.calls)


class Spread(NamedTuple):
    """A series in four numbers."""

    mean: float
    p95: float
    max: float
    last: float


def spread(series: Sequence[float]) -> Spread:
    """The series' mean, 95th percentile, maximum and last value; zeros for an empty one."""
    if not series:
        return Spread(0, 0, 0, 0)
    ordered = sorted(series)
    return Spread(fmean(series), ordered[(len(ordered) * 95 - 1) // 100], ordered[-1], series[-1])


def as_json(replayed: Sequence[Replayed], budget: int) -> dict[str, Any]:
    """The results for a program; times in seconds, sizes in bytes, shares from 0 to 1."""
    return {
        "budget_tokens": budget,
        "conversations": [_conversation_json(part) for part in replayed],
        "questions": _shares([one for part in replayed for one in part.asked]),
    }


def _conversation_json(part: Replayed) -> dict[str, Any]:
    return {
        "conversation": part.name,
        "turns": part.turns,
        "user_turns": len(part.played.seconds),
        "calls": len(part.played.calls),
        "view_tokens": spread([call.tokens for call in part.played.calls])._asdict(),
        "history_tokens": spread([call.history_tokens for call in part.played.calls])._asdict(),
        "evicted_turns": part.evicted,
        "held_turns": part.held,
        "recalled_turns": part.recalled,
        "recalled_turns_per_call": part.recalled_per_call,
        "stored_bytes": {**part.stored._asdict(), "total": part.stored.total},
        "seconds_per_user_turn": spread(part.played.seconds)._asdict(),
        "questions": _shares(part.asked),
    }


def _shares(asked: Sequence[Asked]) -> dict[str, Any]:
    return {name: found._asdict() for name, found in by_category(asked).items()}


def show(console: Console, replayed: Sequence[Replayed], budget: int) -> None:
    """Print the results: tokens, turns, storage and time, and the questions if there are any."""
    console.print()
    console.print(_tokens_table(replayed, budget))
    console.print(
        "[dim]A view is what the model is called with; the history is all messages so far. "
        "Tokens are estimated. No model was called: the recorded assistant answers as it did."
        "[/dim]\n"
    )
    console.print(_turns_table(replayed))
    console.print(
        "[dim]A turn is one message. Evicted: out of the window in the end; held: those that "
        "the archive gives back as they were said. Recalled: brought back into a view at least "
        "once; a call: how many on average.[/dim]\n"
    )
    console.print(_storage_table(replayed))
    console.print(
        "[dim]State is the checkpoints; the archive holds what was evicted, with its search index. "
        "A run takes one user turn from the message to the last checkpoint.[/dim]\n"
    )
    asked = [one for part in replayed for one in part.asked]
    found = by_category(asked)
    if found:
        console.print(_questions_table(found, budget))
        shown = fmean(one.kept + one.recalled for one in asked)
        console.print(
            "[dim]In view: the mean share of a question's evidence turns that the model sees when "
            "it is asked. Hit: questions with at least one of them. Newest: the same budget filled "
            f"with the newest turns. A view shows {shown:.0f} turns on average, "
            f"{fmean(one.recalled for one in asked):.0f} of them recalled; the newest turns that "
            f"fit are {fmean(one.newest for one in asked):.0f}.[/dim]\n"
        )
    console.print(_summary(replayed, found))


def _groups(replayed: Sequence[Replayed]) -> list[tuple[Text, Sequence[Replayed]]]:
    """A line a conversation, and one for all of them where there are several."""
    groups: list[tuple[Text, Sequence[Replayed]]] = [(Text(one.name), [one]) for one in replayed]
    return [*groups, (Text(_ALL, style="bold"), replayed)] if len(replayed) > 1 else groups


def _tokens_table(replayed: Sequence[Replayed], budget: int) -> Table:
    table = result_table(f"Tokens of a model call, with a budget of {budget:,}")
    table.add_column("\nreplayed")
    for head in ("view\nmean", "\np95", "\nmax", "\nlast"):
        table.add_column(head, justify="right", no_wrap=True, style="green")
    for head in ("history\nmean", "\np95", "\nmax", "\nlast"):
        table.add_column(head, justify="right", no_wrap=True, style="yellow")
    table.add_column("\nsaved", justify="right", no_wrap=True, style="bold")
    for name, parts in _groups(replayed):
        calls = [call for part in parts for call in part.played.calls]
        view = spread([call.tokens for call in calls])
        history = spread([call.history_tokens for call in calls])
        cells = [[_count(number) for number in series] for series in (view, history)]
        if len(parts) > 1:
            table.add_section()
            cells = [[*series[:-1], ""] for series in cells]  # the last of all means nothing
        table.add_row(name, *cells[0], *cells[1], _percent(1 - view.mean / history.mean))
    return table


def _turns_table(replayed: Sequence[Replayed]) -> Table:
    table = result_table("Turns, in the window and out of it")
    table.add_column("replayed")
    for head in ("turns", "calls", "evicted", "held", "recalled", "a call"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, parts in _groups(replayed):
        if len(parts) > 1:
            table.add_section()
        calls = [call for part in parts for call in part.played.calls]
        table.add_row(
            name,
            _count(sum(part.turns for part in parts)),
            _count(len(calls)),
            _count(sum(part.evicted for part in parts)),
            _count(sum(part.held for part in parts)),
            _count(sum(part.recalled for part in parts)),
            f"{fmean(len(call.shown.recalled) for call in calls):.1f}",
        )
    return table


def _storage_table(replayed: Sequence[Replayed]) -> Table:
    split = all(part.stored.archive is not None for part in replayed)
    table = result_table("Storage and time")
    table.add_column("\nreplayed")
    for head in ("bytes a turn\nstate", "\narchive", "\ntotal") if split else ("\nbytes a turn",):
        table.add_column(head, justify="right", no_wrap=True, style="cyan")
    table.add_column("\nkB in all", justify="right", no_wrap=True, style="cyan")
    for head in ("ms a run\nmean", "\np95", "\nmax"):
        table.add_column(head, justify="right", no_wrap=True, style="magenta")
    for name, parts in _groups(replayed):
        if len(parts) > 1:
            table.add_section()
        turns = sum(part.turns for part in parts)
        total = sum(part.stored.total for part in parts)
        state = sum(part.stored.checkpoints for part in parts)
        sizes = [state, total - state, total] if split else [total]
        times = spread([second for part in parts for second in part.played.seconds])
        table.add_row(
            name,
            *(_count(size / turns) for size in sizes),
            _count(total / 1_000),
            *(f"{second * 1_000:.1f}" for second in times[:3]),
        )
    return table


def _questions_table(found: Mapping[str, Found], budget: int) -> Table:
    table = result_table(f"Evidence of the questions in a view of {budget:,} tokens")
    table.add_column("category")
    table.add_column("questions", justify="right")
    table.add_column("in view", justify="right", style="bold green")
    table.add_column("newest", justify="right", style="yellow")
    table.add_column("hit", justify="right", style="bold green")
    table.add_column("newest", justify="right", style="yellow")
    for name, one in found.items():
        if name == "without adversarial":
            table.add_section()
        table.add_row(
            name,
            _count(one.questions),
            _percent(one.recall, 1),
            _percent(one.newest_recall, 1),
            _percent(one.hit, 1),
            _percent(one.newest_hit, 1),
        )
    return table


def _summary(replayed: Sequence[Replayed], found: Mapping[str, Found]) -> str:
    calls = [call for part in replayed for call in part.played.calls]
    view = fmean(call.tokens for call in calls)
    history = fmean(call.history_tokens for call in calls)
    turns = sum(part.turns for part in replayed)
    stored = sum(part.stored.total for part in replayed) / turns
    if not any(part.evicted for part in replayed):
        return (
            f"[bold]{_count(turns)} turns replayed.[/bold] All of them fitted into the budget, so "
            "nothing was evicted. Try a smaller --budget."
        )
    text = (
        f"[bold]{_count(turns)} turns replayed.[/bold] A call saw [green]{_count(view)}[/green] "
        f"tokens instead of [yellow]{_count(history)}[/yellow], at [cyan]{_count(stored)}[/cyan] "
        "bytes a turn."
    )
    if found:
        every = found["all"]
        text += (
            f" [green]{_percent(every.recall)}[/green] of the evidence was in view; in the newest "
            f"turns of the same budget [yellow]{_percent(every.newest_recall)}[/yellow]."
        )
    return text


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
