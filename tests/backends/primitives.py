"""The primitives of a backend, called through one face, and rows to call them with."""

from collections.abc import Sequence
from typing import Any

import pytest
from conftest import BACKENDS, Database

from langgraph_sessionmem.backends.base import Backend
from langgraph_sessionmem.backends.opening import open_backend
from langgraph_sessionmem.rows import (
    Block,
    CheckpointRow,
    CheckpointSave,
    CheckpointScan,
    Element,
    Limits,
    OrderKey,
    Prune,
    Run,
    Saved,
    ThreadScan,
    WriteRow,
    WritesSave,
)

FOR_EVER = Limits()
HOSTILE = [
    *("a*", "[ab]", "a?", "a\\b", "a|b", "%", "_", "{x}", "}{", ":", "a:b", "a", "'", '"', ""),
    *(
        "\x00",
        "a\x00",
        "a\x00b",
        "\x01",
        "a\x01\x01b",
        "\x7f",
        "日本語",
        "é",
        "e\u0301",
        "\U0001f600",
    ),
    *("a" * 3_000, "A", " a", "a ", "-", "+", "(a"),
]
MINUTE = 60.0


class Records:
    """Calls primitives of an open backend through one face: `await records("touch_thread", …)`."""

    def __init__(self, backend: Backend, is_async: bool) -> None:
        self.backend, self.is_async = backend, is_async

    async def __call__(self, primitive: str, *arguments: Any, **named: Any) -> Any:
        def operation(records: Any) -> Any:
            return getattr(records, primitive)(*arguments, **named)

        if self.is_async:
            return await self.backend.arun(operation)
        return self.backend.run(operation)

    async def put(self, checkpoint_id: str, parent_id: str | None = None, **changes: Any) -> Saved:
        """Save a checkpoint of thread `t`, or as `changes` have it."""
        return await self("save_checkpoint", new_save(checkpoint_id, parent_id, **changes))

    async def write(self, checkpoint_id: str, rows: Sequence[WriteRow], **changes: Any) -> Saved:
        """Save writes to a checkpoint of thread `t`, or as `changes` have it."""
        save = WritesSave("t", "", checkpoint_id, rows, None, Limits(), False)
        return await self("save_writes", save._replace(**changes))

    async def latest(self, thread_id: str = "t", namespace: str = "") -> CheckpointRow | None:
        found = await self("read_checkpoint", thread_id, namespace, None)
        return found and found[0]

    async def writes(
        self, checkpoint_id: str, thread_id: str = "t"
    ) -> dict[tuple[str, int], bytes]:
        _, rows = await self("read_checkpoint", thread_id, "", checkpoint_id)
        return {(row.task_id, row.idx): row.body for row in rows}

    async def orders(
        self, thread_id: str = "t", namespace: str | None = None
    ) -> dict[str, OrderKey]:
        scan = CheckpointScan(thread_id, namespace, limit=1_000)
        return {row.checkpoint_id: row.order for row in await self("scan_checkpoints", scan)}

    async def expires_after(self, thread_id: str = "t") -> float | None:
        """Seconds from the thread's last checkpoint to its expiry."""
        for row in await self("scan_threads", ThreadScan()):
            if row.thread_id == thread_id:
                return None if row.expires_at is None else row.expires_at - row.updated_at
        raise AssertionError(f"no thread {thread_id!r}")

    async def aclose(self) -> None:
        await self.backend.aclose()


def new_save(checkpoint_id: str, parent_id: str | None = None, **changes: Any) -> CheckpointSave:
    save = CheckpointSave(
        thread_id="t",
        checkpoint_ns="",
        checkpoint_id=checkpoint_id,
        parent_id=parent_id,
        run_id=None,
        head=b"head of " + checkpoint_id.encode(),
        metadata=b"metadata",
        elements=(),
        generation=None,
        begins=False,
        limits=Limits(),
        sticky=False,
        pending=False,
    )
    return save._replace(**changes)


def new_write(
    checkpoint_id: str, idx: int, body: bytes, *, task_id: str = "task", namespace: str = ""
) -> WriteRow:
    return WriteRow(namespace, checkpoint_id, task_id, idx, "~path", "channel", body)


def elements(log: int, bodies: Sequence[bytes], start: int = 0) -> list[Element]:
    return [Element(log, position, body) for position, body in enumerate(bodies, start)]


def open_records(database: Database, url: str | None = None, *, is_async: bool = False) -> Records:
    """The primitives of a new backend of the database, by the test's clock."""
    backend = open_backend(url or database.url, **database.options)
    return database.adopt(Records(backend, is_async))


def on(*names: str) -> pytest.MarkDecorator:
    """Runs a test on the named backends, those of them that can run here."""
    return pytest.mark.parametrize("backend_name", [name for name in names if name in BACKENDS])


def keys_of(database: Database) -> dict[str, int]:
    """The test's Redis keys without prefix, with the milliseconds they live (-1: for ever)."""
    client, prefix = database.servers.redis_client(database.url), database.options["prefix"]
    keys = list(client.scan_iter(match=f"{prefix}*", count=1_000))
    return {key.decode().removeprefix(prefix): client.pttl(key) for key in keys}


async def fill(records: Records, thread_id: str = "t", limits: Limits = FOR_EVER) -> int:
    """A thread with logs, forks, a namespace, writes and early writes; gives its generation."""
    logs = elements(5, [b"a", b"b"]) + elements(6, [b"x"])
    here: dict[str, Any] = {"thread_id": thread_id, "limits": limits}
    saved = await records.put("c5", elements=logs, **here)
    await records.put("c4", "c5", elements=elements(7, [b"fork"]), **here)
    await records.put("c1", checkpoint_ns="sub", **here)
    await records.write("c5", [new_write("c5", 0, b"w")], thread_id=thread_id)
    await records.write("c9", [new_write("c9", 0, b"early")], thread_id=thread_id)
    return saved.generation


async def chain(records: Records, *names: str, **changes: Any) -> int:
    """Checkpoints that follow each other; gives the thread's generation."""
    generation, parent = 0, None
    for name in names:
        generation = (await records.put(name, parent, **changes)).generation
        parent = name
    return generation


async def row_of(records: Records, name: str) -> Any:
    row, _ = await records("read_checkpoint", "t", "", name)
    return row


async def sealed(records: Records) -> int:
    """A thread with a log of six elements, of which the first four are sealed."""
    bodies = [b"a", b"b", b"c", b"d", b"e", b"f"]
    await records.put("c1", elements=elements(5, bodies))
    saved = await records.put("c2", "c1", blocks=[Block(5, 0, 3, b"block")])
    return saved.generation


async def read(records: Records, generation: int, *runs: Run) -> list[Element]:
    return sorted(await records("read_elements", "t", generation, runs))


async def prune(records: Records, generation: int, **changes: Any) -> bool:
    thread = await records("read_thread", "t")
    plan = Prune("t", generation, thread.seq, (), ())
    done: bool = await records("save_pruned", plan._replace(**changes))
    return done


async def ancestors(records: Records, name: str | None, limit: int = 100) -> list[str]:
    found = await records("read_ancestors", "t", "", name, limit)
    return [row.checkpoint_id for row in found]
