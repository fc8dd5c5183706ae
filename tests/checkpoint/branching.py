"""A thread of delta channels that branches at random, and what every checkpoint's state must be."""

import random
from collections import Counter
from collections.abc import Iterable, Set
from typing import Any, NamedTuple

from conftest import Face
from langgraph.checkpoint.base import BaseCheckpointSaver
from threads import new_checkpoint, next_id, place

CHANNELS = ("a", "b")


class Node(NamedTuple):
    """A checkpoint of the model.

    Attributes:
        config: names it.
        parent_id: of the checkpoint it came from, or nothing.
        run_id: of the run that put it.
        states: each channel's whole list.
        versions: of the channels written so far.
        stored: the channels whose value stands in the checkpoint.
    """

    config: Any
    parent_id: str
    run_id: str
    states: dict[str, list[str]]
    versions: dict[str, str]
    stored: frozenset[str]

    @property
    def id(self) -> str:
        return str(self.config["configurable"]["checkpoint_id"])


class Tree:
    """A random tree of checkpoints, put as LangGraph puts them: a parent's writes, then the child.

    Args:
        saver: either face of it.
        thread_id: the thread.
        dice: decide everything.
        straight: it doesn't branch.

    Attributes:
        nodes: the checkpoints there are, in order.
        bereft: those that lost a child.
        children: how many each ever had.
    """

    def __init__(
        self, saver: Face, thread_id: str, dice: random.Random, *, straight: bool = False
    ) -> None:
        self.straight = straight
        self.saver, self.thread_id, self.dice = saver, thread_id, dice
        self.nodes: list[Node] = []
        self.bereft: set[str] = set()
        self.children: Counter[str] = Counter()
        self._writes = 0

    def lose(self, kept: Iterable[Node]) -> None:
        """Take note that the other nodes were deleted."""
        kept = list(kept)
        self.bereft |= {node.parent_id for node in self.nodes if node not in kept}
        self.nodes = kept

    def move(self, thread_id: str) -> None:
        """Go on in a copy of the thread."""
        self.thread_id = thread_id
        self.nodes = [node._replace(config=place(thread_id, "", node.id)) for node in self.nodes]

    async def grow(self) -> Node:
        """Put one more checkpoint: below the latest, or somewhere else in the tree."""
        dice = self.dice
        parent = None
        if self.nodes:
            last = self.straight or dice.random() < 0.7
            parent = self.nodes[-1] if last else dice.choice(self.nodes)
        # Of which sibling it is a copy isn't known afterwards, so let there be one only.
        alone = parent is not None and self.children[parent.parent_id] == 1
        if parent is not None and alone and not self.straight and dice.random() < 0.1:
            return await self._copy_of(parent)
        states = {name: list(parent.states[name]) if parent else [] for name in CHANNELS}
        versions = dict(parent.versions) if parent else {}
        written = [name for name in CHANNELS if dice.random() < 0.7] if parent else []
        for task in range(dice.randint(1, 2) if written else 0):
            writes = [(name, self._next_write()) for name in written]
            await self.saver(
                "put_writes", parent.config, writes, f"task {self._writes}", f"~{task}"
            )
            for name, value in writes:
                states[name].append(value)
        if not parent:
            written = list(CHANNELS)
        for name in written:
            versions[name] = self.saver.target.get_next_version(versions.get(name), None)
        stored = {name for name in written if dice.random() < 0.2}
        if parent is not None and parent.id in self.bereft:
            # Writes of a branch that was deleted are pending again; LangGraph sees them.
            found = await self.saver("get_tuple", parent.config)
            stored |= {channel for _, channel, _ in found.pending_writes}
        config = parent.config if parent else place(self.thread_id)
        return await self._put(config, states, versions, written, stored)

    async def _copy_of(self, node: Node) -> Node:
        """What `update_state(as_node="__copy__")` does: a sibling with the same state."""
        found = await self.saver("get_tuple", node.config)
        config = found.parent_config or place(self.thread_id)
        stored = frozenset(CHANNELS) & found.checkpoint["channel_values"].keys()
        return await self._put(config, node.states, node.versions, [], stored, source="fork")

    async def _put(
        self,
        config: Any,
        states: dict[str, list[str]],
        versions: dict[str, str],
        written: Iterable[str],
        stored: Set[str],
        source: str = "loop",
    ) -> Node:
        run_id = f"run {self.dice.randrange(4)}"
        values = {name: list(states[name]) for name in sorted(stored)}
        parent_id = config["configurable"].get("checkpoint_id", "")
        self.children[parent_id] += 1
        config = await self.saver(
            "put",
            config,
            new_checkpoint(next_id(), values | {"plain": [self._writes]}, versions | {"plain": 1}),
            {
                "source": source,
                "step": len(self.nodes),
                "parents": {},
                "run_id": run_id,
                "counters_since_delta_snapshot": {
                    name: (1, 1) for name in CHANNELS if name not in stored
                },
            },
            {name: versions[name] for name in written} | {"plain": 1},
        )
        node = Node(config, parent_id, run_id, states, versions, frozenset(stored))
        self.nodes.append(node)
        return node

    def _next_write(self) -> str:
        self._writes += 1
        return f"w{self._writes}"


async def native_state(saver: Face, config: Any) -> dict[str, list[str]]:
    """The channels of a checkpoint, by the saver's own history."""
    found = await saver("get_tuple", config)
    history = await saver("get_delta_channel_history", config=config, channels=CHANNELS)
    return folded(found, history)


async def walked_state(saver: Face, config: Any) -> dict[str, list[str]]:
    """The channels of a checkpoint, by the base class's walk from parent to parent."""
    found = await saver("get_tuple", config)
    target = saver.target
    if saver.is_async:
        walk = BaseCheckpointSaver.aget_delta_channel_history(
            target, config=config, channels=CHANNELS
        )
        return folded(found, await walk)
    history = BaseCheckpointSaver.get_delta_channel_history(
        target, config=config, channels=CHANNELS
    )
    return folded(found, history)


def folded(found: Any, history: Any) -> dict[str, list[str]]:
    values = found.checkpoint["channel_values"]
    return {
        name: list(values[name])
        if name in values
        else [*history[name].get("seed", []), *(value for _, _, value in history[name]["writes"])]
        for name in CHANNELS
    }
