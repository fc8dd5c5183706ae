"""The demo's agent: a graph with a compaction node and a memory of its customers.

    START -> compact -> remember -> model -> END

`compact` commits the ledger; `remember` copies what the ledger has collected into the customer's
namespace of the store, for other threads; `model` is called with the view, and in the system
message what other threads learnt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from langgraph_sessionmem import Compactor, Ledger, LongTermStore, SessionSaver
from langgraph_sessionmem.cli.scripted import (
    LOOKS,
    Scripted,
    agent_script,
    found_in,
    summarizer_script,
)
from langgraph_sessionmem.cli.views import LEDGER_ID, RECALLED_ID, Shown, newest, shown
from langgraph_sessionmem.compaction import CompactedState, Entry
from langgraph_sessionmem.tokens import count_messages

BUDGET = 800
"""Tokens of a whole request to the model."""
_SYSTEM_TOKENS = 120
_PROMPT = "You are the support agent of a shop for coffee grinders."
_SYSTEM_ID = "system"
_KEPT_FIELDS = frozenset({"user_choices", "collected_fields"})
"""What of a ledger outlives its thread."""
_PLACES = {LEDGER_ID: "ledger", RECALLED_ID: "recalled turn", _SYSTEM_ID: "long-term memory"}


@dataclass(frozen=True, slots=True)
class Customer:
    """Whom a run is for.

    Attributes:
        user_id: names the customer's namespace in the store.
    """

    user_id: str


class Step(NamedTuple):
    """One turn of a customer.

    Attributes:
        said: what the customer said.
        answer: what the agent answered.
        request: the messages that the model was called with.
        tokens: their cost.
        history_tokens: the cost of all messages of the thread.
        turns: how many messages the thread has.
        shown: those of them that the request shows.
        entries: how many entries the ledger has.
        places: where in the request the answer stands; empty if it was recited.
    """

    said: str
    answer: str
    request: Sequence[BaseMessage]
    tokens: int
    history_tokens: int
    turns: int
    shown: Shown
    entries: int
    places: Sequence[str]

    @property
    def slid_out(self) -> int:
        """How many messages of the thread are out of the window."""
        return self.turns - len(self.shown.kept)


class Agent:
    """The compiled graph, and what it did last.

    Args:
        saver: keeps the threads.
        store: keeps what slid out of the windows, and the customers' memories.
    """

    def __init__(self, saver: SessionSaver, store: LongTermStore) -> None:
        self._model = Scripted(script=agent_script)
        self._compactor = Compactor(
            summarizer=Scripted(script=summarizer_script),
            max_tokens=BUDGET,
            reserve_tokens=_SYSTEM_TOKENS,
        )
        self._steps: list[Step] = []
        builder = StateGraph(CompactedState, context_schema=Customer)
        builder.add_node("compact", self._compactor.node)
        builder.add_node("remember", self._remember)
        builder.add_node("model", self._call_model)
        builder.add_edge(START, "compact")
        builder.add_edge("compact", "remember")
        builder.add_edge("remember", "model")
        builder.add_edge("model", END)
        self._graph = builder.compile(checkpointer=saver, store=store)

    def say(self, line: str, thread_id: str, user_id: str) -> Step:
        """What happens when a customer says this."""
        asked = HumanMessage(line, id=f"u{self.said(thread_id) // 2 + 1}")
        self._graph.invoke({"messages": [asked]}, _config(thread_id), context=Customer(user_id))
        return self._steps[-1]

    def said(self, thread_id: str) -> int:
        """How many messages the thread has; 0 if it isn't there, or has expired."""
        return len(self._graph.get_state(_config(thread_id)).values.get("messages", []))

    def ledger(self, thread_id: str) -> Ledger:
        """The thread's ledger."""
        return Ledger.of(self._graph.get_state(_config(thread_id)).values)

    def _remember(self, state: CompactedState, runtime: Runtime[Customer]) -> None:
        store, namespace = _store(runtime), _namespace(runtime)
        for field, key, entry in Ledger.of(state).entries():
            if field in _KEPT_FIELDS and store.get(namespace, key) is None:
                value = {"text": _memory(key, entry), "said_in": list(entry.source_ids)}
                store.put(namespace, key, value, index=["text"])

    def _learnt(self, state: CompactedState, runtime: Runtime[Customer]) -> SystemMessage:
        """The system message, with what the store knows about the question and the ledger not."""
        question = state["messages"][-1].text
        in_ledger = {_memory(key, entry) for _, key, entry in Ledger.of(state).entries()}
        found = _store(runtime).search(_namespace(runtime), query=question, limit=3)
        texts = [item.value["text"] for item in found]
        lines = [f"- {text}" for text in texts if text not in in_ledger]
        known = ["Known from earlier sessions with this customer:", *lines] if lines else []
        return SystemMessage("\n".join([_PROMPT, *known]), id=_SYSTEM_ID)

    def _call_model(self, state: CompactedState, runtime: Runtime[Customer]) -> dict[str, Any]:
        messages = state["messages"]
        asked = messages[-1]
        view = self._compactor.view(state, runtime)
        request = [self._learnt(state, runtime), *view]
        answer = self._model.invoke(request)
        self._steps.append(
            Step(
                asked.text,
                answer.text,
                request,
                count_messages(request),
                count_messages([*request[:1], *messages]),
                len(messages),
                shown(view, messages),
                len(Ledger.of(state).entries()),
                _places(request),
            )
        )
        return {"messages": [answer.model_copy(update={"id": f"a{str(asked.id)[1:]}"})]}


def newest_only(lines: Sequence[str]) -> Mapping[str, str]:
    """The same conversation with the same model, which is shown the newest turns that fit.

    Returns:
        What was answered to each line.
    """
    model = Scripted(script=agent_script)

    def call_model(state: MessagesState) -> dict[str, Any]:
        system = SystemMessage(_PROMPT)
        room = BUDGET - count_messages([system])
        return {"messages": [model.invoke([system, *newest(state["messages"], room)])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", call_model)
    builder.add_edge(START, "model")
    graph = builder.compile(checkpointer=InMemorySaver())
    config = _config("newest-only")
    return {
        line: graph.invoke({"messages": [HumanMessage(line)]}, config)["messages"][-1].text
        for line in lines
    }


def _config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


def _places(request: Sequence[BaseMessage]) -> list[str]:
    looks = [look for look in LOOKS if look.question == request[-1].text]
    names = [name for look in looks for name in found_in(request, look)]
    return list(dict.fromkeys(_PLACES.get(name, "window") for name in names))


def _store(runtime: Runtime[Customer]) -> Any:
    return runtime.store


def _namespace(runtime: Runtime[Customer]) -> tuple[str, ...]:
    return ("users", runtime.context.user_id)


def _memory(key: str, entry: Entry) -> str:
    return f"{key}: {entry.value}"
