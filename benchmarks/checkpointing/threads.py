"""Many small threads: short calls among them, and a sweep while a writer goes on."""

import contextlib
import random
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage

from checkpointing.databases import Place
from checkpointing.filling import can_copy, copy_threads
from checkpointing.graphs import conversation, messages_of
from checkpointing.growth import Job, thread_config
from checkpointing.measuring import (
    CPU,
    RATE,
    SECONDS,
    TIMES,
    WALL,
    Measure,
    Outcome,
    Steps,
    Stopwatch,
)
from checkpointing.raw import Chain

FIRST = 1_000
"""As many are made by the saver before anything is measured."""
SHORT = timedelta(hours=24)
TO_EXPIRE = timedelta(hours=25)
PROBED = ("get_tuple", "put", "put of a new thread")


def small_threads(job: Job) -> Steps[Outcome]:
    """W8: each thread has one checkpoint with two messages; a share of them expires."""
    yield
    outcome, scale = Outcome(), job.scale
    first = min(FIRST, scale.small_threads // 2)
    short_lived = first * scale.expired_threads // scale.small_threads
    copies = scale.small_threads // first - 1
    with job.database.place() as few, job.database.place() as many:
        for place in (few, many):
            _fill(job, place, first, short_lived)
        started = time.perf_counter()
        outcome.notes.append(_multiply(job, many, first, short_lived, copies))
        filled = time.perf_counter() - started
        outcome.values[Measure(f"filling in {copies * first:,} threads", SECONDS)] = filled
        numbers = range(short_lived, first)
        _probe(outcome, job, [Crowd(few, numbers, 0), Crowd(many, numbers, copies)])
        _sweep(outcome, job, many, short_lived * (copies + 1))
    _add_growth(outcome, first, first * (copies + 1))
    return outcome


def _add_growth(outcome: Outcome, few: int, many: int) -> None:
    """How much dearer each call is among many threads than among few."""
    for what in PROBED:
        for unit in (CPU, WALL):
            before = outcome.values[Measure(f"{what}, {few:,} threads", unit)]
            after = outcome.values[Measure(f"{what}, {many:,} threads", unit)]
            assert before
            assert after
            name = f"{what}, {many:,} ÷ {few:,} threads, {unit.split()[0]}"
            outcome.values[Measure(name, TIMES)] = after / before


def _multiply(job: Job, place: Place, first: int, short_lived: int, copies: int) -> str:
    """Make `copies` times as many threads more; how, in a sentence."""
    if can_copy(place):
        copy_threads(place, copies, lambda count: job.step(f"copy {count} of {copies}"))
        return (
            f"{first:,} threads were made by put; the others are copies of their rows, made "
            "inside the database."
        )
    for copy in range(1, copies + 1):
        _fill(job, place, first, short_lived, f"{copy}:")
    return "All threads were made by put."


def _fill(job: Job, place: Place, count: int, short_lived: int, prefix: str = "") -> None:
    """Make threads `0` to `count - 1`; the first `short_lived` of them expire."""
    said = conversation(count)
    with job.contender.open(place) as saver:
        for number, turn in enumerate(said):
            chain = Chain(saver, f"{prefix}{number}", messages_of([turn]))
            if number < short_lived:
                chain.config["configurable"]["session_ttl"] = SHORT
            chain.put()
            job.step(f"thread {prefix}{number}")


class Crowd(NamedTuple):
    """Threads that stay.

    Attributes:
        numbers: the names of those that were made first.
        copies: how often there are more.
    """

    place: Place
    numbers: range
    copies: int

    def draw(self, count: int) -> list[str]:
        """Names of different threads, by chance."""
        chance = random.Random(self.copies)
        drawn = chance.sample(range(len(self.numbers) * (self.copies + 1)), count)
        pairs = (divmod(place, len(self.numbers)) for place in drawn)
        return [
            f"{copy}:{self.numbers[at]}" if copy else f"{self.numbers[at]}" for copy, at in pairs
        ]

    @property
    def label(self) -> str:
        """How many threads there are, with those that expire."""
        return f"{self.numbers.stop * (self.copies + 1):,} threads"


def _probe(outcome: Outcome, job: Job, crowds: Sequence[Crowd]) -> None:
    """Calls on threads that the saver has not seen; the crowds take turns, so load hits both."""
    job.step("probing")
    watches = [{what: Stopwatch() for what in PROBED} for _ in crowds]
    with contextlib.ExitStack() as closing:
        savers = [closing.enter_context(job.contender.open(crowd.place)) for crowd in crowds]
        count = min(job.scale.probes, len(crowds[0].numbers) // 2)
        names = [crowd.draw(count) for crowd in crowds]
        for saver in savers:
            assert saver.get_tuple(thread_config("none")) is None
        for probe in range(count):
            for saver, drawn, watch in zip(savers, names, watches, strict=True):
                _probe_thread(saver, drawn[probe], watch)
    for crowd, watch in zip(crowds, watches, strict=True):
        for what, stopwatch in watch.items():
            outcome.add_laps(f"{what}, {crowd.label}", stopwatch.laps)


def _probe_thread(saver: Any, name: str, watches: Mapping[str, Stopwatch]) -> None:
    with watches["get_tuple"].lap():
        found = saver.get_tuple(thread_config(name))
    chain = Chain(saver, name, found.checkpoint["channel_values"]["messages"])
    chain.follow(found)
    assert len(chain.messages) == 2
    with watches["put"].lap():
        chain.put(AIMessage("one more", id="more"))
    new = Chain(saver, f"new-{name}", chain.messages)
    with watches["put of a new thread"].lap():
        new.put()


def _sweep(outcome: Outcome, job: Job, place: Place, expired: int) -> None:
    """Delete all that expired, while another connection puts checkpoints."""
    with job.contender.open(place) as sweeper, job.contender.open(place) as writing:
        for saver in (sweeper, writing):
            saver.get_tuple(thread_config("none"))
            saver.backend.offset_seconds = TO_EXPIRE.total_seconds()
        timed = TimedBackend(sweeper.backend)
        sweeper.backend = timed
        writer = Writer(Chain(writing, "writer", messages_of(conversation(1))))
        writer.put_for(job.scale.probes)
        outcome.add_laps("put before the sweep", writer.watch.laps)
        writer.watch = Stopwatch()
        job.step("sweeping")
        with writer, (watch := Stopwatch()).lap():
            swept = sweeper.sweep()
        assert swept == expired, (swept, expired)
        assert sweeper.sweep() == 0
        assert sum(1 for _ in writing.list(writer.chain.latest)) == writer.puts
    outcome.values[Measure(f"sweeping {expired:,} expired threads", SECONDS)] = watch.wall
    outcome.values[Measure("threads swept", RATE)] = expired / watch.wall
    for what, laps in (("batch", timed.watch.laps), ("put during the sweep", writer.watch.laps)):
        # The CPU of the process is both threads', so only the wall clock tells.
        walls = [1e3 * lap.wall for lap in laps] or [0.0]
        outcome.values[Measure(f"{what}, median", WALL)] = statistics.median(walls)
        outcome.values[Measure(f"{what}, longest", WALL)] = max(walls)


class TimedBackend:
    """A backend of which each blocking operation is a lap.

    Attributes:
        watch: holds the laps.
    """

    def __init__(self, backend: Any) -> None:
        self._backend, self.watch = backend, Stopwatch()

    def run(self, operation: Any) -> Any:
        """As the backend does."""
        with self.watch.lap():
            return self._backend.run(operation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class Writer:
    """Puts checkpoints in a thread of its own, as long as it is entered.

    Attributes:
        chain: where they go.
        watch: holds a lap for each.
        puts: how many there were.
    """

    def __init__(self, chain: Chain) -> None:
        self.chain, self.watch, self.puts = chain, Stopwatch(), 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._failure: BaseException | None = None

    def put_for(self, times: int) -> None:
        """Put `times` checkpoints, in this thread."""
        for _ in range(times):
            with self.watch.lap():
                self.chain.put()
            self.puts += 1

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure:
            raise self._failure

    def _write(self) -> None:
        try:
            while not self._stop.is_set():
                self.put_for(1)
        except BaseException as error:  # noqa: BLE001  it is raised where the thread is joined
            self._failure = error
