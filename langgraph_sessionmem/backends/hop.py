"""Threads in which a blocking driver serves async callers."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from langgraph_sessionmem.backends.base import T
from langgraph_sessionmem.errors import BackendUnavailable


class Hop:
    """So many threads; a caller that is cancelled leaves its call to end by itself.

    Args:
        threads: how many calls can be under way at once.
        name: of the threads.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"sessionmem-{name}")

    async def __call__(self, call: Callable[[], T]) -> T:
        """What `call` gives, without blocking the loop.

        Raises:
            BackendUnavailable: the backend was closed.
        """
        try:
            future = self._executor.submit(call)
        except RuntimeError as error:
            raise BackendUnavailable("This backend was closed; open another one.") from error
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Wait for what is under way, and take no more."""
        self._executor.shutdown(wait=True)
