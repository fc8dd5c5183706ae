"""Conversations to replay, and how a plain list of messages becomes one.

A message is `{"role": ..., "content": ...}`, as most exports have it:

- `role`: user (or human), assistant (or ai), system (or developer), tool;
- `content`: a text, or a list of content blocks; null where an assistant only calls tools;
- `tool_calls`: in OpenAI's form, `{"id", "function": {"name", "arguments"}}`, or in LangChain's,
  `{"id", "name", "args"}`; a tool's message names its call in `tool_call_id`;
- `id`, `name` and `timestamp`, if there are any. Other fields are ignored.

Everything is checked before anything is replayed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from langgraph_sessionmem.errors import InvalidTranscript

ROLES: Mapping[str, str] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
}
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a conversation.

    Attributes:
        text: the question.
        evidence: the ids of the messages that answer it.
        category: LoCoMo's number of its kind, 1 to 5.
    """

    text: str
    evidence: frozenset[str]
    category: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is replayed.

    Attributes:
        name: its id, or the file's name.
        messages: in order; each has an id of its own.
        questions: what can be asked about it afterwards.
    """

    name: str
    messages: Sequence[BaseMessage]
    questions: Sequence[Question] = ()


def refused(place: str, what: str) -> InvalidTranscript:
    """The error for a place in a file.

    Args:
        place: e.g. `chat.jsonl, line 3`.
        what: a sentence: what is wrong, and what would do.
    """
    return InvalidTranscript(f"{place}: {what}")


def shortened(value: object) -> str:
    """A value for an error message."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "\u2026"


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is text that can be stored: a lone surrogate is no character."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def plain_conversation(name: str, file: str, entries: Iterable[tuple[str, Any]]) -> Conversation:
    """A conversation from a list of messages.

    Args:
        name: what to call it.
        file: the file's name, for errors.
        entries: the messages, each with its place in the file.

    Raises:
        InvalidTranscript: a message can't be used, or none is a user's.
    """
    reader = _Reader()
    messages = [reader.read(place, entry) for place, entry in entries]
    if not any(isinstance(message, HumanMessage) for message in messages):
        raise refused(
            file, 'there is no message of a user; at least one needs the role "user" (or "human").'
        )
    return Conversation(name, messages)


class _Reader:
    """Reads messages in order; knows the ids and calls of those before."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}
        self._calls: set[str] = set()

    def read(self, place: str, entry: Any) -> BaseMessage:
        if not isinstance(entry, dict):
            raise refused(
                place,
                f'a message is an object with "role" and "content", not {shortened(entry)}.',
            )
        try:
            json.dumps(entry, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise refused(
                place, "there is a lone surrogate in the text, which is no character; leave it out."
            ) from None
        message = self._message(place, entry)
        if message.id in self._places:
            raise refused(
                place,
                f"the id {message.id!r} is that of {self._places[message.id]} already; give each "
                "message its own, or none.",
            )
        self._places[str(message.id)] = place
        return message

    def _message(self, place: str, entry: dict[str, Any]) -> BaseMessage:
        role = entry.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise refused(
                place, f'"role" is {shortened(role)}; it must be one of {", ".join(ROLES)}.'
            )
        kind = ROLES[role]
        calls = self._tool_calls(place, entry.get("tool_calls"), kind)
        fields: dict[str, Any] = {
            "content": _content(place, entry.get("content"), optional=bool(calls)),
            "id": _optional_text(place, entry, "id") or f"message-{len(self._places) + 1}",
            "name": _optional_text(place, entry, "name"),
        }
        timestamp = _optional_text(place, entry, "timestamp")
        if timestamp:
            fields["additional_kwargs"] = {"timestamp": timestamp}
        if kind == "user":
            return HumanMessage(**fields)
        if kind == "system":
            return SystemMessage(**fields)
        if kind == "assistant":
            return AIMessage(**fields, tool_calls=calls)
        return ToolMessage(**fields, tool_call_id=self._answered(place, entry.get("tool_call_id")))

    def _answered(self, place: str, call_id: Any) -> str:
        if not isinstance(call_id, str) or not call_id:
            raise refused(
                place,
                f'"tool_call_id" is {shortened(call_id)}; a tool\'s message names the id of the '
                "call that it answers.",
            )
        if call_id not in self._calls:
            raise refused(
                place,
                f'"tool_call_id" is {shortened(call_id)}, but no assistant message before it '
                "made that call.",
            )
        return call_id

    def _tool_calls(self, place: str, calls: Any, kind: str) -> list[ToolCall]:
        if not calls:
            return []
        if kind != "assistant" or not isinstance(calls, list):
            raise refused(
                place,
                f'"tool_calls" is {shortened(calls)}; it must be a list, in a message of the '
                "assistant.",
            )
        read = [_tool_call(f"{place}, tool call {at}", call) for at, call in enumerate(calls, 1)]
        self._calls |= {str(call["id"]) for call in read}
        return read


def _content(place: str, content: Any, *, optional: bool) -> Any:
    if isinstance(content, str):
        return content
    if content is None and optional:
        return ""
    if isinstance(content, list) and all(
        isinstance(block, str) or (isinstance(block, dict) and isinstance(block.get("type"), str))
        for block in content
    ):
        return content
    raise refused(
        place,
        f'"content" is {shortened(content)}; it must be a text, or a list of texts and of blocks '
        'with a "type".',
    )


def _optional_text(place: str, entry: Mapping[str, Any], field: str) -> str | None:
    value = entry.get(field)
    if value is not None and not isinstance(value, str):
        raise refused(place, f'"{field}" is {shortened(value)}; it must be a text, or left out.')
    return value


def _tool_call(place: str, call: Any) -> ToolCall:
    inner = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(inner, dict):
        raise refused(
            place,
            'a call is {"id", "function": {"name", "arguments"}} or {"id", "name", "args"}, not '
            f"{shortened(call)}.",
        )
    for field, value in (("id", call.get("id")), ("name", inner.get("name"))):
        if not isinstance(value, str) or not value:
            raise refused(place, f'"{field}" is {shortened(value)}; a call needs it as a text.')
    given = inner.get("arguments", inner.get("args", {}))
    arguments = given
    if isinstance(given, str):
        try:
            arguments = json.loads(given or "{}")
        except ValueError:
            arguments = None
    if not isinstance(arguments, dict):
        raise refused(
            place, f"the arguments are {shortened(given)}; they must be an object, or JSON of one."
        )
    return ToolCall(name=inner["name"], args=arguments, id=call["id"], type="tool_call")
