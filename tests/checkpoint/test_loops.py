"""Async callers: nothing blocks their loop; and how LangGraph's server uses a saver."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from blockbuster import BlockBuster, BlockingError
from conftest import BACKENDS, Database, Face
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from threads import Thread, place, values_of
from typing_extensions import TypedDict, override

from langgraph_sessionmem import SessionSaver

on_three = pytest.mark.parametrize(
    "backend_name", [name for name in ("sqlite", "postgres", "valkey") if name in BACKENDS]
)


@contextlib.contextmanager
def watched() -> Any:
    """Raises where something blocks a running loop, as LangGraph's development server does."""
    watcher = BlockBuster()
    watcher.activate()
    try:
        yield
    finally:
        watcher.deactivate()


async def test_no_async_method_blocks_the_loop(database: Database) -> None:
    opened = SessionSaver(database.url, **database.options)
    saver = Face(opened, True)
    with watched():
        with pytest.raises(BlockingError):
            threading.Event().wait(0.001)
        await opened.asetup()
        assert await opened.aschema_version() > 0
        thread = Thread(saver)
        for n in range(3):
            await thread.put({"n": n, "list": [f"text {i} " * 20 for i in range(n + 1)]})
            await thread.write([("n", n)])
        assert (await values_of(saver, place()))["n"] == 2
        assert len(await saver("list", place(), limit=2)) == 2
        assert len(await opened.athreads()) == 1
        await opened.acopy_thread("t", "copy")
        await opened.aprune(["copy"], strategy="keep_latest")
        await opened.asweep()
        await opened.adelete_for_runs(["r"])
        await opened.adelete_thread("t")
        await asyncio.gather(*(Thread(saver, f"t{n}").put({"n": n}) for n in range(20)))
        await opened.aclose()


class Adapter(BaseCheckpointSaver[str]):
    """Forwards what LangGraph's server forwards to a saver of the user's, and nothing else."""

    def __init__(self, inner: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=inner.serde)
        self.inner = inner

    @override
    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return await self.inner.aget_tuple(config)

    @override
    async def alist(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        async for found in self.inner.alist(config, filter=filter, before=before, limit=limit):
            yield found

    @override
    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        given = config.get("configurable", {})
        kept = {k: v for k, v in given.items() if "__" not in k and not k.startswith("checkpoint_")}
        metadata = {**kept, **config.get("metadata", {}), **metadata}
        return await self.inner.aput(config, checkpoint, metadata, new_versions)

    @override
    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        await self.inner.aput_writes(config, writes, task_id, task_path)

    @override
    async def adelete_thread(self, thread_id: str) -> None:
        await self.inner.adelete_thread(thread_id)

    @override
    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self.inner.acopy_thread(source_thread_id, target_thread_id)

    @override
    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        await self.inner.aprune(thread_ids, strategy=strategy)

    @override
    async def adelete_for_runs(self, run_ids: Any) -> None:
        await self.inner.adelete_for_runs(run_ids)

    @override
    def get_next_version(self, current: Any, channel: None) -> str:
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032}.{0.5:016}"


class State(TypedDict):
    log: list[str]


def build(saver: BaseCheckpointSaver[Any]) -> Any:
    def ask(state: State) -> State:
        return {"log": [*state["log"], interrupt("go on?")]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=saver)


def in_a_loop_of_its_own(work: Callable[[], Any]) -> Any:
    """What `work()` gives in another thread's loop."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(work())))
    thread.start()
    thread.join(60)
    assert results
    return results[0]


@on_three
def test_a_server_with_a_loop_for_each_worker_shares_threads_through_the_database(
    database: Database,
) -> None:
    @contextlib.asynccontextmanager
    async def factory() -> AsyncIterator[SessionSaver]:
        async with SessionSaver.from_conn_string(database.url, **database.options) as saver:
            await saver.asetup()
            yield saver

    config = {"configurable": {"thread_id": "t", "run_id": "run-1", "graph_id": "g", "__pw": "x"}}

    async def begin() -> Any:
        async with factory() as saver:
            return await build(Adapter(saver)).ainvoke({"log": ["begun"]}, config)

    async def go_on() -> Any:
        async with factory() as saver:
            adapter = Adapter(saver)
            graph = build(adapter)
            [task] = (await graph.aget_state(config)).tasks
            assert [each.value for each in task.interrupts] == ["go on?"]
            found = await graph.ainvoke(Command(resume="yes"), config)
            history = [each async for each in graph.aget_state_history(config)]
            await adapter.acopy_thread("t", "copy")
            copied = [each async for each in adapter.alist(place("copy"))]
            assert len(copied) == len(history)
            listed = [each async for each in adapter.alist(place("t"), filter={"run_id": "run-1"})]
            assert len(listed) == len(history)
            assert all("__pw" not in each.metadata for each in listed)
            await adapter.aprune(["copy"], strategy="keep_latest")
            assert len([each async for each in adapter.alist(place("copy"))]) == 1
            return found

    async def clean_up() -> Any:
        async with factory() as saver:
            adapter = Adapter(saver)
            await adapter.adelete_for_runs(["run-1"])
            await adapter.adelete_thread("copy")
            return [await adapter.aget_tuple(place(name)) for name in ("t", "copy")]

    assert "__interrupt__" in in_a_loop_of_its_own(begin)
    assert in_a_loop_of_its_own(go_on) == {"log": ["begun", "yes"]}
    assert in_a_loop_of_its_own(clean_up) == [None, None]


@on_three
def test_workers_in_loops_of_their_own_run_at_the_same_time(database: Database) -> None:
    workers, runs = 3, 4
    begun = threading.Barrier(workers)
    failures: list[BaseException] = []

    async def work(index: int) -> None:
        async with SessionSaver.from_conn_string(database.url, **database.options) as saver:
            await saver.asetup()
            begun.wait(60)
            graph = build(Adapter(saver))
            for n in range(runs):
                config = {"configurable": {"thread_id": f"t{index}-{n}"}}
                await graph.ainvoke({"log": [f"{index}"]}, config)
                found = await graph.ainvoke(Command(resume=n), config)
                assert found == {"log": [f"{index}", n]}

    def run(index: int) -> None:
        try:
            asyncio.run(work(index))
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert len(database.open_saver().threads()) == workers * runs
