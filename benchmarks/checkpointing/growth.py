"""Threads that grow turn by turn: a chat, a chat on a DeltaChannel, a tool agent, other lists."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph

from checkpointing.databases import Database, Place
from checkpointing.graphs import (
    AGENT_MESSAGES,
    LIST_ITEMS,
    Said,
    agent_graph,
    chat_graph,
    conversation,
    delta_graph,
    lists_graph,
)
from checkpointing.measuring import (
    BLOCK,
    BYTES,
    CPU,
    CPU_SECONDS,
    SECONDS,
    SERVER_CPU_SECONDS,
    WALL,
    Lap,
    Measure,
    Outcome,
    Scale,
    Steps,
    Stopwatch,
    timed,
)
from checkpointing.savers import Contender

CHAT_MILESTONES = (10, 100, 500, 1_000)
OTHER_MILESTONES = (10, 50, 100, 200, 300, 500)
MANUAL_CHARACTERS = 300_000

Step = Callable[[str], None]
"""Called as work goes on, with what is being done."""


class Job(NamedTuple):
    """One saver on one workload."""

    contender: Contender
    database: Database
    scale: Scale
    step: Step


class Growth(NamedTuple):
    """A thread that grows.

    Attributes:
        graph: what runs, from what is said.
        turns: how many.
        say: the input of a turn, counted from 0.
        count: how many elements the state has, and how many it must have after `turns`.
    """

    graph: StateGraph[Any, Any, Any]
    turns: int
    say: Callable[[int], dict[str, Any]]
    count: Callable[[dict[str, Any]], int]
    expected: Callable[[int], int]
    milestones: tuple[int, ...]


def chat(job: Job) -> Steps[Outcome]:
    """W1: one node answers 200 characters with 600, for as long as the scale says."""
    said = conversation(job.scale.turns)
    return _grow(job, _chat(chat_graph(said), said, CHAT_MILESTONES))


def delta(job: Job) -> Steps[Outcome]:
    """W6: the same on a `DeltaChannel` with a snapshot at every 100th update."""
    said = conversation(job.scale.delta_turns)
    return _grow(job, _chat(delta_graph(said), said, OTHER_MILESTONES))


def agent(job: Job) -> Steps[Outcome]:
    """W3: five channels, two tool calls at once, eight checkpoints a turn."""
    said = conversation(job.scale.agent_turns)
    growth = Growth(
        agent_graph(said),
        len(said),
        lambda turn: {"messages": [HumanMessage(said[turn].human)]},
        lambda state: len(state["messages"]),
        lambda turns: turns * AGENT_MESSAGES,
        OTHER_MILESTONES,
    )
    return _grow(job, growth)


def dicts(job: Job) -> Steps[Outcome]:
    """W7: a list of plain dictionaries that grows."""
    return _lists(job, "rows")


def documents(job: Job) -> Steps[Outcome]:
    """W7: a list of LangChain documents that grows."""
    return _lists(job, "documents")


def unchanging(job: Job) -> Steps[Outcome]:
    """W7: a text of 300,000 characters that is given once, and small steps beside it."""
    said = conversation(job.scale.list_turns)
    manual = "".join(turn.ai for turn in conversation(MANUAL_CHARACTERS // 600, seed=1))
    growth = Growth(
        lists_graph(said, "manual"),
        len(said),
        lambda turn: {"rows": [{"turn": turn}], **({} if turn else {"manual": manual})},
        lambda state: len(state["rows"]) if state["manual"] == manual else -1,
        lambda turns: 2 * turns,
        OTHER_MILESTONES,
    )
    return _grow(job, growth)


def _lists(job: Job, channel: str) -> Steps[Outcome]:
    said = conversation(job.scale.list_turns)
    growth = Growth(
        lists_graph(said, channel),
        len(said),
        lambda turn: {channel: [], "manual": "short"},
        lambda state: len(state[channel]),
        lambda turns: turns * LIST_ITEMS,
        OTHER_MILESTONES,
    )
    return _grow(job, growth)


def _chat(
    graph: StateGraph[Any, Any, Any], said: Sequence[Said], milestones: tuple[int, ...]
) -> Growth:
    return Growth(
        graph,
        len(said),
        lambda turn: {"messages": [HumanMessage(said[turn].human)]},
        lambda state: len(state["messages"]),
        lambda turns: 2 * turns,
        milestones,
    )


def _grow(job: Job, growth: Growth) -> Steps[Outcome]:
    outcome, config = Outcome(), thread_config("growing")
    milestones = sorted({turn for turn in growth.milestones if turn < growth.turns})
    milestones.append(growth.turns)
    with job.database.place() as place, job.contender.open(place) as saver:
        app = growth.graph.compile(checkpointer=saver)
        assert saver.get_tuple(config) is None  # makes the schema, which is not what we measure
        usage, watch, reached = Usage(job.database, place, outcome), Stopwatch(), 0
        while reached < growth.turns and watch.wall < job.scale.cap_seconds:
            yield
            job.step(f"turn {reached} of {growth.turns}")
            with usage.counted():
                for turn in range(reached, min(reached + BLOCK, growth.turns)):
                    said = growth.say(turn)
                    with watch.lap():
                        app.invoke(said, config)
            reached = len(watch.laps)
            if reached in milestones:
                usage.mark(f"turn {reached}", reached)
        whole = reached == growth.turns
        if not whole:
            outcome.notes.append(f"{job.contender.name}: time cap at turn {reached}.")
        for turn in milestones:
            _add_turn(outcome, watch.laps, turn, reached)
        _add_total(outcome, watch, usage, whole=whole)
        found = growth.count(app.get_state(config).values)
        assert found == growth.expected(reached), (job.contender.name, found, reached)
        if whole:
            laps = yield from timed(partial(saver.get_tuple, config))
            outcome.add_laps("get_tuple after all turns", laps)
    return outcome


def _add_total(outcome: Outcome, watch: Stopwatch, usage: "Usage", *, whole: bool) -> None:
    totals = {CPU_SECONDS: watch.cpu, SECONDS: watch.wall, SERVER_CPU_SECONDS: usage.server_seconds}
    for unit, total in totals.items():
        if total is not None:
            outcome.values[Measure("all turns", unit)] = total if whole else None
    for unit, pick in ((CPU, 1), (WALL, 0)):
        points = [(place + 1.0, 1e3 * lap[pick]) for place, lap in enumerate(watch.laps)]
        outcome.series[Measure("turn", unit)] = points


def _add_turn(outcome: Outcome, laps: Sequence[Lap], turn: int, reached: int) -> None:
    """The median of the turns up to `turn`: the last 5, or a twentieth where that is more."""
    if turn <= reached:
        outcome.add_laps(f"turn {turn}", laps[turn - min(turn, max(5, turn // 20)) : turn])
    else:
        outcome.add_missing(f"turn {turn}")


class Usage:
    """What a saver used of its database while it had its turns.

    Attributes:
        written: bytes; `None`: nobody counts them.
        server_seconds: CPU of the server; `None`: it isn't ours to look into.
    """

    def __init__(self, database: Database, place: Place, outcome: Outcome) -> None:
        self._database, self._place, self._outcome = database, place, outcome
        self.written = None if place.written() is None else 0
        self.server_seconds = None if database.server_seconds() is None else 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what happens inside."""
        written, server = self._place.written(), self._database.server_seconds()
        yield
        if self.written is not None:
            self.written += (self._place.written() or 0) - (written or 0)
        if self.server_seconds is not None:
            self.server_seconds += (self._database.server_seconds() or 0) - (server or 0)

    def mark(self, what: str, x: float) -> None:
        """Note what was written, and is stored, by now."""
        if self.written is not None:
            self._note(f"written by {what}", "written", x, self.written)
        stored = self._place.stored()
        if stored is not None:
            self._note(f"stored at {what}", "stored", x, stored)

    def _note(self, what: str, kind: str, x: float, value: float) -> None:
        self._outcome.values[Measure(what, BYTES)] = value
        self._outcome.series.setdefault(Measure(kind, BYTES), []).append((x, value))


def thread_config(thread_id: str) -> RunnableConfig:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
