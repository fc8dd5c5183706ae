"""What stays of a thread that was cut, and that it reads as before."""

import asyncio
import contextlib
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from branching import Node, Tree, native_state, walked_state
from conftest import Database, Face
from delta_graphs import Chat
from langgraph.checkpoint.memory import InMemorySaver
from test_graphs import Session, facts
from threads import Thread, new_checkpoint, next_id, place, remains, stored, values_of
from watched import watch

from langgraph_sessionmem.checkpoint.pruning import Cut, plan_prune, prune_thread
from langgraph_sessionmem.errors import CheckpointDeleted, ConcurrentUpdate, InvalidArgument

ONE_FACE = pytest.mark.parametrize("face_name", ["async"])


async def ids(saver: Face, thread_id: str = "t", namespace: str = "") -> list[str]:
    """The checkpoints of a namespace, the latest first."""
    found = await saver("list", place(thread_id, namespace))
    return [each.config["configurable"]["checkpoint_id"] for each in found]


async def put_many(saver: Face, count: int, thread_id: str = "t") -> list[Any]:
    """The configs of checkpoints of a growing list."""
    thread = Thread(saver, thread_id)
    return [
        await thread.put({"messages": [f"message {n} " * 20 for n in range(number + 1)]})
        for number in range(count)
    ]


async def assert_clean(saver: Face) -> None:
    """Nothing is damaged, and nothing is left over."""
    report = await saver("verify")
    assert report.damage == []
    assert (report.orphan_elements, report.orphan_writes) == (0, 0)


# Trees of delta channels that are cut at random


async def check(saver: Face, tree: Tree, exact: set[str], context: str) -> None:
    """Every node has its state; by the base class's walk too if it had it before."""
    for node in tree.nodes:
        assert await native_state(saver, node.config) == node.states, (context, node.id)
        if node.id in exact:
            assert await walked_state(saver, node.config) == node.states, (context, node.id)


async def walked_exactly(saver: Face, nodes: list[Node]) -> set[str]:
    """The nodes whose state the base class's walk finds."""
    return {node.id for node in nodes if await walked_state(saver, node.config) == node.states}


async def cut_somehow(saver: Face, tree: Tree, dice: random.Random) -> str:
    if dice.random() < 0.4:
        run_id = f"run {dice.randrange(4)}"
        tree.lose(node for node in tree.nodes if node.run_id != run_id)
        await saver("delete_for_runs", [run_id])
        return run_id
    if dice.random() < 0.2:
        target = f"{tree.thread_id}+"
        await saver("copy_thread", tree.thread_id, target)
        tree.move(target)
        return "copied"
    last = dice.randint(1, 4)
    await saver("prune", [tree.thread_id], keep_last=last)
    tree.lose(tree.nodes[-last:])
    return f"keep {last}"


async def cut_a_tree(saver: Face, seed: int, cuts: int = 3) -> None:
    dice = random.Random(seed)
    tree = Tree(saver, f"tree {seed}", dice)
    done: list[str] = [f"seed {seed}"]
    for _ in range(cuts):
        for _ in range(dice.randint(2, 7)):
            await tree.grow()
        exact = await walked_exactly(saver, tree.nodes)
        done.append(f"{len(tree.nodes)} nodes")
        await check(saver, tree, exact, ", ".join(done))
        done.append(await cut_somehow(saver, tree, dice))
        await check(saver, tree, exact, ", ".join(done))
        assert await ids(saver, tree.thread_id) == [node.id for node in reversed(tree.nodes)]
    await assert_clean(saver)


@ONE_FACE
async def test_what_stays_of_a_tree_of_deltas_has_its_state(saver: Face) -> None:
    await cut_a_tree(saver, random.randrange(10**6), cuts=2)


@pytest.mark.slow
async def test_what_stays_of_many_trees_of_deltas_has_its_state(saver: Face) -> None:
    for seed in range(150):
        await cut_a_tree(saver, seed)


# What stays


async def test_the_latest_five_of_twelve_stay(saver: Face, database: Database) -> None:
    configs = await put_many(saver, 12)
    await saver("prune", ["t"], keep_last=5)
    for number, config in enumerate(configs):
        found = await values_of(saver, config)
        assert (found and len(found["messages"])) == (number + 1 if number >= 7 else None)
    listed = await saver("list", place())
    assert [each.config for each in listed] == configs[:-6:-1]
    assert [each.parent_config for each in listed] == [*configs[10:6:-1], None]
    before = stored(database, saver.target)
    await saver("prune", ["t"], keep_last=5)
    await saver("prune", ["t"], keep_last=10**6)
    assert stored(database, saver.target) == before
    await assert_clean(saver)


async def test_only_the_threads_that_are_named_are_cut(saver: Face, database: Database) -> None:
    names = ("a", "b", "a*", "[ab]")
    for thread_id in names:
        thread = Thread(saver, thread_id)
        for number in range(3):
            await thread.put({"n": number})
            await thread.write([("n", f"write {number}")])
    await saver("prune", ["a", "none such"])
    assert [len(await ids(saver, each)) for each in names] == [1, 3, 3, 3]
    latest = await saver("get_tuple", place("a"))
    assert latest.pending_writes == [("task", "n", "write 2")]
    await assert_clean(saver)
    await saver("prune", [*names, "none such"], strategy="delete")
    assert remains(database, saver.target) == {}


@ONE_FACE
async def test_what_only_dropped_checkpoints_name_goes_and_what_is_shared_stays(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    shared = ["shared " * 30]
    await thread.put({"kept": shared, "lost": ["lost " * 40], "value": "v" * 500})
    await thread.put({"lost": [], "value": "w" * 500})
    before = stored(database, saver.target)["elements"]
    await saver("prune", ["t"])
    assert stored(database, saver.target)["elements"] == before - 2
    assert await thread.load() == {"kept": shared, "lost": [], "value": "w" * 500}
    await assert_clean(saver)


@ONE_FACE
async def test_what_was_put_lately_stays(saver: Face) -> None:
    now = datetime.now(UTC)
    config: Any = place()
    for days in (30, 8, 6, 1, 0):
        checkpoint = new_checkpoint(next_id(), {}, {})
        checkpoint["ts"] = (now - timedelta(days=days)).isoformat()
        config = await saver("put", config, checkpoint, {"step": -days}, {})
    await saver("prune", ["t"], older_than=timedelta(days=7))
    found = await saver("list", place())
    assert [each.metadata["step"] for each in found] == [0, -1, -6]


@ONE_FACE
async def test_no_anchor_is_left_where_no_channel_needs_one(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    for number in range(4):
        await thread.put({"n": number, "gone": number})
        thread.values.pop("gone")  # a channel that lives for one step
        await thread.write([("gone", 1), ("n", 1)])
    await saver("prune", ["t"])
    whole = await saver("inspect", "t")
    assert len(whole.checkpoints) == 1
    assert (await saver("get_tuple", place())).parent_config is None


@ONE_FACE
async def test_a_sealed_block_stays_while_one_of_its_elements_is_named(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    messages: list[str] = []
    for turn in range(8):
        messages = [*messages, *(f"message {turn}.{n} " * 10 for n in range(25))]
        await thread.put({"messages": messages})
    await thread.put({"messages": messages[70:72]})
    two = thread.config
    await thread.put({"messages": messages[150:]})
    full = stored(database, saver.target)["elements"]
    await saver("prune", ["t"], keep_last=2)
    assert (await values_of(saver, two))["messages"] == messages[70:72]
    assert (await values_of(saver, place()))["messages"] == messages[150:]
    await saver("copy_thread", "t", "copy")
    await saver("prune", ["t"])
    assert await thread.load() == {"messages": messages[150:]}
    await thread.put({"messages": [*messages[150:], "more " * 20]})
    assert (await values_of(saver, place()))["messages"] == [*messages[150:], "more " * 20]
    await saver("delete_thread", "copy")
    assert stored(database, saver.target)["elements"] < full
    assert (await saver("verify")).damage == []


# Wrong arguments


@pytest.mark.parametrize(
    "wrong",
    [
        {"thread_ids": "t"},
        {"thread_ids": None},
        {"thread_ids": ["t", ""]},
        {"strategy": "keep_some"},
        {"strategy": None},
        {"keep_last": 0},
        {"keep_last": True},
        {"keep_last": 2.0},
        {"older_than": 7},
        {"older_than": timedelta(days=-1)},
        {"strategy": "delete", "keep_last": 1},
        {"strategy": "delete", "older_than": timedelta(days=1)},
    ],
)
def test_a_wrong_argument_is_refused(wrong: dict[str, Any]) -> None:
    right = {
        "thread_ids": ["t"],
        "strategy": "keep_latest",
        "keep_last": None,
        "older_than": None,
    }
    with pytest.raises(InvalidArgument):
        plan_prune(**right | wrong)


def test_the_server_has_another_word_for_delete() -> None:
    plans = [plan_prune(["t", "t"], each, None, None) for each in ("delete", "delete_all")]
    assert plans[0] == plans[1] == (["t"], Cut(True, 1, None))


# Others at work meanwhile


@ONE_FACE
async def test_what_is_put_during_a_cut_is_kept(saver: Face, database: Database) -> None:
    thread = Thread(saver)
    for number in range(4):
        await thread.put({"messages": [f"{n} " * 60 for n in range(number + 1)]})
    other = Face(database.open_saver(), False)
    theirs = Thread(other)
    await theirs.load()

    async def put_more() -> None:
        await theirs.put({"messages": [*theirs.values["messages"], "more " * 60]})

    for primitive in ("scan_checkpoints", "read_places", "save_pruned"):
        await put_more()
        _, calls = await watch(
            saver,
            lambda records: prune_thread(records, saver.target._state, "t", Cut(False, 1, None)),
            primitive,
            put_more,
        )
        assert calls.count("save_pruned") == 2
        assert await values_of(saver, place()) == theirs.values
        assert len(await ids(saver)) == 1
    await assert_clean(saver)


@ONE_FACE
async def test_a_cut_during_a_cut_loses_nothing(saver: Face, database: Database) -> None:
    chat = Chat(saver.target, "t", saver.is_async)
    for _ in range(3):
        await chat.say()
    before = await chat.values()
    other = Face(database.open_saver(), False)
    _, calls = await watch(
        saver,
        lambda records: prune_thread(records, saver.target._state, "t", Cut(False, 4, None)),
        "read_writes",
        lambda: other("prune", ["t"]),
    )
    assert calls.count("save_pruned") == 1
    assert await chat.values() == before
    assert len(await chat.history()) == 1
    await assert_clean(saver)


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_cut_gives_up_where_it_is_always_too_late(saver: Face, database: Database) -> None:
    await put_many(saver, 3)
    thread = Thread(Face(database.open_saver(), False))
    await thread.load()

    class Busy:
        def __init__(self, records: Any) -> None:
            self._records = records

        def __getattr__(self, name: str) -> Any:
            return getattr(self._records, name)

        async def save_pruned(self, prune: Any) -> bool:
            await thread.put({"n": 1})
            return bool(await self._records.save_pruned(prune))

    def operation(records: Any) -> Any:
        return prune_thread(Busy(records), saver.target._state, "t", Cut(False, 1, None))

    with pytest.raises(ConcurrentUpdate, match="'t'"):
        await watch(saver, operation)
    assert len(await ids(saver)) > 3


@ONE_FACE
async def test_a_run_goes_on_from_what_stays_and_is_refused_on_what_is_gone(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    old = await thread.put({"messages": ["old " * 60]})
    await thread.put({"messages": ["old " * 60, "new " * 60]})
    other = Face(database.open_saver(), False)
    await other("prune", ["t"])
    await thread.put({"messages": ["old " * 60, "new " * 60, "newer " * 60]})
    fork = Thread(saver)
    fork.config = old
    with pytest.raises(CheckpointDeleted):
        await fork.put({"messages": ["old " * 60, "fork " * 60]})
    assert len(await ids(saver)) == 2
    await assert_clean(saver)


async def test_runs_go_on_while_their_thread_is_cut_again_and_again(database: Database) -> None:
    writers = [Chat(database.open_saver(), f"t{number}", False, "async") for number in range(2)]
    cutter = database.open_saver()
    running = set(range(len(writers)))

    def cut() -> int:
        cuts = 0
        while running:
            for chat in writers:
                with contextlib.suppress(ConcurrentUpdate):
                    cutter.prune([chat.thread_id], keep_last=1 + cuts % 3)
                    cuts += 1
        return cuts

    async def run(number: int) -> None:
        try:
            for _ in range(6):
                await writers[number].say()
        finally:
            running.discard(number)

    cuts, *_ = await asyncio.gather(asyncio.to_thread(cut), *(run(each) for each in (0, 1)))
    assert cuts > 1
    for chat in writers:
        [latest, *_] = await chat.history()
        assert latest.values["delta"] == latest.values["plain"]
        assert [each for each in latest.values["plain"] if each.startswith("in")] == [
            f"in {turn + 1}" for turn in range(6)
        ]
    await assert_clean(Face(cutter, False))


async def cut_and_compare(saver: Face, seed: int, turns: int = 5) -> None:
    """A graph of interrupts, subgraphs and parallel tasks stays where `InMemorySaver` has it."""
    dice = random.Random(seed)
    ours = Session(saver.target, seed, saver.is_async, dice.choice(["sync", "async", "exit"]))
    theirs = Session(InMemorySaver(), seed, saver.is_async, ours.durability)
    thread_id = ours.thread["configurable"]["thread_id"]
    for turn, action in enumerate(["say", "resume", "resume", "say", "resume"][:turns]):
        context = f"seed {seed}, {ours.durability}, {action} in turn {turn}"
        ends = [
            await each.end_of(action, turn, random.Random(seed + turn)) for each in (ours, theirs)
        ]
        assert ends[0] == ends[1], context
        await saver("prune", [thread_id], keep_last=dice.choice([1, 1, 3]))
        states = [
            await each.call("get_state", each.thread, subgraphs=True) for each in (ours, theirs)
        ]
        assert facts(states[0]) == facts(states[1]), context
        for mine, other in zip(states[0].tasks, states[1].tasks, strict=True):
            assert getattr(mine.state, "values", None) == getattr(other.state, "values", None)
    assert (await saver("verify", [thread_id])).damage == []


async def test_a_graph_goes_on_after_each_cut_as_in_memory(saver: Face) -> None:
    await cut_and_compare(saver, random.randrange(10**6), turns=3)


@pytest.mark.slow
async def test_many_graphs_go_on_after_each_cut_as_in_memory(saver: Face) -> None:
    for seed in range(60):
        await cut_and_compare(saver, seed)
