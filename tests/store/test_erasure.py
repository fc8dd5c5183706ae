"""What was deleted is looked for in the raw files, tables and keys, behind our code's back."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg.sql
import pytest
from conftest import Clock, Database, Face
from minds import minds

from langgraph_sessionmem import Event, Fact

CANARY = "zebrafinch"
VECTOR = [0.1234, 0.5678, 0.9012, 0.3456]
"""No other text has it; stored at length 1."""
PLAIN = [1.0, 0.0, 0.0, 0.0]
MINE, OTHERS = ("users", f"{CANARY}one"), ("users", "two")
INDEX: dict[str, Any] = {"dims": 4, "fields": ["text"]}


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [VECTOR if CANARY in text else PLAIN for text in texts]


def stored_vector() -> bytes:
    numbers = np.asarray(VECTOR, dtype=np.float64)
    return (numbers / np.linalg.norm(numbers)).astype("<f4").tobytes()


def raw(database: Database) -> bytes:
    """All bytes that the database holds for us."""
    if database.name == "sqlite":
        path = Path(database.url.removeprefix("sqlite:///"))
        return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))
    if database.name == "postgres":
        return _rows(database)
    client: Any = database.servers.redis_client(database.url)
    prefix = database.options["prefix"].encode()
    keys = list(client.scan_iter(match=prefix + b"*", count=1_000))
    return b"\n".join(part for key in keys for part in (key, *_contents(client, key)))


def _rows(database: Database) -> bytes:
    connection = database.servers.postgres_connection(database.url)
    schema = database.options["schema"]
    named = "select relname from pg_class where relnamespace = %s::regnamespace and relkind = 'r'"
    rows: list[str] = []
    for (table,) in connection.execute(named, (schema,)).fetchall():
        query = psycopg.sql.SQL("select t::text from {} t").format(
            psycopg.sql.Identifier(schema, table)
        )
        rows += [row for (row,) in connection.execute(query).fetchall()]
    text = "\n".join(rows)
    # A row's text shows bytes as hexadecimal digits.
    hidden = [bytes.fromhex(digits) for digits in re.findall(r"x((?:[0-9a-f]{2})+)", text)]
    return b"\n".join([text.encode(), *hidden])


def _contents(client: Any, key: bytes) -> list[bytes]:
    kind = client.type(key)
    if kind == b"string":
        return [client.get(key)]
    if kind == b"hash":
        return [part for pair in client.hgetall(key).items() for part in pair]
    if kind == b"set":
        return list(client.smembers(key))
    if kind == b"zset":
        return list(client.zrange(key, 0, -1))
    return list(client.lrange(key, 0, -1)) if kind == b"list" else []


def traces(database: Database) -> int:
    """How often the canary is still there: its text in any encoding we use, and its vector."""
    found = raw(database)
    return found.count(CANARY.encode()) + found.count(stored_vector())


async def fill(store: Face, ttl: float | None = None) -> None:
    """One user's items, full of canaries, between another's."""
    for number in range(12):
        value = {"text": f"{CANARY}text {number}", "deep": {CANARY: [f"{CANARY}leaf"]}, "n": number}
        await store("put", MINE, f"{CANARY}key{number}", value, ttl=ttl)
        await store("put", OTHERS, f"key{number}", {"text": f"plain {number}"})
    for number in range(0, 12, 2):  # so that there are former values, and freed places
        value = {"text": f"{CANARY}again {number}" * number, "position": number}
        await store("put", MINE, f"{CANARY}key{number}", value, ttl=ttl)


@pytest.mark.parametrize("way", ["erase", "delete", "expire"])
async def test_nothing_of_what_was_deleted_is_left_in_the_database(
    database: Database, clock: Clock, face_name: str, way: str
) -> None:
    index = {**INDEX, "embed": embed}
    store = Face(database.open_store(index=index), face_name == "async")
    await fill(store, ttl=1 if way == "expire" else None)
    assert traces(database) > 24, "the search finds what is there"
    if way == "erase":
        assert await store("erase", MINE) == 12
    elif way == "delete":
        for number in range(12):
            await store("delete", MINE, f"{CANARY}key{number}")
    else:
        clock.advance(minutes=2)
        assert await store("sweep") == 12
    assert traces(database) == 0
    assert await store("search", MINE, query=CANARY) == []
    assert len(await store("search", OTHERS, query="plain", limit=20)) == 12


async def test_nothing_of_forgotten_memories_is_left_in_the_database(
    database: Database, store: Face
) -> None:
    mine, others = minds(store, MINE), minds(store, OTHERS)
    for number in range(4):
        await mine("remember", Fact(CANARY, "code", f"{CANARY}{number}"))
        await others("remember", Fact("user", "code", f"plain{number}"))
    await mine("remember", Event(f"saw a {CANARY}"))
    await mine("retract", f"fact:{CANARY}/code", reason=f"no {CANARY}")
    assert traces(database) > 4
    assert await mine("forget_everything") == {"event": 1, "fact": 1}
    assert traces(database) == 0
    assert (await others("fact", "user", "code")).value == "plain3"
