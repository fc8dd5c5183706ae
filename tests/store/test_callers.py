"""Who may call, and from where: threads, event loops, graphs."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

import pytest
from conftest import Database
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, PutOp

from langgraph_sessionmem import LongTermStore
from langgraph_sessionmem.errors import InvalidFilter

NS = ("users", "u1")


@pytest.fixture
def store(database: Database) -> LongTermStore:
    opened: LongTermStore = database.open_store()
    return opened


def test_any_number_of_threads_may_write_and_read(store: LongTermStore) -> None:
    def work(worker: int) -> list[Any]:
        ops = [PutOp((*NS, f"{worker}"), f"{n}", {"n": n, "text": "tea"}) for n in range(50)]
        store.batch(ops)
        return store.batch([GetOp(op.namespace, op.key) for op in ops])

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert all([item.value["n"] for item in found] == list(range(50)) for found in results)
    assert len(store.search(NS, query="tea", limit=1_000)) == 400


def test_several_event_loops_may_share_a_store(store: LongTermStore) -> None:
    async def work(worker: int) -> None:
        await asyncio.gather(*(store.aput(NS, f"{worker}-{n}", {"n": n}) for n in range(20)))
        assert len(await store.asearch(NS, limit=1_000)) >= 20

    threads = [threading.Thread(target=asyncio.run, args=(work(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.search(NS, limit=1_000)) == 80


async def test_a_blocking_call_works_inside_a_running_loop(store: LongTermStore) -> None:
    store.put(NS, "k", {"n": 1})
    assert store.get(NS, "k") is not None
    assert await store.aget(NS, "k") == store.get(NS, "k")


async def test_a_failing_call_fails_only_its_own_caller(store: LongTermStore) -> None:
    await store.aput(NS, "k", {"b": True})
    bad, got, one, true = await asyncio.gather(
        store.asearch(NS, filter={"n": {"$regex": "x"}}),
        store.aget(NS, "k"),
        store.asearch(NS, filter={"b": 1}),
        store.asearch(NS, filter={"b": True}),
        return_exceptions=True,
    )
    assert isinstance(bad, InvalidFilter)
    assert got is not None
    assert one == []
    assert isinstance(true, list)
    assert len(true) == 1


async def test_a_cancelled_call_leaves_the_store_usable(store: LongTermStore) -> None:
    tasks = [asyncio.create_task(store.aput(NS, f"{n}", {"n": n})) for n in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.aput(NS, "after", {})
    found = {item.key for item in await store.asearch(NS, limit=100)}
    assert {"after", *(f"{n}" for n in range(1, 20, 2))} <= found


async def test_two_stores_of_one_database_see_each_other(database: Database) -> None:
    one, other = database.open_store(), database.open_store()
    await asyncio.gather(*(s.aput(NS, f"{n}", {}) for n, s in enumerate([one, other] * 10)))
    assert len(one.search(NS, limit=100)) == len(other.search(NS, limit=100)) == 20


class State(TypedDict):
    user: str
    said: str
    recalled: list[str]


def remember(state: State, runtime: Runtime[None]) -> dict[str, Any]:
    assert runtime.store is not None
    namespace = ("users", state["user"])
    found = runtime.store.search(namespace, query=state["said"])
    runtime.store.put(namespace, state["said"], {"text": state["said"]})
    return {"recalled": [item.key for item in found]}


async def aremember(state: State, runtime: Runtime[None]) -> dict[str, Any]:
    assert runtime.store is not None
    namespace = ("users", state["user"])
    found = await runtime.store.asearch(namespace, query=state["said"])
    await runtime.store.aput(namespace, state["said"], {"text": state["said"]})
    return {"recalled": [item.key for item in found]}


async def test_a_graph_remembers_across_threads_and_not_across_users(store: LongTermStore) -> None:
    for node in (remember, aremember):
        builder = StateGraph(State)
        builder.add_node("remember", node)
        builder.add_edge(START, "remember")
        builder.add_edge("remember", END)
        graph = builder.compile(store=store)

        async def ask(user: str, said: str, node: Any = node, graph: Any = graph) -> Any:
            state = {"user": f"{node.__name__} {user}", "said": said, "recalled": []}
            result = graph.invoke(state) if node is remember else await graph.ainvoke(state)
            return result["recalled"]

        assert await ask("ann", "I adopted a puppy in Porto") == []
        assert await ask("bob", "puppy") == []
        assert await ask("ann", "Where did I adopt the puppy?") == ["I adopted a puppy in Porto"]
