"""Operations on a ledger as a model writes them, each checked against what was said (pure).

The wire schema is safe for providers' strict mode: lists of records, every field required, nothing
free-form. An operation that isn't grounded in the messages it cites is rejected on its own; the
others go through.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from langgraph_sessionmem.compaction.ledger import SINGLE, Entry, FieldName, Ledger, Origin
from langgraph_sessionmem.said import figures, normal

_COPIED: frozenset[str] = frozenset({"user_choices", "collected_fields", "tool_results"})
"""Fields whose value is copied from a message, word for word."""
_FROM_USER: frozenset[str] = frozenset({"current_goal", "user_choices", "temporary_constraints"})
"""Fields that only the user decides; a tool's text never gets into them."""


class Op(BaseModel):
    """One change of the ledger, as a model writes it; every field is required, none is free-form.

    Attributes:
        field: which of the ledger's fields.
        op: `set` makes or changes the entry `key`; `append` adds one beside those there are;
            `close` ends it (for a question, `value` is the answer); `supersede` replaces the value
            of an entry that exists.
        key: the entry's name, short and stable; ignored for `current_goal` and `current_step`.
        value: the value, copied word for word where the message has it.
        source_ids: the ids of the messages that say so.
    """

    model_config = ConfigDict(extra="forbid")

    field: FieldName
    op: Literal["set", "append", "close", "supersede"]
    key: str
    value: str
    source_ids: list[str]


class Patch(BaseModel):
    """The changes that some messages bring to the ledger, in their order."""

    model_config = ConfigDict(extra="forbid")

    ops: list[Op]


class Heard(BaseModel):
    """A message as grounds for an entry.

    Attributes:
        origin: who said it.
        text: what it says.
    """

    model_config = ConfigDict(frozen=True)

    origin: Origin
    text: str


def apply(
    ledger: Ledger, ops: Iterable[Op], heard: Mapping[str, Heard], recorded_at: str = ""
) -> tuple[Ledger, list[str]]:
    """Apply operations, each only if it is grounded in the messages it cites.

    Args:
        ledger: the ledger so far.
        ops: in their order.
        heard: the messages that were read, by id.
        recorded_at: the time for new entries, ISO 8601 in UTC.

    Returns:
        The ledger with what passed, and for each rejected operation a sentence.
    """
    rejected = []
    for op in ops:
        reason = _objection(ledger, op, heard)
        if reason:
            rejected.append(f"{op.op} {op.field}[{op.key}]: {reason}")
        else:
            ledger = _applied(ledger, op, heard, recorded_at)
    return ledger, rejected


def _objection(ledger: Ledger, op: Op, heard: Mapping[str, Heard]) -> str:
    """Why an operation may not be applied; empty if it may."""
    cited = [heard[name] for name in op.source_ids if name in heard]
    exists = any((op.field, _key(op)) == (field, key) for field, key, _ in ledger.entries())
    if len(cited) < len(op.source_ids) or not cited:
        return "it cites a message that was not read"
    if op.op in {"close", "supersede"} and not exists:
        return "there is no such entry"
    if op.field not in SINGLE and not op.key.strip():
        return "it has no key"
    if op.op == "close" and not (op.field == "pending_questions" and op.value.strip()):
        return ""
    if not op.value.strip():
        return "it has no value"
    if op.field in _FROM_USER:
        cited = [each for each in cited if each.origin == "user"]
        if not cited:
            return "only the user decides this, and no message of the user is cited"
    said = " \n ".join(normal(each.text) for each in cited)
    if op.field in _COPIED and normal(op.value) not in said:
        return "its value is not in the messages it cites"
    if any(figure not in said for figure in figures(op.value)):
        return "it has a figure or a quotation that is not in the messages it cites"
    tools = " \n ".join(normal(each.text) for each in heard.values() if each.origin == "tool")
    if op.field in _FROM_USER and normal(op.value) not in said and _copied(op.value, tools, said):
        return "it repeats a tool's text as if the user had said it"
    return ""


def _applied(ledger: Ledger, op: Op, heard: Mapping[str, Heard], recorded_at: str) -> Ledger:
    key = _key(op)
    if op.op == "close":
        if op.field == "pending_questions" and op.value.strip():
            return ledger.answer(key, op.value, op.source_ids)
        return ledger.drop(op.field, key)
    old = {(field, name): entry for field, name, entry in ledger.entries()}.get((op.field, key))
    if old is not None and old.value == op.value:  # said again: one more source, nothing else
        sources = tuple(dict.fromkeys([*old.source_ids, *op.source_ids]))
        return ledger.put(op.field, key, old.model_copy(update={"source_ids": sources}))
    if old is not None and op.op == "append" and op.field not in SINGLE:
        taken = {name for field, name, _ in ledger.entries() if field == op.field}
        number = 2
        while f"{key} {number}" in taken:
            number += 1
        key = f"{key} {number}"
    origin = next(heard[name].origin for name in _strongest_first(op.source_ids, heard))
    entry = Entry(
        value=op.value,
        source_ids=tuple(dict.fromkeys(op.source_ids)),
        origin=origin,
        recorded_at=recorded_at,
    )
    return ledger.put(op.field, key, entry)


def _strongest_first(names: Sequence[str], heard: Mapping[str, Heard]) -> list[str]:
    order = {"user": 0, "tool": 1, "assistant": 2}
    return sorted(names, key=lambda name: order[heard[name].origin])


def _key(op: Op) -> str:
    return "" if op.field in SINGLE else " ".join(op.key.split())


def _copied(value: str, tools: str, said: str) -> bool:
    """Whether the words are a tool's rather than the user's."""
    words = re.findall(r"\w+", normal(value))
    in_tools = sum(word in tools for word in words)
    in_said = sum(word in said for word in words)
    return bool(words) and in_tools >= 0.8 * len(words) and in_said < 0.5 * len(words)
