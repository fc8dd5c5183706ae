"""A thread of checkpoints, put as LangGraph does it; and what is stored of it, from behind."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from conftest import Database, Face
from langchain_core.runnables import RunnableConfig

TABLES = ("threads", "checkpoints", "elements", "writes", "early_writes", "runs", "tombstones")

_numbers = itertools.count(1)


def next_id() -> str:
    """A checkpoint id above all that came before."""
    return f"1{next(_numbers):011}"


def place(
    thread_id: str = "t", namespace: str = "", checkpoint_id: str | None = None, **more: Any
) -> RunnableConfig:
    """The config of a checkpoint, or of a thread's latest one."""
    configurable = {"thread_id": thread_id, "checkpoint_ns": namespace, **more}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


def new_checkpoint(
    checkpoint_id: str, values: Mapping[str, Any], versions: Mapping[str, Any]
) -> Any:
    return {
        "v": 4,
        "id": checkpoint_id,
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": dict(versions),
        "versions_seen": {"node": dict(versions)},
        "updated_channels": sorted(values),
    }


class Thread:
    """One thread of a saver.

    Args:
        saver: either face of it, or of another saver with the same methods.
        thread_id: the thread.
        namespace: the graph within it.
        more: further keys of `configurable`.

    Attributes:
        config: of the checkpoint that the next one follows.
        values: all channels as they are in it.
    """

    def __init__(self, saver: Face, thread_id: str = "t", namespace: str = "", **more: Any) -> None:
        self.saver, self.more = saver, more
        self.config = place(thread_id, namespace)
        self.values: dict[str, Any] = {}
        self.versions: dict[str, Any] = {}

    async def put(
        self,
        changed: Mapping[str, Any],
        *,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> RunnableConfig:
        """Put the next checkpoint, in which these channels have new values."""
        new_versions = {}
        for channel, value in changed.items():
            self.values[channel] = value
            current = self.versions.get(channel)
            new_versions[channel] = self.saver.target.get_next_version(current, None)
        self.versions |= new_versions
        configurable = {**self.config["configurable"], **self.more, **(more or {})}
        self.config = await self.saver(
            "put",
            {"configurable": configurable},
            new_checkpoint(checkpoint_id or next_id(), self.values, self.versions),
            {"source": "loop", "step": 0, "parents": {}, **(metadata or {})},
            new_versions,
        )
        return self.config

    async def write(
        self, writes: Sequence[tuple[str, Any]], task_id: str = "task", task_path: str = ""
    ) -> None:
        """Put pending writes of the latest checkpoint."""
        await self.saver("put_writes", self.config, writes, task_id, task_path)

    async def load(self, config: RunnableConfig | None = None) -> dict[str, Any] | None:
        """The values of the latest checkpoint, or of the one `config` names; goes on from there."""
        latest = {**self.config["configurable"]}
        latest.pop("checkpoint_id", None)
        found = await self.saver("get_tuple", config or {"configurable": latest})
        if found is None:
            return None
        self.config = found.config
        self.values = found.checkpoint["channel_values"]
        self.versions = dict(found.checkpoint["channel_versions"])
        return self.values


async def values_of(saver: Face, config: RunnableConfig) -> Any:
    """The values of a checkpoint, None if there is none."""
    found = await saver("get_tuple", config)
    return found and found.checkpoint["channel_values"]


def stored(database: Database, saver: Any) -> dict[str, int]:
    """How much there is of each kind: rows of each table, or for Redis elements and all keys.

    What belongs to the database as a whole is left out.
    """
    if database.name == "sqlite":
        connection = saver.backend._connection
        made = {name for (name,) in connection.execute("select name from sqlite_master")}
        return {
            table: connection.execute(f"select count(*) from sessionmem_{table}").fetchone()[0]
            for table in TABLES
            if f"sessionmem_{table}" in made
        }
    if database.name == "postgres":
        connection = database.servers.postgres_connection(database.url)
        schema = database.options["schema"]
        listing = "select tablename from pg_tables where schemaname = %s"
        made = {name for (name,) in connection.execute(listing, [schema])}
        rows = " union all ".join(
            f"select '{table}', count(*) from \"{schema}\".sessionmem_{table}"
            for table in TABLES
            if f"sessionmem_{table}" in made
        )
        if not rows:
            return {}
        return dict(connection.execute(rows).fetchall())
    client = database.servers.redis_client(database.url)
    prefix = database.options["prefix"].encode()
    keys = set(client.scan_iter(match=prefix + b"*", count=1_000))  # it may repeat a key
    logs = [key for key in keys if client.type(key) == b"list"]
    tombstones = [key for key in keys if key.endswith((b":tombstones", b":marks"))]
    places = [place for log in logs for place in client.lrange(log, 0, -1)]
    # A log of one element is a field of its thread.
    fields = (field for key in keys if client.type(key) == b"hash" for field in client.hkeys(key))
    places += [field for field in fields if re.fullmatch(rb"e\d+\x00", field)]
    return {
        "elements": sum(place not in (b"", b"\x00") for place in places),  # sealed, or cut away
        "tombstones": sum(map(client.zcard, tombstones)),
        "keys": len(keys) - len(tombstones) - (prefix + b"meta" in keys),
    }


def remains(database: Database, saver: Any) -> dict[str, int]:
    """What is left of any thread, tombstones apart."""
    found = stored(database, saver)
    return {kind: count for kind, count in found.items() if count and kind != "tombstones"}
