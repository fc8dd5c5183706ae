"""Delta channels are rebuilt exactly: on every branch, in every durability, after every cut."""

import random
from typing import Any

import pytest
from branching import Tree
from conftest import Face
from delta_graphs import Chat
from langgraph.checkpoint.base import BaseCheckpointSaver
from threads import Thread, new_checkpoint, next_id, place
from watched import watch

from langgraph_sessionmem.checkpoint.configs import Place
from langgraph_sessionmem.checkpoint.deltas import delta_history
from langgraph_sessionmem.errors import InvalidArgument

ONE_FACE = pytest.mark.parametrize("face_name", ["async"])


class Values:
    """What a thread's checkpoints hold, over all that is done to it."""

    def __init__(self, chat: Chat, saver: Face) -> None:
        self.chat, self.saver = chat, saver
        self.known: dict[str, list[str]] = {}

    async def check(self) -> list[str]:
        """Every checkpoint holds what it held before; their ids, the latest first."""
        found = await self.chat.states()
        for name, values in found.items():
            assert self.known.setdefault(name, values) == values, name
        return list(found)

    async def cut(self, dice: random.Random) -> str:
        names = await self.check()
        action = dice.choice(["latest", "last", "last", "runs", "copy"])
        thread_id = self.chat.thread_id
        if action == "latest":
            await self.saver("prune", [thread_id])
            assert await self.check() == names[:1]
        elif action == "last":
            await self.saver("prune", [thread_id], keep_last=3)
            assert await self.check() == names[:3]
        elif action == "runs":
            run_id = f"run {dice.randrange(3)}"
            kept = [
                each.config["configurable"]["checkpoint_id"]
                for each in await self.chat.history()
                if each.metadata.get("run_id") != run_id
            ]
            await self.saver("delete_for_runs", [run_id])
            assert await self.check() == kept
        else:
            self.chat.thread_id = f"{thread_id}+"
            await self.saver("copy_thread", thread_id, self.chat.thread_id)
            assert await self.check() == names
        return action


async def live_and_cut(saver: Face, seed: int, actions: int = 7) -> None:
    dice = random.Random(seed)
    durability = dice.choice(["sync", "async", "exit"])
    frequency = dice.choice([2, 1000])
    chat = Chat(saver.target, f"chat {seed}", saver.is_async, durability, frequency)
    values = Values(chat, saver)
    done: list[Any] = [seed, durability, frequency]
    try:
        for _ in range(actions):
            done.append(await chat.act(dice))
            await values.check()
            if dice.random() < 0.5:
                done.append(await values.cut(dice))
    except Exception as error:
        error.add_note(f"{done}")
        raise


async def test_graphs_go_on_as_before_after_each_cut(saver: Face) -> None:
    await live_and_cut(saver, random.randrange(10**6), actions=5)


@pytest.mark.slow
async def test_many_graphs_go_on_as_before_after_each_cut(saver: Face) -> None:
    for seed in range(60):
        await live_and_cut(saver, seed, 12)


# Branches


@ONE_FACE
async def test_a_fork_does_not_see_the_branch_it_left(saver: Face) -> None:
    chat = Chat(saver.target, "t", saver.is_async)
    await chat.say()
    base = (await chat.history())[0]
    await chat.say()
    await chat.say(base.config)
    latest = await chat.values()
    assert latest["delta"][:4] == base.values["delta"]
    assert [each for each in latest["delta"] if each.startswith("in")] == ["in 1", "in 3"]
    assert latest["delta"] == latest["plain"]


@ONE_FACE
async def test_an_update_of_an_old_checkpoint_stays_out_of_the_branch_that_was_there(
    saver: Face,
) -> None:
    chat = Chat(saver.target, "t", saver.is_async)
    await chat.say()
    base = (await chat.history())[0]
    await chat.say()
    first = await chat.values()
    head = (await chat.history())[0]
    await chat.update(base.config)
    assert (await chat.values(head.config)) == first
    assert (await chat.values())["delta"] == [*base.values["delta"], "update 3"]


async def test_all_items_are_there_after_each_cut(saver: Face) -> None:
    for durability, frequency in (("sync", 1000), ("async", 3), ("exit", 1000)):
        chat = Chat(saver.target, f"{durability}", saver.is_async, durability, frequency)
        for turns in (2, 1):
            for _ in range(turns):
                await chat.say()
            before = await chat.values()
            await saver("prune", [chat.thread_id])
            assert await chat.values() == before
            assert len(await chat.history()) == 1
        assert before["delta"] == before["plain"]
        assert len(before["delta"]) == 12


# Threads that were stored in another order than they ran


async def stored_so(saver: Face, order: str) -> list[Any]:
    """Three checkpoints and the writes that went into the next one, stored in this order."""
    configs = [place(order, "", next_id()) for _ in range(3)]
    versions: dict[str, Any] = {}
    put: list[Any] = []
    for number, config in enumerate(configs):
        versions = {"a": saver.target.get_next_version(versions.get("a"), None)}
        checkpoint = new_checkpoint(config["configurable"]["checkpoint_id"], {}, versions)
        metadata = {"step": number, "counters_since_delta_snapshot": {"a": (number, number)}}
        parent = configs[number - 1] if number else place(order)
        put.append((parent, checkpoint, metadata, versions))
    for what in order.split():
        number = int(what[1:])
        if what[0] == "c":
            await saver("put", *put[number])
        else:
            await saver("put_writes", configs[number], [("a", f"w{number}")], "task", "")
    return configs


@ONE_FACE
async def test_a_thread_that_was_copied_by_hand_is_rebuilt(saver: Face) -> None:
    for order in ("c0 w0 c1 w1 c2", "c2 c1 w1 c0 w0", "c0 c1 c2 w0 w1", "w0 w1 c0 c1 c2"):
        asked = {"config": (await stored_so(saver, order))[2], "channels": ["a"]}
        history = await saver("get_delta_channel_history", **asked)
        assert history == {"a": {"writes": [("task", "a", "w0"), ("task", "a", "w1")]}}, order
        await saver("prune", [order])
        assert await saver("get_delta_channel_history", **asked) == history, order


# The call itself


async def test_a_history_says_what_the_base_class_says(saver: Face) -> None:
    tree = Tree(saver, "t", random.Random(7), straight=True)
    for _ in range(8):
        await tree.grow()
    target = saver.target
    for node in tree.nodes:
        asked: Any = {"config": node.config, "channels": ["a", "none such", "b"]}
        if saver.is_async:
            expected = await BaseCheckpointSaver.aget_delta_channel_history(target, **asked)
        else:
            expected = BaseCheckpointSaver.get_delta_channel_history(target, **asked)
        assert await saver("get_delta_channel_history", **asked) == expected


@ONE_FACE
async def test_a_history_of_nothing_is_empty(saver: Face) -> None:
    nothing = {"a": {"writes": []}}
    assert await saver("get_delta_channel_history", config=place(), channels=["a"]) == nothing
    first = await Thread(saver).put({"n": 1})
    await saver("put_writes", first, [("a", 1)], "task", "")
    assert await saver("get_delta_channel_history", config=first, channels=["a"]) == nothing
    assert await saver("get_delta_channel_history", config=first, channels=[]) == {}


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_one_name_is_no_sequence_of_names(saver: Face) -> None:
    with pytest.raises(InvalidArgument, match="'messages'"):
        await saver("get_delta_channel_history", config=place(), channels="messages")


@ONE_FACE
async def test_a_long_way_up_takes_few_round_trips(saver: Face) -> None:
    config, versions = place(), {}
    for number in range(24):
        if number:
            await saver("put_writes", config, [("a", number)], "task", "")
        versions = {"a": saver.target.get_next_version(versions.get("a"), None)}
        metadata = {"counters_since_delta_snapshot": {"a": (number, number)}}
        values = {} if number else {"a": [0]}
        checkpoint = new_checkpoint(next_id(), values, versions)
        config = await saver("put", config, checkpoint, metadata, versions)
    at = Place("t", "", config["configurable"]["checkpoint_id"])
    state = saver.target._state

    def operation(records: Any) -> Any:
        return delta_history(records, state, at, ["a"])

    for expected in (["read_ancestors"] * 2, ["read_ancestors"]):
        found, calls = await watch(saver, operation)
        assert [value for _, _, value in found["a"]["writes"]] == list(range(1, 24))
        assert found["a"]["seed"] == [0]
        assert calls == [*expected, "read_writes"]


@ONE_FACE
async def test_copying_a_checkpoint_whose_parent_was_cut_keeps_its_deltas(saver: Face) -> None:
    chat = Chat(saver.target, "t", saver.is_async)
    for _ in range(2):
        await chat.say()
    await saver("prune", ["t"])
    before = await chat.values()
    copied = await chat.update((await chat.history())[0].config, "__copy__")
    assert await chat.values(copied) == before
    await chat.say()
    assert (await chat.values())["delta"][: len(before["delta"])] == before["delta"]
