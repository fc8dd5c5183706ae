"""Threads that older versions of LangGraph, or other savers, began go on here."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest
from conftest import Face
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send
from threads import new_checkpoint, next_id, place

TASKS = "__pregel_tasks"

ONE_FACE = pytest.mark.parametrize("face_name", ["async"])


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def build(saver: Any) -> Any:
    graph = StateGraph(State)

    def plan(state: State) -> Any:
        return Command(
            goto=[Send("work", number) for number in (3, 1, 2)], update={"log": ["plan"]}
        )

    graph.add_node("plan", plan, destinations=("work",))
    graph.add_node("work", lambda number: {"log": [f"work {number}"]})
    graph.add_edge(START, "plan")
    return graph.compile(checkpointer=saver)


async def call(saver: Face, graph: Any, method: str, *arguments: Any) -> Any:
    if saver.is_async:
        return await getattr(graph, f"a{method}")(*arguments)
    return await asyncio.to_thread(getattr(graph, method), *arguments)


async def begin_as_old(saver: Face, thread_id: str, *, within: bool) -> None:
    """A run that stopped before its sends ran, as LangGraph stored it before v4.

    Args:
        saver: takes it.
        thread_id: the thread.
        within: the sends stand in the checkpoint itself, otherwise among its parent's writes only.
    """
    memory = InMemorySaver()
    graph = build(memory)
    graph.invoke({"log": ["given"]}, place(thread_id))
    for found in reversed(list(memory.list(place(thread_id)))):
        checkpoint: Any = {**found.checkpoint, "v": 3}
        values = dict(checkpoint["channel_values"])
        sends = values.pop(TASKS, None)
        checkpoint["channel_values"] = values
        versions = dict(checkpoint["channel_versions"])
        versions.pop(TASKS, None)
        checkpoint["channel_versions"] = versions
        if sends and within:
            checkpoint["pending_sends"] = sends
        parent = found.parent_config or place(thread_id)
        config = await saver("put", parent, checkpoint, found.metadata, versions)
        if sends:
            return
        for task_id in {task_id for task_id, _, _ in found.pending_writes or ()}:
            writes = [each[1:] for each in found.pending_writes or () if each[0] == task_id]
            kept = [write for write in writes if not (within and write[0] == TASKS)]
            await saver("put_writes", config, kept, task_id, "~__pregel_pull, plan")


@pytest.mark.parametrize("within", [True, False])
async def test_sends_from_before_v4_are_done(saver: Face, within: bool) -> None:
    await begin_as_old(saver, "t", within=within)
    state = await call(saver, build(saver.target), "get_state", place())
    assert state.next == ("work", "work", "work")
    result = await call(saver, build(saver.target), "invoke", None, place())
    assert result == {"log": ["given", "plan", "work 3", "work 1", "work 2"]}


@ONE_FACE
async def test_sends_from_before_v4_are_listed_and_survive_a_cut(saver: Face) -> None:
    for thread_id in ("a", "b"):
        await begin_as_old(saver, thread_id, within=False)
    sends = [Send("work", number) for number in (3, 1, 2)]
    found = await saver("list", None)
    assert [each.checkpoint["channel_values"].get(TASKS) for each in found].count(sends) == 2
    latest = found[0].checkpoint["channel_versions"]
    assert latest[TASKS] == max(latest.values())
    await saver("prune", ["a"])
    [left] = await saver("list", place("a"))
    assert left.checkpoint["channel_values"][TASKS] == sends
    result = await call(saver, build(saver.target), "invoke", None, place("a"))
    assert result == {"log": ["given", "plan", "work 3", "work 1", "work 2"]}


@pytest.mark.parametrize(
    ("version", "following"), [(7, 8), (7.0, 8.0), (f"{7:032}.5", f"{8:032}."), ("7", f"{8:032}.")]
)
@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_versions_go_on_in_their_type(saver: Face, version: Any, following: Any) -> None:
    config = place("t")
    checkpoint = new_checkpoint(next_id(), {"n": 1}, {"n": version})
    await saver("put", config, checkpoint, {}, {"n": version})
    stored = (await saver("get_tuple", config)).checkpoint["channel_versions"]["n"]
    assert (stored, type(stored)) == (version, type(version))
    found: Any = saver.target.get_next_version(stored, None)
    assert type(found) is type(version)
    assert found.startswith(following) if isinstance(found, str) else found == following


@ONE_FACE
@pytest.mark.parametrize("official", [1, "text"])
async def test_a_thread_goes_on_with_the_versions_it_has(saver: Face, official: Any) -> None:
    class Numbers(InMemorySaver):
        def get_next_version(self, current: Any, channel: None) -> Any:
            return (current or 0) + 1

    theirs = InMemorySaver() if official == "text" else Numbers()
    build(theirs).invoke({"log": ["given"]}, place("t"))
    for found in reversed(list(theirs.list(place("t")))):
        parent = found.parent_config or place("t")
        versions = found.checkpoint["channel_versions"]
        await saver("put", parent, found.checkpoint, found.metadata, versions)
    result = await call(saver, build(saver.target), "invoke", {"log": ["more"]}, place("t"))
    assert result["log"][5:] == ["more", "plan", "work 3", "work 1", "work 2"]
    [latest] = await saver("list", place("t"), limit=1)
    kinds = {type(each) for each in latest.checkpoint["channel_versions"].values()}
    assert kinds == {str if official == "text" else int}
