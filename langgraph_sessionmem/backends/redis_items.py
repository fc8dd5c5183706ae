"""Items in Redis or Valkey: `ItemRecords`, each primitive one script for each bucket it concerns.

A bucket holds the namespaces that share their first two labels, and 255 other ones in 256.
`docs/format.md` has the layout.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from langgraph_sessionmem.backends.redis_arguments import Value
from langgraph_sessionmem.backends.redis_calls import Calls
from langgraph_sessionmem.backends.redis_item_rows import (
    MANY_TIMES,
    Columns,
    ItemPlace,
    bounds_of,
    bucket_of,
    candidate_row,
    is_visible,
    item_row,
    join_id,
    pack_namespace,
    postings_of,
    read_head,
    read_heads,
    read_vectors,
    split_id,
    unpack_namespace,
)
from langgraph_sessionmem.backends.redis_item_saves import arguments_by_bucket, new_stamp
from langgraph_sessionmem.backends.redis_keys import BUCKETS
from langgraph_sessionmem.backends.redis_rows import to_bytes
from langgraph_sessionmem.item_records import (
    CandidateRow,
    ItemCursor,
    ItemKey,
    ItemRecords,
    ItemRow,
    ItemScan,
    ItemsSave,
    Namespace,
    PostingsRow,
    Scope,
    ScopeRow,
    VectorRow,
    VersionRow,
)

LOOKED_AT = 200
"""Namespaces of a bucket that one script looks at, so that it is done in a few milliseconds."""
SWEPT = 200
"""Expired items that one script deletes."""


class RedisItems(ItemRecords):
    """Items over a link."""

    _calls: Calls

    @override
    async def read_items(self, keys: Sequence[ItemKey]) -> list[ItemRow]:
        replies = await self._read_keys("read_items", keys)
        return [row for bucket, reply in replies for row in _item_rows(bucket, reply)]

    @override
    async def read_items_by_id(self, item_ids: Sequence[int]) -> list[ItemRow]:
        replies = await self._read_ids("read_items_by_id", [item_ids], {"values": True})
        return [row for bucket, reply in replies for row in _item_rows(bucket, reply)]

    @override
    async def scan_items(self, scan: ItemScan) -> list[ItemRow]:
        lowest, highest = bounds_of(scan.scope)
        places = dict.fromkeys(_buckets_of(scan.scope), lowest)
        is_one = len(places) == 1
        named: dict[str, Value] = {
            "highest": highest,
            "page": LOOKED_AT,
            "terms": [to_bytes(term) for term in scan.terms],
            "limit": scan.limit,
            "values": is_one,
            "after": scan.after and _cursor(scan.after),
        }
        best: list[ItemRow] = []
        while places:
            replies = await self._call_buckets("scan_items", places, named)
            for bucket, (_, *found) in replies.items():
                best += (
                    item_row(bucket, int(number), name, head, value)
                    for number, name, packed, value in _in_fours(found)
                    for head in [read_head(packed)]
                )
            best = heapq.nsmallest(scan.limit, best, key=_order)
            if len(best) == scan.limit:
                named["floor"] = best[-1].updated_at
            places = _next_places(replies)
        if is_one or not best:
            return best
        values = {
            row.item_id: row for row in await self.read_items_by_id([r.item_id for r in best])
        }
        return [values[row.item_id] for row in best if row.item_id in values]

    @override
    async def read_versions(self, key: ItemKey) -> list[VersionRow]:
        namespace, name = key
        named: dict[str, Value] = {"name": pack_namespace(namespace), "key": to_bytes(name)}
        found = await self._calls.call("read_versions", self._key(bucket_of(namespace)), named)
        return [
            VersionRow(value, int(updated_at))
            for updated_at, value in zip(found[::2], found[1::2], strict=True)
        ]

    @override
    async def scan_namespaces(
        self, prefix: Namespace, after: Namespace | None, limit: int
    ) -> list[Namespace]:
        lowest, highest = bounds_of(Scope(prefix))
        if after is not None:
            lowest = max(lowest, b"[" + pack_namespace(after) + b"\x00\xff")
        places = dict.fromkeys(_buckets_of(Scope(prefix)), lowest)
        page = limit if len(places) == 1 else limit // 64 + 4
        named: dict[str, Value] = {"highest": highest, "page": min(page, 1_000)}
        best: list[bytes] = []
        while places:
            replies = await self._call_buckets("scan_names", places, named)
            found = (name for _, *names in replies.values() for name in names)
            best = heapq.nsmallest(limit, [*best, *found])
            places = _next_places(replies)
            if len(best) == limit:
                places = {bucket: place for bucket, place in places.items() if place[1:] < best[-1]}
        return [unpack_namespace(name) for name in best]

    @override
    async def read_scope(self, scope: Scope, tokens: Sequence[str]) -> ScopeRow:
        asked = list(dict.fromkeys(tokens))
        totals = [0] * (3 + len(asked))
        for _, (_, *numbers) in await self._visit(
            "read_scope", scope, {"tokens": [to_bytes(token) for token in asked]}
        ):
            totals = [total + int(number) for total, number in zip(totals, numbers, strict=True)]
        items, length, stamp, *counts = totals
        frequencies = {token: count for token, count in zip(asked, counts, strict=True) if count}
        return ScopeRow(items, length, frequencies, stamp)

    @override
    async def search_postings(
        self, scope: Scope, tokens: Sequence[str], among: Sequence[int] | None
    ) -> list[PostingsRow]:
        asked = list(dict.fromkeys(tokens))
        if not asked:
            return []
        replies = await self._visit(
            "search_postings", scope, {"tokens": [to_bytes(token) for token in asked]}
        )
        columns: dict[str, list[Columns]] = defaultdict(list)
        for bucket, (_, *spaces) in replies:
            found = list(postings_of(bucket, spaces, among))
            await self._count_many(bucket, [(asked[index], part) for index, part in found])
            for index, part in found:
                columns[asked[index]].append(part)
        joined = {token: np.concatenate(parts, axis=1) for token, parts in columns.items()}
        return [PostingsRow(token, *part) for token, part in joined.items() if part.size]

    @override
    async def read_candidates(self, item_ids: Sequence[int]) -> list[CandidateRow]:
        replies = await self._read_ids("read_items_by_id", [item_ids], {"values": False})
        return [row for bucket, reply in replies for row in _candidate_rows(bucket, reply)]

    @override
    async def read_neighbours(
        self, item_ids: Sequence[int], distance: int, known: Sequence[int]
    ) -> list[CandidateRow]:
        named: dict[str, Value] = {"distance": distance}
        replies = await self._read_ids("read_neighbours", [item_ids, known], named)
        return [row for bucket, reply in replies for row in _candidate_rows(bucket, reply)]

    @override
    async def scan_vectors(self, scope: Scope) -> list[VectorRow]:
        lowest, highest = bounds_of(scope)
        places = dict.fromkeys(_buckets_of(scope), (lowest, b"0"))
        rows: dict[tuple[int, bytes], VectorRow] = {}  # a scan may give one twice
        while places:
            replies = await self._calls.call_all(
                "scan_vectors",
                [
                    (
                        self._key(bucket),
                        {
                            "lowest": place,
                            "highest": highest,
                            "cursor": cursor,
                            "page": LOOKED_AT,
                        },
                    )
                    for bucket, (place, cursor) in places.items()
                ],
            )
            answered = dict(zip(places, replies, strict=True))
            for bucket, (_, _, *found) in answered.items():
                for row in _vector_rows(bucket, found):
                    rows[row.item_id, row.digest] = row
            places = {
                bucket: (place, cursor) for bucket, (place, cursor, *_) in answered.items() if place
            }
        return list(rows.values())

    @override
    async def read_vectors(self, keys: Sequence[ItemKey]) -> list[VectorRow]:
        replies = await self._read_keys("read_vectors", keys)
        return [row for bucket, reply in replies for row in _vector_rows(bucket, reply)]

    @override
    async def save_items(self, save: ItemsSave) -> bool:
        calls = [
            (self._key(bucket), *arguments)
            for bucket, arguments in arguments_by_bucket(save).items()
        ]
        if not calls:
            return True
        # The first tells the time of the batch; what is refused there wrote nothing at all.
        first, *others = calls
        saved, base = await self._calls.call("save_items", *first)
        if not saved or not others:
            return bool(saved)
        based = [(key, {**named, "base": int(base)}, rest) for key, named, rest in others]
        replies = await self._calls.call_each("save_items", based)
        return all(saved for saved, _ in replies)

    @override
    async def drop_items(self, scope: Scope) -> int:
        lowest, highest = bounds_of(scope)
        places = dict.fromkeys(_buckets_of(scope), lowest)
        dropped = 0
        while places:
            named: dict[str, Value] = {"highest": highest, "page": LOOKED_AT}
            replies = await self._call_buckets("drop_items", places, named)
            dropped += sum(items for _, items in replies.values())
            places = {
                bucket: lowest for bucket, (count, _) in replies.items() if count == LOOKED_AT
            }
        return dropped

    @override
    async def drop_expired_items(self, limit: int) -> int:
        keys = {bucket: self._key(bucket) for bucket in range(BUCKETS)}
        counts = await self._calls.call_all("count_expiring", [(key, {}) for key in keys.values()])
        dropped = 0
        for bucket, count in zip(keys, counts, strict=True):
            if count and dropped < limit:
                dropped += await self._sweep(bucket, limit - dropped)
        return dropped

    def _key(self, bucket: int) -> bytes:
        return self._calls.keys.names(bucket)

    async def _sweep(self, bucket: int, limit: int) -> int:
        """Delete up to `limit` expired items of a bucket; how many there were."""
        dropped = 0
        while dropped < limit:
            size = min(SWEPT, limit - dropped)
            named: dict[str, Value] = {"limit": size, "stamp": new_stamp()}
            found = int(await self._calls.call("drop_expired_items", self._key(bucket), named))
            dropped += found
            if found < size:
                break
        return dropped

    async def _call_buckets(
        self, script: str, places: Mapping[int, bytes], named: Mapping[str, Value]
    ) -> dict[int, Any]:
        """What a script gives for each bucket, from a place in its registry on."""
        replies = await self._calls.call_all(
            script,
            [(self._key(bucket), {**named, "lowest": place}) for bucket, place in places.items()],
        )
        return dict(zip(places, replies, strict=True))

    async def _visit(
        self, script: str, scope: Scope, named: Mapping[str, Value]
    ) -> list[tuple[int, Any]]:
        """What a script gives for all namespaces of a scope, page by page."""
        lowest, highest = bounds_of(scope)
        places = dict.fromkeys(_buckets_of(scope), lowest)
        named = {**named, "highest": highest, "page": LOOKED_AT}
        found: list[tuple[int, Any]] = []
        while places:
            replies = await self._call_buckets(script, places, named)
            answered = {bucket: reply for bucket, reply in replies.items() if reply is not None}
            found += answered.items()
            again = {bucket: place for bucket, place in places.items() if bucket not in answered}
            for bucket in again:
                await self._sweep(bucket, 1 << 53)
            places = {**again, **_next_places(answered)}
        return found

    async def _read_keys(self, script: str, keys: Sequence[ItemKey]) -> list[tuple[int, Any]]:
        groups: dict[int, dict[bytes, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        for namespace, key in keys:
            groups[bucket_of(namespace)][pack_namespace(namespace)].append(to_bytes(key))
        calls: list[tuple[bytes, Mapping[str, Value]]] = [
            (self._key(bucket), {"groups": [[name, own] for name, own in names.items()]})
            for bucket, names in groups.items()
        ]
        return list(zip(groups, await self._calls.call_all(script, calls), strict=True))

    async def _read_ids(
        self, script: str, lists: Sequence[Sequence[int]], named: Mapping[str, Value]
    ) -> list[tuple[int, Any]]:
        """What a script gives for the namespaces of the ids in the first of some lists."""
        groups: dict[int, dict[int, list[list[int]]]] = defaultdict(dict)
        for index, item_ids in enumerate(lists):
            for bucket, number, n in map(split_id, item_ids):
                if index and number not in groups.get(bucket, ()):
                    continue
                own = groups[bucket].setdefault(number, [[] for _ in lists])
                own[index].append(n)
        calls: list[tuple[bytes, Mapping[str, Value]]] = [
            (
                self._key(bucket),
                {**named, "groups": [[b"%d" % number, *own] for number, own in numbers.items()]},
            )
            for bucket, numbers in groups.items()
        ]
        return list(zip(groups, await self._calls.call_all(script, calls), strict=True))

    async def _count_many(self, bucket: int, found: Sequence[tuple[str, Columns]]) -> None:
        """Put in occurrences that a posting has no room for."""
        many = [
            (token, part, column)
            for token, part in found
            for column in np.flatnonzero(part[1] == MANY_TIMES).tolist()
        ]
        if not many:
            return
        places = [split_id(int(part[0, column])) for _, part, column in many]
        named: dict[str, Value] = {
            "numbers": [[b"%d" % place.number, place.n] for place in places],
            "tokens": [to_bytes(token) for token, _, _ in many],
        }
        counts = await self._calls.call("read_counts", self._key(bucket), named)
        for (_, part, column), count in zip(many, counts, strict=True):
            part[1, column] = count


def _buckets_of(scope: Scope) -> Iterable[int]:
    if scope.exact or len(scope.prefix) > 1:
        return [bucket_of(scope.prefix)]
    return range(BUCKETS)


def _next_places(replies: Mapping[int, Any]) -> dict[int, bytes]:
    """Where the scans of buckets go on that have not come to their end."""
    return {bucket: b"(" + last for bucket, (last, *_) in replies.items() if last}


def _in_fours(found: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    return zip(found[::4], found[1::4], found[2::4], found[3::4], strict=True)


def _cursor(after: ItemCursor) -> list[Value]:
    return [after.updated_at, pack_namespace(after.namespace), to_bytes(after.key)]


def _order(row: ItemRow) -> tuple[int, Namespace, str]:
    return -row.updated_at, row.namespace, row.key


def _item_rows(bucket: int, reply: Sequence[Any]) -> Iterator[ItemRow]:
    now = int(reply[0])
    for number, name, heads, *values in reply[1:]:
        for head, value in zip(read_heads(heads), values, strict=True):
            if is_visible(head, now):
                yield item_row(bucket, int(number), name, head, value)


def _candidate_rows(bucket: int, reply: Sequence[Any]) -> Iterator[CandidateRow]:
    now = int(reply[0])
    for number, name, heads in reply[1:]:
        for head in read_heads(heads):
            if is_visible(head, now):
                yield candidate_row(bucket, int(number), name, head)


def _vector_rows(bucket: int, spaces: Iterable[Any]) -> Iterator[VectorRow]:
    for number, found in spaces:
        for n, packed in zip(found[::2], found[1::2], strict=True):
            item_id = join_id(ItemPlace(bucket, int(number), int(n)))
            yield from read_vectors(item_id, packed)
