"""LangChain's messages and documents by state: the fields that differ from their defaults.

Rebuilt by `__new__` and `__dict__`: faster than validation, and more faithful. The **mark** of one
is a byte that says its class, and msgpack of all its fields.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial
from typing import Any, NamedTuple

import ormsgpack
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from langgraph_sessionmem.errors import CorruptData

EXACT = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""With all of these and no default, packing refuses whatever it would change."""

_CLASSES: tuple[type[BaseModel], ...] = (
    HumanMessage,
    AIMessage,
    SystemMessage,
    ToolMessage,
    RemoveMessage,
    ChatMessage,
    FunctionMessage,
    AIMessageChunk,
    Document,
)
"""By their code; a released code never changes its class."""

CODES: dict[type, int] = {kind: code for code, kind in enumerate(_CLASSES)}

MARK = 0x40
"""The first byte of a message's mark is this plus its class code; no stored form begins so."""

_PREFIXES = [bytes([MARK + code]) for code in range(len(_CLASSES))]

_new = object.__new__
_set_state = BaseModel.__dict__["__dict__"].__set__
_set_fields = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private = BaseModel.__dict__["__pydantic_private__"].__set__


class _Shape(NamedTuple):
    """A class as it is stored.

    Attributes:
        defaults: of its optional fields.
        template: all its fields in the order of the class, at their defaults; required ones, and
            those that each message needs of its own, are null.
        own: how to make those that each message needs of its own.
        takes_more: it may have fields that its class doesn't name.
    """

    kind: type[BaseModel]
    defaults: dict[str, Any]
    required: frozenset[str]
    template: dict[str, Any]
    own: list[tuple[str, Callable[[], Any]]]
    takes_more: bool


def mark_message(code: int, message: Any) -> bytes | None:
    """The mark of a message of this class code; `None` if it holds more than plain data."""
    if message.__pydantic_extra__ or message.__pydantic_private__:
        return None
    try:
        return _PREFIXES[code] + ormsgpack.packb(message.__dict__, option=EXACT)
    except (ormsgpack.MsgpackEncodeError, TypeError):
        return None


def state_of(mark: bytes) -> bytes:
    """The message with this mark as it is stored: its class code, and the fields that matter."""
    code, fields = mark[0] - MARK, ormsgpack.unpackb(mark[1:])
    for name, default in _shape(code).defaults.items():
        if name in fields and type(fields[name]) is type(default) and fields[name] == default:
            del fields[name]
    return bytes([code]) + ormsgpack.packb(fields, option=EXACT)


def own_state(message: Any) -> dict[str, Any] | None:
    """All fields of a message that has nothing else; `None` if it has."""
    if message.__pydantic_extra__ or message.__pydantic_private__:
        return None
    state: dict[str, Any] = message.__dict__
    return state


def rebuild(code: int, stored: dict[str, Any]) -> BaseModel:
    """The message of this class code with these fields, and all others at their defaults.

    Raises:
        CorruptData: the class code is none of ours.
        ValueError, TypeError: the fields aren't those of a message.
    """
    kind, _, required, template, own, takes_more = _shape(code)
    fields = {**template, **stored}
    for name, make in own:
        if name not in stored:
            fields[name] = make()
    if len(fields) > len(template) or not required <= stored.keys():
        # Written by a langchain-core with other fields: its constructor knows what to do with them.
        return kind(**stored)
    message = _new(kind)
    _set_state(message, fields)
    _set_fields(message, set(stored))
    _set_extra(message, {} if takes_more else None)
    _set_private(message, None)
    return message


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
    defaults = {name: value for name, value in fields.items() if name not in required}
    own: list[tuple[str, Callable[[], Any]]] = [
        (name, partial(deepcopy, value) if value else type(value))
        for name, value in defaults.items()
        if isinstance(value, list | dict | set)
    ]
    shared = defaults.keys() - {name for name, _ in own}
    template = {name: defaults[name] if name in shared else None for name in fields}
    takes_more = kind.model_config.get("extra") == "allow"
    return _Shape(kind, defaults, required, template, own, takes_more)
