"""A recorded conversation played through a compiled graph, and what that costs.

    START -> compact -> model -> END, and while the record goes on with tool results:
             model -> tools -> compact

Each user turn is one run. The record's own assistant messages are what "the model" answers, and its
tool messages are what "the tools" give; the view is computed where the model would be called.
"""

import time
from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import ExecutionInfo, Runtime

from langgraph_sessionmem import Compactor, LongTermStore, SessionSaver
from langgraph_sessionmem.cli.views import Shown, shown
from langgraph_sessionmem.compaction import CompactedState, TurnStatus
from langgraph_sessionmem.tokens import count_messages

_STEPS = 100_000
"""A recorded tool loop ends where the record does."""


class Call(NamedTuple):
    """One call of the model.

    Attributes:
        tokens: the cost of the view.
        history_tokens: the cost of all messages so far.
        said: how many messages there were so far.
        shown: those of them that the view shows.
    """

    tokens: int
    history_tokens: int
    said: int
    shown: Shown


class Played(NamedTuple):
    """What one conversation came to.

    Attributes:
        calls: the model's calls, in order.
        seconds: the time of each user turn: a run of the graph with everything it stores.
        status: where each turn is in the end, asked of the archive.
    """

    calls: Sequence[Call]
    seconds: Sequence[float]
    status: Sequence[TurnStatus]


def user_turns(messages: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    """What is given to the graph, one list a run: what users and systems said in a row.

    Answers that come before anybody asked belong to the first run's input.
    """
    turns: list[list[BaseMessage]] = [[]]
    asked = answered = False
    for message in messages:
        if asked and not isinstance(message, HumanMessage | SystemMessage):
            answered = True
            continue
        if answered:
            turns.append([])
            answered = False
        turns[-1].append(message)
        asked = asked or isinstance(message, HumanMessage)
    return turns


def first_turns(messages: Sequence[BaseMessage], limit: int | None) -> Sequence[BaseMessage]:
    """The messages of the first `limit` user turns, with their answers."""
    turns = user_turns(messages)
    if limit is None or limit >= len(turns):
        return messages
    ids = [message.id for message in messages]
    return messages[: ids.index(turns[limit][0].id)]


class Playback:
    """A graph that answers with what was recorded.

    Args:
        messages: the record; each message has an id of its own.
        thread_id: the thread to play in; nothing is in it yet, or all of the record.
        budget: `max_tokens` of the compactor.
        saver: keeps the thread.
        store: keeps the archive.
    """

    def __init__(
        self,
        messages: Sequence[BaseMessage],
        thread_id: str,
        budget: int,
        saver: SessionSaver,
        store: LongTermStore,
    ) -> None:
        self.messages = messages
        self._thread_id, self._store = thread_id, store
        self._config: RunnableConfig = {
            "configurable": {"thread_id": thread_id},
            "recursion_limit": _STEPS,
        }
        self._compactor = Compactor(max_tokens=budget)
        self._history_tokens = [0, *accumulate(count_messages([one]) for one in messages)]
        self._calls: list[Call] = []
        builder = StateGraph(CompactedState)
        builder.add_node("compact", self._compactor.node)
        builder.add_node("model", self._model)
        builder.add_node("tools", self._tools)
        builder.add_edge(START, "compact")
        builder.add_edge("compact", "model")
        builder.add_conditional_edges("model", self._after_model, ["tools", END])
        builder.add_conditional_edges("tools", self._after_tools, ["compact", END])
        self._graph = builder.compile(checkpointer=saver, store=store)

    def play(self, advance: Callable[[], None]) -> Played:
        """Play the whole record.

        Args:
            advance: called after each user turn.

        Raises:
            BudgetExceeded: what must be in a view doesn't fit the budget.
        """
        seconds: list[float] = []
        self._calls.clear()
        for turn in user_turns(self.messages):
            started = time.perf_counter()
            given: Any = {"messages": turn}
            self._graph.invoke(given, self._config)
            seconds.append(time.perf_counter() - started)
            advance()
        return Played(list(self._calls), seconds, self._status())

    def _status(self) -> list[TurnStatus]:
        info = ExecutionInfo(
            checkpoint_id="", checkpoint_ns="", task_id="", thread_id=self._thread_id
        )
        runtime = Runtime(context=None, store=self._store, execution_info=info)
        return self._compactor.status(self._graph.get_state(self._config).values, runtime)

    def end(self) -> RunnableConfig:
        """The config of the record's last checkpoint, from which questions are asked."""
        return self._graph.get_state(self._config).config

    def ask(self, question: str, end: RunnableConfig) -> Call:
        """The call that the next user turn makes, in a fork of its own."""
        asked = HumanMessage(question, id="question")
        self._graph.invoke({"messages": [asked]}, end, durability="exit")
        return self._calls[-1]

    def _model(self, state: CompactedState, runtime: Runtime[None]) -> dict[str, Any]:
        view = self._compactor.view(state, runtime)
        said = state["messages"]
        recorded = min(len(said), len(self.messages))
        history = self._history_tokens[recorded] + count_messages(said[recorded:])
        self._calls.append(Call(count_messages(view), history, len(said), shown(view, said)))
        return {"messages": self._recorded(state, AIMessage)}

    def _tools(self, state: CompactedState) -> dict[str, Any]:
        return {"messages": self._recorded(state, ToolMessage)}

    def _recorded(self, state: CompactedState, kind: type[BaseMessage]) -> list[BaseMessage]:
        rest = self.messages[len(state["messages"]) :]
        return list(takewhile(lambda message: isinstance(message, kind), rest))

    def _after_model(self, state: CompactedState) -> str:
        return "tools" if self._recorded(state, ToolMessage) else END

    def _after_tools(self, state: CompactedState) -> str:
        return "compact" if self._recorded(state, AIMessage) else END
