"""Deleting runs takes their checkpoints out of every thread, and nothing else."""

from typing import Any

import pytest
from conftest import Database, Face
from delta_graphs import Chat
from threads import Thread, place, remains, values_of

from langgraph_sessionmem.errors import CheckpointDeleted, InvalidArgument, ThreadDeleted

ONE_FACE = pytest.mark.parametrize("face_name", ["async"])


async def runs_of(saver: Face, thread_id: str, namespace: str = "") -> list[Any]:
    found = await saver("list", place(thread_id, namespace))
    return [each.metadata.get("run_id") for each in found]


async def test_the_checkpoint_before_a_run_is_the_latest_again(saver: Face) -> None:
    thread = Thread(saver)
    for number, run_id in enumerate(["one", "one", "two", "two"]):
        values = [f"message {n} " * 20 for n in range(number + 1)]
        await thread.put({"messages": values}, metadata={"run_id": run_id})
        await thread.write([("messages", "next")])
    await saver("delete_for_runs", ["two"])
    assert await runs_of(saver, "t") == ["one", "one"]
    assert len((await values_of(saver, place()))["messages"]) == 2
    report = await saver("verify")
    assert (report.damage, report.orphan_elements, report.orphan_writes) == ([], 0, 0)
    again = Thread(saver)
    await again.load()
    await again.put({"messages": [*again.values["messages"], "three"]}, metadata={"run_id": 3})
    assert await runs_of(saver, "t") == [3, "one", "one"]


async def test_a_run_goes_from_all_threads_and_namespaces_and_leaves_what_is_shared(
    saver: Face,
) -> None:
    places = [("a", ""), ("a", "child:1"), ("b", ""), ("b", "child:1")]
    for thread_id, namespace in places:
        thread = Thread(saver, thread_id, namespace)
        for run_id in ("g*", "r\u0000", "r", "ü"):
            await thread.put({run_id: f"of {run_id} " * 20}, metadata={"run_id": run_id})
    await saver("delete_for_runs", ["g*", "r\u0000", "'; --", "none such"])
    for thread_id, namespace in places:
        found = await saver("list", place(thread_id, namespace))
        assert [each.metadata["run_id"] for each in found] == ["ü", "r"]
        assert found[0].checkpoint["channel_values"] == thread.values
        assert found[1].parent_config is None


@ONE_FACE
async def test_a_thread_of_which_nothing_is_left_is_gone(saver: Face, database: Database) -> None:
    thread = Thread(saver)
    for _ in range(2):
        await thread.put({"messages": ["long " * 60]}, metadata={"run_id": "one"})
    await saver("delete_for_runs", ["one"])
    assert remains(database, saver.target) == {}
    with pytest.raises(ThreadDeleted):
        await thread.put({"n": 1}, metadata={"run_id": "one"})
    await Thread(saver).put({"n": 2}, metadata={"run_id": "two"})
    assert await runs_of(saver, "t") == ["two"]


@ONE_FACE
async def test_a_late_put_of_a_deleted_run_is_refused(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"n": 0}, metadata={"run_id": "keep"})
    await thread.put({"n": 1}, metadata={"run_id": "go"})
    await saver("delete_for_runs", ["go"])
    with pytest.raises(CheckpointDeleted):
        await thread.put({"n": 2}, metadata={"run_id": "go"})
    assert await runs_of(saver, "t") == ["keep"]
    assert await values_of(saver, place()) == {"n": 0}


@ONE_FACE
async def test_a_late_put_on_what_is_left_as_an_anchor_is_refused(saver: Face) -> None:
    chat = Chat(saver.target, "t", saver.is_async)
    await chat.say(run_id="go")
    head = (await chat.history())[0].config
    await chat.say(run_id="keep")
    before = await chat.states()
    await saver("delete_for_runs", ["go"])
    kept = await chat.states()
    assert kept == {name: values for name, values in before.items() if name in kept} != {}
    with pytest.raises(CheckpointDeleted):
        await chat.update(head)
    assert await chat.states() == kept


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_one_id_is_no_sequence_of_ids(saver: Face) -> None:
    with pytest.raises(InvalidArgument, match="'run'"):
        await saver("delete_for_runs", "run")
    await saver("delete_for_runs", [])
