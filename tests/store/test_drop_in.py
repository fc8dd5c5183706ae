"""The store where others expect one of LangGraph's: agents, their tools, LangMem, the server."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from blockbuster import BlockBuster
from conftest import BACKENDS, Database, Face
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.prebuilt import InjectedStore, ToolRuntime
from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from typing_extensions import override

from langgraph_sessionmem import LongTermStore

NS = ("users", "u1")


class Scripted(BaseChatModel):
    """A chat model that calls the tools it is told to, one after the other."""

    calls: list[tuple[str, dict[str, Any]]]

    @property
    @override
    def _llm_type(self) -> str:
        return "scripted"

    @override
    def bind_tools(self, tools: Sequence[Any], **keywords: Any) -> Any:
        return self

    @override
    def _generate(self, messages: list[BaseMessage], *_: Any, **keywords: Any) -> ChatResult:
        message = AIMessage("done")
        if self.calls:
            name, args = self.calls.pop(0)
            call = ToolCall(name=name, args=args, id=f"call-{len(self.calls)}")
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def remember(fact: str, store: Annotated[Any, InjectedStore()]) -> str:
    """Keep a fact."""
    store.put(NS, fact, {"text": fact})
    return "kept"


@tool
def recall(question: str, runtime: ToolRuntime) -> str:
    """Find a fact."""
    assert runtime.store is not None
    return "; ".join(item.key for item in runtime.store.search(NS, query=question))


@tool("remember")
async def aremember(fact: str, store: Annotated[Any, InjectedStore()]) -> str:
    """Keep a fact."""
    await store.aput(NS, fact, {"text": fact})
    return "kept"


@tool("recall")
async def arecall(question: str, runtime: ToolRuntime) -> str:
    """Find a fact."""
    assert runtime.store is not None
    return "; ".join(item.key for item in await runtime.store.asearch(NS, query=question))


async def test_the_tools_of_an_agent_find_the_store(store: Face) -> None:
    agents = pytest.importorskip("langchain.agents", reason="langchain is not installed")
    fact = "Ann adopted a puppy in Porto"
    calls = [("remember", {"fact": fact}), ("recall", {"question": "Who has a puppy?"})]
    agent = agents.create_agent(
        Scripted(calls=calls),
        [aremember, arecall] if store.is_async else [remember, recall],
        store=store.target,
    )
    given = {"messages": [("user", "hello")]}
    end = await agent.ainvoke(given) if store.is_async else agent.invoke(given)
    assert [each.text for each in end["messages"] if each.type == "tool"] == ["kept", fact]


@contextlib.contextmanager
def blocking_is_refused() -> Iterator[None]:
    watcher = BlockBuster()
    watcher.activate()
    try:
        yield
    finally:
        watcher.deactivate()


async def serve(store: BaseStore, worker: int) -> None:
    """What the LangGraph server asks of a store, in its words."""
    namespace = (*NS, f"{worker}")
    await asyncio.gather(*(store.aput(namespace, f"{n}", {"n": n}, ttl=None) for n in range(20)))
    item = await store.aget(namespace, "3", refresh_ttl=None)
    assert item is not None
    assert item.value == {"n": 3}
    found = await store.asearch(
        namespace, filter={"n": 3}, limit=5, offset=0, query=None, refresh_ttl=None
    )
    assert [each.key for each in found] == ["3"]
    listed = await store.alist_namespaces(
        prefix=namespace, suffix=None, max_depth=None, limit=100, offset=0
    )
    assert listed == [namespace]
    await store.adelete(namespace, "3")
    gone, kept = await store.abatch([GetOp(namespace, "3"), GetOp(namespace, "4")])
    assert gone is None
    assert kept is not None


def test_a_server_enters_it_once_in_each_loop_and_no_call_blocks_one(database: Database) -> None:
    @contextlib.asynccontextmanager
    async def factory() -> AsyncIterator[BaseStore]:
        async with LongTermStore.from_conn_string(
            database.url, ttl={"sweep_interval_minutes": 60}, **database.options
        ) as store:
            yield store

    async def work(worker: int) -> None:
        async with factory() as store:
            with blocking_is_refused():
                await serve(store, worker)

    with ThreadPoolExecutor(1) as others:
        for worker in range(3):
            others.submit(asyncio.run, work(worker)).result(60)
    with database.open_store() as store:
        assert len(store.search(NS, limit=100)) == 3 * 19


NAMESPACES = [("a",), ("a", "b"), ("a", "bc"), ("A",), ("a", "b", "c"), ("%", "_*")]
PREFIXES = [*NAMESPACES, *NAMESPACES, ()]
FILTERS = [None, {"n": 3}, {"tags": ["x", "y"]}, {"d": {"k": 1}}, {"n": {"$gte": 2}}, {"no": 1}]
MATCHES = [
    None,
    (MatchCondition("prefix", ("a",)),),
    (MatchCondition("suffix", ("c",)),),
    (MatchCondition("prefix", ("a", "*")), MatchCondition("suffix", ("b",))),
]


def random_batch(chance: random.Random) -> list[Op]:
    def op() -> Op:
        namespace, key = chance.choice(NAMESPACES), f"k{chance.randrange(4)}"
        n = chance.randrange(5)
        value = {"n": n, "tags": chance.choice([["x", "y"], ["x"]]), "d": {"k": n % 2}}
        return chance.choice(
            [
                PutOp(namespace, key, value),
                PutOp(namespace, key, None),
                GetOp(namespace, key),
                SearchOp(chance.choice(PREFIXES), chance.choice(FILTERS), limit=1_000),
                ListNamespacesOp(chance.choice(MATCHES), chance.choice([None, 1, 2]), 100, 0),
            ]
        )

    return [op() for _ in range(10)]


def answers(results: Sequence[Any]) -> list[Any]:
    """Results without their times, and without the order, which each store chooses."""

    def told(result: Any) -> Any:
        if isinstance(result, list):
            return sorted((told(each) for each in result), key=repr)
        if result is None or isinstance(result, tuple):
            return result
        return (tuple(result.namespace), result.key, result.value)

    return [told(result) for result in results]


@pytest.mark.parametrize(
    "backend_name", [name for name in ("sqlite", "postgres", "valkey") if name in BACKENDS]
)
async def test_it_answers_as_langgraphs_own_store_in_memory(store: Face) -> None:
    chance, theirs = random.Random(9), InMemoryStore()
    # Theirs lists a namespace that has become empty, so none does.
    anchors = [PutOp(namespace, "anchor", {"n": 9}) for namespace in NAMESPACES]
    for ops in ([*anchors], *(random_batch(chance) for _ in range(20))):
        assert answers(await store("batch", ops)) == answers(theirs.batch(ops)), ops


@pytest.mark.slow
async def test_langmem_keeps_finds_and_deletes_its_memories_in_it(store: Face) -> None:
    langmem = pytest.importorskip("langmem", reason="langmem is not installed (extra `peers`)")
    namespace = ("memories", "{langgraph_user_id}")
    config = {"configurable": {"langgraph_user_id": "ann"}}
    manage = Face(langmem.create_manage_memory_tool(namespace, store=store.target), store.is_async)
    search = Face(langmem.create_search_memory_tool(namespace, store=store.target), store.is_async)
    told = await manage("invoke", {"content": "Ann likes green tea", "action": "create"}, config)
    memory_id = told.removeprefix("created memory ")
    found = await search("invoke", {"query": "tea"}, config)
    assert "Ann likes green tea" in found
    other = {"configurable": {"langgraph_user_id": "bob"}}
    assert await search("invoke", {"query": "tea"}, other) == "[]"
    await manage(
        "invoke", {"id": memory_id, "content": "Ann likes rum", "action": "update"}, config
    )
    [item] = await store("search", ("memories", "ann"), query="rum")
    assert (item.key, item.value) == (memory_id, {"content": "Ann likes rum"})
    await manage("invoke", {"id": memory_id, "action": "delete"}, config)
    assert await store("search", ("memories",)) == []


@pytest.mark.slow
async def test_langmems_manager_stores_what_its_model_extracts(store: Face) -> None:
    langmem = pytest.importorskip("langmem", reason="langmem is not installed (extra `peers`)")
    model = Scripted(calls=[("Memory", {"content": "Ann lives in Porto"})])
    manager = Face(
        langmem.create_memory_store_manager(
            model, namespace=("memories", "{langgraph_user_id}"), store=store.target
        ),
        store.is_async,
    )
    config = {"configurable": {"langgraph_user_id": "ann"}}
    said = [{"role": "user", "content": "I moved to Porto"}]
    [put] = await manager("invoke", {"messages": said, "max_steps": 1}, config)
    [item] = await store("search", ("memories", "ann"), query="Where does Ann live?")
    assert item.key == put["key"]
    assert item.value == {"kind": "Memory", "content": {"content": "Ann lives in Porto"}}
