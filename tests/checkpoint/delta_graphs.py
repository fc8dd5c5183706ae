"""Graphs with the same list in a plain channel and in a delta channel, acted on at random.

Whatever happens to a thread, both channels must be equal in each of its checkpoints.
"""

import operator
import random
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from conversations import call
from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, StateGraph


def append(current: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*current, *(each for write in writes for each in write)]


def build(saver: Any, snapshot_frequency: int = 1000) -> Any:
    """Two nodes at once, then one; each adds the same to both channels."""

    class State(TypedDict, total=False):
        plain: Annotated[list[str], operator.add]
        delta: Annotated[list[str], DeltaChannel(append, snapshot_frequency=snapshot_frequency)]

    def node(name: str) -> Any:
        def run(state: State) -> Any:
            said = [f"{name}{len(state['plain'])}"]
            return {"plain": said, "delta": said}

        return run

    graph = StateGraph(State)
    for name in ("z", "a", "m"):
        graph.add_node(name, node(name))
    graph.add_edge(START, "z")
    graph.add_edge(START, "a")
    graph.add_edge("z", "m")
    graph.add_edge("a", "m")
    graph.add_edge("m", END)
    return graph.compile(checkpointer=saver)


def said(text: str) -> Any:
    """An input, or an update, of both channels."""
    return {"plain": [text], "delta": [text]}


class Chat:
    """A thread of such a graph.

    Args:
        saver: the checkpointer.
        thread_id: the thread.
        is_async: which methods of the graph to call.
        durability: when LangGraph waits for `put`.
        snapshot_frequency: of the delta channel.
    """

    def __init__(
        self,
        saver: Any,
        thread_id: str,
        is_async: bool,
        durability: str = "sync",
        snapshot_frequency: int = 1000,
    ) -> None:
        self.graph = build(saver, snapshot_frequency)
        self.thread_id, self.is_async, self.durability = thread_id, is_async, durability
        self.turn = 0

    def config(self, run_id: str | None = None) -> Any:
        found: Any = {"configurable": {"thread_id": self.thread_id}}
        return found | ({"metadata": {"run_id": run_id}} if run_id else {})

    async def call(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        return await call(self.graph, method, *arguments, is_async=self.is_async, **keywords)

    async def say(self, config: Any = None, run_id: str | None = None) -> Any:
        """Run with new input, from the latest checkpoint or the one that `config` names."""
        self.turn += 1
        at = self.config(run_id)
        if config is not None:
            at["configurable"] = config["configurable"]
        given = said(f"in {self.turn}")
        return await self.call("invoke", given, at, durability=self.durability)

    async def go_on(self, config: Any) -> Any:
        """Run again from a checkpoint."""
        return await self.call("invoke", None, config, durability=self.durability)

    async def update(self, config: Any = None, as_node: str = "m") -> Any:
        self.turn += 1
        change = None if as_node == "__copy__" else said(f"update {self.turn}")
        return await self.call("update_state", config or self.config(), change, as_node=as_node)

    async def values(self, config: Any = None) -> Any:
        return (await self.call("get_state", config or self.config())).values

    async def history(self) -> list[Any]:
        return await self.call("get_state_history", self.config())  # type: ignore[no-any-return]

    async def states(self) -> dict[str, list[str]]:
        """What the delta channel holds in each checkpoint, which is what the plain one holds."""
        found = {}
        for each in await self.history():
            name = each.config["configurable"]["checkpoint_id"]
            found[name] = each.values.get("delta", [])
            assert found[name] == each.values.get("plain", []), (name, each.metadata)
        return found

    async def act(self, dice: random.Random) -> str:
        """Something at random."""
        action = dice.choice(
            ["say", "say", "say", "fork", "update", "update old", "replay", "copy"]
        )
        # Before step -1 there is only where a first run with durability "exit" keeps its writes.
        olds = [each for each in await self.history() if each.metadata["step"] >= -1]
        old = dice.choice(olds).config if olds else None
        if old is None or action == "say":
            await self.say(run_id=f"run {dice.randrange(3)}")
        elif action == "fork":
            await self.say(old, run_id=f"run {dice.randrange(3)}")
        elif action == "update":
            await self.update()
        elif action == "update old":
            await self.update(old)
        elif action == "copy":
            await self.go_on(await self.update(old, "__copy__"))
        else:
            await self.go_on(old)
        return action
