"""A server process of the tests: started under a keeper, killed, paused, restarted, closed."""

import abc
import atexit
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil

KEEPER = Path(__file__).with_name("keeper.py")
SECONDS_TO_START = 60.0
SECONDS_TO_STOP = 30.0
LONGEST_PARENT = 60  # the path of a Unix socket may have about 100 bytes


class ServerMissing(Exception):
    """There is no binary to start; the message has the line that brings one."""


class ServerFailed(Exception):
    """The server ended, or wasn't ready in time; the message has the end of its log."""


def free_port() -> int:
    """A port nobody listens on, nor on the one 10,000 above it, where a cluster node has its bus.

    Both are below the range from which systems take the ports of outgoing connections: there, a
    client that retries while the server is down could be given the server's own port.
    """
    while True:
        port = 11_000 + secrets.randbelow(11_000)
        with contextlib.suppress(OSError):
            for candidate in (port, port + 10_000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", candidate))
            return port


def is_running(process: psutil.Process) -> bool:
    """Whether a process still does anything; one that only waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll the operating system until `condition` holds.

    Raises:
        ServerFailed: it doesn't within `seconds`; the message is `what`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailed(f"{what} within {seconds:g} s")
        time.sleep(0.01)


class Server(abc.ABC):
    """One server process with a folder of its own; starting it is part of making it.

    Attributes:
        port: the TCP port on 127.0.0.1, the same after every restart.
        folder: data, log and Unix socket; gone after `close`.
    """

    # A subclass sets these before it calls `__init__`: as whom to run, what a keeper removes too.
    ids: tuple[int, int] | None = None
    shared_folders: tuple[Path, ...] = ()

    def __init__(self) -> None:
        self.folder = new_folder(self.ids)
        self.log = self.folder / "log"
        self.port = free_port()
        self._keeper: subprocess.Popen[str] | None = None
        self._process: psutil.Process | None = None
        atexit.register(self.close)
        try:
            self._prepare()
            self._start_on_a_free_port()
        except BaseException:
            self.close()
            raise

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """The connection string over TCP."""

    @property
    @abc.abstractmethod
    def socket_url(self) -> str:
        """The connection string over the Unix socket."""

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Make what the first start needs."""

    @abc.abstractmethod
    def _command(self) -> list[str]:
        """The command line of the server."""

    @abc.abstractmethod
    def _is_ready(self) -> bool:
        """Whether this very server answers, not another one that took its port."""

    @property
    def pid(self) -> int:
        """The server's process id, or its last one."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and is_running(self._process)

    def start(self) -> None:
        """Start on the same port and data, and wait until the server answers.

        Raises:
            ServerFailed: it ended, or doesn't answer in time.
        """
        assert not self.running
        self._forget_keeper()
        user, group = self.ids or (None, None)
        settings = {
            "command": self._command(),
            "log": str(self.log),
            "user": user,
            "group": group,
            "folders": [str(self.folder), *map(str, self.shared_folders)],
            "pid_file": self._pid_file(),
        }
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", str(KEEPER), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=sys.platform != "win32",
        )
        assert self._keeper.stdout is not None
        pid = self._keeper.stdout.readline()
        if not pid:
            raise ServerFailed(f"{self._command()[0]} could not be started")
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process = psutil.Process(int(pid))
            wait_until(self._ready_or_ended, SECONDS_TO_START, f"{self.url} does not answer")
        if not self.running:
            raise ServerFailed(f"{self._command()[0]} ended:\n{self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End the server and all its processes with SIGKILL, as a crash would."""
        family = self._family()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        wait_until(
            lambda: not any(is_running(process) for process in family),
            SECONDS_TO_STOP,
            f"process {self.pid} survives SIGKILL",
        )
        self._forget_keeper()

    def stop(self, sig: int = signal.SIGINT) -> None:
        """Send `sig` and wait for the end; SIGINT is a fast shutdown, also with clients there."""
        self._send(sig)
        wait_until(
            lambda: not self.running, SECONDS_TO_STOP, f"process {self.pid} ignores signal {sig}"
        )
        self._forget_keeper()

    def pause(self) -> None:
        """Stop the server's processes as they are: connections stay, nothing answers."""
        for process in self._family():
            process.suspend()

    def resume(self) -> None:
        """Let paused processes go on."""
        for process in reversed(self._family()):
            process.resume()

    def restart(self) -> None:
        """Stop, if it runs, and start again on the same port and data."""
        if self.running:
            self.stop()
        self.start()

    def close(self) -> None:
        """End the server and remove what it left; a second call does nothing."""
        atexit.unregister(self.close)
        if self.running:
            try:
                self.resume()
                self.stop()
            except (ServerFailed, psutil.Error):
                self.kill()
        self._forget_keeper()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _start_on_a_free_port(self) -> None:
        for attempts_left in (2, 1, 0):
            try:
                return self.start()
            except ServerFailed:
                # Between our probe and the server's start somebody else may have taken the port.
                if self.running or not attempts_left:
                    raise
                self.port = free_port()
        return None

    def _ready_or_ended(self) -> bool:
        return self._is_ready() or not self.running

    def _family(self) -> list[psutil.Process]:
        assert self._process is not None
        try:
            # The parent first: a PostgreSQL that sees a child end in a crash would start recovery.
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _send(self, sig: int) -> None:
        assert self._process is not None
        self._process.send_signal(sig)

    def _pid_file(self) -> str | None:
        return None

    def _forget_keeper(self) -> None:
        if self._keeper is None:
            return
        # It ends by itself after its server. Closing the pipe first would tell it that we are gone.
        self._keeper.wait(SECONDS_TO_STOP)
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            assert pipe is not None
            pipe.close()
        self._keeper = None


def new_folder(ids: tuple[int, int] | None) -> Path:
    """A temporary folder that belongs to `ids` (None: to us) and that they can reach."""
    parent = Path(tempfile.gettempdir()).resolve()
    is_closed = ids and not all(p.stat().st_mode & 0o001 for p in (parent, *parent.parents))
    if sys.platform != "win32" and (is_closed or len(str(parent)) > LONGEST_PARENT):
        parent = Path("/tmp").resolve()  # noqa: S108  mkdtemp below is what makes it safe
    folder = Path(tempfile.mkdtemp(prefix="sessionmem-", dir=parent))
    if ids:
        os.chown(folder, *ids)
    return folder
