"""What callers may give, checked before anything is read or written (pure)."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.memories.keys import Place, place, place_of, place_of_id
from langgraph_sessionmem.memories.kinds import Memory
from langgraph_sessionmem.memories.known import Conflict, Kinds, Known

About: TypeAlias = str | Memory | Known[Any] | Conflict
"""Which memory is meant: its id, itself, or what was read of it."""
Types: TypeAlias = Iterable[type[Memory] | str] | None
"""Types of memories, by class or name; `None` is all of them."""


def labels_of(kinds: Kinds, types: Types) -> Sequence[str]:
    """The names of types; none if all are meant.

    Raises:
        InvalidArgument: one of them isn't known.
    """
    if types is None:
        return ()
    given = [types] if isinstance(types, str | type) else list(types)
    names = [each if isinstance(each, str) else str(getattr(each, "type", each)) for each in given]
    for name in names:
        if name not in kinds:
            raise InvalidArgument(
                f"types: {name!r} is unknown; known are {', '.join(kinds)}. Give a type of your "
                "own to Memories(..., types=[...])."
            )
    if not names:
        raise InvalidArgument("types is empty: name at least one, or give None for all.")
    return names


def place_of_any(kinds: Kinds, about: About) -> Place:
    """Where the memory is that is meant.

    Raises:
        InvalidArgument: it names none.
    """
    if isinstance(about, Memory):
        checked_kind(kinds, about)
        return place_of(about)
    return place_of_id(kinds, about if isinstance(about, str) else about.id)


def place_named(kinds: Kinds, kind: type[Memory], **fields: str) -> Place:
    """Where the memory of a type is that these fields of its identity name."""
    registered = kinds[kind.type]
    return place(registered, registered.model_construct(None, **fields).named())


def checked_kind(kinds: Kinds, memory: object) -> None:
    """Refuse what is of no known type.

    Raises:
        InvalidArgument: it says which types are.
    """
    if not isinstance(memory, Memory):
        raise InvalidArgument(
            f"{memory!r} is no memory: give a Fact, an Event, … or a subclass of Memory."
        )
    registered = kinds.get(getattr(memory, "type", ""))
    if registered is None or not isinstance(memory, registered):
        raise InvalidArgument(
            f"{type(memory).__name__} is no type that is known here: give it to "
            f"Memories(..., types=[{type(memory).__name__}])."
        )


def checked_time(name: str, time: datetime | None) -> datetime | None:
    """A time in UTC.

    Raises:
        InvalidArgument: it has no zone.
    """
    if time is None:
        return None
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise InvalidArgument(
            f"{name}={time!r}: give a datetime with a time zone, such as datetime.now(UTC)."
        )
    return time.astimezone(UTC)


def checked_count(name: str, count: object, least: int = 1) -> None:
    """Refuse what is no whole number of at least `least`.

    Raises:
        InvalidArgument: with the number.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < least:
        raise InvalidArgument(f"{name}={count!r}: give a whole number of at least {least}.")
