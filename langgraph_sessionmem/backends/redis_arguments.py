"""Named arguments of scripts, as the msgpack that Redis' own library can read; pure.

It has no binary strings, so bytes go as text; `ormsgpack` would not write that.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import ormsgpack

Value: TypeAlias = "bool | int | float | str | bytes | Sequence[Value] | None"


def pack_arguments(named: Mapping[str, Value]) -> bytes:
    """A msgpack map; what is None is left out, as Lua has it."""
    given = [(name, value) for name, value in named.items() if value is not None]
    parts = [_size(len(given), 0x80, 16, b"\xde")]
    for name, value in given:
        parts.append(ormsgpack.packb(name))
        _pack(value, parts)
    return b"".join(parts)


def _pack(value: Value, parts: list[bytes]) -> None:
    match value:
        case bytes():
            parts.append(_text_size(len(value)))
            parts.append(value)
        case list() | tuple():
            parts.append(_size(len(value), 0x90, 16, b"\xdc"))
            for item in value:
                _pack(item, parts)
        case _:
            parts.append(ormsgpack.packb(value))


def _text_size(size: int) -> bytes:
    if size < 32:
        return bytes((0xA0 | size,))
    if size < 1 << 8:
        return b"\xd9%c" % size
    if size < 1 << 16:
        return b"\xda" + size.to_bytes(2)
    return b"\xdb" + size.to_bytes(4)


def _size(size: int, small: int, limit: int, code: bytes) -> bytes:
    """The head of a map or an array; `code` with two bytes, the next one with four."""
    if size < limit:
        return bytes((small | size,))
    if size < 1 << 16:
        return code + size.to_bytes(2)
    return bytes((code[0] + 1,)) + size.to_bytes(4)
