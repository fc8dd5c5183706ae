"""What was said of one memory: an append-only list of statements, and the item that holds it.

Nothing of a memory is ever overwritten: a new value, its end, a retraction and the settling of a
conflict are one more statement each. `slots.py` derives from them what holds when.

One item a memory, in `(*namespace, type)`, under the key that its identity makes:

    {"format": 1, "type": "fact", "id": "fact:user/db_port", "of": {"subject": …, "attribute": …},
     "text": what it says now, "past": [what it said before], "at": since when, "open": a conflict,
     "current": {"value": …}, "statements": […], "outcomes": {…}, "position": …, "session": …}

Found by `text` and `past`; all but `of`, `statements` and `outcomes` follows from the statements
and is there to be searched, filtered and read through the store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from langgraph_sessionmem.errors import CorruptData
from langgraph_sessionmem.memories.kinds import Memory, Source, Time

FORMAT: Final = 1
MOST_STATEMENTS: Final = 500
"""Beyond so many, what was only said again in between is left out."""

Said = Literal["said", "ended", "retracted", "resolved", "confirmed"]


class Statement(BaseModel):
    """One thing that was said of a memory.

    Attributes:
        number: counted from 1 in its memory.
        kind: `said` claims `content` from `valid_from` on; `ended` says that nothing holds from
            `valid_from` on; `retracted` says that `about` was never true; `resolved` says which of
            several claims at `valid_from` holds, by `about`; `confirmed` was seen again.
        recorded_at: when it was learnt; grows with `number`.
        about: numbers of other statements.
        source: where it was learnt.
        reason: why, in words.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int
    kind: Said
    recorded_at: Time
    valid_from: Time
    valid_to: Time | None = None
    content: dict[str, Any] | None = None
    about: tuple[int, ...] = ()
    source: Source | None = None
    confidence: float = 1.0
    tags: tuple[str, ...] = ()
    consent: str | None = None
    reason: str = ""


class Outcomes(BaseModel):
    """How often a version was used, and with what success."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    worked: int = Field(default=0, ge=0)
    failed: int = Field(default=0, ge=0)
    last: Time | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Dossier:
    """All that was said of one memory.

    Attributes:
        type: its type's name.
        key: of its item; with the type it is the memory's id.
        of: what names it, as it was first said.
        statements: in their order.
        outcomes: by the number of the statement that began a version.
    """

    type: str
    key: str
    of: Mapping[str, Any]
    statements: tuple[Statement, ...] = ()
    outcomes: Mapping[str, Outcomes] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The memory's id."""
        return f"{self.type}:{self.key}"

    @property
    def revision(self) -> int:
        """The number of the last statement; 0 if nothing was said."""
        return self.statements[-1].number if self.statements else 0

    def after(self, now: datetime) -> datetime:
        """A time for the next statement: now, or right after the last if a clock lags behind."""
        if not self.statements:
            return now
        last = self.statements[-1].recorded_at
        return now if now > last else last + datetime.resolution

    def with_statement(self, kind: Said, now: datetime, **fields: Any) -> "Dossier":
        """The dossier with one more statement, learnt now."""
        recorded_at = self.after(now)
        fields.setdefault("valid_from", recorded_at)
        number = self.revision + 1
        statement = Statement(number=number, kind=kind, recorded_at=recorded_at, **fields)
        return replace(self, statements=trimmed((*self.statements, statement)))

    def dumped(self) -> dict[str, Any]:
        """What of an item's value everything else follows from."""
        statements = [
            statement.model_dump(mode="json", exclude_defaults=True)
            for statement in self.statements
        ]
        outcomes = {number: each.model_dump(mode="json") for number, each in self.outcomes.items()}
        return {
            "format": FORMAT,
            "type": self.type,
            "id": self.id,
            "of": dict(self.of),
            "statements": statements,
        } | ({"outcomes": outcomes} if outcomes else {})


def is_dossier(value: Mapping[str, Any]) -> bool:
    """Whether an item is a memory; a namespace may hold items of other tools too."""
    return value.get("format") == FORMAT and isinstance(value.get("statements"), list)


def read_dossier(key: str, value: Mapping[str, Any]) -> Dossier:
    """The dossier in an item's value.

    Raises:
        CorruptData: it isn't one that this package writes.
    """
    try:
        return Dossier(
            value["type"],
            key,
            value["of"],
            tuple(map(Statement.model_validate, value["statements"])),
            {
                number: Outcomes.model_validate(each)
                for number, each in value.get("outcomes", {}).items()
            },
        )
    except (ValidationError, LookupError, TypeError, AttributeError) as error:
        raise CorruptData(f"The item {key!r} holds no memory that can be read: {error}") from error


def read_memory(kind: type[Memory], of: Mapping[str, Any], statement: Mapping[str, Any]) -> Memory:
    """A claim as its type, without fields that the type doesn't have.

    Args:
        kind: the type.
        of: what names it.
        statement: the fields of `Memory` and of the type.

    Raises:
        CorruptData: the type can't hold it.
    """
    given = {**statement, **of}
    fields = {name: given[name] for name in kind.model_fields if name in given}
    try:
        return kind(**fields)
    except (ValidationError, TypeError) as error:
        raise CorruptData(
            f"A stored memory of the type {kind.type!r} doesn't fit {kind.__name__}: {error} "
            "Give the fields it lacks a default."
        ) from error


def trimmed(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements; of very many, without those that only said again what stood around them.

    A claim between two equal ones, with nothing else in between, changes no value at any time.
    """
    if len(statements) <= MOST_STATEMENTS:
        return tuple(statements)
    mentioned = {number for each in statements for number in each.about}
    kept = list(statements)
    place = 1
    while len(kept) > MOST_STATEMENTS and place < len(kept) - 1:
        before, this, after = kept[place - 1 : place + 2]
        if this.number not in mentioned and _is_between(before, this, after):
            del kept[place]
        else:
            place += 1
    return tuple(kept)


def _is_between(before: Statement, this: Statement, after: Statement) -> bool:
    if not before.kind == this.kind == after.kind == "said":
        return False
    alike = before.content == this.content == after.content
    in_order = before.valid_from < this.valid_from < after.valid_from
    return alike and in_order and before.valid_to is this.valid_to is after.valid_to is None


def utc_text(time: datetime) -> str:
    """A time as text of one width, so that texts order as times do."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")
