"""Values as bytes. Every element begins with a codec byte; `docs/format.md` lists them.

Plain data (what msgpack holds exactly) is msgpack. LangChain's messages are stored by state, the
fields that differ from their defaults, and rebuilt by `__new__` and `__dict__`: faster than
validation, and more faithful. All else is `JsonPlusSerializer`'s, read under the rule for types.

A **mark** stands for a value's whole content: equal marks, equal values. A message's mark holds all
its fields, everything else's is its stored form.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import ormsgpack
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic_core import PydanticUndefined

from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.errors import CorruptData, ValueNotStorable

PLAIN = b"\x01"
MESSAGE = b"\x02"
JSONPLUS = b"\x03"
BYTES = b"\x04"
BYTEARRAY = b"\x05"
SERDE = b"\x07"
LIST = b"\x08"

_EXACT = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""With all of these and no default, packing refuses whatever it would change."""

_CLASSES: tuple[type[BaseMessage], ...] = (
    HumanMessage,
    AIMessage,
    SystemMessage,
    ToolMessage,
    RemoveMessage,
    ChatMessage,
    FunctionMessage,
    AIMessageChunk,
)
"""By their code; a released code never changes its class."""

_CODES: dict[type, bytes] = {kind: MESSAGE + bytes([code]) for code, kind in enumerate(_CLASSES)}


class Codec:
    """Values to bytes and back.

    Args:
        types: what stored data may become.
        serde: the user's own serializer, called for each element instead.
    """

    def __init__(self, types: Types, serde: SerializerProtocol | None = None) -> None:
        self._types, self._serde = types, serde
        self.jsonplus = JsonPlusSerializer(__unpack_ext_hook__=types.hook)

    def mark(self, value: object) -> bytes:
        """The value's mark: exact, and free of the value itself, which may be changed afterwards.

        Raises:
            ValueNotStorable: nothing here can write the value.
        """
        prefix = _CODES.get(type(value))
        if prefix is not None and not (value.__pydantic_extra__ or value.__pydantic_private__):  # type: ignore[attr-defined]  # a message
            try:
                return prefix + ormsgpack.packb(value.__dict__, option=_EXACT)
            except (ormsgpack.MsgpackEncodeError, TypeError):
                return self._opaque(value)
        return self._plain(value)

    def encode_mark(self, mark: bytes) -> bytes:
        """The stored form of the value that has this mark."""
        if mark[:1] != MESSAGE:
            return mark
        fields, defaults = ormsgpack.unpackb(mark[2:]), _shape(mark[1]).defaults
        kept = {
            name: value
            for name, value in fields.items()
            if name not in defaults or not _same(value, defaults[name])
        }
        return mark[:2] + ormsgpack.packb(kept, option=_EXACT)

    def encode(self, value: object) -> bytes:
        """The stored form of a value.

        Raises:
            ValueNotStorable: nothing here can write the value.
        """
        if self._serde is not None:
            kind, data = self._serde.dumps_typed(value)
            return SERDE + ormsgpack.packb([kind, bytes(data)])
        if type(value) is list and any(type(element) in _CODES for element in value):
            return self.encode_list([self.encode(element) for element in value])
        return self.encode_mark(self.mark(value))

    def encode_list(self, bodies: Sequence[bytes]) -> bytes:
        """The stored form of a list of values that are stored already."""
        return LIST + ormsgpack.packb(list(bodies))

    def decode(self, body: bytes) -> Any:
        """The value of a stored form; each call makes a new one.

        Raises:
            CorruptData: the bytes are no stored form.
            TypeNotAllowed: they name a type that may not be rebuilt.
        """
        code, data = body[:1], body[1:]
        try:
            if code == MESSAGE:
                return _message(data)
            if code == PLAIN:
                return ormsgpack.unpackb(data)
            if code == JSONPLUS:
                return self._types.rebuild(data)
            if code == LIST:
                return [self.decode(element) for element in ormsgpack.unpackb(data)]
            if code == BYTES:
                return data
            if code == BYTEARRAY:
                return bytearray(data)
            kind, content = ormsgpack.unpackb(data) if code == SERDE else ("", b"")
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise CorruptData(
                f"A stored value of form {code.hex()} can't be read: {error}."
            ) from error
        if code == SERDE and self._serde is not None:
            return self._serde.loads_typed((kind, content))
        if code == SERDE:
            raise CorruptData(
                "A value was stored by a serializer of the user's own: pass it as serde=..."
            )
        raise CorruptData(f"A stored value begins with {code!r}, which is no codec byte.")

    def marks_of(self, bodies: Sequence[bytes], values: Sequence[object]) -> list[bytes]:
        """The marks of values just decoded from these stored forms."""
        return [
            body if body[:1] in (PLAIN, JSONPLUS) else self.mark(value)
            for body, value in zip(bodies, values, strict=True)
        ]

    def _plain(self, value: object) -> bytes:
        if type(value) is bytes:
            return BYTES + value
        if type(value) is bytearray:
            return BYTEARRAY + bytes(value)
        try:
            return PLAIN + ormsgpack.packb(value, option=_EXACT)
        except (ormsgpack.MsgpackEncodeError, TypeError):
            return self._opaque(value)

    def _opaque(self, value: object) -> bytes:
        try:
            kind, data = self.jsonplus.dumps_typed(value)
        except (ormsgpack.MsgpackEncodeError, TypeError, ValueError, RecursionError) as error:
            if self._serde is not None:
                # The user's serializer writes it; here it only has to be told from others.
                return SERDE + self._serde.dumps_typed(value)[1]
            reason = f"a value of type {type(value).__name__} can't be stored ({error})."
            raise ValueNotStorable("", reason) from error
        return JSONPLUS + data if kind == "msgpack" else self._plain(value)


class _Shape(NamedTuple):
    """A message class as it is stored.

    Attributes:
        defaults: of its optional fields.
        packed: all its fields in the order of the class, at their defaults; required ones are
            null. Unpacking makes them anew, so no two messages share a default's dict.
    """

    kind: type[BaseMessage]
    defaults: dict[str, Any]
    required: frozenset[str]
    packed: bytes


@cache
def _shape(code: int) -> _Shape:
    if code >= len(_CLASSES):
        raise CorruptData(f"A stored message has class code {code}, which this version lacks.")
    kind = _CLASSES[code]
    fields = {
        name: field.get_default(call_default_factory=True)
        for name, field in kind.model_fields.items()
    }
    required = frozenset(name for name, value in fields.items() if value is PydanticUndefined)
    packed = ormsgpack.packb({name: None if name in required else fields[name] for name in fields})
    defaults = {name: value for name, value in fields.items() if name not in required}
    return _Shape(kind, defaults, required, packed)


def _message(data: bytes) -> BaseMessage:
    shape, fields = _shape(data[0]), ormsgpack.unpackb(data[1:])
    state = ormsgpack.unpackb(shape.packed)
    known = len(state)
    state.update(fields)
    if len(state) > known or not shape.required <= fields.keys():
        # Written by a langchain-core with other fields: its constructor knows what to do with them.
        return shape.kind(**fields)
    message = shape.kind.__new__(shape.kind)
    set_attribute = object.__setattr__
    set_attribute(message, "__dict__", state)
    set_attribute(message, "__pydantic_fields_set__", set(fields))
    set_attribute(message, "__pydantic_extra__", {})
    set_attribute(message, "__pydantic_private__", None)
    return message


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
