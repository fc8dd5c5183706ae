from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import BACKENDS, Address, Clock, Database, Face, Servers


class Speaker:
    """A class with two faces."""

    def say(self, word: str, *, loud: bool = False) -> str:
        return word.upper() if loud else word

    async def asay(self, word: str, *, loud: bool = False) -> str:
        return f"a{self.say(word, loud=loud)}"

    def list(self, size: int) -> Iterator[int]:
        yield from range(size)

    async def alist(self, size: int) -> AsyncIterator[int]:
        for i in range(size):
            yield -i

    def name(self) -> str:
        return "one face only"


@pytest.mark.parametrize(
    ("is_async", "said", "listed"), [(False, "HI", [0, 1, 2]), (True, "aHI", [0, -1, -2])]
)
async def test_a_face_calls_its_own_methods(is_async: bool, said: str, listed: list[int]) -> None:
    face = Face(Speaker(), is_async)
    assert await face("say", "hi", loud=True) == said
    assert await face("list", 3) == listed
    assert await face("name") == "one face only"


def leave_something(database: Database) -> None:
    if database.name == "postgres":
        connection = database.servers.postgres_connection(database.url)
        schema = database.options["schema"]
        connection.execute(f"create schema {schema}")
        connection.execute(f"create table {schema}.leftovers (n int)")
    else:
        client = database.servers.redis_client(database.url)
        for n in range(30):
            client.set(f"{database.options['prefix']}{n}", n)


def what_is_left(database: Database) -> list[Any]:
    if database.name == "postgres":
        connection = database.servers.postgres_connection(database.url)
        query = "select schema_name from information_schema.schemata where schema_name = %s"
        return connection.execute(query, [database.options["schema"]]).fetchall()
    client = database.servers.redis_client(database.url)
    return list(client.scan_iter(match=f"{database.options['prefix']}*"))


@pytest.mark.parametrize("backend_name", [name for name in BACKENDS if name != "sqlite"])
def test_what_a_test_leaves_on_a_server_is_removed(
    backend_name: str, servers: Servers, tmp_path: Path
) -> None:
    with BACKENDS[backend_name](servers, tmp_path) as address:
        database = Database(backend_name, address, servers)
        leave_something(database)
        assert what_is_left(database)
    assert not what_is_left(database)


def test_the_clock_moves_what_is_open_and_what_is_opened_later() -> None:
    database = Database("sqlite", Address("sqlite://", {}), Servers())
    clock = Clock(database)
    early, late = (SimpleNamespace(backend=SimpleNamespace(offset_seconds=0.0)) for _ in range(2))
    database.adopt(early)
    clock.advance(minutes=1, seconds=1)
    database.adopt(late)
    clock.advance(hours=1)
    assert early.backend.offset_seconds == late.backend.offset_seconds == 3661
