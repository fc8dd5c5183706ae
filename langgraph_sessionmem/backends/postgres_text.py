"""Statements for PostgreSQL with their values written in, as one message of several needs them."""

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import NoneType

from langgraph_sessionmem.backends.sql import Params

PARAM = re.compile(r'("(?:[^"]|"")*")|(?<![:\w]):([a-z_]+)')
"""A quoted identifier, in which nothing is a parameter, or a parameter."""

_NOW = "(cast(extract(epoch from statement_timestamp()) as double precision) + :offset)"

_WHOLE = frozenset({int, NoneType})

Quote = Callable[[str], str]
"""Text as a literal, by the rules of a connection."""


def written(query: str, params: Params, quote: Quote) -> str:
    """`query` with its parameters written in."""
    pieces = [*_pieces(query)]
    pieces[1::2] = [literal(params[name], quote) for name in pieces[1::2]]
    return "".join(pieces)


def literal(value: object, quote: Quote) -> str:
    """A value as SQL; what could be more than a value goes through the driver's own quoting."""
    # The frequent ones first, and not by a pattern, which takes longer.
    if value is None:
        return "null"
    if type(value) is int:
        return str(value)
    if isinstance(value, str):
        return quote(value) if "'" in value or "\\" in value else f"'{value}'"
    if isinstance(value, bytes):
        return f"decode('{value.hex()}', 'hex')"
    match value:
        case int():
            return str(int(value))
        case float() if math.isfinite(value):
            return repr(value)
        case float():
            return f"cast('{value}' as double precision)"
        case list():
            return _array(value, quote)
        case _:
            raise TypeError(f"{type(value).__name__} has no literal here")


def _array(values: Sequence[object], quote: Quote) -> str:
    if _WHOLE.issuperset(map(type, values)):
        return "'{" + ", ".join(["NULL" if each is None else str(each) for each in values]) + "}'"
    return "array[" + ", ".join([literal(each, quote) for each in values]) + "]"


@lru_cache(512)
def _pieces(query: str) -> Sequence[str]:
    """Text, the name of a parameter, text, and so on."""
    pieces = [""]
    end = 0
    text = PARAM.sub(lambda found: _NOW if found[2] == "now" else found[0], query)
    for found in PARAM.finditer(text):
        if found[2] is not None:
            pieces[-1] += text[end : found.start()]
            pieces += [found[2], ""]
            end = found.end()
    pieces[-1] += text[end:]
    return pieces
