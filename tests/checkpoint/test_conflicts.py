"""Two runs on one thread: by default each goes on; where that is forbidden exactly one does."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from conftest import Database, Face
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from threads import Thread, new_checkpoint, next_id, place, values_of

from langgraph_sessionmem.errors import CheckpointDeleted, ConcurrentUpdate, InvalidArgument

RACER = """
import json, sys
from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.errors import ConcurrentUpdate
url, options, name = json.loads(sys.argv[1])
saver = SessionSaver.from_conn_string(url, on_conflict="error", **options)
found = saver.get_tuple({"configurable": {"thread_id": "t"}})
checkpoint = found.checkpoint
checkpoint["id"], checkpoint["channel_values"] = f"2{name}", {"winner": name, "list": [name] * 99}
checkpoint["channel_versions"] = versions = {"winner": f"2.{name}", "list": f"2.{name}"}
print("ready", flush=True)
sys.stdin.readline()
try:
    saver.put(found.config, checkpoint, {"step": 2}, versions)
    print("won")
except ConcurrentUpdate:
    print("lost")
saver.close()
"""


def strict(database: Database, face_name: str) -> Face:
    return Face(database.open_saver(on_conflict="error"), face_name == "async")


async def test_of_two_runs_on_one_thread_exactly_one_goes_on(
    database: Database, face_name: str
) -> None:
    one, two = (Thread(strict(database, face_name)) for _ in range(2))
    await one.put({"a": 1, "list": ["x" * 200]})
    await two.load()
    won = await one.put({"a": 2, "list": ["x" * 200, "one"]})
    await one.write([("a", 3)])
    before = await one.saver("list", place())
    for changed in ({"a": 9}, {"list": ["x" * 200, "two"]}):
        with pytest.raises(ConcurrentUpdate, match="not the latest any more"):
            await two.put(changed)
    assert await one.saver("list", place()) == before
    assert (await two.saver("get_tuple", place())).config == won
    assert await two.load() == {"a": 2, "list": ["x" * 200, "one"]}
    await two.put({"a": 4})
    with pytest.raises(ConcurrentUpdate):
        await one.put({"a": 5})
    assert await values_of(one.saver, place()) == {"a": 4, "list": ["x" * 200, "one"]}


async def test_a_first_checkpoint_on_a_thread_that_has_one_is_a_conflict_and_a_retry_is_none(
    database: Database, face_name: str
) -> None:
    saver = strict(database, face_name)
    versions = {"a": "1"}
    call = (place(), new_checkpoint(next_id(), {"a": 1}, versions), {}, versions)
    first = await saver("put", *call)
    assert await saver("put", *call) == first
    other = new_checkpoint(next_id(), {"a": 2}, versions)
    with pytest.raises(ConcurrentUpdate):
        await saver("put", place(), other, {}, versions)
    await Thread(saver, "t", "sub").put({"a": 3})
    await Thread(saver, "other").put({"a": 4})
    assert await values_of(saver, place()) == {"a": 1}


async def test_a_saver_that_may_fork_does_so_as_in_langgraph(
    database: Database, face_name: str
) -> None:
    savers = [Face(database.open_saver(), face_name == "async") for _ in range(2)]
    one, two = (Thread(saver) for saver in savers)
    await one.put({"list": ["x" * 200]})
    await two.load()
    branches = [
        await one.put({"list": ["x" * 200, "1"]}),
        await two.put({"list": ["x" * 200, "2"]}),
    ]
    for reader in savers:
        found = [await values_of(reader, branch) for branch in branches]
        assert found == [{"list": ["x" * 200, "1"]}, {"list": ["x" * 200, "2"]}]


def test_of_two_processes_on_one_thread_exactly_one_goes_on(database: Database) -> None:
    saver = database.open_saver()
    versions = {"winner": "1", "list": "1"}
    values = {"winner": "", "list": ["x" * 200]}
    saver.put(place(), new_checkpoint("1", values, versions), {}, versions)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, json.dumps([database.url, database.options, name])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    ends = [racer.communicate()[0].strip() for racer in racers]
    assert sorted(ends) == ["lost", "won"]
    winner = "ab"[ends.index("won")]
    found = saver.get_tuple(place()).checkpoint
    assert found["channel_values"] == {"winner": winner, "list": [winner] * 99}
    assert [each.checkpoint["id"] for each in saver.list(place())] == [f"2{winner}", "1"]


async def test_a_graph_goes_on_where_nobody_else_runs_and_the_slower_of_two_is_told(
    database: Database,
) -> None:
    saver = database.open_saver(on_conflict="error")
    passed: list[asyncio.Event] = []

    async def answer(state: MessagesState) -> Any:
        if passed:
            passed[0].set()
            await passed[1].wait()
        return {"messages": [AIMessage("yes " * 50)]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    compiled = graph.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}

    async def ask(text: str) -> None:
        await compiled.ainvoke({"messages": [("user", text)]}, config, durability="sync")

    for _ in range(3):
        await ask("well?")
    passed.extend([asyncio.Event(), asyncio.Event()])
    slower = asyncio.create_task(ask("slow"))
    await passed[0].wait()
    waiting, passed = passed, []
    await ask("fast")
    waiting[1].set()
    with pytest.raises(ConcurrentUpdate):
        await slower
    state = await compiled.aget_state(config)
    assert [message.text for message in state.values["messages"][6:]] == [
        "slow",
        "fast",
        "yes " * 50,
    ]


async def test_a_run_whose_checkpoint_was_deleted_meanwhile_is_told(
    database: Database, face_name: str
) -> None:
    saver = Face(database.open_saver(), face_name == "async")
    thread = Thread(saver)
    first = await thread.put({"a": 1, "list": ["x" * 200]}, metadata={"run_id": "r1"})
    await thread.put({"a": 2}, metadata={"run_id": "r2"})
    late = Thread(Face(database.open_saver(), saver.is_async))
    await late.load()
    await saver("delete_for_runs", ["r2"])
    before = await saver("list", place())
    for run in (thread, late):
        with pytest.raises(CheckpointDeleted, match="pruned or deleted") as refusal:
            await run.put({"list": ["x" * 200, "more"]}, metadata={"run_id": "r2"})
        assert refusal.value.thread_id == "t"
        assert refusal.value.checkpoint_id == late.config["configurable"]["checkpoint_id"]
    assert await saver("list", place()) == before
    assert [found.config for found in before] == [first]
    await thread.load()
    await thread.put({"a": 3})
    assert await values_of(saver, place()) == {"a": 3, "list": ["x" * 200]}


def test_a_conflict_is_met_by_forking_or_an_error_and_nothing_else(database: Database) -> None:
    with pytest.raises(InvalidArgument, match="on_conflict='wait'"):
        database.open_saver(on_conflict="wait")
