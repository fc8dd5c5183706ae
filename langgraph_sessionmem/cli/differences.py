"""What changed between the values of two checkpoints. Pure."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage

from langgraph_sessionmem.checkpoint.inspecting import Unbuilt
from langgraph_sessionmem.transfer.comparing import same

Kind: TypeAlias = Literal["added", "removed", "changed"]

_LONG = 2_000
"""Elements above which two lists are compared by their ends only: the search is quadratic."""


class Part(NamedTuple):
    """A part of a channel's value that is not the same.

    Attributes:
        at: where: an index in the new list (in the old one, if it was removed), a key, a message's
            id; None is the whole value.
    """

    kind: Kind
    at: str | int | None
    before: Any
    after: Any


class ChannelChange(NamedTuple):
    """A channel that is not the same."""

    channel: str
    kind: Kind
    parts: Sequence[Part]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ChannelChange]:
    """The channels that are not the same, by name."""
    found = []
    for channel in sorted(before.keys() | after.keys()):
        if channel not in before:
            part = Part("added", None, None, after[channel])
            found.append(ChannelChange(channel, "added", [part]))
        elif channel not in after:
            part = Part("removed", None, before[channel], None)
            found.append(ChannelChange(channel, "removed", [part]))
        elif not same(before[channel], after[channel]):
            parts = _parts(before[channel], after[channel])
            found.append(ChannelChange(channel, "changed", parts))
    return found


def _parts(before: Any, after: Any) -> list[Part]:
    if isinstance(before, list) and isinstance(after, list):
        if _has_ids(before) and _has_ids(after):
            return _messages(before, after)
        return _elements(before, after)
    if isinstance(before, dict) and isinstance(after, dict):
        return _keys(before, after)
    return [Part("changed", None, before, after)]


def _has_ids(values: Sequence[Any]) -> bool:
    ids = [value.id for value in values if isinstance(value, BaseMessage) and value.id]
    return len(ids) == len(values) == len(set(ids))


def _messages(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> list[Part]:
    old, new = ({str(message.id): message for message in each} for each in (before, after))
    parts = [Part("removed", key, old[key], None) for key in old if key not in new]
    for key, message in new.items():
        if key not in old:
            parts.append(Part("added", key, None, message))
        elif not same(old[key], message):
            parts.append(Part("changed", key, old[key], message))
    return parts or [Part("changed", None, list(old), list(new))]  # only their order is another


def _keys(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> list[Part]:
    parts = []
    for key in sorted(before.keys() | after.keys(), key=str):
        if key not in before:
            parts.append(Part("added", str(key), None, after[key]))
        elif key not in after:
            parts.append(Part("removed", str(key), before[key], None))
        elif not same(before[key], after[key]):
            parts.append(Part("changed", str(key), before[key], after[key]))
    return parts


def _elements(before: Sequence[Any], after: Sequence[Any]) -> list[Part]:
    """By index; what lies between the ends that are the same is matched by content."""
    start = _shared(before, after)
    end = _shared(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(old), len(new)) > _LONG:
        return [
            *(Part("removed", start + at, value, None) for at, value in enumerate(old)),
            *(Part("added", start + at, None, value) for at, value in enumerate(new)),
        ]
    matcher = SequenceMatcher(None, list(map(shown, old)), list(map(shown, new)), autojunk=False)
    parts: list[Part] = []
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        common = min(old_end - old_start, new_end - new_start)
        parts += [
            Part("changed", start + new_start + at, old[old_start + at], new[new_start + at])
            for at in range(common)
        ]
        parts += [
            Part("removed", start + at, old[at], None) for at in range(old_start + common, old_end)
        ]
        parts += [
            Part("added", start + at, None, new[at]) for at in range(new_start + common, new_end)
        ]
    return parts


def _shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many elements the two begin with that are the same."""
    count = 0
    for before, after in zip(one, other, strict=False):
        if not same(before, after):
            break
        count += 1
    return count


def shown(value: Any) -> str:
    """A value as text: a message as its kind and content, anything else as Python writes it."""
    if isinstance(value, Unbuilt):
        return f"<{value.type} {value.digest}>"
    if isinstance(value, BaseMessage):
        calls = [call["name"] for call in getattr(value, "tool_calls", ())]
        asked = f" calls {', '.join(calls)}" if calls else ""
        return f"{value.type}: {value.text}{asked}"
    return repr(value)
