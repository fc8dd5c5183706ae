"""Whole graphs end as they do with `InMemorySaver`, however late `put` and `put_writes` commit."""

import asyncio
import operator
import random
import time
from typing import Annotated, Any, TypedDict

import pytest
from conftest import Database
from conversations import call
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from langgraph_sessionmem import SessionSaver


class DelayedSaver(SessionSaver):
    """Commits late, each time by another few milliseconds."""

    seconds = 0.005

    def put(self, *arguments: Any) -> Any:
        time.sleep(random.random() * self.seconds)
        return super().put(*arguments)

    async def aput(self, *arguments: Any) -> Any:
        await asyncio.sleep(random.random() * self.seconds)
        return await super().aput(*arguments)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        time.sleep(random.random() * self.seconds)
        super().put_writes(config, writes, task_id, task_path)

    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.sleep(random.random() * self.seconds)
        await super().aput_writes(config, writes, task_id, task_path)


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    messages: Annotated[list[AnyMessage], add_messages]
    turn: int


class SubState(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    own: Annotated[list[str], operator.add]
    turn: int


def plain_node(name: str) -> Any:
    return lambda state: {"log": [f"{name}{state.get('turn')}"]}


def message_node(name: str) -> Any:
    def node(state: State) -> Any:
        text = f"{name} says {len(state['messages'])} " * 8
        return {"messages": [AIMessage(text, id=f"{name}-{state['turn']}")]}

    return node


def edit_node(name: str) -> Any:
    def node(state: State) -> Any:
        first = state["messages"][0]
        changed: list[Any] = [HumanMessage(f"{first.content}!", id=first.id)]
        if len(state["messages"]) > 4:
            changed.append(RemoveMessage(id=state["messages"][1].id or ""))
        return {"messages": changed, "log": [name]}

    return node


def asking_node(name: str) -> Any:
    def node(state: State) -> Any:
        first = interrupt(f"{name}?")
        second = interrupt(f"{name} really?") if first == "perhaps" else "-"
        return {"log": [f"{name}={first}{second}"]}

    return node


def sending_node(name: str) -> Any:
    def node(state: State) -> Any:
        sends = [Send("worker", {"n": n, "ask": n == 2 and name > "n1"}) for n in range(4)]
        return Command(goto=sends, update={"log": [name]})

    return node


def worker(task: Any) -> Any:
    answer = interrupt(f"worker {task['n']}?") if task["ask"] else ""
    return {"log": [f"worker {task['n']}{answer}"]}


def sub_node(name: str, *, keeps: bool, asks: bool) -> Any:
    """A subgraph of two steps, which remembers its own state from call to call if it `keeps` it."""
    graph = StateGraph(SubState)

    def first(state: SubState) -> Any:
        return {"own": [f"{name}{len(state.get('own', []))}"]}

    def second(state: SubState) -> Any:
        answer = interrupt(f"{name} inside?") if asks else ""
        return {"log": [f"{name}:{len(state.get('own', []))}{answer}"], "own": ["second"]}

    graph.add_node("first", first)
    graph.add_node("second", second)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    compiled = graph.compile(checkpointer=True if keeps else None)

    def node(state: State) -> Any:
        return {"log": compiled.invoke({"turn": state["turn"], "log": []})["log"]}

    async def anode(state: State) -> Any:
        return {"log": (await compiled.ainvoke({"turn": state["turn"], "log": []}))["log"]}

    return node, anode


KINDS = ["plain", "message", "message", "edit", "ask", "send", "sub", "sub keeps", "sub asks"]


def build(saver: Any, seed: int, is_async: bool) -> Any:
    """A small graph of layers, the same for the same seed."""
    dice = random.Random(seed)
    graph = StateGraph(State)
    graph.add_node("worker", worker)
    names = []
    before: list[str] = [START]
    for _ in range(dice.randint(2, 4)):
        layer = []
        for _ in range(dice.choice([1, 1, 2, 3])):
            name, kind = f"n{len(names)}", dice.choice(KINDS)
            node: Any = {
                "plain": plain_node,
                "message": message_node,
                "edit": edit_node,
                "ask": asking_node,
                "send": sending_node,
            }.get(kind, plain_node)(name)
            if kind.startswith("sub"):
                faces = sub_node(name, keeps="keeps" in kind, asks="asks" in kind)
                node = faces[is_async]
            graph.add_node(name, node)
            names.append(name)
            layer.append(name)
        for source in before:
            for name in layer:
                if source == START or dice.random() < 0.8 or name == layer[0]:
                    graph.add_edge(source, name)
        before = layer
    for name in before:
        graph.add_edge(name, END)
    stops = [dice.choice(names)] if dice.random() < 0.3 else None
    return graph.compile(checkpointer=saver, interrupt_before=stops)


def facts(snapshot: Any) -> Any:
    """What has to be the same of a state: all but ids and times."""
    metadata = snapshot.metadata or {}
    return (
        snapshot.values,
        snapshot.next,
        metadata.get("step"),
        metadata.get("source"),
        [
            (task.name, [each.value for each in task.interrupts], task.result)
            for task in snapshot.tasks
        ],
    )


class Session:
    """A compiled graph on one saver, driven blocking or async.

    Args:
        saver: the checkpointer.
        seed: makes the graph.
        is_async: which methods of the graph to call.
        durability: when LangGraph waits for `put`.
    """

    def __init__(self, saver: Any, seed: int, is_async: bool, durability: Any) -> None:
        self.graph, self.is_async = build(saver, seed, is_async), is_async
        self.durability = durability
        self.thread: Any = {"configurable": {"thread_id": f"graph {seed}"}}

    async def call(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        return await call(self.graph, method, *arguments, is_async=self.is_async, **keywords)

    async def history(self) -> list[Any]:
        return await self.call("get_state_history", self.thread)  # type: ignore[no-any-return]

    async def run(self, given: Any, config: Any = None) -> None:
        await self.call("invoke", given, config or self.thread, durability=self.durability)

    async def act(self, action: str, turn: int, dice: random.Random) -> None:
        """One action, which the same dice make the same."""
        state = await self.call("get_state", self.thread)
        if action == "resume" and state.interrupts:
            answer = dice.choice(["yes", "perhaps"])
            await self.run(Command(resume={each.id: answer for each in state.interrupts}))
        elif action == "resume" and state.next:
            await self.run(None)
        elif action == "update" and state.values:
            change = {
                "messages": [HumanMessage(f"update {turn}", id=f"u{turn}")],
                "log": ["updated"],
            }
            await self.call("update_state", self.thread, change, as_node="worker")
        elif action in ("replay", "fork") and state.values:
            history = await self.history()
            chosen = history[dice.randrange(len(history))].config
            if action == "fork":
                change = {"log": [f"fork {turn}"]}
                chosen = await self.call("update_state", chosen, change, as_node="worker")
            await self.run(None, chosen)
        else:
            question = HumanMessage(f"question {turn} " * 10, id=f"h{turn}")
            await self.run({"messages": [question], "turn": turn})

    async def end_of(self, action: str, turn: int, dice: random.Random) -> str:
        """How an action ended: well, or with an error of the graph's own."""
        try:
            await self.act(action, turn, dice)
        except ValueError as error:
            return f"{error}"
        return "well"

    async def facts(self) -> Any:
        """The state and its history, or why the graph can't make it of what is pending."""
        try:
            state = await self.call("get_state", self.thread)
            return facts(state), [facts(each) for each in await self.history()]
        except ValueError as error:
            return f"{error}"


ACTIONS = ["say", "say", "resume", "resume", "resume", "update", "replay", "fork"]


async def compare(database: Database, saver: Any, seed: int, is_async: bool) -> None:
    dice = random.Random(-seed)
    durability = dice.choice(["sync", "async", "async", "exit"])
    ours = Session(saver, seed, is_async, durability)
    theirs = Session(InMemorySaver(), seed, is_async, durability)
    actions = ["say", *(dice.choice(ACTIONS) for _ in range(4))]
    for turn, action in enumerate(actions):
        same = dice.randrange(10**6)
        ends = [
            await session.end_of(action, turn, random.Random(same)) for session in (ours, theirs)
        ]
        assert ends[0] == ends[1], (seed, actions[: turn + 1])
        context = f"seed {seed}, {durability}, {actions[: turn + 1]}"
        assert await ours.facts() == await theirs.facts(), context


def open_delayed(database: Database) -> Any:
    saver = DelayedSaver.from_conn_string(database.url, **database.options)
    return database.adopt(saver)


async def test_random_graphs_end_as_in_memory(database: Database, face_name: str) -> None:
    saver = open_delayed(database)
    for seed in random.Random().sample(range(10**6), 6):
        await compare(database, saver, seed, face_name == "async")


@pytest.mark.slow
async def test_many_random_graphs_end_as_in_memory(database: Database, face_name: str) -> None:
    saver = open_delayed(database)
    for seed in range(200):
        await compare(database, saver, seed, face_name == "async")


# Single cases


async def test_sends_come_in_their_order_after_a_resume(database: Database) -> None:
    def fan_out(state: State) -> Any:
        return [Send("task", n) for n in range(10)]

    def task(n: int) -> Any:
        answer = interrupt("5?") if n == 5 else ""
        return {"log": [f"{n}{answer}"]}

    graph = StateGraph(State).add_node("task", task)  # type: ignore[type-var]
    compiled = graph.add_conditional_edges(START, fan_out, ["task"]).compile(open_delayed(database))
    config: Any = {"configurable": {"thread_id": "t"}}
    await compiled.ainvoke({"log": []}, config)
    again = graph.compile(open_delayed(database))
    result = await again.ainvoke(Command(resume="!"), config)
    assert result["log"] == [f"{n}{'!' if n == 5 else ''}" for n in range(10)]


async def test_a_second_interrupt_does_not_see_the_first_answer(database: Database) -> None:
    graph = StateGraph(State).add_node("ask", asking_node("ask")).add_edge(START, "ask")
    config: Any = {"configurable": {"thread_id": "t"}}
    first = graph.compile(database.open_saver())
    paused = await first.ainvoke({"log": []}, config)
    assert [each.value for each in paused["__interrupt__"]] == ["ask?"]
    second = graph.compile(database.open_saver())
    paused = await second.ainvoke(Command(resume="perhaps"), config)
    assert [each.value for each in paused["__interrupt__"]] == ["ask really?"]
    third = graph.compile(database.open_saver())
    assert (await third.ainvoke(Command(resume="no"), config))["log"] == ["ask=perhapsno"]
    paused = await third.ainvoke({"log": []}, config)
    assert [each.value for each in paused["__interrupt__"]] == ["ask?"]


async def test_a_subgraph_that_keeps_its_state_replays_from_where_it_was_called(
    database: Database,
) -> None:
    saver = open_delayed(database)
    saver.seconds = 0.05
    lengths = []
    for checkpointer in (saver, InMemorySaver()):
        graph = StateGraph(State)
        graph.add_node("sub", sub_node("s", keeps=True, asks=False)[1])
        compiled = graph.add_edge(START, "sub").compile(checkpointer)
        config: Any = {"configurable": {"thread_id": "t"}}
        for turn in range(3):
            live = await compiled.ainvoke({"turn": turn, "log": []}, config)
        history = [state async for state in compiled.aget_state_history(config)]
        calls = [state for state in history if state.next == ("sub",)]
        replayed = await compiled.ainvoke(None, calls[0].config)
        assert replayed["log"] == live["log"]
        lengths.append(replayed["log"])
        lengths.append((await compiled.ainvoke(None, calls[1].config))["log"])
    assert lengths[:2] == lengths[2:]


async def test_a_channel_of_deltas_is_rebuilt(database: Database, face_name: str) -> None:
    class Deltas(TypedDict, total=False):
        items: Annotated[list[str], DeltaChannel(lambda old, new: sum(new, old or []), list)]
        n: int

    def node(state: Deltas) -> Any:
        return {"items": [f"node {len(state['items'])}"], "n": len(state["items"])}

    graph = StateGraph(Deltas).add_node("node", node).add_edge(START, "node")
    config: Any = {"configurable": {"thread_id": "t"}}
    found = []
    for open_one in (database.open_saver, InMemorySaver):
        saver = open_one()
        for turn in range(12):
            if turn == 6 and open_one is not InMemorySaver:
                saver = open_one()
            compiled = graph.compile(saver)
            given: Any = {"items": [f"given {turn}"]}
            if face_name == "async":
                await compiled.ainvoke(given, config)
            else:
                await asyncio.to_thread(compiled.invoke, given, config)
        history = [facts(state) for state in compiled.get_state_history(config)]
        found.append(history)
    assert found[0] == found[1]
    assert len(found[0][0][0]["items"]) == 24
