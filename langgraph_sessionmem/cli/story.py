"""The demo's tables: what was said, what the model saw, and what is still known."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from langgraph_sessionmem import Ledger
from langgraph_sessionmem.cli.agent import BUDGET, Step
from langgraph_sessionmem.cli.console import result_table
from langgraph_sessionmem.cli.scripted import LOOKS, OPENING, UNKNOWN

_NUMBERS_WIDTH = 56
"""What the first table's columns of numbers take, of the console's width."""


class Ending(NamedTuple):
    """How the first session expired.

    Attributes:
        before: its messages before.
        after: its messages 31 minutes after its last turn.
        alive: the messages of the second session at that time.
        swept: how many threads the sweep deleted.
        again: what happens when the customer writes in it again.
    """

    before: int
    after: int
    alive: int
    swept: int
    again: Step


class Story(NamedTuple):
    """All that happened.

    Attributes:
        steps: the first session.
        ledger: its ledger in the end.
        forgetful: what the same model answered to `LOOKS` when shown the newest turns only.
        learnt: the second session, of the same customer.
        stranger: a session of another customer.
        ending: how the first session expired.
    """

    steps: Sequence[Step]
    ledger: Ledger
    forgetful: Sequence[str]
    learnt: Sequence[Step]
    stranger: Step
    ending: Ending


def tell(console: Console, story: Story, database: str | None, seconds: float) -> bool:
    """Print the story.

    Returns:
        Whether everything that it promises came true.
    """
    where = database or "a temporary file, removed afterwards"
    for part in (
        _opening(where),
        _session(story.steps, console.width),
        _ledger(story.ledger),
        _request(story.steps[len(story.steps) - len(LOOKS)]),
        _still_known(story),
        _other_threads(story),
        _expiry(story.ending),
    ):
        console.print()
        console.print(part)
    promises = _promises(story)
    console.print()
    for promise, held in promises.items():
        console.print(
            f"[green]\u2713[/green] {promise}" if held else f"[red]\u2717 {promise}[/red]"
        )
    console.print(f"[dim]Done in {seconds:.1f} s.[/dim]")
    return all(promises.values())


def _promises(story: Story) -> dict[str, bool]:
    last = story.steps[-len(LOOKS) :]
    first = len(OPENING) * 2
    return {
        f"No request was above {BUDGET} tokens; the whole history is "
        f"{last[-1].history_tokens:,}.": all(step.tokens <= BUDGET for step in story.steps),
        "What was said first slid out of the window.": last[0].slid_out >= first,
        "Order number, decision and a detail from the first turn are still known.": all(
            step.places and "window" not in step.places for step in last
        ),
        "The newest turns alone, in the same budget, don't have them.": all(
            answer == UNKNOWN for answer in story.forgetful
        ),
        "A second session of the customer knows what the first one learnt.": all(
            "long-term memory" in step.places for step in story.learnt
        ),
        "Another customer's session doesn't.": story.stranger.answer == UNKNOWN,
        "An expired session is gone; what it learnt about the customer is not.": (
            story.ending.before > 0 == story.ending.after
            and story.ending.again.places == ["long-term memory"]
        ),
    }


def _opening(database: str) -> RenderableType:
    return Panel(
        "[bold]A support session, in a window that is too small for it.[/bold]\n"
        f"LangGraph with SessionSaver, LongTermStore and Compactor on SQLite ({database}).\n"
        "[yellow]Scripted:[/yellow] what customers say, and both models. The agent can't cheat: it "
        "looks its answers up in "
        "the text it is called with. The summarizer finds ledger entries "
        "by patterns.\n"
        "[green]Real:[/green] everything else. No key, no network.",
        title="sessionmem demo",
        title_align="left",
        border_style="blue",
    )


def _session(steps: Sequence[Step], width: int) -> RenderableType:
    room = max(width - _NUMBERS_WIDTH, 20)
    table = result_table(f"1. What the model sees at each step, of {BUDGET} tokens at most")
    table.add_column("\n#", justify="right", no_wrap=True, style="dim")
    table.add_column("\ncustomer says", no_wrap=True, width=room * 5 // 9)
    table.add_column("tokens\nview", justify="right", no_wrap=True, style="green")
    table.add_column("\nhistory", justify="right", no_wrap=True, style="yellow")
    table.add_column("turns\nkept", justify="right", no_wrap=True)
    table.add_column("\nout", justify="right", no_wrap=True, style="yellow")
    table.add_column("\nrecalled", justify="right", no_wrap=True, style="cyan")
    table.add_column("\nledger", justify="right", no_wrap=True, style="magenta")
    table.add_column("\nagent answers", no_wrap=True, width=room * 4 // 9)
    for number, step in enumerate(steps, 1):
        if number == len(steps) - len(LOOKS) + 1:
            table.add_section()
        table.add_row(
            str(number),
            step.said,
            f"{step.tokens:,}",
            f"{step.history_tokens:,}",
            str(len(step.shown.kept)),
            _or_dot(step.slid_out),
            _or_dot(len(step.shown.recalled)),
            _or_dot(step.entries),
            step.answer,
        )
    return Group(
        table,
        _note(
            "A turn is one message. Kept turns stand in the view as they were said; those that are "
            "out are in the archive, read back and compared before they left; recalled ones come "
            "back because they bear on the question."
        ),
    )


def _ledger(ledger: Ledger) -> RenderableType:
    table = result_table(
        "2. The ledger in the end (entries by the scripted summarizer, each checked)"
    )
    table.add_column("field", style="magenta")
    table.add_column("entry")
    table.add_column("value")
    table.add_column("said in", style="dim")
    for field, key, entry in ledger.entries():
        value = Text(entry.value)
        if entry.answer:
            value.append(f" \u2192 {entry.answer}", style="green")
        table.add_row(field, key, value, ", ".join(entry.source_ids))
    return table


def _request(step: Step) -> RenderableType:
    rows = Table.grid(padding=(0, 1))
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column()
    for message in step.request:
        role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
        rows.add_row(role, _shortened(message.text))
    return Panel(
        rows,
        title=f"3. What the model was called with at step {step.turns // 2 + 1} "
        f"({step.tokens} tokens; long lines cut here)",
        title_align="left",
        border_style="dim",
    )


def _still_known(story: Story) -> RenderableType:
    table = result_table(
        "4. Still known, and from where; beside it the same budget of newest turns"
    )
    table.add_column("question")
    table.add_column("with Compactor", style="green")
    table.add_column("stands in", style="cyan")
    table.add_column("newest turns only", style="yellow")
    for step, forgotten in zip(story.steps[-len(LOOKS) :], story.forgetful, strict=True):
        table.add_row(step.said, step.answer, ", ".join(step.places), forgotten)
    return table


def _other_threads(story: Story) -> RenderableType:
    table = result_table("5. Twenty minutes later, in other threads")
    table.add_column("thread")
    table.add_column("question")
    table.add_column("answer")
    table.add_column("stands in", style="cyan")
    steps = [*(("Ann's second", step) for step in story.learnt), ("Ben's first", story.stranger)]
    for thread, step in steps:
        style = "green" if step.places else "yellow"
        answer = Text(step.answer, style=style)
        table.add_row(thread, step.said, answer, ", ".join(step.places) or "nowhere")
    return table


def _expiry(ending: Ending) -> RenderableType:
    table = result_table("6. A session expires after 30 idle minutes")
    table.add_column("moment")
    table.add_column("Ann's first thread")
    table.add_column("Ann's second thread")
    table.add_row("20 minutes after its last turn", f"{ending.before} turns", "begins")
    table.add_row(
        "31 minutes after its last turn",
        Text("expired: empty", style="red") if not ending.after else f"{ending.after} turns",
        Text(f"{ending.alive} turns", style="green"),
    )
    table.add_row("a sweep deletes", f"{ending.swept} thread", "nothing")
    table.add_row(
        "Ann writes in it again",
        f"[green]{ending.again.answer}[/green] ({', '.join(ending.again.places) or 'nowhere'})",
        "",
    )
    return Group(
        table,
        _note(
            "Nobody waited: the database's clock was moved on through "
            "saver.backend.offset_seconds, as tests do."
        ),
    )


def _note(text: str) -> RenderableType:
    return Text(text, style="dim")


def _or_dot(number: int) -> str:
    return str(number) if number else "\u00b7"


def _shortened(text: str, longest: int = 84) -> Text:
    lines = text.split("\n")
    return Text("\n".join(x if len(x) <= longest else x[: longest - 1] + "\u2026" for x in lines))
