"""From a file to the conversations in it: LoCoMo, a JSON list, or JSON lines."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langgraph_sessionmem.cli.locomo import is_locomo, locomo_conversations
from langgraph_sessionmem.cli.transcripts import Conversation, plain_conversation, refused
from langgraph_sessionmem.errors import InvalidTranscript

_FORMS = (
    'give a JSON list of {"role", "content"} messages, an object with such a list under '
    '"messages", one message a line (JSONL), or LoCoMo\'s JSON'
)


def read_conversations(path: Path) -> list[Conversation]:
    """All conversations of a file, checked.

    Raises:
        InvalidTranscript: it can't be replayed; the message has the place.
    """
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refused(
            path.name, f"byte {error.start} is not UTF-8; save the file as UTF-8 text."
        ) from None
    except OSError as error:
        raise refused(path.name, f"the file can't be read ({error.strerror}).") from None
    if not text.strip():
        raise refused(path.name, f"the file is empty; {_FORMS}.")
    try:
        data = _parsed(text)
    except ValueError as error:
        return [_from_lines(path, text, error)]
    if is_locomo(data):
        return locomo_conversations(path.name, data)
    if isinstance(data, dict) and "role" in data:  # a single line of JSON lines
        data = [data]
    if isinstance(data, dict) and "messages" in data:
        data = data["messages"]
    if not isinstance(data, list):
        raise refused(path.name, f"there is no list of messages; {_FORMS}.")
    entries = [(f"{path.name}, message {at}", entry) for at, entry in enumerate(data, 1)]
    return [plain_conversation(path.stem, path.name, entries)]


def choose(
    conversations: Sequence[Conversation], name: str | None, file: str
) -> Sequence[Conversation]:
    """All of them, or the one with that name.

    Raises:
        InvalidTranscript: there is none.
    """
    chosen = [one for one in conversations if name in (None, one.name)]
    if not chosen:
        known = ", ".join(one.name for one in conversations)
        raise refused(file, f"there is no conversation {name!r}; known are {known}.")
    return chosen


def _from_lines(path: Path, text: str, whole: ValueError) -> Conversation:
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines[0][1].lstrip().startswith("{") or lines[0][1].strip() == "{":
        raise _not_json(path, whole)
    entries: list[tuple[str, Any]] = []
    for at, line in lines:
        place = f"{path.name}, line {at}"
        try:
            entries.append((place, _parsed(line)))
        except ValueError as error:
            raise refused(place, f"this is not JSON ({error}); {_FORMS}.") from None
    return plain_conversation(path.stem, path.name, entries)


def _not_json(path: Path, error: ValueError) -> InvalidTranscript:
    place = path.name
    if isinstance(error, json.JSONDecodeError):
        place += f", line {error.lineno}, column {error.colno}"
        return refused(place, f"this is not JSON ({error.msg}); {_FORMS}.")
    return refused(place, f"this is not JSON ({error}); {_FORMS}.")


def _parsed(text: str) -> Any:
    def constant(name: str) -> Any:
        raise ValueError(f"{name} is no JSON value")

    try:
        return json.loads(text, parse_constant=constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
