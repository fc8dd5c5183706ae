"""Items of an SQL database as the contract's rows, and the names of their namespaces.

A namespace is one text, every label behind a separator that sorts before all characters: so the
namespaces under a prefix are a range, and in order label by label.
"""

import functools
import json
from collections.abc import Mapping, Sequence

import numpy as np

from langgraph_sessionmem.backends.sql import SqlRow, text_in, text_out
from langgraph_sessionmem.item_records import (
    CandidateRow,
    ItemRow,
    Namespace,
    PostingsRow,
    Scope,
    VectorRow,
)

_ROOT = "/"
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def namespace_in(namespace: Namespace) -> str:
    """A namespace as one text."""
    # A label has no NUL, so a NUL ends it; `text_in` keeps the order and the borders.
    return _ROOT + text_in("".join(label + "\x00" for label in namespace))


@functools.lru_cache(maxsize=1024)
def namespace_out(text: str) -> Namespace:
    """What `namespace_in` was given."""
    return tuple(text_out(text[len(_ROOT) :]).split("\x00")[:-1])


def scope_in(scope: Scope) -> dict[str, str]:
    """The range of a scope's namespaces: `low`, and the first text behind them, `high`."""
    low = namespace_in(scope.prefix)
    # The next label has a character, and the lowest of them is U+0001 U+0002.
    high = low + "\x01\x01" if scope.exact else low[:-1] + chr(ord(low[-1]) + 1)
    return {"low": low, "high": high}


def json_in(values: Sequence[object] | Mapping[str, int]) -> str:
    """A list or a map as a parameter."""
    return _ENCODER.encode(values)


def item_out(row: SqlRow) -> ItemRow:
    """An item from its 8 columns."""
    item_id, namespace, key, value, created_at, updated_at, ttl_minutes, paths = row
    return ItemRow(
        item_id,
        namespace_out(namespace),
        text_out(key),
        bytes(value),
        created_at,
        updated_at,
        ttl_minutes,
        None if paths is None else json.loads(paths),
    )


def candidate_out(row: SqlRow) -> CandidateRow:
    """What the ranking knows of an item, from its 8 columns."""
    item_id, namespace, key, updated_at, length, position, session, asks = row
    return CandidateRow(
        item_id,
        namespace_out(namespace),
        text_out(key),
        updated_at,
        length,
        position,
        None if session is None else text_out(session),
        bool(asks),
    )


def postings_out(row: SqlRow) -> PostingsRow:
    """The postings of a token from its 4 columns, of which three are lists of numbers."""
    token, *columns = row
    return PostingsRow(
        text_out(token), *(np.fromstring(text, dtype=np.int64, sep=",") for text in columns)
    )


def vector_out(row: SqlRow) -> VectorRow:
    """A vector from its 3 columns."""
    item_id, digest, vector = row
    return VectorRow(item_id, bytes(digest), bytes(vector))
