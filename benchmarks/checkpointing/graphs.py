"""What is said, and the graphs that say it: the same words for every saver."""

import functools
import operator
import random
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.types import Send

HUMAN_CHARACTERS = 200
AI_CHARACTERS = 600
_VOCABULARY = 5_000
_LETTERS = "etaoinshrdlcumwfgypbvk"


class Said(NamedTuple):
    """One turn of a chat."""

    human: str
    ai: str


@functools.cache
def conversation(turns: int, seed: int = 0) -> Sequence[Said]:
    """Random words, as often as in prose (Zipf), so compression gains about what it does there."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(_LETTERS, k=chance.randint(2, 9))) for _ in range(_VOCABULARY)]
    weights = [1 / rank for rank in range(1, _VOCABULARY + 1)]
    drawn = chance.choices(words, weights, k=turns * (HUMAN_CHARACTERS + AI_CHARACTERS) // 3)
    text = " ".join(drawn)
    step = HUMAN_CHARACTERS + AI_CHARACTERS
    return [
        Said(
            text[place * step : place * step + HUMAN_CHARACTERS],
            text[place * step + HUMAN_CHARACTERS : (place + 1) * step],
        )
        for place in range(turns)
    ]


def messages_of(said: Sequence[Said]) -> list[AnyMessage]:
    """The messages of whole turns, with ids."""
    found: list[AnyMessage] = []
    for place, turn in enumerate(said):
        found.append(HumanMessage(turn.human, id=f"human-{place}"))
        found.append(AIMessage(turn.ai, id=f"ai-{place}"))
    return found


def chat_graph(said: Sequence[Said]) -> StateGraph[Any, Any, Any]:
    """One node that says its part of `said`."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(said[len(state["messages"]) // 2].ai)]}

    return StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")


class DeltaState(TypedDict):
    """Messages of which a checkpoint stores what was added."""

    messages: Annotated[
        list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=100)
    ]


def delta_graph(said: Sequence[Said]) -> StateGraph[Any, Any, Any]:
    """`chat_graph` on a `DeltaChannel`."""

    def answer(state: DeltaState) -> dict[str, Any]:
        return {"messages": [AIMessage(said[len(state["messages"]) // 2].ai)]}

    return StateGraph(DeltaState).add_node("answer", answer).add_edge(START, "answer")


class AgentState(TypedDict):
    """Five channels, as agents have them."""

    messages: Annotated[list[AnyMessage], add_messages]
    plan: list[str]
    findings: Annotated[list[dict[str, Any]], operator.add]
    scratchpad: dict[str, Any]
    turn: int


AGENT_MESSAGES = 5
"""Of each turn: human, call, two tool results, answer."""


def agent_graph(said: Sequence[Said]) -> StateGraph[Any, Any, Any]:
    """An agent that plans, calls two tools at once, and answers: eight checkpoints a turn."""

    def plan(state: AgentState) -> dict[str, Any]:
        turn = state.get("turn", 0)
        return {"plan": [f"step {step} of turn {turn}" for step in range(4)], "turn": turn + 1}

    def call(state: AgentState) -> dict[str, Any]:
        turn = state["turn"]
        calls = [
            {"name": "search", "args": {"query": f"{turn}-{side}"}, "id": f"call-{turn}-{side}"}
            for side in "ab"
        ]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    def tool(call: dict[str, Any]) -> dict[str, Any]:
        text = said[call["turn"] - 1].ai
        return {
            "messages": [ToolMessage(text[:300], tool_call_id=call["id"])],
            "findings": [{"call": call["id"], "score": 0.5, "text": text[:100]}],
        }

    def fan_out(state: AgentState) -> list[Send]:
        calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        return [Send("tool", {"id": each["id"], "turn": state["turn"]}) for each in calls]

    def collect(state: AgentState) -> dict[str, Any]:
        return {"scratchpad": {"seen": len(state["findings"]), "turn": state["turn"]}}

    def answer(state: AgentState) -> dict[str, Any]:
        return {"messages": [AIMessage(said[state["turn"] - 1].ai)]}

    def finish(state: AgentState) -> dict[str, Any]:
        return {"plan": []}

    graph = StateGraph(AgentState)
    for node in (plan, call, tool, collect, answer, finish):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "plan").add_edge("plan", "call").add_edge("tool", "collect")
    graph.add_conditional_edges("call", fan_out, ["tool"])
    return graph.add_edge("collect", "answer").add_edge("answer", "finish").add_edge("finish", END)


class ListsState(TypedDict):
    """Lists that are not messages, beside a channel that never changes."""

    rows: Annotated[list[dict[str, Any]], operator.add]
    documents: Annotated[list[Document], operator.add]
    manual: str


LIST_ITEMS = 4
"""Added to a list in each turn."""


def lists_graph(said: Sequence[Said], channel: str) -> StateGraph[Any, Any, Any]:
    """One node that adds `LIST_ITEMS` to `channel`, or only counts rows if it is `manual`."""

    def work(state: ListsState) -> dict[str, Any]:
        turn = len(state.get(channel, ())) // LIST_ITEMS
        if channel == "rows":
            return {"rows": [_row(said, turn, item) for item in range(LIST_ITEMS)]}
        if channel == "documents":
            return {"documents": [_document(said, turn, item) for item in range(LIST_ITEMS)]}
        return {"rows": [{"done": True}]}

    return StateGraph(ListsState).add_node("work", work).add_edge(START, "work")


def _row(said: Sequence[Said], turn: int, item: int) -> dict[str, Any]:
    text = said[turn].ai[150 * item : 150 * (item + 1)]
    return {"turn": turn, "text": text, "scores": [0.25, 0.5, item], "tags": {"kind": "row"}}


def _document(said: Sequence[Said], turn: int, item: int) -> Document:
    text = said[turn].ai[150 * item : 150 * (item + 1)]
    return Document(text, metadata={"turn": turn, "item": item, "source": "https://example.org"})
