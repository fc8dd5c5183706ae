"""How a script reaches Redis or Valkey: once for each face, the same for one node and a cluster."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, Semaphore
from typing import Any, Protocol, TypeAlias

import redis
import redis.asyncio
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    TryAgainError,
)
from typing_extensions import override

from langgraph_sessionmem.backends.redis_batches import LANES, Batches
from langgraph_sessionmem.backends.redis_scripts import load_script
from langgraph_sessionmem.backends.time_limit import CURRENT_LIMIT, held
from langgraph_sessionmem.errors import BackendUnavailable

Argument: TypeAlias = bytes | str | int
Call: TypeAlias = tuple[Sequence[bytes], Sequence[Argument]]
"""The keys and the arguments of a script."""

MAX_CONNECTIONS = 50
_LOST = (redis.ConnectionError, redis.TimeoutError)
_REPEATED = (NoScriptError, MovedError, AskError, TryAgainError, ClusterDownError, *_LOST)

_CLOSING: set[asyncio.Task[None]] = set()


class Link(Protocol):
    """Runs scripts. Each of ours has the same effect twice as once, so they may be repeated."""

    async def call(self, script: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        """What the script of this name gives; one round trip."""
        ...

    async def call_all(self, script: str, calls: Sequence[Call]) -> list[Any]:
        """What the script gives for each call, in order; one round trip, in a cluster one each."""
        ...


class BlockingLink(Link):
    """Over a blocking client, of one node or of a cluster."""

    def __init__(self, client: Any) -> None:
        self._client = client
        # The clients raise where their pool is exhausted, or wait as long as for the last try.
        self._free, self._is_closed = Semaphore(MAX_CONNECTIONS), False

    @override
    async def call(self, script: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        text, sha = load_script(script)
        with self._turn():
            try:
                return self._client.execute_command("EVALSHA", sha, len(keys), *keys, *args)
            except NoScriptError:
                return self._client.execute_command("EVAL", text, len(keys), *keys, *args)

    @override
    async def call_all(self, script: str, calls: Sequence[Call]) -> list[Any]:
        if len(calls) == 1:
            return [await self.call(script, *calls[0])]
        with self._turn():
            if isinstance(self._client, redis.RedisCluster):
                answers = self._call_nodes(script, calls)
            else:
                answers = _call_node(self._client, script, calls)
        return [
            await self.call(script, *call) if _is_to_repeat(answer) else answer
            for call, answer in zip(calls, answers, strict=True)
        ]

    def _call_nodes(self, script: str, calls: Sequence[Call]) -> list[Any]:
        """The answers of a cluster: a cluster's own pipeline takes no EVALSHA."""
        indexes: dict[Any, list[int]] = defaultdict(list)
        for index, (keys, _) in enumerate(calls):
            indexes[self._client.get_node_from_key(keys[0])].append(index)
        answers: list[Any] = [None] * len(calls)
        for node, own in indexes.items():
            try:
                client = self._client.get_redis_connection(node)
                found = _call_node(client, script, [calls[index] for index in own])
            except _LOST as error:
                found = [error] * len(own)
            for index, answer in zip(own, found, strict=True):
                answers[index] = answer
        return answers

    def close(self) -> None:
        """Wait for the calls under way, each of which has its limit, and take no more."""
        self._is_closed = True
        for _ in range(MAX_CONNECTIONS):
            self._free.acquire()
        self._free.release(MAX_CONNECTIONS)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        limit = CURRENT_LIMIT.get()
        with self._free if limit is None else held(self._free, limit):
            if self._is_closed:
                raise BackendUnavailable("This Redis backend was closed; open another one.")
            yield


class AsyncLink(Link):
    """Over an asyncio client, of one node or of a cluster, in one event loop.

    Args:
        client: the client.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._is_cluster = isinstance(client, redis.asyncio.RedisCluster)
        self._batches = Batches(client)
        self._calls, self._is_closed, self._is_idle = 0, False, asyncio.Event()
        self._is_idle.set()
        # The clients raise where their pool is exhausted, those of a cluster always do.
        self._free = asyncio.Semaphore(MAX_CONNECTIONS - LANES)

    @override
    async def call(self, script: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        text, sha = load_script(script)
        with self._under_way():
            try:
                return await self._execute("EVALSHA", sha, len(keys), *keys, *args)
            except NoScriptError:
                return await self._execute("EVAL", text, len(keys), *keys, *args)

    @override
    async def call_all(self, script: str, calls: Sequence[Call]) -> list[Any]:
        if len(calls) == 1 or self._is_cluster:
            return await asyncio.gather(*(self.call(script, keys, args) for keys, args in calls))
        with self._under_way():
            async with self._free, self._client.pipeline(transaction=False) as pipeline:
                for command in _commands(script, calls):
                    pipeline.execute_command(*command)
                answers = await pipeline.execute(raise_on_error=False)
        return [
            await self.call(script, *call) if _is_to_repeat(answer) else answer
            for call, answer in zip(calls, answers, strict=True)
        ]

    async def aclose(self) -> None:
        """Wait for the calls under way, each of which has its limit, and close the client."""
        self._is_closed = True  # the client would open new connections for those that come later
        await self._is_idle.wait()
        await self._client.aclose()
        if self._is_cluster:
            # After a lost connection the client thinks that it has none.
            await self._client.nodes_manager.aclose()
            # A cancelled attempt leaves its connections under the second name.
            await self._client.nodes_manager.aclose("startup_nodes")

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        if self._is_closed:
            raise BackendUnavailable("This Redis backend was closed; open another one.")
        self._calls += 1
        self._is_idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._is_idle.set()

    async def _execute(self, *command: Argument) -> Any:
        if not self._is_cluster:
            return await self._batches.execute(command)
        async with self._free:
            # A client that doesn't know the slots yet asks any node, and all calls at once would.
            await self._client.initialize()
            try:
                return await self._client.execute_command(*command)
            except AttributeError as error:
                # It closes the connections of other calls when it finds that the cluster changed.
                raise redis.ConnectionError("The connection was closed by another call.") from error


_Ending: TypeAlias = tuple[AsyncLink, AsyncGenerator[None]]
"""A link, and the generator whose end closes it."""


class LoopLinks:
    """A link for each event loop: an asyncio client serves only the one it connected in.

    Args:
        make: a new client.
        owned: close what `make` gave, at the end of its loop at the latest.
    """

    def __init__(self, make: Callable[[], Any], *, owned: bool) -> None:
        self._make, self._owned = make, owned
        self._lock = Lock()
        self._links: dict[asyncio.AbstractEventLoop, _Ending] = {}
        self._endings: dict[asyncio.AbstractEventLoop, _Ending] = {}

    async def here(self) -> AsyncLink:
        """The link of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._links:
                return self._links[loop][0]
            for links in (self._links, self._endings):
                for other in [other for other in links if other.is_closed()]:
                    del links[other]
            link = AsyncLink(self._make())
            closing = self._close_at_the_end(link)
            self._links[loop] = link, closing
        # Begun here, it is one of the generators that the loop finishes before it is closed.
        await anext(closing)
        return link

    def close(self) -> None:
        """Have all clients closed, each in its loop, as soon as that runs."""
        for loop, (link, closing) in self._take():
            self._begin_to_close(loop, link, closing)

    async def aclose(self) -> None:
        """Close the client of the running loop; have the others closed."""
        here = asyncio.get_running_loop()
        for loop, (link, closing) in self._take():
            if loop is here:
                await closing.aclose()
            else:
                self._begin_to_close(loop, link, closing)

    def _take(self) -> list[tuple[asyncio.AbstractEventLoop, _Ending]]:
        with self._lock:
            taken = list(self._links.items())
            self._links.clear()
        return taken

    def _begin_to_close(
        self, loop: asyncio.AbstractEventLoop, link: AsyncLink, closing: AsyncGenerator[None]
    ) -> None:
        # Kept, for the loop may end before the task does.
        self._endings[loop] = link, closing
        if self._owned:
            with suppress(RuntimeError):  # the loop is closed, and so is what was opened in it
                loop.call_soon_threadsafe(_start_closing, loop, link)

    async def _close_at_the_end(self, link: AsyncLink) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            if self._owned:
                await link.aclose()


def _start_closing(loop: asyncio.AbstractEventLoop, link: AsyncLink) -> None:
    task = loop.create_task(link.aclose())
    _CLOSING.add(task)  # a loop holds its tasks only weakly
    task.add_done_callback(_CLOSING.discard)


def _call_node(client: Any, script: str, calls: Sequence[Call]) -> list[Any]:
    """The answers of one node, some of which may be errors."""
    with client.pipeline(transaction=False) as pipeline:
        for command in _commands(script, calls):
            pipeline.execute_command(*command)
        return list(pipeline.execute(raise_on_error=False))


def _commands(script: str, calls: Sequence[Call]) -> Iterator[tuple[Argument, ...]]:
    _, sha = load_script(script)
    for keys, args in calls:
        yield ("EVALSHA", sha, len(keys), *keys, *args)


def _is_to_repeat(answer: Any) -> bool:
    """Whether a call by itself may help: it loads a script, and finds a slot that has moved.

    Raises:
        redis.RedisError: it may not.
    """
    if isinstance(answer, _REPEATED):
        return True
    if isinstance(answer, Exception):
        raise answer
    return False
