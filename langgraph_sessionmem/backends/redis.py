"""Redis and Valkey, one node or a cluster: a client for blocking callers, one for each event loop.

Needs Redis 6.2 or Valkey, and core commands only. Keys and values are in `docs/format.md`.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self

import redis
from typing_extensions import override

from langgraph_sessionmem.backends.base import Backend, Operation, T
from langgraph_sessionmem.backends.redis_clients import Clients, GivenClient, UrlClients
from langgraph_sessionmem.backends.redis_links import Argument, Link
from langgraph_sessionmem.backends.redis_records import RedisRecords
from langgraph_sessionmem.backends.time_limit import DEFAULT_TIMEOUT, Pauses, TimeLimit, limited
from langgraph_sessionmem.errors import (
    BackendUnavailable,
    InvalidArgument,
    SchemaMissing,
    SchemaTooNew,
    TimedOut,
)
from langgraph_sessionmem.running import run_now

DEFAULT_PREFIX = "sessionmem:"
SCHEMA_VERSION = 1

_REFUSED = re.compile("permission|can't run this command|read only")
"""What servers say of a command in a script that the user may not call, or a replica not do."""
_LOST = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ClusterDownError)
_DRIVER = (redis.RedisError, redis.exceptions.RedisClusterException)


class RedisBackend(Backend):
    """A Redis or Valkey server, or a cluster of them.

    Args:
        client: an open client. A blocking one serves blocking callers only, one of `redis.asyncio`
            only async callers.
        prefix: of every key.
        setup: record the schema version on first use; otherwise it must be there.
        timeout_seconds: how long a call may take; on a blocking client given, its own limits count.

    Raises:
        InvalidArgument: it is no client, or decodes what it reads; or the prefix has a brace.
    """

    def __init__(
        self,
        client: Any,
        *,
        prefix: str = DEFAULT_PREFIX,
        setup: bool = True,
        timeout_seconds: float = DEFAULT_TIMEOUT.total_seconds(),
    ) -> None:
        if "{" in prefix or "}" in prefix:
            raise InvalidArgument(
                f"prefix={prefix!r}: leave out braces, a cluster would place keys by them."
            )
        is_ours = isinstance(client, UrlClients)
        self._clients: Clients = client if is_ours else GivenClient(client)
        self._prefix, self._setup = prefix.encode(), setup
        self._timeout_seconds = timeout_seconds
        self._mark_key: bytes | None = None
        self._closed = False
        self.offset_seconds = 0.0

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        prefix: str = DEFAULT_PREFIX,
        setup: bool = True,
        timeout_seconds: float = DEFAULT_TIMEOUT.total_seconds(),
    ) -> Self:
        """For both faces; nothing is sent before the first operation.

        Args:
            url: `redis://`, `rediss://` or `unix://` as redis-py takes it, or
                `redis+cluster://host:port,host:port` (`rediss+cluster://`); its query may set
                options of the connections, such as `socket_timeout=3`.
            prefix: of every key.
            setup: record the schema version on first use; otherwise it must be there.
            timeout_seconds: how long a call may take.

        Raises:
            InvalidArgument: the URL or the prefix can't be used.
        """
        return cls(
            UrlClients(url, timeout_seconds),
            prefix=prefix,
            setup=setup,
            timeout_seconds=timeout_seconds,
        )

    @property
    @override
    def prefers_small(self) -> bool:
        return True

    @property
    @override
    def is_async_only(self) -> bool:
        return not self._clients.serves_blocking

    @override
    def run(self, operation: Operation[T]) -> T:
        return self._use(lambda link: self._attempt(operation, link))

    @override
    async def arun(self, operation: Operation[T]) -> T:
        return await self._ause(lambda link: self._attempt(operation, link))

    @override
    def setup(self) -> None:
        self._mark_key = self._use(lambda link: self._prepare(link, make=True))

    @override
    async def asetup(self) -> None:
        self._mark_key = await self._ause(lambda link: self._prepare(link, make=True))

    @override
    def schema_version(self) -> int:
        return self._use(self._look)[0]

    @override
    async def aschema_version(self) -> int:
        version, _ = await self._ause(self._look)
        return version

    @override
    def close(self) -> None:
        self._closed = True
        self._clients.close()

    @override
    async def aclose(self) -> None:
        self._closed = True
        await self._clients.aclose()

    def _use(self, work: Callable[[Link], Coroutine[Any, Any, T]]) -> T:
        limit = TimeLimit(self._timeout_seconds)
        pauses = Pauses(limit)
        with _mapped_errors(limit), limited(limit):
            while True:
                self._refuse_closed()
                link = self._clients.blocking_link()
                try:
                    return run_now(work(link))
                except _LOST as error:
                    # Every script has the same effect twice as once.
                    time.sleep(self._pause(pauses, error))

    async def _ause(self, work: Callable[[Link], Coroutine[Any, Any, T]]) -> T:
        limit = TimeLimit(self._timeout_seconds)
        pauses = Pauses(limit)
        # Not redis-py's own limit: on Python 3.11 it loses a cancellation that comes with a reply.
        cutting = asyncio.timeout(limit.seconds)
        with _mapped_errors(limit):
            try:
                async with cutting:
                    while True:
                        self._refuse_closed()
                        link = await self._clients.async_link()
                        try:
                            return await work(link)
                        except _LOST as error:
                            await asyncio.sleep(self._pause(pauses, error))
            except TimeoutError as error:
                if cutting.expired():
                    raise TimedOut(limit.seconds) from error
                raise

    def _pause(self, pauses: Pauses, error: Exception) -> float:
        seconds = pauses.next(error)
        if seconds and self._mark_key is None and not isinstance(error, redis.TimeoutError):
            # It was never reached: the address is wrong rather than the server restarting.
            raise error
        return seconds

    def _refuse_closed(self) -> None:
        if self._closed:
            # redis-py would open a new client, and nobody would close it.
            raise BackendUnavailable("This Redis backend was closed; open another one.")

    async def _attempt(self, operation: Operation[T], link: Link) -> T:
        if self._mark_key is None:
            self._mark_key = await self._prepare(link, make=self._setup)
        records = RedisRecords(link, self._prefix, self._mark_key, self.offset_seconds)
        return await operation(records)

    async def _prepare(self, link: Link, *, make: bool) -> bytes:
        found, mark_key = await self._look(link)
        if make and (found < SCHEMA_VERSION or mark_key is None):
            try:
                found, mark_key = await self._look(link, make=True)
            except redis.ResponseError as error:
                if not _REFUSED.search(str(error)):
                    raise
                raise SchemaMissing(f"{self._missing(found)} ({error})") from error
        if found > SCHEMA_VERSION:
            raise SchemaTooNew(found, SCHEMA_VERSION)
        if found < SCHEMA_VERSION or mark_key is None:
            raise SchemaMissing(self._missing(found))
        return mark_key

    async def _look(self, link: Link, *, make: bool = False) -> tuple[int, bytes | None]:
        """The schema's version and the key of tombstones, after making what is missing of them."""
        args: list[Argument] = [SCHEMA_VERSION, os.urandom(16), int(make)]
        version, mark_key = await link.call("setup", [self._prefix + b"meta"], args)
        return int(version or 0), mark_key

    def _missing(self, found: int) -> str:
        return (
            f"Under {self._prefix.decode()!r} Redis has schema version {found}, this package needs "
            f"{SCHEMA_VERSION}: call setup() once, as a user who may write."
        )


@contextmanager
def _mapped_errors(limit: TimeLimit) -> Iterator[None]:
    try:
        yield
    except _DRIVER as error:
        if not limit.left_seconds:
            raise TimedOut(limit.seconds, error) from error
        raise BackendUnavailable(f"Redis can't be reached or refused the call: {error}") from error
