"""Single calls, on long lists and among many checkpoints."""

import itertools
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6

from checkpointing.graphs import conversation, messages_of
from checkpointing.growth import Job, Usage, thread_config
from checkpointing.measuring import CPU_MICROSECONDS, Measure, Outcome, Steps, Stopwatch, timed

LONG_LIST = 2_000
"""From so many messages on, a raw call is repeated a third as often."""
LISTED = 10
TAGS = 10


class Chain:
    """Checkpoints of one thread, each put on the one before, as a run of a graph makes them.

    Args:
        saver: where they go.
        thread_id: of the thread.
        messages: the list to begin with.
    """

    def __init__(
        self, saver: BaseCheckpointSaver[Any], thread_id: str, messages: Sequence[AnyMessage] = ()
    ) -> None:
        self.saver, self.messages = saver, list(messages)
        self.config: RunnableConfig = thread_config(thread_id)
        self._version: Any = None
        self._step = 0

    def put(self, *added: AnyMessage, **metadata: Any) -> None:
        """Put a checkpoint with `added` at the end of the list."""
        self.messages = [*self.messages, *added]
        self._version = self.saver.get_next_version(self._version, None)  # type: ignore[arg-type]
        checkpoint: Checkpoint = {
            "v": 4,
            "id": str(uuid6(clock_seq=self._step)),
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": {"messages": self.messages},
            "channel_versions": {"messages": self._version},
            "versions_seen": {"answer": {"messages": self._version}},
            "updated_channels": ["messages"],
        }
        about: Any = {"source": "loop", "step": self._step, "parents": {}, **metadata}
        versions = {"messages": self._version}
        self.config = self.saver.put(self.config, checkpoint, about, versions)
        self._step += 1

    def follow(self, found: CheckpointTuple) -> None:
        """Go on from a checkpoint that was read."""
        self.config, self._version = found.config, found.checkpoint["channel_versions"]["messages"]
        self._step = found.metadata["step"] + 1

    @property
    def latest(self) -> RunnableConfig:
        """The thread, without a checkpoint id."""
        return thread_config(self.config["configurable"]["thread_id"])


def raw_calls(job: Job) -> Steps[Outcome]:
    """W2: one call at a time, on lists of each length."""
    outcome = Outcome()
    longest = max(job.scale.sizes)
    messages = messages_of(conversation(longest // 2 + 1))[:longest]
    with job.database.place() as place, job.contender.open(place) as saver:
        for size in job.scale.sizes:
            job.step(f"{size} messages")
            repetitions = job.scale.repetitions // (3 if size >= LONG_LIST else 1)
            chain = Chain(saver, f"raw-{size}", messages[:size])
            yield from _calls(outcome, chain, max(repetitions, 2))
    return outcome


def _calls(outcome: Outcome, chain: Chain, repetitions: int) -> Steps[None]:
    size, saver = len(chain.messages), chain.saver
    fresh = (AIMessage(f"one more {count}", id=f"more-{count}") for count in itertools.count())
    tasks = itertools.count()

    def put_writes() -> None:
        saver.put_writes(chain.config, [("messages", [next(fresh)])], f"task-{next(tasks)}")

    chain.put()
    laps = yield from timed(lambda: chain.put(next(fresh)), repetitions)
    outcome.add_laps(f"put, {size} messages", laps)
    laps = yield from timed(put_writes, repetitions)
    outcome.add_laps(f"put_writes, {size} messages", laps)
    laps = yield from timed(lambda: saver.get_tuple(chain.latest), repetitions)
    outcome.add_laps(f"get_tuple, {size} messages", laps)
    if size >= LONG_LIST:
        cpu = statistics.median(lap.cpu for lap in laps)
        per_message = Measure(f"get_tuple of {size}, per message", CPU_MICROSECONDS)
        outcome.values[per_message] = 1e6 * cpu / len(chain.messages)
    listing = partial(_listed, saver, chain.latest, limit=LISTED)
    laps = yield from timed(listing, max(2, repetitions // 3))
    outcome.add_laps(f"list of {LISTED}, {size} messages", laps)
    found = saver.get_tuple(chain.latest)
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == chain.messages
    assert len(found.pending_writes or ()) == repetitions + 1


def _listed(saver: BaseCheckpointSaver[Any], config: RunnableConfig, **which: Any) -> list[Any]:
    return list(saver.list(config, **which))


def many_checkpoints(job: Job) -> Steps[Outcome]:
    """W4: short reads among many checkpoints in many threads."""
    outcome, scale = Outcome(), job.scale
    messages = messages_of(conversation(10))
    per_thread = scale.checkpoints // scale.threads
    with job.database.place() as place, job.contender.open(place) as saver:
        assert saver.get_tuple(thread_config("none")) is None
        usage, watch = Usage(job.database, place, outcome), Stopwatch()
        chains = [Chain(saver, f"thread-{number}") for number in range(scale.threads)]
        for step in range(per_thread):
            yield
            job.step(f"checkpoint {step * scale.threads} of {scale.checkpoints}")
            place_of_message = step * len(messages) // per_thread
            added = messages[place_of_message : place_of_message + _adds(step, per_thread)]
            with usage.counted():
                for chain in chains:
                    with watch.lap():
                        chain.put(*added, tag=f"tag-{step % TAGS}")
        outcome.add_laps("put", watch.laps)
        usage.mark(f"{scale.checkpoints:,} checkpoints", scale.checkpoints)
        configs = itertools.cycle(chain.latest for chain in chains)
        tagged = {"filter": {"tag": "tag-3"}}
        reads: dict[str, Callable[[], Any]] = {
            "get_tuple": lambda: saver.get_tuple(next(configs)),
            f"list of {LISTED}": lambda: _listed(saver, next(configs), limit=LISTED),
            "list by a filter in a thread": lambda: _listed(saver, next(configs), **tagged),
        }
        for what, read in reads.items():
            laps = yield from timed(read, scale.repetitions)
            outcome.add_laps(what, laps)
        expected = sum(step % TAGS == 3 for step in range(per_thread))
        assert len(_listed(saver, chains[0].latest, **tagged)) == expected
        assert len(_listed(saver, chains[0].latest)) == per_thread
    return outcome


def _adds(step: int, steps: int) -> bool:
    """Whether this step adds one of the twenty messages, spread over all steps."""
    return step * 20 // steps != (step - 1) * 20 // steps
