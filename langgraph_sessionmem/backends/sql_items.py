"""Items in an SQL database: `ItemRecords` over a link.

A namespace is one text, every label behind a separator that sorts before all characters: so the
namespaces under a prefix are a range, and in order label by label. Lists go in as JSON.
"""

import functools
import json
from collections.abc import Iterable, Sequence

from typing_extensions import override

from langgraph_sessionmem.backends.sql import Link, Params, SqlRow, Step, text_in, text_out
from langgraph_sessionmem.item_records import (
    CandidateRow,
    ItemKey,
    ItemPut,
    ItemRecords,
    ItemRow,
    ItemScan,
    ItemsSave,
    Namespace,
    PostingRow,
    ScopeRow,
    VectorRow,
)

_ROOT = "/"
_FORGET = ("forget_postings", "forget_vectors")
_DROP_UNDER = ("drop_postings_under", "drop_vectors_under", "drop_items_under")
_DROP_EXPIRED = (
    "drop_expired_postings",
    "drop_expired_vectors",
    "drop_expired_item",
)


class SqlItems(ItemRecords):
    """Items over a link."""

    _link: Link

    @override
    async def read_items(self, keys: Sequence[ItemKey]) -> list[ItemRow]:
        return [_item_row(row) for row in await self._read_each("read_items", keys)]

    @override
    async def read_items_by_id(self, item_ids: Sequence[int]) -> list[ItemRow]:
        step = Step("read_items_by_id", {"item_ids": _json(list(item_ids))})
        [rows] = await self._link.execute([step])
        return [_item_row(row) for row in rows]

    @override
    async def scan_items(self, scan: ItemScan) -> list[ItemRow]:
        after = scan.after
        params: Params = {
            **_range(scan.prefix),
            "after_updated_at": after and after.updated_at,
            "after_namespace": after and _namespace_in(after.namespace),
            "after_key": after and text_in(after.key),
            "limit": scan.limit,
        }
        if scan.terms:
            step = Step("scan_items_with", {**params, "terms": _json(list(scan.terms))})
        else:
            step = Step("scan_items", params)
        [rows] = await self._link.execute([step])
        return [_item_row(row) for row in rows]

    @override
    async def scan_namespaces(
        self, prefix: Namespace, after: Namespace | None, limit: int
    ) -> list[Namespace]:
        start = None if after is None else _namespace_in(after)
        step = Step("scan_namespaces", {**_range(prefix), "after": start, "limit": limit})
        [rows] = await self._link.execute([step])
        return [_namespace_out(namespace) for (namespace,) in rows]

    @override
    async def read_scope(self, prefix: Namespace, tokens: Sequence[str]) -> ScopeRow:
        scope = _range(prefix)
        each = [{"token": token} for token in tokens]
        steps = [Step("read_scope", scope), Step("read_frequencies", scope, each)]
        [[items, length]], frequencies = await self._link.execute(steps)
        return ScopeRow(items, length, {token: count for token, count in frequencies if count})

    @override
    async def search_postings(
        self, prefix: Namespace, tokens: Sequence[str], among: Sequence[int] | None
    ) -> list[PostingRow]:
        each = [{"token": token} for token in tokens]
        if among is None:
            step = Step("search_postings", _range(prefix), each)
        else:
            params = {**_range(prefix), "item_ids": _json(list(among))}
            step = Step("search_postings_among", params, each)
        [rows] = await self._link.execute([step])
        return [PostingRow(*row) for row in rows]

    @override
    async def read_candidates(self, item_ids: Sequence[int]) -> list[CandidateRow]:
        params: Params = {"item_ids": _json(list(item_ids))}
        return await self._candidates(Step("read_candidates", params))

    @override
    async def read_neighbours(
        self, item_ids: Sequence[int], distance: int, known: Sequence[int]
    ) -> list[CandidateRow]:
        params: Params = {
            "item_ids": _json(list(item_ids)),
            "distance": distance,
            "known": _json(list(known)),
        }
        return await self._candidates(Step("read_neighbours", params))

    @override
    async def scan_embedded(self, prefix: Namespace) -> list[CandidateRow]:
        return await self._candidates(Step("scan_embedded", _range(prefix)))

    @override
    async def scan_vectors(self, prefix: Namespace) -> list[VectorRow]:
        [rows] = await self._link.execute([Step("scan_vectors", _range(prefix))])
        return [
            VectorRow(item_id, bytes(digest), bytes(vector)) for item_id, digest, vector in rows
        ]

    @override
    async def read_vectors(self, keys: Sequence[ItemKey]) -> list[VectorRow]:
        rows = await self._read_each("read_vectors", keys)
        return [
            VectorRow(item_id, bytes(digest), bytes(vector)) for item_id, digest, vector in rows
        ]

    @override
    async def save_items(self, save: ItemsSave) -> None:
        steps: list[Step] = []
        if save.touched:
            touched = [{"item_id": item_id} for item_id in save.touched]
            steps.append(Step("touch_item", {}, touched))
        replaced = _keys([*((put.namespace, put.key) for put in save.puts), *save.drops])
        steps += [Step(name, {}, replaced) for name in _FORGET if replaced]
        if save.puts:
            steps += _put_steps(save.puts)
        if save.drops:
            steps.append(Step("drop_item", {}, _keys(save.drops)))
            emptied = [
                _range(namespace) for namespace in {namespace for namespace, _ in save.drops}
            ]
            steps.append(Step("drop_empty_namespaces", {}, emptied))
        if steps:
            await self._link.execute(steps)

    @override
    async def drop_items(self, prefix: Namespace) -> int:
        scope = _range(prefix)
        steps = [Step(name, scope) for name in (*_DROP_UNDER, "drop_empty_namespaces")]
        *_, dropped, _ = await self._link.execute(steps)
        return sum(visible for (visible,) in dropped)

    @override
    async def drop_expired_items(self, limit: int) -> int:
        [expired] = await self._link.execute([Step("scan_expired_items", {"limit": limit})])
        if expired:
            rows = [{"item_id": item_id} for (item_id,) in expired]
            steps = [Step(name, {}, rows) for name in _DROP_EXPIRED]
            await self._link.execute([*steps, Step("drop_empty_namespaces", _range(()))])
        return len(expired)

    async def _read_each(self, query: str, keys: Sequence[ItemKey]) -> list[SqlRow]:
        if not keys:
            return []
        [rows] = await self._link.execute([Step(query, {}, _keys(keys))])
        return rows

    async def _candidates(self, step: Step) -> list[CandidateRow]:
        [rows] = await self._link.execute([step])
        return [
            CandidateRow(
                item_id,
                _namespace_out(namespace),
                text_out(key),
                updated_at,
                length,
                position,
                None if session is None else text_out(session),
                bool(asks),
            )
            for item_id, namespace, key, updated_at, length, position, session, asks in rows
        ]


def _put_steps(puts: Sequence[ItemPut]) -> list[Step]:
    places = _keys((put.namespace, put.key) for put in puts)
    rows = [
        {
            **place,
            "value": put.value,
            "ttl_minutes": put.ttl_minutes,
            "tokens": _json({**put.tokens, **dict.fromkeys(put.terms, 0)}),
            "length": sum(put.tokens.values()),
            "position": put.position,
            "session": None if put.session is None else text_in(put.session),
            "asks": int(put.asks),
        }
        for place, put in zip(places, puts, strict=True)
    ]
    vectors = [
        {**place, "digest": digest, "vector": vector}
        for place, put in zip(places, puts, strict=True)
        for digest, vector in put.vectors
    ]
    namespaces = [{"namespace": name} for name in {place["namespace"] for place in places}]
    steps = [
        Step("save_namespace", {}, namespaces),
        Step("save_item", {}, rows),
        Step("save_postings", {}, places),
    ]
    return [*steps, Step("save_vector", {}, vectors)] if vectors else steps


def _json(lists: object) -> str:
    return json.dumps(lists, ensure_ascii=False, separators=(",", ":"))


def _keys(keys: Iterable[ItemKey]) -> list[dict[str, str]]:
    return [{"namespace": _namespace_in(namespace), "key": text_in(key)} for namespace, key in keys]


def _range(prefix: Namespace) -> dict[str, str]:
    low = _namespace_in(prefix)
    return {"low": low, "high": low[:-1] + chr(ord(low[-1]) + 1)}


def _namespace_in(namespace: Namespace) -> str:
    # A label has no NUL, so a NUL ends it; `text_in` keeps the order and the borders.
    return _ROOT + text_in("".join(label + "\x00" for label in namespace))


@functools.lru_cache(maxsize=1024)
def _namespace_out(text: str) -> Namespace:
    return tuple(text_out(text[len(_ROOT) :]).split("\x00")[:-1])


def _item_row(row: SqlRow) -> ItemRow:
    item_id, namespace, key, value, created_at, updated_at, expires = row
    return ItemRow(
        item_id,
        _namespace_out(namespace),
        text_out(key),
        bytes(value),
        created_at,
        updated_at,
        bool(expires),
    )
