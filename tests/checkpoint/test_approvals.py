"""An approval that comes in time resumes; one that comes after the limit runs nothing."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from conftest import Face, Pass
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from langgraph_sessionmem import TTL
from langgraph_sessionmem.errors import SessionExpired

EVERYWHERE: Any = {"configurable": {"thread_id": "t"}}
LIMITS = TTL(idle=timedelta(minutes=30), interrupted=timedelta(hours=2))


@pytest.fixture(params=["swept", "unswept"])
def upkeep(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class State(TypedDict, total=False):
    order: str
    answer: str


def build(saver: Face, ran: list[Any]) -> Any:
    def ask(state: State) -> State:
        ran.append(dict(state))
        return {"answer": interrupt("Pay for it?")}

    graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
    return graph.compile(checkpointer=saver.target)


async def invoke(graph: Any, face: Face, argument: Any) -> Any:
    if face.is_async:
        return await graph.ainvoke(argument, EVERYWHERE)
    return await asyncio.to_thread(graph.invoke, argument, EVERYWHERE)


async def test_an_approval_in_time_resumes(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver, ran = open_saver(ttl=LIMITS, on_expired="raise"), []
    graph = build(saver, ran)
    await invoke(graph, saver, {"order": "a boat"})
    await time_passes(saver, minutes=119)
    found = await invoke(graph, saver, Command(resume="yes"))
    assert found == {"order": "a boat", "answer": "yes"}


async def test_an_approval_that_comes_too_late_runs_nothing(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver, ran = open_saver(ttl=LIMITS, on_expired="raise"), []
    graph = build(saver, ran)
    await invoke(graph, saver, {"order": "a boat"})
    await time_passes(saver, minutes=121)
    for argument in (Command(resume="yes"), {"order": "a car"}, None):
        with pytest.raises(SessionExpired, match="'t'"):
            await invoke(graph, saver, argument)
    assert ran == [{"order": "a boat"}]
    for method in ("get_tuple", "list"):
        with pytest.raises(SessionExpired, match="delete_thread"):
            await saver(method, EVERYWHERE)
    assert await saver("list", None) == []
    assert await saver("threads") == []
    assert await saver("thread", "t") is None
    await time_passes(saver, days=20)
    with pytest.raises(SessionExpired):
        await invoke(graph, saver, Command(resume="yes"))
    await saver("delete_thread", "t")
    found = await invoke(graph, saver, {"order": "a car"})
    assert found["order"] == "a car"
    assert "__interrupt__" in found
    assert ran == [{"order": "a boat"}, {"order": "a car"}]


async def test_where_threads_restart_a_late_approval_approves_nothing(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver, ran = open_saver(ttl=LIMITS), []
    graph = build(saver, ran)
    await invoke(graph, saver, {"order": "a boat"})
    await time_passes(saver, minutes=121)
    # LangGraph takes it for the beginning of a new thread, and asks.
    found = await invoke(graph, saver, Command(resume="yes"))
    assert "__interrupt__" in found
    assert "answer" not in found
    assert "order" not in found
