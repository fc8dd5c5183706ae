"""Calls of one SQLite backend that wait for each other share a commit."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from primitives import Records, elements, new_save, new_write, on, open_records

from langgraph_sessionmem.backends.sqlite import SqliteBackend
from langgraph_sessionmem.errors import BackendUnavailable
from langgraph_sessionmem.rows import Outcome, Saved

pytestmark = on("sqlite")


@pytest.fixture
def records(database: Database) -> Records:
    found = open_records(database, is_async=True)
    found.backend.setup()
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Let others go on until `condition` holds."""
    while not condition():  # noqa: ASYNC110 - only the connection knows
        await asyncio.sleep(0)


class Held:
    """A database that another connection writes to, and the commits of ours meanwhile."""

    def __init__(self, connection: sqlite3.Connection, statements: list[str]) -> None:
        self.connection, self.statements = connection, statements

    @property
    def commits(self) -> int:
        return self.statements.count("commit")


@contextmanager
def held(database: Database, records: Records) -> Iterator[Held]:
    """Let calls come together: none of them gets on before the end of the block."""
    statements: list[str] = []
    ours: Any = records.backend
    ours._connection.set_trace_callback(statements.append)
    path = database.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        yield Held(connection, statements)
        connection.execute("commit")


async def together(
    database: Database, records: Records, *calls: Any
) -> tuple[list[Any], list[str]]:
    """What the calls give that came while the database was busy, and what was run for them."""
    with held(database, records) as busy:
        tasks = [asyncio.ensure_future(call) for call in calls]
        await until(lambda: "begin immediate" in busy.statements)
    return await asyncio.gather(*tasks, return_exceptions=True), busy.statements


async def test_calls_that_wait_for_each_other_share_a_commit(
    records: Records, database: Database
) -> None:
    calls = [records.put("c1", thread_id=f"t{number}") for number in range(12)]
    found, statements = await together(database, records, *calls)
    assert [saved.outcome for saved in found] == [Outcome.SAVED] * 12
    assert statements.count("commit") <= 3
    for number in range(12):
        assert await records.latest(f"t{number}") is not None


async def test_a_call_that_fails_in_a_shared_commit_fails_alone(
    records: Records, database: Database
) -> None:
    async def fail(inner: Any) -> None:
        await inner.save_checkpoint(new_save("c1", thread_id="bad", elements=elements(5, [b"a"])))
        raise ValueError("an operation of its own")

    await records.put("c1", thread_id="taken", elements=elements(5, [b"a"]))
    found, statements = await together(
        database,
        records,
        records.put("c1", thread_id="before"),
        records.put("c2", "c1", thread_id="taken", elements=elements(5, [b"other"])),
        records.backend.arun(fail),
        records.write("c1", [new_write("c1", 0, b"w")], thread_id="before"),
        records.put("c1", thread_id="after"),
    )
    before, taken, failed, written, after = found
    assert [before.outcome, written.outcome, after.outcome] == [Outcome.SAVED] * 3
    assert taken == Saved(Outcome.LOG_TAKEN, 0)
    assert isinstance(failed, ValueError)
    assert statements.count("commit") <= 3
    assert await records.writes("c1", "before") == {("task", 0): b"w"}
    assert list(await records.orders("taken")) == ["c1"]


async def test_a_full_disk_costs_only_the_call_that_fills_it(
    records: Records, database: Database
) -> None:
    connection: Any = records.backend._connection  # type: ignore[attr-defined]
    [(pages,)] = connection.execute("pragma page_count").fetchall()
    connection.execute(f"pragma max_page_count = {pages + 40}")
    large = records.put("c1", thread_id="large", head=b"x" * 1_000_000)
    small = [records.put("c1", thread_id=f"t{number}") for number in range(6)]
    found, _ = await together(database, records, *small[:3], large, *small[3:])
    failed = found.pop(3)
    assert isinstance(failed, BackendUnavailable)
    assert [saved.outcome for saved in found] == [Outcome.SAVED] * 6
    assert await records.latest("large") is None
    for number in range(6):
        assert await records.latest(f"t{number}") is not None


async def test_a_call_returns_when_everybody_can_see_what_it_stored(
    records: Records, database: Database
) -> None:
    path = database.url.removeprefix("sqlite:///")

    async def save(number: int) -> None:
        await records.put("c1", thread_id=f"t{number}")
        query = "select count(*) from sessionmem_threads where thread_id = ?"
        with closing(sqlite3.connect(path)) as other:
            assert other.execute(query, [f"t{number}"]).fetchone() == (1,)

    await asyncio.gather(*map(save, range(20)))


async def test_a_cancelled_call_that_had_not_begun_stores_nothing(
    records: Records, database: Database
) -> None:
    with held(database, records) as busy:
        first = asyncio.ensure_future(records.put("c1", thread_id="first"))
        await until(lambda: "begin immediate" in busy.statements)
        waiting = [
            asyncio.ensure_future(records.put("c1", thread_id=f"t{number}")) for number in range(4)
        ]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.sleep(0)
    assert (await first).outcome is Outcome.SAVED
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(found[1], asyncio.CancelledError)
    seen = [await records.latest(f"t{number}") is not None for number in range(4)]
    assert seen == [True, False, True, True]


async def test_blocking_callers_share_commits_too(records: Records, database: Database) -> None:
    blocking = Records(records.backend, False)

    def save(number: int) -> None:
        asyncio.run(blocking.put("c1", thread_id=f"t{number}"))

    threads = [threading.Thread(target=save, args=[number]) for number in range(12)]
    with held(database, records) as busy:
        for each in threads:
            each.start()
        await until(lambda: "begin immediate" in busy.statements)
        waiting: Any = records.backend
        await until(lambda: len(waiting._commits._waiting) == 11)
    for each in threads:
        await asyncio.to_thread(each.join)
    assert busy.commits == 2
    for number in range(12):
        assert await records.latest(f"t{number}") is not None


async def test_in_a_callers_own_transaction_nothing_is_committed(
    database: Database, tmp_path: Path
) -> None:
    connection = sqlite3.connect(tmp_path / "own.db", isolation_level=None, check_same_thread=False)
    backend = SqliteBackend(connection)
    records = database.adopt(Records(backend, True))
    await records.put("c0", thread_id="first")
    connection.execute("begin")
    saves = [records.put("c1", thread_id=f"t{number}") for number in range(6)]
    assert {saved.outcome for saved in await asyncio.gather(*saves)} == {Outcome.SAVED}
    assert connection.in_transaction
    connection.execute("rollback")
    assert [await records.latest(f"t{number}") for number in range(6)] == [None] * 6
    assert await records.latest("first") is not None
    await records.aclose()
    connection.close()
