"""Async calls that go out together: each gets its own answer, or its own error."""

import asyncio
from collections.abc import Callable
from typing import Any

import redis.asyncio
from conftest import Database
from faults import CutProxy
from hypothesis import given, settings
from hypothesis import strategies as st
from primitives import Records, elements, on, open_records
from servers import Redis, valkey_binary

from langgraph_sessionmem.backends.redis import RedisBackend
from langgraph_sessionmem.backends.redis_batches import BATCH, LANES, Batches
from langgraph_sessionmem.errors import TimedOut
from langgraph_sessionmem.rows import Outcome, Run

on_valkey = on("valkey")


class Server:
    """A client whose answers are its commands; counts what is under way at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.most = self.under_way = 0

    async def execute_command(self, *command: Any) -> Any:
        [answer] = await self.answer([command])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def answer(self, commands: list[Any]) -> list[Any]:
        self.sizes.append(len(commands))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        wrong = redis.ResponseError("wrong")
        return [wrong if name == "fail" else name for name, *_ in commands]

    def pipeline(self, *, transaction: bool) -> "Pipeline":
        return Pipeline(self)


class Pipeline:
    def __init__(self, server: Server) -> None:
        self.server, self.commands = server, list[Any]()

    async def __aenter__(self) -> "Pipeline":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def execute_command(self, *command: Any) -> None:
        self.commands.append(command)

    async def execute(self, *, raise_on_error: bool) -> list[Any]:
        return await self.server.answer(self.commands)


@given(st.lists(st.sampled_from(["a", "b", "fail"]), max_size=300))
@settings(max_examples=30)
async def test_every_command_gets_its_own_answer(names: list[str]) -> None:
    server = Server()
    batches = Batches(server)
    found = await asyncio.gather(
        *(batches.execute([name]) for name in names), return_exceptions=True
    )
    for name, answer in zip(names, found, strict=True):
        assert isinstance(answer, redis.ResponseError) if name == "fail" else answer == name
    assert sum(server.sizes) == len(names)
    assert max(server.sizes, default=0) <= BATCH
    assert server.most <= LANES


@on_valkey
async def test_a_lost_reply_to_many_calls_doubles_none(database: Database) -> None:
    with CutProxy(database.url) as proxy:
        records = open_records(database, proxy.url, is_async=True)
        await records.put("c0")
        proxy.lose_reply()
        saves = [
            records.put("c1", thread_id=f"t{number}", elements=elements(5, [b"a", b"b"]))
            for number in range(40)
        ]
        saved = await asyncio.gather(*saves)
        assert {each.outcome for each in saved} == {Outcome.SAVED}
        for number, each in enumerate(saved):
            name = f"t{number}"
            found = await records("read_elements", name, each.generation, [Run(5, 0, 9)])
            assert sorted(found) == elements(5, [b"a", b"b"])
        await records.aclose()


@on_valkey
async def test_a_call_that_is_given_up_disturbs_no_other(database: Database) -> None:
    records = open_records(database, is_async=True)
    await records.put("c1")
    reads = [asyncio.ensure_future(records.latest()) for _ in range(60)]
    await asyncio.sleep(0)
    for read in reads[::3]:
        read.cancel()
    found = await asyncio.gather(*reads, return_exceptions=True)
    for number, row in enumerate(found):
        if number % 3 == 0:
            assert isinstance(row, asyncio.CancelledError)
        else:
            assert row is not None
            assert not isinstance(row, BaseException)
            assert row.checkpoint_id == "c1"
    assert await records.latest() is not None


async def test_a_server_that_says_nothing_keeps_no_lane(start_server: Callable[..., Any]) -> None:
    server = start_server(Redis, valkey_binary())
    with CutProxy(server.url) as proxy:
        records = Records(RedisBackend.from_url(proxy.url, timeout_seconds=0.3), True)
        await records.put("c1")
        proxy.stall()
        reads = [records.latest() for _ in range(3 * LANES)]
        found = await asyncio.gather(*reads, return_exceptions=True)
        assert {type(error) for error in found} == {TimedOut}
        proxy.pass_on()
        rows = await asyncio.gather(*(records.latest() for _ in range(3 * LANES)))
        assert [row and row.checkpoint_id for row in rows] == ["c1"] * 3 * LANES
        await records.aclose()
