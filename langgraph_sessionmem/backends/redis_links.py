"""How a script reaches Redis or Valkey: once for each face, the same for one node and a cluster."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from hashlib import sha1
from importlib import resources
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeAlias

import redis
import redis.asyncio
from redis.exceptions import NoScriptError
from typing_extensions import override

Argument: TypeAlias = bytes | str | int
Call: TypeAlias = tuple[Sequence[bytes], Sequence[Argument]]
"""The keys and the arguments of a script."""

MAX_CONNECTIONS = 50

_CLOSING: set[asyncio.Task[None]] = set()
_FOLDER = resources.files("langgraph_sessionmem.backends") / "lua"


class Script(NamedTuple):
    """A Lua script and the name under which a server remembers it."""

    text: bytes
    sha: str


@cache
def load_script(name: str) -> Script:
    """The script `lua/{name}.lua`, with what all of them share."""
    files = ("common.lua", f"{name}.lua")
    text = b"\n".join((_FOLDER / file).read_bytes() for file in files)
    return Script(text, sha1(text, usedforsecurity=False).hexdigest())


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

    @override
    async def call(self, script: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        text, sha = load_script(script)
        try:
            return self._client.execute_command("EVALSHA", sha, len(keys), *keys, *args)
        except NoScriptError:
            return self._client.execute_command("EVAL", text, len(keys), *keys, *args)

    @override
    async def call_all(self, script: str, calls: Sequence[Call]) -> list[Any]:
        if len(calls) == 1 or isinstance(self._client, redis.RedisCluster):
            # A cluster's pipeline takes no EVALSHA, and sends EVALs one by one.
            return [await self.call(script, keys, args) for keys, args in calls]
        with self._client.pipeline(transaction=False) as pipeline:
            for command in _commands(script, calls):
                pipeline.execute_command(*command)
            return list(pipeline.execute())


class AsyncLink(Link):
    """Over an asyncio client, of one node or of a cluster, in one event loop.

    Args:
        client: the client.
        timeout_seconds: how long a call may take; `None` for what the client says itself.
    """

    def __init__(self, client: Any, timeout_seconds: float | None) -> None:
        self._client, self._timeout_seconds = client, timeout_seconds
        self._is_cluster = isinstance(client, redis.asyncio.RedisCluster)
        # The clients raise where their pool is exhausted, those of a cluster always do.
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)

    @override
    async def call(self, script: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        text, sha = load_script(script)
        async with self._free:
            try:
                return await self._execute("EVALSHA", sha, len(keys), *keys, *args)
            except NoScriptError:
                return await self._execute("EVAL", text, len(keys), *keys, *args)

    @override
    async def call_all(self, script: str, calls: Sequence[Call]) -> list[Any]:
        if len(calls) == 1 or self._is_cluster:
            return await asyncio.gather(*(self.call(script, keys, args) for keys, args in calls))
        async with (
            self._free,
            self._limited(),
            self._client.pipeline(transaction=False) as pipeline,
        ):
            for command in _commands(script, calls):
                pipeline.execute_command(*command)
            return list(await pipeline.execute())

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.aclose()
        if self._is_cluster:
            # After a lost connection the client thinks that it has none.
            await self._client.nodes_manager.aclose()
            # A cancelled attempt leaves its connections under the second name.
            await self._client.nodes_manager.aclose("startup_nodes")

    async def _execute(self, *command: Argument) -> Any:
        async with self._limited():
            if not self._is_cluster:
                return await self._client.execute_command(*command)
            # A client that doesn't know the slots yet asks any node, and all calls at once would.
            await self._client.initialize()
            try:
                return await self._client.execute_command(*command)
            except AttributeError as error:
                # It closes the connections of other calls when it finds that the cluster changed.
                raise redis.ConnectionError("The connection was closed by another call.") from error

    @asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        # Not the client's own: on Python 3.11 it loses a cancellation that comes with a reply.
        try:
            async with asyncio.timeout(self._timeout_seconds):
                yield
        except TimeoutError as error:
            raise redis.TimeoutError(f"no answer within {self._timeout_seconds} s") from error


_Ending: TypeAlias = tuple[AsyncLink, AsyncGenerator[None]]
"""A link, and the generator whose end closes it."""


class LoopLinks:
    """A link for each event loop: an asyncio client serves only the one it connected in.

    Args:
        make: a new client.
        owned: close what `make` gave, at the end of its loop at the latest.
        timeout_seconds: how long a call may take; `None` for what the client says itself.
    """

    def __init__(
        self, make: Callable[[], Any], *, owned: bool, timeout_seconds: float | None = None
    ) -> None:
        self._make, self._owned, self._timeout_seconds = make, owned, timeout_seconds
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
            link = AsyncLink(self._make(), self._timeout_seconds)
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


def _commands(script: str, calls: Sequence[Call]) -> Iterator[tuple[Argument, ...]]:
    """The script's text once, then only its name."""
    text, sha = load_script(script)
    for number, (keys, args) in enumerate(calls):
        head = ("EVALSHA", sha) if number else ("EVAL", text)
        yield (*head, len(keys), *keys, *args)
