"""Expiry: invisible at once in every method, whatever the sweeper does, and fully gone after it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypedDict

import pytest
from conftest import Clock, Database, Face, Pass
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from threads import Thread, next_id, place, remains, stored, values_of

from langgraph_sessionmem import TTL
from langgraph_sessionmem.errors import InvalidArgument, SessionExpired

HALF_HOUR = TTL(idle=timedelta(minutes=30))


async def is_there(saver: Face, thread_id: str = "t") -> bool:
    """Whether the thread is there, which every method has to answer alike."""
    latest = await values_of(saver, place(thread_id))
    everywhere = {"configurable": {"thread_id": thread_id}}
    answers = {
        latest is not None,
        bool(await saver("list", place(thread_id))),
        bool(await saver("list", everywhere)),
        any(
            found.config["configurable"]["thread_id"] == thread_id
            for found in await saver("list", None)
        ),
        thread_id in {row.thread_id for row in await saver("threads")},
    }
    assert len(answers) == 1, answers
    return answers.pop()


async def test_a_thread_is_invisible_from_its_expiry_on(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    thread = Thread(saver)
    await thread.put({"n": 1, "list": list(range(50))})
    first = thread.config
    await time_passes(saver, minutes=29)
    assert await is_there(saver)
    await thread.put({"n": 2})
    await time_passes(saver, minutes=29)
    assert await values_of(saver, first) == {"n": 1, "list": list(range(50))}
    await time_passes(saver, minutes=2)
    assert not await is_there(saver)
    assert await values_of(saver, first) is None
    assert await values_of(saver, thread.config) is None
    assert not await saver("set_ttl", "t", HALF_HOUR)
    assert not await is_there(saver)


async def test_nothing_is_left_after_the_sweep(
    open_saver: Callable[..., Face], database: Database, clock: Clock
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    pinned = Thread(saver, "pinned", session_ttl=None)
    await pinned.put({"list": list(range(30))})
    alone = remains(database, saver.target)
    for thread_id in ("a", "b", "c"):
        thread = Thread(saver, thread_id)
        await thread.put({"n": 1, "list": list(range(40)), "big": "x" * 500})
        await thread.write([("n", 1), ("n", 2)])
        await thread.put({"n": 2})
        await Thread(saver, thread_id, "sub").put({"n": 3})
        await thread.put({"n": 3})
        await saver("put_writes", place(thread_id, "", "early"), [("n", 1)], "task")
    clock.advance(minutes=31)
    assert await saver("sweep") == 3
    assert await saver("sweep") == 0
    assert remains(database, saver.target) == alone
    assert await pinned.load() == {"list": list(range(30))}
    await saver("delete_thread", "pinned")
    clock.advance(hours=2)
    await saver("sweep")
    assert not any(stored(database, saver.target).values())


async def test_writes_whose_checkpoint_never_comes_are_swept(
    saver: Face, database: Database, clock: Clock
) -> None:
    thread = Thread(saver)
    await thread.put({"n": 1})
    early, late = next_id(), next_id()
    for place_of_it in (place("t", "", early), place("t", "", late), place("lost", "", "c")):
        await saver("put_writes", place_of_it, [("n", 5)], "task")
    clock.advance(minutes=9)
    await saver("sweep")
    found = await saver("get_tuple", await thread.put({"n": 2}, checkpoint_id=early))
    assert found.pending_writes == [("task", "n", 5)]
    clock.advance(minutes=2)
    await saver("sweep")
    found = await saver("get_tuple", await thread.put({"n": 3}, checkpoint_id=late))
    assert found.pending_writes == []
    assert not await is_there(saver, "lost")
    await saver("delete_thread", "t")
    await saver("sweep")
    assert remains(database, saver.target) == {}


@pytest.mark.parametrize("backend_name", ["sqlite"])
@pytest.mark.parametrize(
    "ttl",
    [
        HALF_HOUR,
        timedelta(minutes=30),
        {"default_ttl": 30},
        {"default_ttl": 30.0, "refresh_on_read": False, "sweep_interval_minutes": 5},
        lambda config, metadata: HALF_HOUR if metadata["source"] == "loop" else None,
    ],
)
async def test_a_ttl_may_be_said_in_many_ways(
    open_saver: Callable[..., Face], clock: Clock, ttl: Any
) -> None:
    saver = open_saver(ttl=ttl)
    await Thread(saver).put({"n": 1})
    clock.advance(minutes=29)
    assert await is_there(saver)
    clock.advance(minutes=2)
    assert not await is_there(saver)


async def test_a_ttl_that_is_no_duration_is_refused(database: Database) -> None:
    bad: list[Any] = ["30", -5, {"ttl": 5}, {"default_ttl": "5"}, {"default_ttl": -1}, timedelta(0)]
    for ttl in bad:
        with pytest.raises(InvalidArgument, match=r"ttl|TTL"):
            database.open_saver(ttl=ttl)
    saver = database.open_saver(ttl=lambda config, metadata: 5)
    saver.setup()
    with pytest.raises(InvalidArgument, match="ttl function"):
        await Thread(Face(saver, False)).put({"n": 1})
    assert remains(database, saver) == {}


@pytest.mark.parametrize("backend_name", ["sqlite"])
@pytest.mark.parametrize("ttl", [60, 60.0, timedelta(hours=1), TTL(idle=timedelta(hours=1))])
async def test_a_thread_keeps_the_ttl_it_asked_for_once(
    open_saver: Callable[..., Face], clock: Clock, ttl: Any
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    thread = Thread(saver)
    await thread.put({"n": 1}, more={"session_ttl": ttl})
    await thread.put({"n": 2})
    clock.advance(minutes=59)
    found = await saver("get_tuple", place())
    assert "session_ttl" not in found.metadata
    assert "session_ttl" not in found.config["configurable"]
    clock.advance(minutes=2)
    assert not await is_there(saver)


async def test_a_pinned_thread_stays_and_others_go(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=TTL(idle=timedelta(minutes=30), max_age=timedelta(hours=1)))
    pinned, late, other = (Thread(saver, name) for name in ("pinned", "late", "other"))
    await pinned.put({"n": 1}, more={"session_ttl": None})
    await pinned.put({"n": 2})
    await late.put({"n": 1})
    await other.put({"n": 1})
    assert await saver("set_ttl", "late", None)
    await time_passes(saver, days=400)
    assert await is_there(saver, "pinned")
    assert await is_there(saver, "late")
    assert not await is_there(saver, "other")
    await late.put({"n": 2})
    assert await saver("set_ttl", "pinned", HALF_HOUR)
    await time_passes(saver, minutes=31)
    assert not await is_there(saver, "pinned")
    assert await is_there(saver, "late")


async def test_set_ttl_counts_from_now_and_stays(
    open_saver: Callable[..., Face], clock: Clock
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    thread = Thread(saver)
    await thread.put({"n": 1})
    clock.advance(minutes=20)
    assert await saver("set_ttl", "t", TTL(idle=timedelta(minutes=5)))
    [row] = await saver("threads")
    assert row.expires_at - row.updated_at == pytest.approx(25 * 60, abs=5)
    await thread.put({"n": 2})
    clock.advance(minutes=6)
    assert not await is_there(saver)
    assert not await saver("set_ttl", "t", HALF_HOUR)
    assert not await saver("set_ttl", "nobody", HALF_HOUR)


async def test_max_age_ends_a_thread_in_use_and_refuses_what_it_writes(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=TTL(max_age=timedelta(hours=1)))
    thread = Thread(saver)
    await thread.put({"n": 1})
    for n in range(5):
        await time_passes(saver, minutes=11)
        await thread.put({"n": n})
    await time_passes(saver, minutes=6)
    assert not await is_there(saver)
    with pytest.raises(SessionExpired, match="'t'"):
        await thread.put({"n": 9})
    with pytest.raises(SessionExpired, match="'t'"):
        await thread.write([("n", 9)])
    new = Thread(saver)
    await new.put({"m": 1})
    assert await values_of(saver, place()) == {"m": 1}
    assert len(await saver("list", place())) == 1


async def test_reading_counts_as_a_sign_of_life_only_where_it_is_asked_for(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    reading = TTL(idle=timedelta(minutes=30), refresh_on_read=True)
    for thread_id, ttl in {"got": reading, "listed": reading, "left": reading}.items():
        await Thread(saver, thread_id).put({"n": 1}, more={"session_ttl": ttl})
    await Thread(saver, "plain").put({"n": 1})
    for _ in range(3):
        await time_passes(saver, minutes=20)
        await saver("get_tuple", place("got"))
        await saver("get_tuple", place("plain"))
        await saver("list", place("listed"))
        await saver("list", None)
    assert await is_there(saver, "got")
    assert await is_there(saver, "listed")
    assert not await is_there(saver, "plain")
    assert not await is_there(saver, "left")


async def test_a_thread_is_whole_or_gone_at_any_moment(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=TTL(idle=timedelta(seconds=2)))
    thread = Thread(saver)
    await thread.put({"profile": {"name": "Ann" * 50}, "list": ["x" * 200]})
    for n in range(2, 4):
        await time_passes(saver, seconds=1.5)
        await thread.put({"list": ["x" * 200] * n})
    await time_passes(saver, seconds=0.5)
    found = await saver("list", place())
    assert [len(each.checkpoint["channel_values"]["list"]) for each in found] == [3, 2, 1]
    assert all(each.checkpoint["channel_values"]["profile"]["name"] for each in found)
    assert [each.parent_config for each in found] == [*(each.config for each in found[1:]), None]
    await time_passes(saver, seconds=2)
    assert not await is_there(saver)


async def test_a_run_in_flight_goes_on_when_its_thread_expires_by_idleness(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    thread = Thread(saver)
    await thread.put({"n": 1, "list": list(range(50)), "big": "x" * 300})
    await time_passes(saver, minutes=31)
    await thread.put({"n": 2})
    expected = {"n": 2, "list": list(range(50)), "big": "x" * 300}
    assert await values_of(saver, place()) == expected
    await thread.put({"list": list(range(51))})
    assert await values_of(saver, place()) == expected | {"list": list(range(51))}
    assert await is_there(saver)


async def test_a_run_in_flight_goes_on_though_its_writes_are_the_first_to_come(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    thread = Thread(saver)
    await thread.put({"n": 1, "list": list(range(50))})
    await time_passes(saver, minutes=31)
    await thread.write([("n", 2)])
    await thread.write([("n", 2)], "other")
    await thread.put({"n": 2})
    assert await values_of(saver, place()) == {"n": 2, "list": list(range(50))}
    await time_passes(saver, minutes=29)
    assert await is_there(saver)


async def test_a_run_in_flight_goes_on_though_its_subgraph_is_the_first_to_write(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    thread = Thread(saver)
    await thread.put({"n": 1, "list": list(range(50))})
    parents = {"parents": {"": thread.config["configurable"]["checkpoint_id"]}}
    below = Thread(saver, namespace="sub")
    await below.put({"m": 0}, metadata=parents)
    await time_passes(saver, days=8)
    await below.put({"m": 1}, metadata=parents)
    await Thread(saver, namespace="other").put({"m": 1}, metadata=parents)
    await thread.write([("n", 2)])
    await thread.put({"n": 2})
    assert await values_of(saver, place()) == {"n": 2, "list": list(range(50))}
    assert await values_of(saver, place("t", "sub")) == {"m": 1}


async def test_a_new_run_on_an_expired_id_starts_afresh(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    old = Thread(saver)
    await old.put({"n": 1, "secret": "old"})
    await Thread(saver, namespace="sub").put({"n": 1})
    await old.write([("n", "old")])
    await old.put({"n": 2})
    await time_passes(saver, days=8)
    new = Thread(saver)
    assert await new.load() is None
    await new.put({"n": 10}, checkpoint_id=next_id())
    [found] = await saver("list", {"configurable": {"thread_id": "t"}})
    assert found.checkpoint["channel_values"] == {"n": 10}
    assert found.pending_writes == []
    assert await values_of(saver, old.config) is None
    assert await values_of(saver, place("t", "sub")) is None


async def test_writes_that_overtake_the_first_checkpoint_of_a_new_run_revive_nothing(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=TTL(idle=timedelta(minutes=30), max_age=timedelta(hours=1)))
    await Thread(saver).put({"n": 1, "secret": "old"})
    for minutes in (31, 61):
        await time_passes(saver, minutes=minutes)
        coming = next_id()
        await saver("put_writes", place("t", "", coming), [("n", 5), (INTERRUPT, "?")], "task")
        assert await values_of(saver, place()) is None
        assert await saver("list", None) == []
        await Thread(saver).put({"n": 10}, checkpoint_id=coming)
        [found] = await saver("list", place())
        assert found.checkpoint["channel_values"] == {"n": 10}
        assert [value for _, _, value in found.pending_writes] == ["?", 5]


# What waits has its own limit


class State(TypedDict):
    answer: str


def ask(state: State) -> State:
    return {"answer": interrupt("sure?")}


def build(saver: Any, **keywords: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node("ask", ask if not keywords else lambda state: {"answer": "yes"})
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver, **keywords)


def run(graph: Any, face: Face, *arguments: Any) -> Awaitable[Any]:
    if face.is_async:
        return graph.ainvoke(*arguments)
    return asyncio.to_thread(graph.invoke, *arguments)


@pytest.mark.parametrize("kind", ["interrupt", "interrupt_before"])
async def test_an_interrupted_thread_waits_for_a_week(
    open_saver: Callable[..., Face], time_passes: Pass, kind: str
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    before = {"interrupt_before": ["ask"]} if kind == "interrupt_before" else {}
    graph = build(saver.target, **before)
    config = {"configurable": {"thread_id": "t"}}
    await run(graph, saver, {"answer": ""}, config)
    await time_passes(saver, days=6, hours=23)
    assert await is_there(saver)
    resumed = None if before else Command(resume="yes")
    assert (await run(graph, saver, resumed, config))["answer"] == "yes"
    await time_passes(saver, minutes=29)
    assert await is_there(saver)
    await time_passes(saver, minutes=2)
    assert not await is_there(saver)


async def test_an_interrupt_that_nobody_answers_expires(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    limits = TTL(idle=timedelta(minutes=30), interrupted=timedelta(hours=2))
    saver = open_saver(ttl=limits)
    graph = build(saver.target)
    config = {"configurable": {"thread_id": "t"}}
    await run(graph, saver, {"answer": ""}, config)
    await time_passes(saver, minutes=119)
    assert await is_there(saver)
    await time_passes(saver, minutes=2)
    assert not await is_there(saver)
    again = await run(graph, saver, {"answer": "new"}, config)
    assert "__interrupt__" in again
    history = await saver("list", place())
    assert len(history) == 2
