"""A save of items, bucket by bucket, as the script takes it; pure."""

import os
from collections import defaultdict

from langgraph_sessionmem.backends.redis_arguments import Value
from langgraph_sessionmem.backends.redis_item_rows import (
    bucket_of,
    pack_namespace,
    pack_put,
    split_id,
)
from langgraph_sessionmem.backends.redis_rows import to_bytes
from langgraph_sessionmem.backends.redis_saves import Arguments
from langgraph_sessionmem.item_records import ItemsSave

_TOKEN_BYTES = 8
_NUMBER_BITS, _STAMP_BITS = 27, 40


def arguments_by_bucket(save: ItemsSave) -> dict[int, Arguments]:
    """What `save_items` is given in each bucket; first where something is expected.

    Raises:
        InvalidArgument: a label, a key or a session is no text.
    """
    parts: dict[int, _Part] = defaultdict(_Part)
    for at, put in enumerate(save.puts):
        part = parts[bucket_of(put.namespace)]
        part.puts.append(pack_put(part.name(pack_namespace(put.namespace)), at, put))
        if put.expected is not None:
            part.expecting.append(len(part.puts))
    for namespace, key in save.drops:
        part = parts[bucket_of(namespace)]
        part.drops.append([part.name(pack_namespace(namespace)), to_bytes(key)])
    for bucket, number, n in map(split_id, save.touched):
        parts[bucket].touched[number].append(n)
    last = max(len(save.puts) - 1, 0)
    ordered = sorted(parts.items(), key=lambda part: (not part[1].expecting, part[0]))
    return {bucket: part.arguments(last, save.keeps) for bucket, part in ordered}


def new_stamp() -> int:
    """A random number; sums of many are exact in a script."""
    return _random(_STAMP_BITS)


class _Part:
    """What one bucket saves."""

    def __init__(self) -> None:
        self.puts: list[bytes] = []
        self.expecting: list[int] = []
        self.drops: list[Value] = []
        self.touched: dict[int, list[int]] = defaultdict(list)
        self._names: dict[bytes, int] = {}

    def name(self, packed: bytes) -> int:
        """Which of the part's namespaces it is, from 1."""
        return self._names.setdefault(packed, len(self._names) + 1)

    def arguments(self, last: int, keeps: int | None) -> Arguments:
        named: dict[str, Value] = {
            "names": list(self._names),
            "numbers": [_random(_NUMBER_BITS) for _ in self._names],
            "last": last,
            "keeps": keeps,
            "stamp": new_stamp(),
            "token": os.urandom(_TOKEN_BYTES) if self.expecting else None,
            "expecting": self.expecting,
            "drops": self.drops,
            "touched": [[b"%d" % number, own] for number, own in self.touched.items()],
        }
        return Arguments(named, self.puts)


def _random(bits: int) -> int:
    """From 1 to 2 to the power of `bits`, exclusive."""
    return int.from_bytes(os.urandom(8)) % ((1 << bits) - 1) + 1
