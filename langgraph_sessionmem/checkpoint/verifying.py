"""Whether a value comes back as it is, and where in it the first thing stands that doesn't.

"As it is" means: the same types all the way down, the same order of keys, NaN equal to NaN, and of
objects every field. `docs/types.md` lists what changes.
"""

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel
from pydantic.v1 import BaseModel as BaseModelV1

from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.errors import SessionMemoryError, ValueNotStorable

_OWN_CHANNELS = ("branch:", "join:", "__")
"""Channels whose values LangGraph makes by itself: it packs them into tuples, and reads lists."""


class Change(NamedTuple):
    """What would not come back: where it stands, and what would become of it."""

    path: str
    what: str

    def under(self, outer: str) -> "Change":
        """The same change, one level further out."""
        return Change(outer + self.path, self.what)


def verify(codec: Codec, channel: str, value: Any, body: bytes) -> None:
    """Read back what a channel's value is stored as.

    Raises:
        ValueNotStorable: it would come back otherwise, or not at all.
    """
    try:
        found = codec.decode(body)
    except SessionMemoryError as error:
        raise locate(codec, value, error).under(channel) from error
    if type(value) is tuple and channel.startswith(_OWN_CHANNELS):
        value = list(value)
    change = find_change(value, found)
    if change is not None:
        raise ValueNotStorable(channel + change.path, f"{change.what}.")


def locate(codec: Codec, value: Any, error: SessionMemoryError) -> ValueNotStorable:
    """Where in a value the innermost thing stands that can't be stored, or can't be read back.

    Args:
        codec: writes and reads it.
        value: the value.
        error: what became of the whole.
    """
    writing = isinstance(error, ValueNotStorable)
    path, seen = "", {id(value)}

    def step() -> tuple[str, Any, SessionMemoryError] | None:
        for key, part in _parts(value):
            failure = None if id(part) in seen else _failure(codec, part, reads=not writing)
            if failure is not None:
                return key, part, failure
        return None

    while (found := step()) is not None:
        key, value, error = found
        path += key
        seen.add(id(value))
    reason = error.reason if isinstance(error, ValueNotStorable) else f"can't be read back. {error}"
    return ValueNotStorable(path.removeprefix("."), reason)


def find_change(value: Any, found: Any) -> Change | None:
    """The first difference between a value and what came back; `None`: they are the same."""
    if type(found) is not type(value):
        return Change("", f"{_a(value)} would come back as {_a(found)}")
    for kind, compare in _COMPARISONS:
        if isinstance(value, kind):
            return compare(value, found)
    if _has_fields(value):
        return _fields_change(value, found)
    same = repr(found) == repr(value) and (found == value or value != value)
    return _unless(same, value, found)


def _float_change(value: float, found: float) -> Change | None:
    same = found == value and math.copysign(1, found) == math.copysign(1, value)
    return _unless(same or (math.isnan(value) and math.isnan(found)), value, found)


def _sequence_change(value: Any, found: Any) -> Change | None:
    if len(found) != len(value):
        return Change("", f"{len(value)} elements would come back as {len(found)}")
    for index, (inner, back) in enumerate(zip(value, found, strict=True)):
        change = find_change(inner, back)
        if change is not None:
            return change.under(f"[{index}]")
    return None


def _deque_change(value: "deque[Any]", found: "deque[Any]") -> Change | None:
    if found.maxlen != value.maxlen:
        return Change("", f"its maxlen {value.maxlen} would come back as {found.maxlen}")
    return _sequence_change(value, found)


def _dict_change(value: dict[Any, Any], found: dict[Any, Any]) -> Change | None:
    keys = find_change(list(value), list(found))
    if keys is not None:
        return Change("", f"of its keys, {keys.what}")
    for key, inner in value.items():
        change = find_change(inner, found[key])
        if change is not None:
            return change.under(_key(key))
    return None


def _set_change(value: Any, found: Any) -> Change | None:
    back = {element: element for element in found}
    shared = [(element, back.pop(element)) for element in value if element in back]
    # NaN equals nothing, so it is among the rest on both sides.
    rest = sorted((element for element in value if element not in found), key=repr)
    pairs = [*zip(*shared, strict=True)] if shared else [(), ()]
    return _sequence_change([*pairs[0], *rest], [*pairs[1], *sorted(back, key=repr)])


def _array_change(value: Any, found: Any) -> Change | None:
    if (found.dtype, found.shape) != (value.dtype, value.shape):
        what = f"an array of {value.dtype} {value.shape} would come back as one of {found.dtype}"
        return Change("", f"{what} {found.shape}")
    return _unless(found.tobytes() == value.tobytes(), value, found)


def _fields_change(value: Any, found: Any) -> Change | None:
    fields, back = dict(_fields(value)), dict(_fields(found))
    missing = sorted(fields.keys() ^ back.keys())
    if missing:
        return Change(f".{missing[0]}", "this field would be lost or added")
    for name, inner in fields.items():
        change = find_change(inner, back[name])
        if change is not None:
            return change.under(f".{name}")
    return None


_COMPARISONS: tuple[tuple[Any, Callable[[Any, Any], Change | None]], ...] = (
    (float, _float_change),
    ((list, tuple), _sequence_change),
    (dict, _dict_change),
    (deque, _deque_change),
    ((set, frozenset), _set_change),
    (np.ndarray, _array_change),
)


def _has_fields(value: Any) -> bool:
    """Whether an object is what it keeps in its fields."""
    if isinstance(value, BaseModel | BaseModelV1) or dataclasses.is_dataclass(value):
        return True
    return type(value).__module__.startswith("langgraph.") and hasattr(type(value), "__slots__")


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of an object by name: its attributes, and for pydantic what it keeps beside."""
    own = getattr(value, "__dict__", {})
    yield from own.items()
    if isinstance(value, BaseModel):
        yield from (value.__pydantic_extra__ or {}).items()
        yield from (value.__pydantic_private__ or {}).items()
    elif dataclasses.is_dataclass(value):
        names = {field.name for field in dataclasses.fields(value)} - own.keys()
        yield from ((name, getattr(value, name)) for name in names if hasattr(value, name))
    elif not isinstance(value, BaseModelV1):
        slots = chain.from_iterable(map(_slots, type(value).__mro__))
        yield from ((name, getattr(value, name)) for name in slots if hasattr(value, name))


def _slots(kind: type) -> Iterator[str]:
    slots = kind.__dict__.get("__slots__", ())
    for name in (slots,) if isinstance(slots, str) else slots:
        if name not in ("__dict__", "__weakref__"):
            yield name


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value consists of, each with its place as a path shows it."""
    if isinstance(value, dict):
        yield from ((_key(key), inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", inner) for index, inner in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from ((f"[{element!r}]", element) for element in value)
    elif not isinstance(value, type) and _has_fields(value):
        yield from ((f".{name}", inner) for name, inner in _fields(value))


def _failure(codec: Codec, value: Any, *, reads: bool) -> SessionMemoryError | None:
    try:
        body = codec.encode(value)
        if reads:
            codec.decode(body)
    except SessionMemoryError as error:
        return error
    return None


def _key(key: object) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def _unless(same: bool, value: object, found: object) -> Change | None:
    return None if same else Change("", f"{value!r:.80} would come back as {found!r:.80}")


def _a(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
