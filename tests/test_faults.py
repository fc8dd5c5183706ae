import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from faults import CutProxy
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers import Redis, valkey_binary


@pytest.fixture
def direct(start_server: Callable[..., Any]) -> Iterator[redis.Redis]:
    server = start_server(Redis, valkey_binary())
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def proxy(direct: redis.Redis) -> Iterator[CutProxy]:
    port = direct.get_connection_kwargs()["port"]
    with CutProxy(f"redis://127.0.0.1:{port}/0") as proxy:
        yield proxy


@pytest.fixture
def client(proxy: CutProxy) -> Iterator[redis.Redis]:
    """Doesn't try again, so that each fault is seen."""
    never = Retry(NoBackoff(), 0)
    with redis.Redis.from_url(proxy.url, retry=never, socket_timeout=0.5) as client:
        client.set("n", 0)
        yield client


def test_everything_passes_both_ways(client: redis.Redis, proxy: CutProxy) -> None:
    client.set("large", "x" * 1_000_000)
    assert len(client.get("large")) == 1_000_000
    assert proxy.accepted == 1


def ping(connection: socket.socket) -> bytes:
    connection.sendall(b"PING\r\n")
    return connection.recv(100)


def test_cut_connections_end_in_order_and_new_ones_work(proxy: CutProxy) -> None:
    with socket.create_connection(proxy.address) as first:
        assert ping(first) == b"+PONG\r\n"
        proxy.cut()
        assert first.recv(100) == b""
    with socket.create_connection(proxy.address) as second:
        assert ping(second) == b"+PONG\r\n"


def test_reset_connections_break_and_new_ones_work(proxy: CutProxy) -> None:
    with socket.create_connection(proxy.address) as first:
        assert ping(first) == b"+PONG\r\n"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            first.recv(100)
    with socket.create_connection(proxy.address) as second:
        assert ping(second) == b"+PONG\r\n"


def test_a_lost_reply_fails_after_the_server_has_acted_and_only_once(
    client: redis.Redis, proxy: CutProxy
) -> None:
    proxy.lose_reply()
    with pytest.raises(redis.ConnectionError):
        client.incr("n")
    assert client.incr("n") == 2


def test_a_refused_connection_fails_and_the_open_one_works(
    client: redis.Redis, proxy: CutProxy
) -> None:
    proxy.refuse()
    assert client.incr("n") == 1
    with redis.Redis.from_url(proxy.url, retry=Retry(NoBackoff(), 0)) as newcomer:
        with pytest.raises(redis.ConnectionError):
            newcomer.ping()
        proxy.pass_on()
        assert newcomer.ping()


def test_a_stalled_connection_answers_nothing_until_it_goes_on(
    client: redis.Redis, direct: redis.Redis, proxy: CutProxy
) -> None:
    proxy.stall()
    with pytest.raises(redis.TimeoutError):
        client.incr("n")
    assert direct.get("n") == b"0"
    proxy.pass_on()
    assert client.ping()


def test_a_delay_holds_back_request_and_reply(client: redis.Redis, proxy: CutProxy) -> None:
    proxy.delay(0.05)
    began = time.monotonic()
    client.ping()
    assert time.monotonic() - began >= 0.1


def test_a_dropped_connection_answers_nothing_and_new_ones_work(proxy: CutProxy) -> None:
    with socket.create_connection(proxy.address) as first:
        assert ping(first) == b"+PONG\r\n"
        proxy.drop()
        first.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ping(first)
        with socket.create_connection(proxy.address) as second:
            assert ping(second) == b"+PONG\r\n"


def test_round_trips_are_counted_not_pieces(proxy: CutProxy) -> None:
    with socket.create_connection(proxy.address) as connection:
        for count in (1, 2):
            connection.sendall(b"PI")
            connection.sendall(b"NG\r\n")
            assert connection.recv(100) == b"+PONG\r\n"
            assert proxy.round_trips == count
