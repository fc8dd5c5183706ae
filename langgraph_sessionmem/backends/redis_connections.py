"""Connections of redis-py that know how long the call under way may take."""

import asyncio
from typing import Any

import redis
import redis.asyncio

from langgraph_sessionmem.backends.time_limit import CURRENT_LIMIT, TEST_SECONDS, TimeLimit, limited


class _Limited:
    """A blocking connection that waits for nothing longer than the call under way may take."""

    _socket_timeout: float | None
    _socket_connect_timeout: float | None
    _sock: Any

    @property
    def socket_timeout(self) -> float | None:
        return _shortest(self._socket_timeout)

    @socket_timeout.setter
    def socket_timeout(self, seconds: float | None) -> None:
        self._socket_timeout = seconds

    @property
    def socket_connect_timeout(self) -> float | None:
        return _shortest(self._socket_connect_timeout)

    @socket_connect_timeout.setter
    def socket_connect_timeout(self, seconds: float | None) -> None:
        self._socket_connect_timeout = seconds

    def check_health(self) -> None:
        limit = CURRENT_LIMIT.get()
        with limited(TimeLimit(TEST_SECONDS) if limit is None else limit.of_a_test()):
            super().check_health()  # type: ignore[misc]  # of the other base

    def send_packed_command(self, *args: Any, **options: Any) -> None:
        self._limit()
        super().send_packed_command(*args, **options)  # type: ignore[misc]  # as above

    def read_response(self, *args: Any, **options: Any) -> Any:
        self._limit()
        return super().read_response(*args, **options)  # type: ignore[misc]  # as above

    def _limit(self) -> None:
        if self._sock is not None:
            self._sock.settimeout(self.socket_timeout)


class _LimitedConnection(_Limited, redis.Connection):
    pass


class _LimitedSSLConnection(_Limited, redis.SSLConnection):
    pass


class _LimitedUnixConnection(_Limited, redis.UnixDomainSocketConnection):
    pass


class _Tested:
    """An asyncio connection that doesn't wait for ever when it is tested after a rest."""

    async def check_health(self) -> None:
        try:
            async with asyncio.timeout(TEST_SECONDS):
                await super().check_health()  # type: ignore[misc]  # of the other base
        except TimeoutError as error:
            raise redis.TimeoutError("a connection that rested doesn't answer") from error


class _TestedConnection(_Tested, redis.asyncio.Connection):
    pass


class _TestedSSLConnection(_Tested, redis.asyncio.SSLConnection):
    pass


class _TestedUnixConnection(_Tested, redis.asyncio.UnixDomainSocketConnection):
    pass


BLOCKING_CONNECTIONS: dict[str, type[Any]] = {
    "redis": _LimitedConnection,
    "rediss": _LimitedSSLConnection,
    "unix": _LimitedUnixConnection,
}
"""By the scheme of the connection string."""
ASYNC_CONNECTIONS: dict[str, type[Any]] = {
    "redis": _TestedConnection,
    "rediss": _TestedSSLConnection,
    "unix": _TestedUnixConnection,
}


def _shortest(seconds: float | None) -> float | None:
    """`seconds` (`None`: for ever), or what the call under way has left, if that is less."""
    limit = CURRENT_LIMIT.get()
    if limit is None:
        return seconds
    # 0 would mean not to wait at all, and is another error.
    left = max(limit.left_seconds, 0.001)
    return left if seconds is None else min(seconds, left)
