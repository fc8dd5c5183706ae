"""Deadlines for what may take longer than we are willing to wait.

A blocking call can't be stopped from outside: it goes on in a daemon thread and its result is
dropped.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


def finish_within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a blocking call, run in a thread of its own with the caller's context.

    Raises:
        TimeoutError: it wasn't there in time; the call itself goes on and is ignored.
    """
    outcome: dict[str, Any] = {}
    context = contextvars.copy_context()

    def run() -> None:
        try:
            outcome["value"] = context.run(call)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True, name="sessionmem-deadline")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"No answer within {seconds:g} s.")
    if "error" in outcome:
        raise outcome["error"]
    value: T = outcome["value"]
    return value


async def wait_within(seconds: float, awaitable: Awaitable[T]) -> T:
    """The result of an awaitable; it is cancelled when the time is over.

    Raises:
        TimeoutError: it wasn't there in time.
    """
    async with asyncio.timeout(seconds):
        return await awaitable
