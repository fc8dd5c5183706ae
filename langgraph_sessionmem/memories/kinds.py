"""The types of memories, as what is claimed; `known.py` has what they are when they are read.

A type says what makes two memories the same one (`identity`), what happens when it is said again
(`rule`), and how it reads (`line`). Subclass a type to give it fields of your own; subclass
`Memory` for a type of your own:

    class Allergy(Memory):
        type = "allergy"
        identity = ("substance",)
        substance: str
        severity: str

        def line(self) -> str:
            return f"allergic to {self.substance} ({self.severity})"

    memories = Memories(store, ("users", "u1"), types=[Allergy])
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from langchain_core.messages import BaseMessage
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue
from typing_extensions import override

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.said import clip_text, plain_text, said_at, speaker

Rule = Literal["slot", "once", "confirmed"]
_QUOTED_CHARS: Final = 500
"""A message's quote is kept up to this length."""
_TYPE: Final = re.compile(r"[a-z][a-z0-9_-]*\Z")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


Time = Annotated[AwareDatetime, AfterValidator(_utc)]
"""A time with a zone; kept in UTC."""
_Text = Annotated[str, Field(min_length=1)]


class Source(BaseModel):
    """Where a memory was learnt.

    Attributes:
        thread: the id of the thread it was said in.
        messages: the ids of the messages that say so.
        by: who said it: "user", "assistant", "tool", or any name. Two statements of one thread by
            one speaker are of one source: the later corrects the earlier.
        quote: what was said, word for word.
        at: when it was said.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    thread: str | None = None
    messages: tuple[str, ...] = ()
    by: str | None = None
    quote: str | None = None
    at: Time | None = None

    def __init__(self, *, message: BaseMessage | None = None, **fields: Any) -> None:
        """A source; a `message` fills in what isn't given: its id, who, what, and when.

        When is its `additional_kwargs["timestamp"]`, if that is a time in ISO 8601 with a zone.
        """
        super().__init__(**(_told_by(message) if message is not None else {}) | fields)

    @property
    def origin(self) -> tuple[str | None, str | None]:
        """What makes two sources one: who said it, and in which thread."""
        return self.thread, self.by


def _told_by(message: BaseMessage) -> dict[str, Any]:
    return {
        "messages": (message.id,) if message.id else (),
        "by": speaker(message),
        "quote": clip_text(plain_text(message), _QUOTED_CHARS),
        "at": _iso_time(said_at(message)),
    }


def _iso_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.utcoffset() is not None else None


def _instant(time: object) -> str:
    given = _iso_time(time) if isinstance(time, str) else time
    return given.astimezone(UTC).isoformat() if isinstance(given, datetime) else str(time)


class Memory(BaseModel):
    """What is claimed, of whatever type.

    Attributes:
        type: the type's name, and the label of its namespace.
        identity: the fields that tell one memory from another.
        rule: `slot`: another value takes the place of the one before, which becomes history;
            `once`: it never changes; `confirmed`: saying it again confirms it.
        shelf: a field of `identity` whose values have a namespace each.
        fixed: fields that stay as they were when it was first said.
        valid_from: since when it is true; by default since its source said it, or since now.
        valid_to: until when, if that is known.
        confidence: from 0 to 1.
        tags: your own labels.
        consent: what the user agreed to, in the words of your own policy.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: ClassVar[str]
    identity: ClassVar[tuple[str, ...]]
    rule: ClassVar[Rule] = "slot"
    shelf: ClassVar[str | None] = None
    fixed: ClassVar[tuple[str, ...]] = ()

    valid_from: Time | None = None
    valid_to: Time | None = None
    confidence: float = Field(default=1.0, ge=0, le=1)
    tags: tuple[str, ...] = ()
    consent: str | None = None

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)

    def line(self) -> str:
        """How it reads: what it is found by, and what a model is shown."""
        raise NotImplementedError(f"{type(self).__name__} needs a method line().")

    def named(self) -> dict[str, str]:
        """The fields that tell it from others, each as a name that is compared exactly."""
        return {field: exact_name(str(getattr(self, field))) for field in self.identity}

    def content(self) -> dict[str, Any]:
        """What is claimed, as JSON, without what names it and without `Memory`'s own fields."""
        named = {*Memory.model_fields, *self.identity, *self.fixed}
        fields = type(self).model_fields.keys() - named
        return self.model_dump(mode="json", include=fields)


def exact_name(name: str) -> str:
    """A name as it is compared: one form of Unicode, single spaces, none around it."""
    return " ".join(unicodedata.normalize("NFC", name).split())


def field_name(name: str) -> str:
    """A name of a field as it is compared: `DB port`, `db-port` and `db_port` are one."""
    levelled = unicodedata.normalize("NFKC", name).casefold()
    return "_".join(part for part in re.split(r"[\s_\-]+", levelled) if part)


def _said(name: str) -> str:
    return name.replace("_", " ")


class _Slot(Memory):
    """What several types have in common whose values are called by a name."""

    attribute: _Text
    value: JsonValue

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)

    @override
    def named(self) -> dict[str, str]:
        return super().named() | {"attribute": field_name(self.attribute)}


class Background(_Slot):
    """Who somebody is: an attribute that rarely changes.

    Attributes:
        attribute: its name, such as `name` or `native_language`.
        value: any JSON.
    """

    type = "background"
    identity = ("attribute",)

    def __init__(self, attribute: str, value: JsonValue, **fields: Any) -> None:
        super().__init__(attribute=attribute, value=value, **fields)

    @override
    def line(self) -> str:
        return f"{_said(self.attribute)}: {shown(self.value)}"


class Fact(_Slot):
    """A claim about something: in each slot of subject and attribute, one value at a time.

    Attributes:
        subject: whom or what it is about; compared exactly.
        attribute: what of it; `DB port` and `db_port` are the same.
        value: any JSON.
    """

    type = "fact"
    identity = ("subject", "attribute")

    subject: _Text

    def __init__(self, subject: str, attribute: str, value: JsonValue, **fields: Any) -> None:
        super().__init__(subject=subject, attribute=attribute, value=value, **fields)

    @override
    def line(self) -> str:
        return f"{self.subject} {_said(self.attribute)}: {shown(self.value)}"


class Event(Memory):
    """Something that happened; it never changes.

    Attributes:
        text: what happened.
        id: its name; by default made from text and time, so that it is remembered once.
        valid_from: when it happened or began, and `valid_to` when it ended.
    """

    type = "event"
    identity = ("id",)
    rule = "once"

    text: _Text
    id: str

    def __init__(self, text: str, at: datetime | None = None, **fields: Any) -> None:
        if at is not None:
            fields.setdefault("valid_from", at)
        fields.setdefault("id", hashed([text, _instant(fields.get("valid_from"))]))
        super().__init__(text=text, **fields)

    @override
    def line(self) -> str:
        return self.text


class Conversation(Memory):
    """A turn of a conversation, word for word.

    Attributes:
        text: what was said.
        thread: the thread's id.
        message: the message's id.
        by: who said it.
        position: its place in the thread, counted from 0: a turn is found by its neighbours too.
        digest: of the text; an edited message is another turn.
        valid_from: when it was said.
    """

    type = "conversation"
    identity = ("thread", "message", "digest")
    rule = "once"
    shelf = "thread"
    fixed = ("position",)

    text: _Text
    thread: _Text
    message: _Text
    by: str = "user"
    position: int | None = Field(default=None, ge=0)
    digest: str

    def __init__(self, text: str, *, thread: str, message: str, **fields: Any) -> None:
        fields.setdefault("digest", hashed([text, fields.get("by", "user")]))
        super().__init__(text=text, thread=thread, message=message, **fields)

    @override
    def line(self) -> str:
        return f"{self.by}: {self.text}"


class Reflection(Memory):
    """A pattern seen in other memories; it fades unless it is seen again.

    Attributes:
        text: the pattern.
        evidence: the ids of at least one memory it rests on; without any of them it ends.
        half_life_days: after so many days without confirmation it weighs half.
        id: its name; by default made from the text.
    """

    type = "reflection"
    identity = ("id",)
    rule = "confirmed"

    text: _Text
    evidence: tuple[_Text, ...] = Field(min_length=1)
    half_life_days: float = Field(default=90.0, gt=0)
    id: str

    def __init__(self, text: str, evidence: Iterable[str], **fields: Any) -> None:
        fields.setdefault("id", hashed([exact_name(text)]))
        given = (evidence,) if isinstance(evidence, str) else tuple(evidence)
        super().__init__(text=text, evidence=given, **fields)

    @override
    def line(self) -> str:
        return self.text


class Skill(Memory):
    """How to do something: versions of a procedure, with their outcomes.

    Attributes:
        name: the skill's name; `deploy app` and `deploy_app` are the same.
        when: when to use it.
        steps: what to do, in order.
    """

    type = "skill"
    identity = ("name",)

    name: _Text
    when: str = ""
    steps: tuple[str, ...] = ()

    def __init__(self, name: str, **fields: Any) -> None:
        super().__init__(name=name, **fields)

    @override
    def named(self) -> dict[str, str]:
        return {"name": field_name(self.name)}

    @override
    def line(self) -> str:
        when = f" (when {self.when})" if self.when else ""
        steps = " ".join(f"{number}. {step}" for number, step in enumerate(self.steps, 1))
        return f"{_said(self.name)}{when}: {steps}"


KINDS: Final[tuple[type[Memory], ...]] = (
    Background,
    Fact,
    Event,
    Conversation,
    Reflection,
    Skill,
)


def read_types(types: Iterable[type[Memory]]) -> dict[str, type[Memory]]:
    """The six types and a user's own by name; one of the same name takes the other's place.

    Raises:
        InvalidArgument: one of them is no type of memory that can be kept.
    """
    known: dict[str, type[Memory]] = {kind.type: kind for kind in KINDS}
    for kind in types:
        _check_type(kind)
        known[kind.type] = kind
    return known


def _check_type(kind: object) -> None:
    if not (isinstance(kind, type) and issubclass(kind, Memory)):
        raise InvalidArgument(f"types: {kind!r} is no subclass of Memory.")
    name, identity = getattr(kind, "type", None), getattr(kind, "identity", None)
    if not (isinstance(name, str) and _TYPE.match(name)):
        raise InvalidArgument(
            f"{kind.__name__}.type = {name!r}: give a name of small letters, digits, - and _."
        )
    if not (isinstance(identity, tuple) and identity and kind.model_fields.keys() >= set(identity)):
        raise InvalidArgument(
            f"{kind.__name__}.identity = {identity!r}: give a tuple of names of its fields."
        )
    if kind.shelf is not None and kind.shelf != identity[0]:
        raise InvalidArgument(
            f"{kind.__name__}.shelf = {kind.shelf!r}: only the first field of identity, "
            f"{identity[0]!r}, may be one."
        )


def shown(value: Any) -> str:
    """A JSON value as it is read: text as it stands, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def canonical(content: Mapping[str, Any] | None) -> str:
    """A content as text that is equal for equal contents: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_levelled(content), sort_keys=True)


def _levelled(part: Any) -> Any:
    if isinstance(part, float) and part.is_integer():
        return int(part)
    if isinstance(part, Mapping):
        return {key: _levelled(inner) for key, inner in part.items()}
    if isinstance(part, list | tuple):
        return [_levelled(inner) for inner in part]
    return unicodedata.normalize("NFC", part) if isinstance(part, str) else part


def hashed(parts: Iterable[str]) -> str:
    """Sixteen letters and digits that know texts again."""
    encoded = json.dumps([*parts]).encode()
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def written_date(time: datetime) -> str:
    """A day in words, which a question may use: `8 May 2023`."""
    return f"{time.day} {_MONTHS[time.month - 1]} {time.year}"
