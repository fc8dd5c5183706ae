"""A message list as turns and atoms (pure).

A *turn* is one message under an id and a content hash. An *atom* is what may only be kept or left
out as a whole: a user's message, or an AI message with all its tool results, wherever they stand.
Whatever a provider would refuse is put right here, in what is shown and never in the state: a
result without a call becomes a note, a call that nobody will answer gets a result that says so, a
message that is there twice is shown once, a missing id is derived from the content.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from langgraph_sessionmem.compaction.blocks import is_ours, not_run, note, with_mark

_encode = json.JSONEncoder(sort_keys=True, default=str).encode
_HASHED = ("content", "name", "tool_calls", "tool_call_id", "status")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the thread.

    Attributes:
        message: the message, with an id.
        id: its id.
        hash: its content's hash; an edited message is another turn under the same id.
        position: its index in the thread, counted from 0.
    """

    message: BaseMessage
    id: str
    hash: str
    position: int


@dataclass(slots=True)
class Atom:
    """Turns that stay or go together.

    Attributes:
        head: the user's, the AI's or the noted message.
        results: the tool results of the head's calls, in the order they came.
        shown: the head as it can be sent.
        kind: "user", "assistant", or "note" (what is shown as data in a user message).
        unanswered: calls of the head without a result.
        pending: the unanswered calls may still be answered: nothing has been said since.
    """

    head: Turn
    kind: str
    shown: BaseMessage
    results: list[Turn] = field(default_factory=list)
    unanswered: list[ToolCall] = field(default_factory=list)
    pending: bool = False

    @property
    def turns(self) -> list[Turn]:
        """The head and its results."""
        return [self.head, *self.results]

    def messages(self) -> list[BaseMessage]:
        """The atom as a provider accepts it, results right after their calls."""
        missing = [] if self.pending else [not_run(self.head.id, call) for call in self.unanswered]
        return [self.shown, *(turn.message for turn in self.results), *missing]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A thread's messages, sorted out.

    Attributes:
        systems: the leading system messages; they always stay.
        atoms: everything after them.
        current: the index of the atom with the user's newest message, or None.
        live: the indices of the last atom and of the one that the newest turn belongs to (a late
            result belongs to an older one); the model has yet to see them.
    """

    systems: list[Turn]
    atoms: list[Atom]
    current: int | None
    live: frozenset[int]


def content_hash(kind: str, data: Mapping[str, Any]) -> str:
    """A hash of what was said, without ids, usage and other metadata.

    Args:
        kind: the message's type, e.g. "human".
        data: its fields, as in the message itself or in its JSON form.
    """
    said: list[Any] = [kind, *map(data.get, _HASHED)]
    if not isinstance(said[1], str) or said[3]:
        # As JSON has it, so that a message and what a store gives back agree.
        said = json.loads(json.dumps(said, default=str), parse_constant=str)
    return hashlib.blake2b(_encode(said).encode(), digest_size=16).hexdigest()


def message_hash(message: BaseMessage) -> str:
    """`content_hash` of a message."""
    return content_hash(message.type, vars(message))


def read_turns(messages: Iterable[BaseMessage]) -> list[Turn]:
    """The turns of a message list, without what an earlier view added.

    A message that is there twice is taken once. One without an id, or with the id of another
    message, gets an id from its content, the same at every call.
    """
    turns: dict[str, Turn] = {}
    for message in messages:
        if is_ours(message):
            continue
        hashed = message_hash(message)
        known = turns.get(message.id or "")
        if known is not None and known.hash == hashed:
            continue
        name, count = message.id or f"turn-{hashed}", 1
        if known is not None:
            name = f"turn-{hashed}"
        while name in turns:
            count += 1
            name = f"turn-{hashed}-{count}"
        if name != message.id:
            message = message.model_copy(update={"id": name})
        turns[name] = Turn(message, name, hashed, len(turns))
    return list(turns.values())


def read_transcript(messages: Iterable[BaseMessage]) -> Transcript:
    """Sort a message list into leading system messages and atoms."""
    turns = read_turns(messages)
    first = next(
        (at for at, turn in enumerate(turns) if not isinstance(turn.message, SystemMessage)),
        len(turns),
    )
    atoms = _atoms(turns[first:])
    current = max((at for at, atom in enumerate(atoms) if atom.kind == "user"), default=None)
    newest = max(range(len(atoms)), key=lambda at: atoms[at].turns[-1].position, default=0)
    live = frozenset({newest, len(atoms) - 1}) if atoms else frozenset()
    return Transcript(turns[:first], atoms, current, live)


def _atoms(turns: Sequence[Turn]) -> list[Atom]:
    atoms: list[Atom] = []
    asked: dict[str, Atom] = {}  # the newest atom that waits for a call's result
    for turn in turns:
        message = turn.message
        if isinstance(message, ToolMessage):
            atom = asked.pop(message.tool_call_id, None)
            if atom is not None:
                atom.results.append(turn)
                atom.unanswered = [
                    call for call in atom.unanswered if call["id"] != message.tool_call_id
                ]
                continue
        if isinstance(message, AIMessage):
            sent = _sendable(turn.id, message)
            atom = Atom(turn, "assistant", sent, unanswered=list(sent.tool_calls))
            asked |= {str(call["id"]): atom for call in atom.unanswered}
        elif isinstance(message, HumanMessage) and not with_mark(message, "note"):
            atom = Atom(turn, "user", message)
        else:
            atom = Atom(turn, "note", note(message))
        atoms.append(atom)
    if atoms:
        atoms[-1].pending = bool(atoms[-1].unanswered)
    return atoms


def _sendable(name: str, message: AIMessage) -> AIMessage:
    """The message with calls that can be answered: each has an id of its own, none is malformed."""
    calls: dict[str, ToolCall] = {}
    for at, call in enumerate(message.tool_calls):
        own = call["id"] or f"{name}-call-{at}"
        calls.setdefault(own, {**call, "id": own})
    sendable = list(calls.values())
    if sendable == message.tool_calls and not message.invalid_tool_calls:
        return message
    # Some adapters send malformed calls as calls, some don't; neither expects a result.
    return message.model_copy(update={"tool_calls": sendable, "invalid_tool_calls": []})
