"""What a session has come to: seven fields of keyed entries (pure).

A ledger is never rewritten: each change makes or ends one entry. An entry knows the messages it
rests on, who said it, when it was taken down, and how it stands.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import override

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.said import escape

FieldName = Literal[
    "current_goal",
    "current_step",
    "user_choices",
    "collected_fields",
    "pending_questions",
    "tool_results",
    "temporary_constraints",
]
FIELDS: tuple[FieldName, ...] = get_args(FieldName)
Origin = Literal["user", "assistant", "tool"]
Status = Literal["open", "answered", "dropped"]
STATE_KEY = "sessionmem"
"""The state's channel, unless the compactor was given another."""

FORMAT = 1
"""The format of the channel's value; `record.py` has its layout."""
SINGLE: frozenset[str] = frozenset({"current_goal", "current_step"})
"""Fields with one entry, which has no key."""
_RENDERED_CHARS = 400
"""A value is shown up to this length; the entry keeps it whole."""


def field_of(state: Any, key: str) -> Any:
    """A field of a graph's state, which may be a mapping or an object; None if it isn't there."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


class Entry(BaseModel):
    """One thing the ledger knows.

    Attributes:
        value: what; for a question, the question.
        source_ids: the messages it rests on.
        origin: who said it.
        recorded_at: when it was taken down, ISO 8601 in UTC; empty if unknown.
        status: "open", or how it ended: "answered" (see `answer`), "dropped" with its goal.
        answer: a question's answer.
        until: when it ends: "goal" or "step" (with the one that is current now), a time in ISO
            8601, or None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: str
    source_ids: tuple[str, ...] = ()
    origin: Origin = "user"
    recorded_at: str = ""
    status: Status = "open"
    answer: str | None = None
    until: str | None = None

    @override
    def __str__(self) -> str:
        return self.value


class Ledger(BaseModel):
    """A session's state in seven fields; a value that is changed by making another.

    Attributes:
        current_goal: what the user wants to reach.
        current_step: where the work stands.
        user_choices: decisions of the user, by name.
        collected_fields: values collected so far, by name, word for word.
        pending_questions: what was asked, by name, open or answered: nothing is asked twice.
        tool_results: handles of what tools gave (ids, paths, numbers), by name.
        temporary_constraints: rules of the user for this session, by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    current_goal: Entry | None = None
    current_step: Entry | None = None
    user_choices: dict[str, Entry] = Field(default_factory=dict)
    collected_fields: dict[str, Entry] = Field(default_factory=dict)
    pending_questions: dict[str, Entry] = Field(default_factory=dict)
    tool_results: dict[str, Entry] = Field(default_factory=dict)
    temporary_constraints: dict[str, Entry] = Field(default_factory=dict)

    @classmethod
    def of(cls, state: Any, state_key: str = STATE_KEY) -> "Ledger":
        """The ledger in a graph's state (a mapping or an object); empty if there is none yet.

        Raises:
            InvalidArgument: the channel holds something else.
        """
        channel = field_of(state, state_key)
        try:
            return cls.model_validate((channel or {}).get("ledger") or {})
        except (ValidationError, AttributeError) as error:
            raise InvalidArgument(
                f"The state's channel {state_key!r} doesn't hold a ledger: {error}"
            ) from error

    def into(self, state: Any, state_key: str = STATE_KEY) -> dict[str, Any]:
        """The update with which one of your own nodes commits this ledger.

        What else the channel holds stays; return the update from the node, alone or with others.
        """
        channel = field_of(state, state_key) or {"format": FORMAT}
        return {state_key: {**channel, "ledger": self.dump()}}

    def dump(self) -> dict[str, Any]:
        """The ledger as plain JSON, without what is empty."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def put(self, field: FieldName, key: str, entry: Entry) -> "Ledger":
        """The ledger with one entry made or replaced, and with what ended through it.

        Raises:
            InvalidArgument: the entry has no value.
        """
        if not entry.value.strip():
            raise InvalidArgument(f"{field}[{key!r}] needs a value; to end an entry, drop it.")
        if field not in SINGLE:
            return self._with(field, {**getattr(self, field), key: entry})
        old: Entry | None = getattr(self, field)
        changed = self._with(field, entry)
        if old is None or old.value == entry.value:
            return changed
        return changed._ended("goal" if field == "current_goal" else "step")

    def drop(self, field: FieldName, key: str = "") -> "Ledger":
        """The ledger without one entry; nothing happens if there is none."""
        if field not in SINGLE:
            kept = {name: entry for name, entry in getattr(self, field).items() if name != key}
            return self._with(field, kept)
        if getattr(self, field) is None:
            return self
        changed = self._with(field, None)
        return changed._ended("goal" if field == "current_goal" else "step")

    def answer(self, key: str, answer: str, source_ids: Sequence[str] = ()) -> "Ledger":
        """The ledger with a question answered.

        Raises:
            InvalidArgument: there is no such question.
        """
        question = self.pending_questions.get(key)
        if question is None:
            raise InvalidArgument(
                f"There is no question {key!r}; known are {sorted(self.pending_questions)}."
            )
        sources = tuple(dict.fromkeys([*question.source_ids, *source_ids]))
        update = {"status": "answered", "answer": answer, "source_ids": sources}
        answered = question.model_copy(update=update)
        return self._with("pending_questions", {**self.pending_questions, key: answered})

    def without_expired(self, now: datetime) -> "Ledger":
        """The ledger without entries whose `until` is a time that has passed."""
        ledger = self
        for field, key, entry in self.entries():
            if entry.until and _is_past(entry.until, now):
                ledger = ledger.drop(field, key)
        return ledger

    def entries(self) -> list[tuple[FieldName, str, Entry]]:
        """All entries as (field, key, entry), in the order of the fields."""
        found: list[tuple[FieldName, str, Entry]] = []
        for field in FIELDS:
            value = getattr(self, field)
            if isinstance(value, Entry):
                found.append((field, "", value))
            elif value:
                found += [(field, key, entry) for key, entry in value.items()]
        return found

    def lines(self, fits: Callable[[list[str]], bool] = lambda lines: True) -> list[str]:
        """The ledger for a prompt, a line an entry, escaped; the same ledger gives the same lines.

        Args:
            fits: says whether lines are short enough; if not, what matters least is left out, and
                the last line says how much.
        """
        entries = [each for each in self.entries() if each[2].status != "dropped"]
        by_weight = sorted(range(len(entries)), key=lambda at: _weight(entries[at]))
        left_out: set[int] = set()
        while True:
            lines = _lines(each for at, each in enumerate(entries) if at not in left_out)
            if left_out:
                lines.append(f"({len(left_out)} more entries are not shown)")
            if len(left_out) == len(entries) or fits(lines):
                return lines
            left_out.add(by_weight[len(left_out)])

    def _with(self, field: str, value: Any) -> "Ledger":
        return self.model_copy(update={field: value})

    def _ended(self, what: str) -> "Ledger":
        """The ledger after the goal or the step changed: what hung on it is over."""
        ledger = self
        for field, key, entry in self.entries():
            if entry.until == what:
                ledger = ledger.drop(field, key)
        if what == "step":
            return ledger
        questions = {
            key: question.model_copy(update={"status": "dropped"})
            if question.status == "open"
            else question
            for key, question in ledger.pending_questions.items()
        }
        return ledger._with("pending_questions", questions)


def _weight(named: tuple[FieldName, str, Entry]) -> tuple[int, int]:
    """What may be left out of a prompt sooner sorts lower."""
    field, _, entry = named
    order: tuple[FieldName, ...] = (
        "tool_results",
        "user_choices",
        "collected_fields",
        "pending_questions",
        "temporary_constraints",
        "current_step",
        "current_goal",
    )
    return (0 if entry.status == "answered" else 1, order.index(field))


def _lines(entries: Iterable[tuple[FieldName, str, Entry]]) -> list[str]:
    out: list[str] = []
    heading = ""
    for field, key, entry in entries:
        if field in SINGLE:
            out.append(f"{field}: {_shown(entry.value)}")
            continue
        if field != heading:
            out.append(f"{field}:")
            heading = field
        line = f"- {_shown(key)}: {_shown(entry.value)}"
        if field == "pending_questions":
            line += f" (answered: {_shown(entry.answer)})" if entry.answer else " (open)"
        out.append(line)
    return out


def _shown(text: str | None) -> str:
    line = " ".join((text or "").split())
    return escape(line if len(line) <= _RENDERED_CHARS else line[: _RENDERED_CHARS - 1] + "\u2026")


def _is_past(until: str, now: datetime) -> bool:
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        return False  # "goal", "step"
    return moment.replace(tzinfo=moment.tzinfo or now.tzinfo) <= now
