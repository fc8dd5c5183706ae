"""Redis and Valkey, one node or a cluster: a client for blocking callers, one for each event loop.

Needs Redis 6.2 or Valkey, and core commands only. Keys and values are in `docs/format.md`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, cast

import redis
from typing_extensions import override

from langgraph_sessionmem.backends.base import Backend, Operation, Records, T
from langgraph_sessionmem.backends.redis_clients import Clients, GivenClient, UrlClients
from langgraph_sessionmem.backends.redis_links import Argument, Link
from langgraph_sessionmem.backends.redis_records import RedisRecords
from langgraph_sessionmem.errors import (
    BackendUnavailable,
    InvalidArgument,
    SchemaMissing,
    SchemaTooNew,
)
from langgraph_sessionmem.running import run_now

DEFAULT_PREFIX = "sessionmem:"
SCHEMA_VERSION = 1

_LOST = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ClusterDownError)
_DRIVER = (redis.RedisError, redis.exceptions.RedisClusterException)


class RedisBackend(Backend):
    """A Redis or Valkey server, or a cluster of them.

    Args:
        client: an open client. A blocking one serves blocking callers only, one of `redis.asyncio`
            only async callers.
        prefix: of every key.
        setup: record the schema version on first use; otherwise it must be there.

    Raises:
        InvalidArgument: it is no client, or decodes what it reads; or the prefix has a brace.
    """

    def __init__(self, client: Any, *, prefix: str = DEFAULT_PREFIX, setup: bool = True) -> None:
        if "{" in prefix or "}" in prefix:
            raise InvalidArgument(
                f"prefix={prefix!r}: leave out braces, a cluster would place keys by them."
            )
        is_ours = isinstance(client, UrlClients)
        self._clients: Clients = client if is_ours else GivenClient(client)
        self._prefix, self._setup = prefix.encode(), setup
        self._mark_key: bytes | None = None
        self._closed = False
        self.offset_seconds = 0.0

    @classmethod
    def from_url(cls, url: str, *, prefix: str = DEFAULT_PREFIX, setup: bool = True) -> Self:
        """For both faces; nothing is sent before the first operation.

        Args:
            url: `redis://`, `rediss://` or `unix://` as redis-py takes it, or
                `redis+cluster://host:port,host:port` (`rediss+cluster://`); its query may set
                options of the connections, such as `socket_timeout=3`.
            prefix: of every key.
            setup: record the schema version on first use; otherwise it must be there.

        Raises:
            InvalidArgument: the URL or the prefix can't be used.
        """
        return cls(UrlClients(url), prefix=prefix, setup=setup)

    @override
    def run(self, operation: Operation[T]) -> T:
        self._refuse_closed()
        with _mapped_errors():
            link = self._clients.blocking_link()
            try:
                return run_now(self._attempt(operation, link))
            except _LOST:
                # Every script has the same effect twice as once.
                return run_now(self._attempt(operation, link))

    @override
    async def arun(self, operation: Operation[T]) -> T:
        self._refuse_closed()
        with _mapped_errors():
            link = await self._clients.async_link()
            try:
                return await self._attempt(operation, link)
            except _LOST:
                return await self._attempt(operation, link)

    @override
    def setup(self) -> None:
        with _mapped_errors():
            self._mark_key = run_now(self._prepare(self._clients.blocking_link(), make=True))

    @override
    async def asetup(self) -> None:
        with _mapped_errors():
            self._mark_key = await self._prepare(await self._clients.async_link(), make=True)

    @override
    def close(self) -> None:
        self._closed = True
        self._clients.close()

    @override
    async def aclose(self) -> None:
        self._closed = True
        await self._clients.aclose()

    def _refuse_closed(self) -> None:
        if self._closed:
            # redis-py would open a new client, and nobody would close it.
            raise BackendUnavailable("This Redis backend was closed; open another one.")

    async def _attempt(self, operation: Operation[T], link: Link) -> T:
        if self._mark_key is None:
            self._mark_key = await self._prepare(link, make=self._setup)
        records = RedisRecords(link, self._prefix, self._mark_key, self.offset_seconds)
        # Of the two products only the saver works on Redis; the store refuses before it gets here.
        return await operation(cast("Records", records))

    async def _prepare(self, link: Link, *, make: bool) -> bytes:
        args: list[Argument] = [SCHEMA_VERSION, os.urandom(16), int(make)]
        version, mark_key = await link.call("setup", [self._prefix + b"meta"], args)
        found = int(version or 0)
        if found > SCHEMA_VERSION:
            raise SchemaTooNew(found, SCHEMA_VERSION)
        if found < SCHEMA_VERSION:
            raise SchemaMissing(
                f"Under {self._prefix.decode()!r} Redis has schema version {found}, this package "
                f"needs {SCHEMA_VERSION}: call setup() once."
            )
        key: bytes = mark_key
        return key


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except _DRIVER as error:
        raise BackendUnavailable(f"Redis can't be reached or refused the call: {error}") from error
