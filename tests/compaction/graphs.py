"""Graphs with a compaction node, and a conversation with them."""

from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
)
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from transcripts import Scripted

from langgraph_sessionmem.compaction import CompactedState, Compactor

BUDGET = 600


def answer(messages: list[BaseMessage], kwargs: Any = None) -> AIMessage:
    return AIMessage(f"I have noted that, and there is more to say about it ({len(messages)}).")


def build(
    compactor: Compactor,
    model: Scripted,
    *,
    store: BaseStore | None = None,
    saver: BaseCheckpointSaver[Any] | None = None,
    schema: type = CompactedState,
    **options: Any,
) -> Any:
    def call(state: Any, runtime: Runtime) -> dict[str, Any]:
        return {"messages": [model.invoke(compactor.view(state, runtime))]}

    async def acall(state: Any, runtime: Runtime) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(await compactor.aview(state, runtime))]}

    builder = StateGraph(schema)
    builder.add_node("compact", compactor.node)
    builder.add_node("model", acall if options.pop("on_loop", False) else call)
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    return builder.compile(checkpointer=saver, store=store, **options)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def said(number: int) -> str:
    return f"Message {number}: please also look at order ORD-{number}, it is important to me."


def ask(app: Any, name: str, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        app.invoke({"messages": [HumanMessage(said(number), id=f"h{number}")]}, thread(name))


def compactor_ran(app: Any) -> bool:
    return app.get_state(thread("t")).values["sessionmem"]["firings"] > 1
