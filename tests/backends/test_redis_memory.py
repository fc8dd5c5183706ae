"""Redis and Valkey when memory is scarce, and how long they keep what was read."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from conftest import Clock, Database, Face
from langchain_core.messages import HumanMessage
from primitives import keys_of, on
from servers import Redis, valkey_binary
from threads import Thread

from langgraph_sessionmem import TTL, SessionSaver
from langgraph_sessionmem.errors import ThreadDamaged

HOUR = 3_600_000


async def test_a_thread_of_which_a_part_was_evicted_is_never_a_shorter_one(
    start_server: Callable[..., Any],
) -> None:
    options = ["--maxmemory", "5mb", "--maxmemory-policy", "volatile-ttl"]
    server = start_server(Redis, valkey_binary(), options=options)
    seen: Counter[str] = Counter()
    ttl = TTL(idle=timedelta(hours=1))
    with SessionSaver.from_conn_string(server.url, ttl=ttl) as saver:
        face = Face(saver, False)
        for number in range(120):
            thread = Thread(face, f"t{number}")
            messages = [HumanMessage("x" * 1_000, id=str(each)) for each in range(40)]
            await thread.put({"messages": messages[:30]})
            await thread.put({"messages": messages})
    with SessionSaver.from_conn_string(server.url, ttl=ttl) as saver:
        for number in range(120):
            try:
                values = await Thread(Face(saver, False), f"t{number}").load()
            except ThreadDamaged:
                seen["damaged"] += 1
            else:
                seen["gone" if values is None else str(len(values["messages"]))] += 1
    assert set(seen) <= {"damaged", "gone", "40"}
    assert seen["40"] > 10
    assert seen["gone"] > 10


@on("valkey", "cluster")
async def test_all_keys_of_a_thread_get_the_same_deadline_when_it_is_read(
    database: Database, clock: Clock
) -> None:
    saver = Face(database.open_saver(ttl=TTL(idle=timedelta(hours=1), refresh_on_read=True)), True)
    thread = Thread(saver)
    messages = [HumanMessage("x", id=str(each)) for each in range(4)]
    await thread.put({"messages": messages, "other": messages[:2]})
    for _ in range(3):
        clock.advance(minutes=30)
        assert await thread.load() is not None
        left = [left for key, left in keys_of(database).items() if ":t:" in key]
        assert len(left) == 4
        assert all(HOUR - 60_000 < each <= HOUR + HOUR / 16 for each in left)
        assert max(left) - min(left) < 1_000
