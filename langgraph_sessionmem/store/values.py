"""Values as JSON: what may be stored, and its bytes. What isn't JSON is refused with its place."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from langgraph_sessionmem.errors import ValueNotStorable

_DEEPEST: Final = 100
_LARGEST_BITS: Final = 14_000  # Python reads whole numbers of at most 4,300 digits


def encode(value: Mapping[str, Any]) -> bytes:
    """A value as JSON in UTF-8.

    Raises:
        ValueNotStorable: a part of it is no JSON, with the path of that part. A tuple is none: it
            would come back as a list.
    """
    if not isinstance(value, Mapping):
        raise ValueNotStorable("value", f"a mapping with text keys is needed, not {value!r}.")
    plain = dict(value)
    _check(plain, "value", 0)
    try:
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can hold
        return json.dumps(plain, separators=(",", ":")).encode()


def decode(encoded: bytes) -> dict[str, Any]:
    """What `encode` was given, as a new copy."""
    value: dict[str, Any] = json.loads(encoded)
    return value


def _check(part: object, path: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueNotStorable(path, f"nested more than {_DEEPEST} levels deep, or in itself.")
    if part is None or isinstance(part, str | bool):
        return
    if isinstance(part, dict):
        for key, inner in part.items():
            if not isinstance(key, str):
                raise ValueNotStorable(path, f"the key {key!r} is no text; use str(key).")
            _check(inner, f"{path}.{key}", depth + 1)
    elif isinstance(part, list):
        for place, inner in enumerate(part):
            _check(inner, f"{path}[{place}]", depth + 1)
    elif isinstance(part, int):
        if part.bit_length() > _LARGEST_BITS:
            raise ValueNotStorable(path, "a number of more than 4,300 digits; store it as text.")
    elif not isinstance(part, float):
        raise ValueNotStorable(path, f"{part!r} is {type(part).__name__}, which JSON can't hold.")
    elif not math.isfinite(part):
        raise ValueNotStorable(path, f"{part!r} is no number that JSON can hold; use None or text.")
