"""Values as bytes. Every element begins with a codec byte; `docs/format.md` lists them.

Plain data (what msgpack holds exactly) is msgpack, what only JSON holds exactly is JSON. Messages
and documents are stored by state. All else is `JsonPlusSerializer`'s, and read under the rule for
types.

A **mark** stands for a value's whole content: equal marks, equal values. A message's mark holds all
its fields, everything else's is its stored form.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_sessionmem.checkpoint.compression import (
    COMPRESSED,
    FEWEST_WORDED,
    WORDED,
    compress,
    expand,
    pack_words,
)
from langgraph_sessionmem.checkpoint.messages import (
    CODES,
    EXACT,
    MARK,
    mark_message,
    own_state,
    rebuild,
    state_of,
)
from langgraph_sessionmem.checkpoint.types import Types, write
from langgraph_sessionmem.errors import CorruptData, ValueNotStorable

PLAIN = b"\x01"
MESSAGE = b"\x02"
JSONPLUS = b"\x03"
BYTES = b"\x04"
BYTEARRAY = b"\x05"
JSON = b"\x06"
SERDE = b"\x07"
LIST = b"\x08"
JSON_MESSAGE = b"\x09"

_FEWEST_LONG = 512
"""Bytes of a long write or head."""

_MARKED_ANEW = (MESSAGE, SERDE, LIST)
"""Forms that aren't marks."""

_CHUNK = 64
"""So many marks are compared at once; where one of them differs, all are made anew."""

_MOST_AT_ONCE = 256
"""So many stored forms are unpacked at once."""

_first_of = itemgetter(0)
_state_of = attrgetter("__dict__")
_extra_of = attrgetter("__pydantic_extra__")
_private_of = attrgetter("__pydantic_private__")

_PLAIN_CODE, _MESSAGE_CODE = PLAIN[0], MESSAGE[0]
_PLAIN_TYPES: frozenset[type] = frozenset({dict, list, str, int, float, bool, NoneType})
_NUMBERS: dict[type, int] = {kind: MARK + code for kind, code in CODES.items()}
_NUMBERS.update(dict.fromkeys(_PLAIN_TYPES, _PLAIN_CODE))
"""The first byte of the mark of a value of this type."""

_UNREADABLE = (ValueError, TypeError, LookupError, RecursionError)
_UNPACKABLE = (ormsgpack.MsgpackEncodeError, TypeError)


class Codec:
    """Values to bytes and back.

    Args:
        types: what stored data may become.
        serde: the user's own serializer, called for each element instead.
        compress_bytes: stored forms of at least this size are compressed; `None`: none.
        packs_short: short writes and heads are compressed with the preset dictionary too.

    Attributes:
        fewest_packed: of so many bytes on they are.
    """

    def __init__(
        self,
        types: Types,
        serde: SerializerProtocol | None = None,
        compress_bytes: int | None = None,
        *,
        packs_short: bool = False,
    ) -> None:
        self._types, self._serde, self._compress_bytes = types, serde, compress_bytes
        self._packs_short = packs_short
        self.fewest_packed = FEWEST_WORDED if packs_short else _FEWEST_LONG
        self.jsonplus = JsonPlusSerializer(__unpack_ext_hook__=types.hook)

    def limited_to(self, names: Collection[tuple[str, ...]]) -> "Codec":
        """The same codec, rebuilding LangGraph's safe types and `names`, nothing else."""
        types = Types.only(names)
        return Codec(types, self._serde, self._compress_bytes, packs_short=self._packs_short)

    def row_of(self, body: bytes) -> bytes:
        """A stored form as a row holds it: compressed, if it is large and that helps."""
        if self._compress_bytes is None or len(body) < self._compress_bytes:
            return body
        return compress(body)

    def metadata_row_of(self, body: bytes) -> bytes:
        """The row form of what is mostly short and full of known words: metadata."""
        packed = pack_words(body) if self._serde is None else body
        return packed if packed is not body else self.row_of(body)

    def write_row_of(self, body: bytes) -> bytes:
        """The row form of a pending write."""
        return self.metadata_row_of(body) if len(body) >= self.fewest_packed else self.row_of(body)

    def mark(self, value: object) -> bytes:
        """The value's mark: exact, and free of the value itself, which may be changed afterwards.

        Raises:
            ValueNotStorable: nothing here can write the value.
        """
        kind = type(value)
        if kind in _PLAIN_TYPES:
            try:
                return PLAIN + ormsgpack.packb(value, option=EXACT)
            except _UNPACKABLE:
                return self._opaque(value)
        if kind in CODES:
            return mark_message(CODES[kind], value) or self._opaque(value)
        return self._opaque(value)

    def marks(self, values: Sequence[object], likely: Sequence[bytes] = ()) -> list[bytes]:
        """The mark of each value; fastest where the first ones have the `likely` marks.

        Raises:
            ValueNotStorable: nothing here can write one of them.
        """
        count = _count_unchanged(values, likely)
        found = list(likely[:count])
        found += map(self.mark, values[count:])
        return found

    def marks_now(self, values: Sequence[object], likely: Sequence[bytes]) -> list[bytes | None]:
        """Like `marks`, with `None` for a value that can't be written any more."""
        try:
            return [*self.marks(values, likely)]
        except ValueNotStorable:
            return [self._mark_now(value) for value in values]

    def encode_mark(self, mark: bytes) -> bytes:
        """The stored form of the value that has this mark."""
        return MESSAGE + state_of(mark) if mark[0] >= MARK else mark

    def encode(self, value: object) -> bytes:
        """The stored form of a value.

        Raises:
            ValueNotStorable: nothing here can write the value.
        """
        if self._serde is not None:
            kind, data = self._serde.dumps_typed(value)
            return SERDE + ormsgpack.packb([kind, bytes(data)])
        if type(value) is list and any(type(element) in CODES for element in value):
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
        if body[:1] in (COMPRESSED, WORDED):
            body = expand(body)
        return self._decode(body)

    def _decode(self, body: bytes) -> Any:
        code, data = body[:1], body[1:]
        try:
            if code == MESSAGE:
                return rebuild(data[0], ormsgpack.unpackb(data[1:]))
            if code == PLAIN:
                return ormsgpack.unpackb(data)
            if code == JSONPLUS:
                return self._types.rebuild(data)
            if code == LIST:
                return [self._decode(element) for element in ormsgpack.unpackb(data)]
            if code == BYTES:
                return data
            if code == BYTEARRAY:
                return bytearray(data)
            if code == JSON:
                return json.loads(data)
            if code == JSON_MESSAGE:
                return rebuild(data[0], json.loads(data[1:]))
            kind, content = ormsgpack.unpackb(data) if code == SERDE else ("", b"")
        except _UNREADABLE as error:
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

    def decode_all(self, bodies: Sequence[bytes]) -> list[Any]:
        """The values of stored forms, in order; as `decode`, and faster for many."""
        values: list[Any] = []
        for start in range(0, len(bodies), _MOST_AT_ONCE):
            chunk = bodies[start : start + _MOST_AT_ONCE]
            try:
                values += _decode_alike(chunk)
            except (CorruptData, *_UNREADABLE):
                values += map(self.decode, chunk)
        return values

    def marks_of(self, bodies: Sequence[bytes], values: Sequence[object]) -> list[bytes]:
        """The marks of values just decoded from these stored forms."""
        return [
            self.mark(value) if body[:1] in _MARKED_ANEW else body
            for body, value in zip(bodies, values, strict=True)
        ]

    def _mark_now(self, value: object) -> bytes | None:
        try:
            return self.mark(value)
        except ValueNotStorable:
            return None

    def _opaque(self, value: object) -> bytes:
        """The form of what has no exact msgpack."""
        if isinstance(value, bytes | bytearray):
            return (BYTEARRAY if type(value) is bytearray else BYTES) + bytes(value)
        try:
            if type(value) in _PLAIN_TYPES and _is_json(value):
                return JSON + json.dumps(value).encode()
            state = own_state(value) if type(value) in CODES else None
            if state is not None and _is_json(state):
                return JSON_MESSAGE + bytes([CODES[type(value)]]) + json.dumps(state).encode()
            return JSONPLUS + write(value)
        except (*_UNPACKABLE, ValueError, RecursionError) as error:
            if self._serde is not None:
                # The user's serializer writes it; here it only has to be told from others.
                return SERDE + self._serde.dumps_typed(value)[1]
            reason = f"a value of type {type(value).__name__} can't be stored ({error})."
            raise ValueNotStorable("", reason) from error


def _decode_alike(bodies: Sequence[bytes]) -> Iterable[Any]:
    """The values of stored forms that are all plain, or all messages.

    The bytes in front of their msgpack are small numbers in msgpack too, so all together are a
    packed list without its header.

    Raises:
        ValueError: they are of other forms, or damaged.
    """
    count, codes = len(bodies), set(map(_first_of, bodies))
    parts = 2 if codes == {_PLAIN_CODE} else 3 if codes == {_MESSAGE_CODE} else 0
    if not parts:
        raise ValueError
    items = ormsgpack.unpackb(_header(parts * count) + b"".join(bodies))
    if items[::parts] != [*codes] * count:
        raise ValueError
    return items[1::2] if parts == 2 else [*map(rebuild, items[1::3], items[2::3])]


def _header(count: int) -> bytes:
    """What a packed list of so many begins with."""
    return bytes([0x90 | count]) if count < 16 else b"\xdc" + count.to_bytes(2)


def _count_unchanged(values: Sequence[Any], marks: Sequence[bytes]) -> int:
    """How many of the first values surely have the marks at their places.

    Some more may have them: whole chunks of one kind are compared. The first byte of a mark is a
    small number in msgpack too, so the marks of many in a row are a packed list without its header,
    and packing that list again tells whether one of them has changed.
    """
    end = min(len(values), len(marks))
    for start in range(0, end, _CHUNK):
        chunk = values[start : min(start + _CHUNK, end)]
        try:
            numbers = [*map(_NUMBERS.__getitem__, map(type, chunk))]
        except KeyError:
            return start
        contents = _contents_of(chunk, numbers)
        if contents is None:
            return start
        items: list[Any] = [None] * (2 * len(chunk))
        items[::2] = numbers
        items[1::2] = contents
        try:
            packed = ormsgpack.packb(items, option=EXACT)
        except _UNPACKABLE:
            return start
        if packed != _header(len(items)) + b"".join(marks[start : start + len(chunk)]):
            return start
    return end


def _contents_of(values: Sequence[Any], numbers: Sequence[int]) -> Iterable[Any] | None:
    """What the marks of these values are packed of; `None`: a message has more than its fields."""
    if max(numbers) < MARK:
        return values
    all_messages = min(numbers) >= MARK
    messages = values if all_messages else [value for value in values if type(value) in CODES]
    if any(map(_extra_of, messages)) or any(map(_private_of, messages)):
        return None
    return map(_state_of, values) if all_messages else map(_content_of, values)


def _content_of(value: Any) -> Any:
    return value.__dict__ if type(value) in CODES else value


def is_exact(mark: bytes) -> bool:
    """Whether the form of the value with this mark holds it exactly, by its nature."""
    return mark[0] >= MARK or mark[:1] in (PLAIN, BYTES, BYTEARRAY, JSON, JSON_MESSAGE)


def _is_json(value: object) -> bool:
    """Whether JSON holds a value exactly, integers and lone surrogates that msgpack can't hold too.

    Raises:
        RecursionError: the value is too deep.
    """
    if type(value) is dict:
        return all(type(key) is str and _is_json(inner) for key, inner in value.items())
    if type(value) is list:
        return all(map(_is_json, value))
    return type(value) in (str, int, float, bool, NoneType)
