import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis
from conftest import Servers, connected
from processes import Server, ServerFailed, is_running, wait_until
from servers import Cluster, Postgres, Redis, valkey_binary

StartServer = Callable[..., Any]

# A run that starts servers, says what it has, and waits to be killed.
TEST_RUN = """
import json, psutil, sys
from servers import Postgres, Redis, valkey_binary

servers = [Postgres(), Redis(valkey_binary())]
me = psutil.Process()
print(json.dumps({
    "servers": [server.pid for server in servers],
    "keepers": [child.pid for child in me.children()],
    "everything": [child.pid for child in me.children(recursive=True)],
    "folders": [str(server.folder) for server in servers],
}), flush=True)
sys.stdin.read()
"""


def count(server: Server) -> int:
    """How often `count` was called for this server, by what the server remembers."""
    if isinstance(server, Redis):
        with redis.Redis.from_url(server.url) as client:
            return int(client.incr("n"))
    with psycopg.connect(server.url) as connection:
        connection.execute("create table if not exists calls (n int)")
        connection.execute("insert into calls values (1)")
        (calls,) = connection.execute("select count(*) from calls").fetchone() or (0,)
        return int(calls)


@pytest.fixture(params=["postgres", "valkey"])
def durable_server(request: pytest.FixtureRequest, start_server: StartServer) -> Server:
    server: Server
    if request.param == "postgres":
        server = start_server(Postgres, durable=True)
    else:
        server = start_server(Redis, valkey_binary(), durable=True)
    return server


def test_a_durable_server_keeps_port_and_data_whatever_ended_it(durable_server: Server) -> None:
    port = durable_server.port
    assert count(durable_server) == 1
    durable_server.kill()
    assert not durable_server.running
    durable_server.start()
    assert count(durable_server) == 2
    durable_server.stop(signal.SIGTERM)
    assert not durable_server.running
    durable_server.start()
    assert count(durable_server) == 3
    durable_server.restart()
    assert count(durable_server) == 4
    psutil.Process(durable_server.pid).kill()  # not by our hand
    wait_until(lambda: not durable_server.running, 10, "the killed server runs on")
    durable_server.restart()
    assert count(durable_server) == 5
    assert durable_server.port == port


def test_a_closed_server_leaves_no_process_and_no_folder(durable_server: Server) -> None:
    process = psutil.Process(durable_server.pid)
    keeper = process.parent()
    assert keeper is not None
    family = [keeper, *keeper.children(recursive=True)]
    assert process in family
    durable_server.close()
    durable_server.close()  # a second time does nothing
    assert not any(map(is_running, family))
    assert not durable_server.folder.exists()


def test_a_paused_postgres_hangs_on_open_connections_until_it_is_resumed(
    start_server: StartServer,
) -> None:
    server = start_server(Postgres)
    with psycopg.connect(server.url, autocommit=True) as connection:
        server.pause()
        connection.pgconn.send_query(b"select 1")
        assert not select.select([connection.fileno()], [], [], 0.2)[0]
        server.resume()
        assert select.select([connection.fileno()], [], [], 10)[0]
        while connection.pgconn.get_result():
            pass


def test_a_paused_valkey_hangs_until_it_is_resumed(start_server: StartServer) -> None:
    server = start_server(Redis, valkey_binary())
    with redis.Redis.from_url(server.url, socket_timeout=0.2, retry=None) as client:
        server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()
        assert client.ping()


def test_servers_answer_on_their_unix_socket_too(durable_server: Server) -> None:
    if isinstance(durable_server, Redis):
        with redis.Redis.from_url(durable_server.socket_url) as client:
            assert client.ping()
    else:
        with psycopg.connect(durable_server.socket_url) as connection:
            assert connection.execute("select 1").fetchone() == (1,)


def test_a_server_takes_settings(start_server: StartServer) -> None:
    server = start_server(Postgres, settings={"max_connections": "7"})
    with psycopg.connect(server.url) as connection:
        assert connection.execute("show max_connections").fetchone() == ("7",)
    server = start_server(Redis, valkey_binary(), options=["--maxmemory", "11mb"])
    with redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(11 * 2**20)}


def test_a_server_that_refuses_its_settings_fails_with_its_own_words(
    start_server: StartServer,
) -> None:
    with pytest.raises(ServerFailed, match="maxmemory"):
        Redis(valkey_binary(), options=["--maxmemory", "plenty"])


def test_postgres_has_pgvector(start_server: StartServer) -> None:
    server = start_server(Postgres)
    with psycopg.connect(server.url) as connection:
        connection.execute("create extension vector")
        distance = "select '[1,2]'::vector <-> '[4,6]'::vector"
        assert connection.execute(distance).fetchone() == (5.0,)


def test_a_durable_cluster_spreads_keys_over_three_nodes_and_keeps_them_in_a_crash(
    start_server: StartServer,
) -> None:
    cluster = start_server(Cluster, valkey_binary(), durable=True)
    keys = [f"key{n}" for n in range(60)]
    with connected(cluster.url) as client:
        for key in keys:
            client.set(key, key)
    cluster.kill()
    cluster.start()
    with connected(cluster.url) as client:
        assert [client.get(key) for key in keys] == [key.encode() for key in keys]
        homes = {client.get_node_from_key(key).port for key in keys}
    assert homes == {node.port for node in cluster.nodes}


# Without Linux's death signal nothing can watch over the keepers themselves.
@pytest.mark.parametrize("killed", ["run", "keepers"] if sys.platform == "linux" else ["run"])
def test_a_killed_test_run_leaves_no_server_behind(killed: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TEST_RUN],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        started = json.loads(run.stdout.readline())
        assert set(started["servers"]) < set(started["everything"])
        everything = [psutil.Process(pid) for pid in started["everything"]]
        for pid in [run.pid] if killed == "run" else started["keepers"]:
            os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: not any(map(is_running, everything)), 30, "servers of a killed run still run"
        )
    assert not [folder for folder in started["folders"] if Path(folder).exists()]


@pytest.mark.parametrize(
    ("ci", "outcome"),
    [("true", pytest.fail.Exception), ("1", pytest.fail.Exception), ("", pytest.skip.Exception)],
)
def test_a_missing_server_skips_with_the_install_command_and_fails_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    servers = Servers()
    for _ in range(2):
        with pytest.raises(outcome, match=r"no server at .*pip install"):
            servers.find("missing", lambda: Redis(Path("nowhere/redis-server")))
    servers.close()


def test_an_unreachable_server_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    servers = Servers()
    for open_connection in (
        lambda: servers.postgres_connection("postgresql://postgres@127.0.0.1:1/postgres"),
        lambda: servers.redis_client("redis://127.0.0.1:1/0"),
        lambda: servers.redis_client("redis+cluster://127.0.0.1:1,127.0.0.1:2"),
    ):
        with pytest.raises(pytest.fail.Exception, match=r"127\.0\.0\.1:1\b|port 1 "):
            open_connection()
    servers.close()
