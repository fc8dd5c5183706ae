"""What a run is asked for and what it answers: scales, laps by two clocks, medians of runs."""

import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

CPU = "CPU ms"
"""Of this process, all threads; it excludes a server's, and repeats well on a busy machine."""
CPU_SECONDS = "CPU s"
CPU_MICROSECONDS = "CPU µs"
SERVER_CPU_SECONDS = "server CPU s"
WALL = "wall ms"
SECONDS = "wall s"
RATE = "per s"
BYTES = "bytes"
TIMES = "times"
UNITS = (CPU, CPU_MICROSECONDS, CPU_SECONDS, SERVER_CPU_SECONDS, WALL, SECONDS, RATE, TIMES, BYTES)
"""In the order of the tables: the CPU first, since wall time is noisy where others compute too."""


BLOCK = 5
"""Calls or turns of one saver in a row, before the others have theirs."""


class Scale(NamedTuple):
    """How much of each workload to do.

    Attributes:
        turns: of a chat; milestones beyond it are left out.
        cap_seconds: a growing thread that is slower stops here, and says so.
        sizes: messages in the list, for the raw calls.
        repetitions: of a raw call, at most.
        agent_turns, delta_turns, list_turns: turns of those workloads.
        threads, checkpoints: for reading among many checkpoints.
        conversations, conversation_turns: at once.
        small_threads: how many threads to fill in, all in all.
        expired_threads: how many of them expire.
        probes: calls whose median counts, among the small threads.
    """

    turns: int
    cap_seconds: float
    sizes: tuple[int, ...]
    repetitions: int
    agent_turns: int
    delta_turns: int
    list_turns: int
    threads: int
    checkpoints: int
    conversations: int
    conversation_turns: int
    small_threads: int
    expired_threads: int
    probes: int


FULL = Scale(
    turns=1_000,
    cap_seconds=180,
    sizes=(10, 100, 1_000, 2_000, 10_000),
    repetitions=30,
    agent_turns=100,
    delta_turns=300,
    list_turns=100,
    threads=100,
    checkpoints=10_000,
    conversations=32,
    conversation_turns=20,
    small_threads=1_000_000,
    expired_threads=100_000,
    probes=400,
)
QUICK = Scale(
    turns=60,
    cap_seconds=10,
    sizes=(10, 100, 1_000),
    repetitions=8,
    agent_turns=8,
    delta_turns=40,
    list_turns=15,
    threads=10,
    checkpoints=200,
    conversations=8,
    conversation_turns=4,
    small_threads=3_000,
    expired_threads=500,
    probes=100,
)
SMOKE = Scale(
    turns=3,
    cap_seconds=10,
    sizes=(4,),
    repetitions=2,
    agent_turns=1,
    delta_turns=2,
    list_turns=2,
    threads=2,
    checkpoints=6,
    conversations=2,
    conversation_turns=1,
    small_threads=60,
    expired_threads=20,
    probes=5,
)


class Measure(NamedTuple):
    """What was measured, and its unit, one of `UNITS`."""

    what: str
    unit: str


class Lap(NamedTuple):
    """One call or turn, in seconds.

    Attributes:
        wall: elapsed.
        cpu: used by this process, all threads.
    """

    wall: float
    cpu: float


@dataclass
class Outcome:
    """What one saver made of one workload, once.

    Attributes:
        values: `None`: not reached, or not measurable here.
        series: points `(x, y)` for the plots.
        notes: sentences for the reader.
    """

    values: dict[Measure, float | None] = field(default_factory=dict)
    series: dict[Measure, list[tuple[float, float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add_laps(self, what: str, laps: Iterable[Lap]) -> None:
        """Median wall and CPU time of `laps` in ms; nothing for no laps."""
        laps = list(laps)
        if laps:
            self.values[Measure(what, CPU)] = 1e3 * statistics.median(lap.cpu for lap in laps)
            self.values[Measure(what, WALL)] = 1e3 * statistics.median(lap.wall for lap in laps)

    def add_missing(self, what: str) -> None:
        """Say that `what` was not reached."""
        self.values |= {Measure(what, CPU): None, Measure(what, WALL): None}


class Stopwatch:
    """Laps by two clocks.

    Attributes:
        laps: those taken so far.
        wall, cpu: their sums, in seconds.
    """

    def __init__(self) -> None:
        self.laps: list[Lap] = []
        self.wall = self.cpu = 0.0

    @contextmanager
    def lap(self) -> Iterator[None]:
        """Measure what happens inside."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        lap = Lap(time.perf_counter() - wall, time.process_time() - cpu)
        self.laps.append(lap)
        self.wall, self.cpu = self.wall + lap.wall, self.cpu + lap.cpu


Steps: TypeAlias = Generator[None, None, T]
"""A workload under way; it yields where other savers may have their turn."""


def timed(call: Callable[[], object], repetitions: int = 10) -> Steps[list[Lap]]:
    """Laps of `call`, after one that doesn't count."""
    call()
    watch = Stopwatch()
    for count in range(repetitions):
        if count % BLOCK == 0:
            yield
        with watch.lap():
            call()
    return watch.laps


def take_turns(workloads: Mapping[str, Steps[Outcome]]) -> dict[str, Outcome]:
    """Finish all of them, a step of each at a time, so that a busy minute hits all alike."""
    waiting, outcomes = dict(workloads), {}
    try:
        while waiting:
            for name, workload in list(waiting.items()):
                try:
                    next(workload)
                except StopIteration as finished:
                    outcomes[name] = finished.value
                    del waiting[name]
    finally:
        for workload in waiting.values():
            workload.close()
    return {name: outcomes[name] for name in workloads}


def median_outcome(outcomes: list[Outcome]) -> Outcome:
    """The median of each value over runs; series are those of the last run."""
    values: dict[Measure, float | None] = {}
    for measure in dict.fromkeys(key for outcome in outcomes for key in outcome.values):
        found = [outcome.values.get(measure) for outcome in outcomes]
        reached = [value for value in found if value is not None]
        values[measure] = statistics.median(reached) if reached else None
    notes = list(dict.fromkeys(note for outcome in outcomes for note in outcome.notes))
    return Outcome(values, outcomes[-1].series, notes)
