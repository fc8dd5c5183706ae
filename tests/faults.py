"""A TCP proxy that breaks connections in the ways networks do."""

import contextlib
import socket
import struct
import sys
import threading
import time
from typing import Literal, Self
from urllib.parse import urlsplit

Mode = Literal["pass", "refuse", "lose_reply"]


class Pair:
    """One connection to the proxy and the one it opened to the server for it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.ended = self.is_dropped = self.is_asking = False
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def end(self, *, with_reset: bool = False) -> None:
        """Wake the threads that wait on the pair; the one that serves it then closes both ends."""
        first = not self.ended
        self.ended = True
        if with_reset and first:
            reset_at_close(self.client)
        with contextlib.suppress(OSError):
            # A shutdown of the sending side would tell the client of an orderly end.
            self.client.shutdown(socket.SHUT_RD if with_reset else socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)


class CutProxy:
    """Stands before one server and passes everything on, until it is told otherwise.

    Each call changes what happens from now on; `pass_on` ends it. Connections that are cut or reset
    are gone for good; new ones are accepted unless `refuse` was called.

    Args:
        url: the server's connection string, with one host and a port.

    Attributes:
        address: where the proxy listens.
        url: the same connection string by way of the proxy.
        accepted: how many connections were opened to it.
        round_trips: how often a request followed on a reply, or on nothing.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        user, at, _ = parts.netloc.rpartition("@")
        self.url = parts._replace(netloc=f"{user}{at}127.0.0.1:{self.address[1]}").geturl()
        self.accepted = self.round_trips = 0
        self._mode: Mode = "pass"
        self._delay_seconds = 0.0
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = False
        self._lock = threading.Lock()
        self._pairs: set[Pair] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def pass_on(self) -> None:
        """Pass everything on again, also what was held back."""
        self._mode, self._delay_seconds = "pass", 0.0
        self._flowing.set()

    def refuse(self) -> None:
        """Reset new connections at once; those there are live on."""
        self._mode = "refuse"

    def stall(self) -> None:
        """Hold everything back; connections stay open and nobody hears anything."""
        self._flowing.clear()

    def drop(self) -> None:
        """Hold everything back on the connections there are, for good; new ones work.

        So does a firewall that forgot them.
        """
        for pair in self._open_pairs():
            pair.is_dropped = True

    def delay(self, seconds: float) -> None:
        """Hold every piece back for a while, in both directions."""
        self._delay_seconds = seconds

    def lose_reply(self) -> None:
        """Lose the server's next piece of reply and reset its connection, once.

        The server has done what it was asked, and the client doesn't know.
        """
        self._mode = "lose_reply"

    def cut(self) -> None:
        """End all connections in an orderly way, as a server that shuts down."""
        for pair in self._open_pairs():
            pair.end()

    def reset(self) -> None:
        """Reset all connections, as a server that crashed."""
        for pair in self._open_pairs():
            pair.end(with_reset=True)

    def close(self) -> None:
        """End everything."""
        if self._closed:
            return
        self._closed = True
        self.pass_on()
        # Closing a socket doesn't wake the thread that accepts on it; a connection does.
        socket.create_connection(self.address).close()
        self._threads[0].join()
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._closed:
                client.close()
                return
            self.accepted += 1
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                if self._mode == "refuse":
                    raise ConnectionRefusedError
                server = socket.create_connection(self._server, timeout=5)
            except OSError:
                reset_at_close(client)
                return
            with server:
                server.settimeout(None)
                pair = Pair(client, server)
                with self._lock:
                    self._pairs.add(pair)
                replies = threading.Thread(target=self._pass_replies, args=(pair,))
                replies.start()
                self._pass_requests(pair)
                replies.join()
                with self._lock:
                    self._pairs.discard(pair)

    def _pass_requests(self, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while piece := pair.client.recv(65_536):
                if not pair.is_asking:
                    pair.is_asking = True
                    with self._lock:
                        self.round_trips += 1
                self._hold(pair)
                pair.server.sendall(piece)
        if not pair.ended:
            pair.end()

    def _pass_replies(self, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while piece := pair.server.recv(65_536):
                pair.is_asking = False
                self._hold(pair)
                if self._mode == "lose_reply":
                    self._mode = "pass"
                    pair.end(with_reset=True)
                    return
                pair.client.sendall(piece)
        if not pair.ended:
            pair.end()

    def _hold(self, pair: Pair) -> None:
        while pair.is_dropped and not pair.ended:
            time.sleep(0.02)
        while not (self._flowing.wait(0.02) or pair.ended):
            pass
        time.sleep(self._delay_seconds)

    def _open_pairs(self) -> list[Pair]:
        with self._lock:
            return list(self._pairs)


def reset_at_close(end: socket.socket) -> None:
    """Let the other side see a reset when `end` is closed, not an orderly end."""
    linger = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
