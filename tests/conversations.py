"""Threads of every kind, made by real graphs on any saver, and what a graph says of them."""

import asyncio
import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from conftest import Face
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

THREADS = ("answered", "asked", "forked")


def joined(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*state, *(value for write in writes for value in write)]


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[str], operator.add]
    kept: Annotated[list[str], DeltaChannel(joined, list)]
    turns: int


class Inner(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def answer(state: State) -> Any:
    said = state["messages"][-1].text
    turns = state.get("turns", 0) + 1
    kept = [f"{turns}: {said}"]
    return {"messages": [AIMessage(f"{said}!" * 30, id=f"a{turns}")], "turns": turns, "kept": kept}


def spread(state: State) -> Any:
    return Command(goto=[Send("work", {"n": n}) for n in (2, 0, 1)], update={"log": ["spread"]})


def work(task: Any) -> Any:
    return {"log": [f"work {task['n']}"], "kept": [f"work {task['n']}"]}


def prepare(state: Inner) -> Any:
    return {"log": ["prepared"]}


def ask(state: Inner) -> Any:
    return {"log": [f"answer: {interrupt('Is that right?')}"]}


def make_graph(saver: Any) -> Any:
    """Messages, parallel sends, a subgraph that asks, and a channel rebuilt from writes."""
    inner = StateGraph(Inner)
    inner.add_node("prepare", prepare)
    inner.add_node("ask", ask)
    inner.add_edge(START, "prepare")
    inner.add_edge("prepare", "ask")
    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_node("spread", spread)
    graph.add_node("work", work)
    graph.add_node("inner", inner.compile())
    graph.add_edge(START, "answer")
    graph.add_edge("answer", "spread")
    graph.add_edge("work", "inner")
    graph.add_edge("inner", END)
    return graph.compile(checkpointer=saver)


async def call(graph: Any, method: str, *arguments: Any, is_async: bool, **keywords: Any) -> Any:
    """What a graph's method gives, or its async twin; a history as a list."""
    if not is_async:
        result = await asyncio.to_thread(getattr(graph, method), *arguments, **keywords)
        return list(result) if method == "get_state_history" else result
    result = getattr(graph, f"a{method}")(*arguments, **keywords)
    if method == "get_state_history":
        return [each async for each in result]
    return await result


def config_of(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


def said(text: str) -> Any:
    return {"messages": [HumanMessage(text, id=f"u-{text}")]}


async def fill(saver: Face) -> None:
    """Hold the conversations `THREADS`: one goes on, one waits for an answer, one has branches."""
    graph = Face(make_graph(saver.target), saver.is_async)
    for thread_id in THREADS:
        await graph("invoke", said("hello"), config_of(thread_id))
    for thread_id in ("answered", "forked"):
        await graph("invoke", Command(resume="yes"), config_of(thread_id))
    await graph("invoke", said("again"), config_of("answered"))
    history = await graph("get_state_history", config_of("forked"))
    before = next(state for state in history if state.next == ("spread",))
    fork = await graph("update_state", before.config, {"log": ["other"], "kept": ["other"]})
    await graph("invoke", None, fork)


async def told(saver: Face) -> dict[str, Any]:
    """All that a graph tells of each thread: every state of its history, and of its subgraphs."""
    graph = Face(make_graph(saver.target), saver.is_async)
    return {
        thread_id: [
            await graph("get_state_history", config_of(thread_id)),
            await graph("get_state", config_of(thread_id), subgraphs=True),
        ]
        for thread_id in THREADS
    }


async def gone_on(saver: Face) -> dict[str, Any]:
    """What each thread comes to when its question is answered and something new is said."""
    graph = Face(make_graph(saver.target), saver.is_async)
    ends = {}
    for thread_id in THREADS:
        await graph("invoke", Command(resume="indeed"), config_of(thread_id))
        await graph("invoke", said("more"), config_of(thread_id))
        ends[thread_id] = await graph("invoke", Command(resume="at last"), config_of(thread_id))
    return ends
