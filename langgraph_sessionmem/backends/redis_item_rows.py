"""Namespaces, items and postings as the bytes that Redis holds; pure.

`docs/format.md` has the layout.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha1
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import ormsgpack

from langgraph_sessionmem.backends.redis_arguments import Value, pack_arguments
from langgraph_sessionmem.backends.redis_rows import escape, to_bytes, unescape
from langgraph_sessionmem.item_records import (
    CandidateRow,
    ItemPut,
    ItemRow,
    Namespace,
    Scope,
    VectorRow,
)

BLOCK = 8192
"""Items whose postings of a token are in one field."""
MANY_TIMES = 255
"""A posting that says so means so often or more."""

_POSTING = np.dtype([("place", ">u2"), ("occurrences", "u1"), ("long", "u1"), ("short", ">u2")])
_LABEL_END = b"\x00\x01"
_NUMBER_BITS, _BUCKET_BITS = 28, 8


Columns: TypeAlias = npt.NDArray[np.int64]
"""`(3, n)`: numbers or ids of items, how often each has a token, how long its text is."""


class ItemPlace(NamedTuple):
    """Where an item is: its bucket, the number of its namespace, its own."""

    bucket: int
    number: int
    n: int


class Head(NamedTuple):
    """An item without its value, as the scripts keep it; in microseconds, `False` is none."""

    n: int
    key: str
    created: int
    updated: int
    ttl: float | bool
    expires: float
    length: int
    position: int | bool
    session: str | bool
    asks: int
    paths: str | bool
    since: int
    oldest: int
    versions: int


def pack_namespace(namespace: Namespace) -> bytes:
    """Bytes with the order of the namespaces; those of a prefix are the beginning of them."""
    return b"".join(escape(label) + _LABEL_END for label in namespace)


@functools.lru_cache(maxsize=1024)
def unpack_namespace(name: bytes) -> Namespace:
    """What `pack_namespace` was given."""
    return tuple(unescape(label) for label in name.split(_LABEL_END)[:-1])


def bucket_of(namespace: Namespace) -> int:
    """The bucket of a namespace of which at least the first two labels are known."""
    return sha1(pack_namespace(namespace[:2]), usedforsecurity=False).digest()[0]


def bounds_of(scope: Scope) -> tuple[bytes, bytes]:
    """The range of a scope in a registry of namespaces."""
    name = pack_namespace(scope.prefix)
    if scope.exact:
        return b"[" + name + b"\x00", b"(" + name + b"\x00\xff"
    if not name:
        return b"-", b"+"
    return b"[" + name, b"(" + name[:-1] + b"\x02"


def join_id(place: ItemPlace) -> int:
    """The id of an item: 63 bits."""
    bucket, number, n = place
    return (number << _NUMBER_BITS | n) << _BUCKET_BITS | bucket


def split_id(item_id: int) -> ItemPlace:
    """What `join_id` was given."""
    rest, bucket = divmod(item_id, 1 << _BUCKET_BITS)
    number, n = divmod(rest, 1 << _NUMBER_BITS)
    return ItemPlace(bucket, number, n)


def read_head(packed: bytes) -> Head:
    """A head."""
    return Head(*ormsgpack.unpackb(packed))


def read_heads(packed: bytes) -> Iterator[Head]:
    """The heads in a msgpack array of them."""
    return (Head(*head) for head in ormsgpack.unpackb(packed))


def is_visible(head: Head, now: int) -> bool:
    """Whether the item has not expired."""
    return not head.expires or head.expires > now


def item_row(bucket: int, number: int, name: bytes, head: Head, value: bytes) -> ItemRow:
    """An item."""
    return ItemRow(
        join_id(ItemPlace(bucket, number, head.n)),
        unpack_namespace(name),
        head.key,
        value,
        head.created,
        head.updated,
        None if head.ttl is False else float(head.ttl),
        json.loads(head.paths) if isinstance(head.paths, str) else None,
    )


def candidate_row(bucket: int, number: int, name: bytes, head: Head) -> CandidateRow:
    """What the ranking knows of an item."""
    return CandidateRow(
        join_id(ItemPlace(bucket, number, head.n)),
        unpack_namespace(name),
        head.key,
        head.updated,
        head.length,
        None if head.position is False else head.position,
        head.session if isinstance(head.session, str) else None,
        bool(head.asks),
    )


def join_ids(bucket: int, number: int, items: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The ids of items of one namespace."""
    return (items << _BUCKET_BITS) + join_id(ItemPlace(bucket, number, 0))


def read_postings(block: int, packed: bytes) -> Columns:
    """What a field of postings says, by the numbers of items."""
    found = np.frombuffer(packed, _POSTING)
    numbers = found["place"].astype(np.int64) + block * BLOCK
    lengths = found["long"].astype(np.int64) * 65536 + found["short"]
    return np.stack([numbers, found["occurrences"].astype(np.int64), lengths])


def postings_of(
    bucket: int, spaces: Iterable[Any], among: Sequence[int] | None
) -> Iterator[tuple[int, Columns]]:
    """Which token, and `(3, n)` ids of items that have not expired, occurrences, lengths."""
    for number, faded, *found in spaces:
        gone = np.array([int(n) for n in faded], dtype=np.int64)
        for index, block, packed in zip(found[::3], found[1::3], found[2::3], strict=True):
            part = read_postings(block, packed)
            there = ~np.isin(part[0], gone)
            part[0] = join_ids(bucket, int(number), part[0])
            if among is not None:
                there &= np.isin(part[0], np.array(among, dtype=np.int64))
            yield index, part[:, there]


def pack_vectors(vectors: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The digests and vectors of one item."""
    return b"".join(
        b"%d %d %b%b" % (len(digest), len(vector), digest, vector) for digest, vector in vectors
    )


def read_vectors(item_id: int, packed: bytes) -> Iterator[VectorRow]:
    """What `pack_vectors` was given."""
    start = 0
    while start < len(packed):
        sizes = packed[start : start + 42].split(b" ", 2)[:2]
        start += sum(map(len, sizes)) + 2
        middle = start + int(sizes[0])
        end = middle + int(sizes[1])
        yield VectorRow(item_id, packed[start:middle], packed[middle:end])
        start = end


def pack_put(name: int, at: int, put: ItemPut) -> bytes:
    """A put as `save_items` takes it.

    Args:
        name: which of the namespaces it is in.
        at: its place in the batch.
        put: the item.

    Raises:
        InvalidArgument: its key or session is no text.
    """
    tokens: list[Any] = [part for pair in put.tokens.items() for part in pair]
    tokens += (part for term in put.terms for part in (term, 0))
    times: list[Value] | None = None
    versions: list[Value] = []
    if put.times is not None:
        # The first may be the present value, and since when the item has it.
        is_present = bool(put.versions) and put.versions[0].value == put.value
        since = put.versions[0].updated_at if is_present else put.times[1]
        times = [*put.times, since]
        for version in reversed(put.versions[is_present:]):
            versions += [version.updated_at, version.value]
    named: dict[str, Value] = {
        "name": name,
        "at": at,
        "key": to_bytes(put.key),
        "value": put.value,
        "tokens": ormsgpack.packb(tokens),
        "length": sum(put.tokens.values()),
        "ttl": put.ttl_minutes,
        "position": put.position,
        "session": None if put.session is None else to_bytes(put.session),
        "asks": int(put.asks),
        "paths": None if put.paths is None else json.dumps(list(put.paths)),
        "vectors": pack_vectors(put.vectors) if put.vectors else None,
        "expected": put.expected,
        "times": times,
        "versions": versions,
    }
    return pack_arguments(named)
