"""A look at threads and at the whole database, without loading any state."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from conftest import Clock, Face
from threads import Thread

from langgraph_sessionmem import TTL
from langgraph_sessionmem.errors import InvalidArgument

HALF_HOUR = TTL(idle=timedelta(minutes=30))
KEEP = TTL(idle=timedelta(minutes=30), strategy="keep_latest")

NAMED: list[tuple[dict[str, Any], str | None]] = [
    ({"user_id": "ann"}, "ann"),
    ({"langgraph_auth_user_id": "ann", "user_id": None}, "ann"),
    ({"user_id": 7, "langgraph_auth_user_id": "bob"}, "bob"),
    ({"user_id": "a\x00\x01b", "langgraph_auth_user_id": ""}, "a\x00\x01b"),
    ({"user_id": ""}, None),
    ({}, None),
]


async def test_a_thread_belongs_to_the_first_user_its_configs_name(saver: Face) -> None:
    for n, (named, owner) in enumerate(NAMED):
        thread = Thread(saver, f"{n}")
        await thread.put({"n": 1})
        await thread.put({"n": 2}, more=named)
        assert (await saver("thread", f"{n}")).owner == owner
        await thread.put({"n": 3}, more={"user_id": "late"})
        await thread.put({"n": 4})
        assert (await saver("thread", f"{n}")).owner == (owner or "late")
    assert [row.owner for row in await saver("threads")] == [owner or "late" for _, owner in NAMED]
    assert await saver("thread", "nobody") is None


async def test_threads_are_listed_in_pages_of_any_order(
    open_saver: Callable[..., Face], clock: Clock
) -> None:
    saver = open_saver(ttl=TTL(idle=timedelta(hours=1)))
    for n, name in enumerate(["b", "a", "c", "other"]):
        await Thread(saver, name).put({"text": f"{n}" * 1_000 * (n + 1)})
        clock.advance(minutes=5)
    await Thread(saver, "a").put({"n": 1}, more={"session_ttl": timedelta(minutes=1)})
    orders = {
        "thread_id": ["a", "b", "c", "other"],
        "updated_at": ["a", "other", "c", "b"],
        "expires_at": ["a", "b", "c", "other"],
        "size": ["other", "c", "a", "b"],
    }
    for order, names in orders.items():
        found, cursor = [], None
        while rows := await saver("threads", order=order, limit=2, cursor=cursor):
            found += [row.thread_id for row in rows]
            cursor = rows[-1]
        assert found == names, order
    [row] = await saver("threads", prefix="oth")
    assert row == await saver("thread", "other")
    assert row.expires_at - row.updated_at == pytest.approx(3_600, abs=0.1)
    bad: list[dict[str, Any]] = [
        {"order": "age"},
        {"limit": 0},
        {"limit": None},
        {"limit": True},
        {"prefix": 5},
        {"cursor": "other"},
    ]
    for arguments in bad:
        with pytest.raises(InvalidArgument, match=next(iter(arguments))):
            await saver("threads", **arguments)


async def test_the_numbers_of_a_database_tell_what_waits_for_a_sweep(
    open_saver: Callable[..., Face], clock: Clock
) -> None:
    saver = open_saver(ttl=HALF_HOUR)
    for name in ("a", "b"):
        thread = Thread(saver, name)
        await thread.put({"list": ["x" * 200, "y" * 200]})
        await thread.put({"n": 1})
    kept = Thread(saver, "kept", session_ttl=KEEP)
    await kept.put({"n": 1})
    await kept.put({"n": 2})
    await Thread(saver, "pinned", session_ttl=None).put({"n": 1})
    stats = await saver("stats")
    assert (stats.threads, stats.expired, stats.idle, stats.checkpoints) == (4, 0, 0, 7)
    clock.advance(minutes=31)
    stats = await saver("stats")
    assert (stats.threads, stats.expired, stats.idle, stats.checkpoints) == (2, 2, 1, 2)
    assert stats.size > 0
    await saver("sweep")
    stats = await saver("stats")
    assert (stats.threads, stats.expired, stats.idle, stats.checkpoints) == (2, 0, 0, 2)
    await saver("delete_thread", "kept")
    assert (await saver("stats")).tombstones == 1
