"""`sessionmem demo`: a support session that outgrows its window, its successor, and its end."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import typer

from langgraph_sessionmem import TTL, LongTermStore, SessionSaver
from langgraph_sessionmem.cli.agent import Agent, newest_only
from langgraph_sessionmem.cli.console import DatabaseOption, output, plain_errors
from langgraph_sessionmem.cli.scripted import DECISION, LOOKS, OPENING, ORDER, SMALL_TALK
from langgraph_sessionmem.cli.story import Ending, Story, tell

IDLE = timedelta(minutes=30)
FAILED = 1
"""The exit code when something that the demo promises didn't come true."""


def demo(
    database: DatabaseOption = None,
) -> None:
    """Watch an agent remember what has left its window. Needs no key and no network.

    A support session in which an order number and a decision are said early and slide out of the
    window; a second session that knows what the first one learnt; and a session that expires.
    """
    with plain_errors():
        started = time.perf_counter()
        with (
            _file(database) as path,
            SessionSaver(path, ttl=TTL(idle=IDLE)) as saver,
            LongTermStore(path) as store,
        ):
            story = _play(saver, store)
        kept = str(database) if database is not None else None
        held = tell(output(), story, kept, time.perf_counter() - started)
    if not held:
        raise typer.Exit(FAILED)


@contextmanager
def _file(database: Path | None) -> Iterator[Path]:
    if database is not None:
        yield database
        return
    with tempfile.TemporaryDirectory(prefix="sessionmem-") as folder:
        yield Path(folder, "demo.db")


def _play(saver: SessionSaver, store: LongTermStore) -> Story:
    run = os.urandom(3).hex()  # so that a database that is kept can be used again
    agent = Agent(saver, store)
    first, second, other = f"ann-1-{run}", f"ann-2-{run}", f"ben-1-{run}"
    ann, ben = f"ann-{run}", f"ben-{run}"

    said = [*(line for line, _ in (*OPENING, *SMALL_TALK)), *(look.question for look in LOOKS)]
    steps = [agent.say(line, first, ann) for line in said]
    ledger = agent.ledger(first)
    forgotten = newest_only(said)

    _move_clock(saver, minutes=20)
    learnt = [agent.say(look.question, second, ann) for look in (ORDER, DECISION)]
    stranger = agent.say(ORDER.question, other, ben)

    before = agent.said(first)
    _move_clock(saver, minutes=11)
    after, alive = agent.said(first), agent.said(second)
    swept = saver.sweep()
    again = agent.say(ORDER.question, first, ann)
    return Story(
        steps,
        ledger,
        [forgotten[look.question] for look in LOOKS],
        learnt,
        stranger,
        Ending(before, after, alive, swept, again),
    )


def _move_clock(saver: SessionSaver, *, minutes: int) -> None:
    saver.backend.offset_seconds += minutes * 60
