"""The clients of redis-py behind a backend: made from a connection string, or given by the user."""

from collections.abc import Awaitable
from threading import Lock
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.cluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry
from typing_extensions import override

from langgraph_sessionmem.backends.redis_connections import (
    ASYNC_CONNECTIONS,
    BLOCKING_CONNECTIONS,
)
from langgraph_sessionmem.backends.redis_links import (
    MAX_CONNECTIONS,
    AsyncLink,
    BlockingLink,
    Link,
    LoopLinks,
)
from langgraph_sessionmem.errors import BackendUnavailable, InvalidArgument

_BLOCKING = (redis.Redis, redis.RedisCluster)
_ASYNC = (redis.asyncio.Redis, redis.asyncio.RedisCluster)
_DECODES = (
    "Redis would decode what it reads, but what is stored is bytes: leave out decode_responses."
)
_CHECKED: dict[str, Any] = {"health_check_interval": 60}
if hasattr(redis, "DriverInfo"):
    # Made here, or each connection would read files of the package in its event loop.
    _CHECKED["driver_info"] = redis.DriverInfo()
_TCP = {"socket_keepalive": True}


class Clients(Protocol):
    """Where a backend has its links from.

    Attributes:
        serves_blocking: there is a link of blocking callers.
    """

    serves_blocking: bool

    def blocking_link(self) -> Link:
        """The link of blocking callers.

        Raises:
            InvalidArgument: there is none, the client given is of the other face.
        """
        ...

    def async_link(self) -> Awaitable[Link]:
        """The link of the running event loop.

        Raises:
            InvalidArgument: there is none, the client given is of the other face.
        """
        ...

    def close(self) -> None:
        """Close what was opened here."""
        ...

    async def aclose(self) -> None:
        """`close` without blocking the loop."""
        ...


class GivenClient(Clients):
    """A client that the user made, of one face. It is never closed here.

    Raises:
        InvalidArgument: it is no client of redis-py, or decodes what it reads.
    """

    def __init__(self, client: Any) -> None:
        if not isinstance(client, (*_BLOCKING, *_ASYNC)):
            raise InvalidArgument(
                f"{client!r} is no client of redis-py: give a redis.Redis, redis.RedisCluster or "
                "one of redis.asyncio."
            )
        if client.get_encoder().decode_responses:
            raise InvalidArgument(_DECODES)
        self._blocking = BlockingLink(client) if isinstance(client, _BLOCKING) else None
        self.serves_blocking = self._blocking is not None
        self._links = LoopLinks(lambda: client, owned=False)

    @override
    def blocking_link(self) -> Link:
        if self._blocking is None:
            raise InvalidArgument(
                "The client given is one of redis.asyncio and serves async calls only: await the "
                "call's async twin, or give a connection string, which serves both."
            )
        return self._blocking

    @override
    async def async_link(self) -> AsyncLink:
        if self._blocking is not None:
            raise InvalidArgument(
                "The client given is a blocking one and serves blocking calls only: use the call's "
                "blocking twin, or give a connection string, which serves both."
            )
        return await self._links.here()

    @override
    def close(self) -> None:
        self._links.close()

    @override
    async def aclose(self) -> None:
        await self._links.aclose()


class UrlClients(Clients):
    """Makes the clients of a connection string: a blocking one, and one for each event loop.

    None of them repeats a call by itself: redis-py would, and two copies of a write might overtake
    each other.

    Args:
        url: the connection string.
        timeout_seconds: how long a caller may have to wait for a connection.

    Raises:
        InvalidArgument: the connection string can't be used.
    """

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self.serves_blocking = True
        self._is_cluster = "+cluster://" in url
        self._url, self._nodes = read_url(url)
        self._scheme = urlsplit(self._url).scheme
        self._options: dict[str, Any] = _CHECKED | ({} if url.startswith("unix://") else _TCP)
        self._lock, self._is_closed = Lock(), False
        self._blocking: tuple[BlockingLink, Any] | None = None
        self._timeout_seconds = timeout_seconds
        self._links = LoopLinks(self._open_async, owned=True)

    @override
    def blocking_link(self) -> Link:
        with self._lock:
            if self._is_closed:
                raise BackendUnavailable("This Redis backend was closed; open another one.")
            if self._blocking is None:
                client = self._open_blocking()
                self._blocking = BlockingLink(client), client
            return self._blocking[0]

    @override
    async def async_link(self) -> AsyncLink:
        return await self._links.here()

    @override
    def close(self) -> None:
        self._links.close()
        self._close_blocking()

    @override
    async def aclose(self) -> None:
        await self._links.aclose()
        self._close_blocking()

    def _close_blocking(self) -> None:
        with self._lock:
            opened, self._blocking, self._is_closed = self._blocking, None, True
        if opened is None:
            return
        link, client = opened
        link.close()
        if self._is_cluster:
            # Its own `close` leaves the nodes' connections to the garbage collector.
            client.disconnect_connection_pools()
        client.close()

    def _open_async(self) -> Any:
        options = {"retry": AsyncRetry(NoBackoff(), 0), "socket_timeout": None, **self._options}
        if self._is_cluster:
            nodes = [redis.asyncio.cluster.ClusterNode(*node) for node in self._nodes]
            return redis.asyncio.RedisCluster.from_url(
                self._url,
                startup_nodes=nodes,
                reinitialize_steps=0,  # each would close the connections of other calls
                **options,
            )
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            self._url, max_connections=MAX_CONNECTIONS, timeout=self._timeout_seconds, **options
        )
        pool.connection_class = ASYNC_CONNECTIONS[self._scheme]
        return redis.asyncio.Redis.from_pool(pool)

    def _open_blocking(self) -> Any:
        options = {
            "retry": Retry(NoBackoff(), 0),
            "max_connections": MAX_CONNECTIONS,
            "connection_class": BLOCKING_CONNECTIONS[self._scheme],
            "socket_timeout": self._timeout_seconds,
            "socket_connect_timeout": self._timeout_seconds,
            **self._options,
        }
        if self._is_cluster:
            node_class: Any = redis.cluster.ClusterNode  # its constructor has no types
            return redis.RedisCluster.from_url(
                self._url,
                startup_nodes=[node_class(*node) for node in self._nodes],
                connection_pool_class=redis.BlockingConnectionPool,
                **options,
            )
        options["timeout"] = self._timeout_seconds
        pool = redis.BlockingConnectionPool.from_url(self._url, **options)
        return redis.Redis.from_pool(pool)


def read_url(url: str) -> tuple[str, list[tuple[str, int]]]:
    """What redis-py understands of a connection string.

    Args:
        url: `redis://`, `rediss://`, `unix://`, `redis+cluster://host:port,host:port` or
            `rediss+cluster://`.

    Returns:
        A URL with one node, and the further nodes of a cluster.

    Raises:
        InvalidArgument: a host, port or option can't be read, or it asks for decoded responses.
    """
    others: list[tuple[str, int]] = []
    if "+cluster://" in url:
        scheme, _, rest = url.partition("+cluster://")
        authority, slash, path = rest.partition("/")
        if not slash:
            authority, mark, path = rest.partition("?")
            path = mark + path
        user, at, hosts = authority.rpartition("@")
        (host, port), *others = [_read_node(host) for host in hosts.split(",")]
        host = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{user}{at}{host}:{port}/{path}"
    parse_url: Any = redis.connection.parse_url  # it has no types
    try:
        parse_url(url)
    except ValueError as error:
        raise InvalidArgument(f"The Redis connection string can't be used: {error}.") from error
    if "decode_responses" in parse_qs(urlsplit(url).query):
        raise InvalidArgument(_DECODES)
    return url, others


def _read_node(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port or 6379
    except ValueError as error:
        raise InvalidArgument(f"{text!r} is no host:port of a Redis Cluster: {error}.") from error
    if not host:
        raise InvalidArgument(
            f"{text!r} is no host:port of a Redis Cluster: redis+cluster://host:port,host:port."
        )
    return host, port
