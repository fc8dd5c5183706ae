"""Threads to be talked to while connections break, and what must be left of them."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from conftest import BACKENDS, Face
from threads import Thread, place

SHORT, LONG = timedelta(seconds=0.4), timedelta(seconds=60)
MANNERS = [("postgres", "async"), ("valkey", "blocking"), ("valkey", "async")]
"""On PostgreSQL both faces take the same way: async callers hop into a thread."""
on_servers = pytest.mark.parametrize(
    ("backend_name", "face_name"),
    [manner for manner in MANNERS if manner[0] in BACKENDS],
    indirect=["face_name"],
)
postgres_only = pytest.mark.parametrize("backend_name", ["postgres"])


def texts(count: int) -> list[str]:
    return [f"text {n} " * 10 for n in range(count)]


async def talk(thread: Thread, first: int, last: int) -> None:
    """Put a checkpoint and its writes for each of `first` to `last - 1`."""
    for n in range(first, last):
        await thread.put({"list": texts(n + 1), "n": n})
        await thread.write([("n", n)])


async def check(saver: Face, thread_id: str, count: int) -> None:
    """That the thread has so many checkpoints, each once and whole."""
    listed = await saver("list", place(thread_id))
    values = [found.checkpoint["channel_values"] for found in listed]
    assert values == [{"list": texts(n + 1), "n": n} for n in reversed(range(count))]
    assert [found.pending_writes for found in listed] == [
        [("task", "n", n)] for n in reversed(range(count))
    ]


async def all_at_once(saver: Face, count: int, call: Callable[[Face, int], Any]) -> list[Any]:
    """What `call` gives or raises, begun together: in tasks, or in threads for the blocking."""
    if saver.is_async:
        return await asyncio.gather(*(call(saver, n) for n in range(count)), return_exceptions=True)

    def finish(n: int) -> Any:
        try:
            return asyncio.run(call(saver, n))
        except Exception as error:  # noqa: BLE001 - as `gather` gives it
            return error

    with ThreadPoolExecutor(count) as pool:
        return await asyncio.to_thread(lambda: list(pool.map(finish, range(count))))


def allow(timeout: timedelta, *savers: Face) -> None:
    """Change the limit of savers that are open: a busy machine shall be no failure."""
    for saver in savers:
        saver.target.backend._timeout_seconds = timeout.total_seconds()


def new_id() -> str:
    return f"t{threading.get_ident()}-{next(_ids)}"


_ids = iter(range(1_000_000))
