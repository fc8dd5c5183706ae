"""What stays of a thread past its limits: the latest alone, or the news that it expired."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from conftest import Clock, Database, Face, Pass
from delta_graphs import Chat
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import INTERRUPT
from threads import Thread, next_id, place, stored, values_of

from langgraph_sessionmem import TTL
from langgraph_sessionmem.errors import InvalidArgument, SessionExpired

HALF_HOUR = timedelta(minutes=30)
KEEP = TTL(idle=HALF_HOUR, strategy="keep_latest")


async def talk(saver: Face, turns: int, **more: Any) -> Thread:
    """A thread that has `turns` checkpoints, each with a larger list, and one of a subgraph."""
    thread = Thread(saver, **more)
    for turn in range(turns):
        await thread.put({"list": [f"turn {n} " * 20 for n in range(turn + 1)], "n": turn})
        await thread.write([("n", turn), (INTERRUPT, f"sure {turn}?")])
    below = Thread(saver, namespace="sub", **more)
    await below.put({"m": 1})
    await below.put({"m": 2})
    return thread


async def checkpoints_of(saver: Face, thread_id: str = "t") -> int:
    """How many checkpoints a thread has, which every method has to answer alike."""
    config: Any = {"configurable": {"thread_id": thread_id}}
    listed = len(await saver("list", config))
    everywhere = await saver("list", None)
    row = await saver("thread", thread_id)
    rows = {each.thread_id: each for each in await saver("threads")}
    answers = {
        listed,
        sum(each.config["configurable"]["thread_id"] == thread_id for each in everywhere),
        row.checkpoints if row else 0,
        rows[thread_id].checkpoints if thread_id in rows else 0,
    }
    assert len(answers) == 1, answers
    return answers.pop()


async def test_past_its_idle_limit_the_latest_of_each_namespace_is_kept(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=KEEP)
    thread = await talk(saver, 5)
    parent = (await saver("get_tuple", thread.config)).parent_config
    before = await saver("get_tuple", place())
    await time_passes(saver, minutes=29)
    assert await checkpoints_of(saver) == 7
    await time_passes(saver, minutes=2)
    # Pending tasks give a thread a week.
    assert await checkpoints_of(saver) == 7
    await time_passes(saver, days=8)
    assert await checkpoints_of(saver) == 2
    found = await saver("get_tuple", place())
    assert found.checkpoint == before.checkpoint
    assert found.pending_writes == before.pending_writes
    assert await values_of(saver, thread.config) == before.checkpoint["channel_values"]
    assert await values_of(saver, place("t", "sub")) == {"m": 2}
    assert await values_of(saver, parent) is None
    assert await saver("list", place(), before=thread.config) == []
    await time_passes(saver, days=4_000)
    assert await checkpoints_of(saver) == 2
    row = await saver("thread", "t")
    assert row.expires_at is None
    assert row.limits.keep_latest


async def test_a_thread_that_kept_its_latest_goes_on_from_it(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=KEEP)
    thread = Thread(saver)
    for n in range(4):
        await thread.put({"list": list(range(100 * n)), "n": n})
    await time_passes(saver, minutes=31)
    assert await checkpoints_of(saver) == 1
    again = Thread(saver)
    await again.load()
    await again.put({"list": list(range(400)), "n": 4})
    await thread.load()
    assert thread.values == {"list": list(range(400)), "n": 4}
    latest, kept = await saver("list", place())
    assert latest.parent_config == kept.config
    assert kept.checkpoint["channel_values"] == {"list": list(range(300)), "n": 3}
    await time_passes(saver, minutes=29)
    assert await checkpoints_of(saver) == 2
    await time_passes(saver, minutes=2)
    assert await checkpoints_of(saver) == 1
    assert await values_of(saver, place()) == {"list": list(range(400)), "n": 4}


async def test_a_run_in_flight_goes_on_from_the_kept_checkpoint(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=KEEP)
    thread = Thread(saver)
    await thread.put({"list": ["a" * 200, "b" * 200], "n": 1})
    await thread.put({"list": ["a" * 200, "b" * 200, "c" * 200]})
    await time_passes(saver, minutes=31)
    await thread.write([("n", 2)])
    assert await checkpoints_of(saver) == 1
    await thread.put({"n": 2})
    assert await values_of(saver, place()) == {"list": [c * 200 for c in "abc"], "n": 2}
    assert await checkpoints_of(saver) == 2
    found = await saver("list", place())
    assert found[1].pending_writes == [("task", "n", 2)]


async def test_a_new_run_on_a_kept_thread_without_its_past_leaves_the_latest(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=KEEP)
    await talk(saver, 3)
    await time_passes(saver, days=8)
    await Thread(saver).put({"n": 10})
    assert await values_of(saver, place()) == {"n": 10}
    assert await checkpoints_of(saver) == 3


async def test_reading_a_kept_thread_shows_nothing_again(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=TTL(idle=HALF_HOUR, strategy="keep_latest", refresh_on_read=True))
    thread = Thread(saver)
    for n in range(3):
        await thread.put({"n": n})
    await time_passes(saver, minutes=20)
    assert await values_of(saver, place()) == {"n": 2}
    await time_passes(saver, minutes=20)
    assert await checkpoints_of(saver) == 3
    await time_passes(saver, minutes=31)
    for _ in range(2):
        assert await values_of(saver, place()) == {"n": 2}
        assert await checkpoints_of(saver) == 1


@pytest.mark.parametrize("ttl", [None, TTL(idle=HALF_HOUR), KEEP])
async def test_new_limits_of_a_kept_thread_bring_nothing_back(
    open_saver: Callable[..., Face], time_passes: Pass, ttl: TTL | None
) -> None:
    saver = open_saver(ttl=KEEP)
    await talk(saver, 3)
    await time_passes(saver, days=8)
    assert await saver("set_ttl", "t", ttl)
    assert await checkpoints_of(saver) == 2
    await time_passes(saver, days=8)
    gone = ttl is not None and ttl.strategy == "delete"
    assert await checkpoints_of(saver) == (0 if gone else 2)


async def test_what_is_cut_away_is_no_longer_stored(
    open_saver: Callable[..., Face], clock: Clock
) -> None:
    saver = open_saver(ttl=KEEP)
    thread = Thread(saver)
    for n in range(10):
        await thread.put({"list": [f"{n} {i} " * 300 for i in range(10)]})
    before = (await saver("thread", "t")).size
    assert before > 100_000
    clock.advance(minutes=31)
    assert await saver("sweep", dry_run=True) == 1
    assert await saver("sweep") == 1
    assert await saver("sweep", dry_run=True) == await saver("sweep") == 0
    assert (await saver("thread", "t")).size < before / 6
    assert await values_of(saver, place()) == {"list": [f"9 {i} " * 300 for i in range(10)]}


async def test_state_that_is_rebuilt_from_writes_is_kept_whole(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=KEEP)
    for durability in ("sync", "exit"):
        chat = Chat(saver.target, durability, saver.is_async, durability)
        for _ in range(3):
            await chat.say()
            await chat.say()
            before = await chat.values()
            latest = (await chat.history())[0].config
            await time_passes(saver, minutes=31)
            # LangGraph's server walks up by the base class, which asks for each checkpoint by id.
            walks = BaseCheckpointSaver.aget_delta_channel_history
            if not saver.is_async:
                walks = BaseCheckpointSaver.get_delta_channel_history
            walked = walks(saver.target, config=latest, channels=["delta"])
            walked = await walked if saver.is_async else walked
            native = await saver("get_delta_channel_history", config=latest, channels=["delta"])
            assert walked == native
            assert await chat.values() == before
            assert before["delta"] == before["plain"]
            assert len(await chat.history()) == 1


async def test_a_duration_of_its_own_keeps_the_strategy_of_the_saver(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl={"strategy": "keep_latest"})
    for ttl in (5, timedelta(minutes=5), TTL(idle=timedelta(minutes=5))):
        thread = Thread(saver, session_ttl=ttl)
        await thread.put({"n": 1})
        await thread.put({"n": 2})
        await time_passes(saver, minutes=6)
        assert await checkpoints_of(saver) == (0 if isinstance(ttl, TTL) else 1)
        await saver("delete_thread", "t")


# A thread that expired may say so


async def test_only_a_thread_that_was_there_has_expired(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    saver = open_saver(ttl=TTL(idle=HALF_HOUR), on_expired="raise")
    assert await values_of(saver, place("never")) is None
    thread = Thread(saver)
    await thread.put({"n": 1})
    assert await values_of(saver, place("t", "sub")) is None
    assert await values_of(saver, place("t", "", next_id())) is None
    assert await saver("list", place("t", "sub")) == []
    await time_passes(saver, minutes=31)
    assert await values_of(saver, place("other")) is None
    with pytest.raises(SessionExpired):
        await values_of(saver, place("t", "sub"))
    await Thread(saver).put({"n": 2})
    assert await values_of(saver, place()) == {"n": 2}
    await saver("delete_thread", "t")
    assert await values_of(saver, place()) is None


async def test_the_news_of_an_expiry_is_kept_for_thirty_days(
    open_saver: Callable[..., Face], clock: Clock, database: Database
) -> None:
    saver = open_saver(ttl=TTL(max_age=HALF_HOUR), on_expired="raise")
    await Thread(saver).put({"n": 1})
    clock.advance(minutes=31)
    await saver("sweep")
    clock.advance(days=29)
    await saver("sweep")
    with pytest.raises(SessionExpired):
        await values_of(saver, place())
    clock.advance(days=2)
    await saver("sweep")
    assert await values_of(saver, place()) is None
    assert not any(stored(database, saver.target).values())


# Limits for threads that exist already


async def test_new_limits_are_given_to_existing_threads_on_request(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    first = open_saver(ttl=None)
    for n in range(3):
        await Thread(first, f"user/{n}").put({"n": n})
    await Thread(first, "user/own").put({"n": 1}, more={"session_ttl": 60})
    await Thread(first, "user/pinned").put({"n": 1}, more={"session_ttl": None})
    await Thread(first, "other").put({"n": 1})
    saver = open_saver(ttl=TTL(idle=HALF_HOUR))
    await time_passes(saver, minutes=20)
    assert await saver("apply_ttl", prefix="user/") == 3
    assert await saver("apply_ttl", prefix="nobody") == 0
    await time_passes(saver, minutes=29)
    assert len(await saver("threads")) == 6
    await time_passes(saver, minutes=2)
    left = {row.thread_id for row in await saver("threads")}
    assert left == {"user/own", "user/pinned", "other"}
    assert await open_saver(ttl=None)("apply_ttl") == 1


async def test_a_ttl_function_decides_for_each_existing_thread_by_its_latest_checkpoint(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    plain = open_saver()
    for name in ("short", "long"):
        thread = Thread(plain, name)
        await thread.put({"n": 1}, metadata={"plan": "old"})
        await thread.put({"n": 2}, metadata={"plan": name})

    def choose(config: Any, metadata: Any) -> TTL | None:
        assert config["configurable"]["thread_id"] == metadata["plan"]
        return TTL(idle=HALF_HOUR) if metadata["plan"] == "short" else None

    saver = open_saver(ttl=choose)
    assert await saver("apply_ttl") == 2
    await time_passes(saver, minutes=31)
    assert [row.thread_id for row in await saver("threads")] == ["long"]
    with pytest.raises(InvalidArgument, match="ttl function"):
        await open_saver(ttl=lambda config, metadata: 5)("apply_ttl")
    with pytest.raises(InvalidArgument, match="prefix"):
        await saver("apply_ttl", prefix=5)


async def test_another_default_does_not_touch_threads_that_exist_until_it_is_asked_to(
    open_saver: Callable[..., Face], time_passes: Pass
) -> None:
    await Thread(open_saver(ttl=TTL(idle=timedelta(hours=2)))).put({"n": 1})
    saver = open_saver(ttl=KEEP)
    await time_passes(saver, minutes=90)
    assert await checkpoints_of(saver) == 1
    await time_passes(saver, minutes=31)
    assert await checkpoints_of(saver) == 0
