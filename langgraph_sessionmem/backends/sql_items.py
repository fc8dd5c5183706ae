"""Items in an SQL database: `ItemRecords` over a link, written once for both dialects."""

from collections.abc import Sequence

from typing_extensions import override

from langgraph_sessionmem.backends.sql import Link, Params, SqlRow, Step, text_in, text_out
from langgraph_sessionmem.backends.sql_item_rows import (
    candidate_out,
    item_out,
    json_in,
    namespace_in,
    namespace_out,
    postings_out,
    scope_in,
    vector_out,
)
from langgraph_sessionmem.backends.sql_item_saves import (
    Script,
    drop_expired_script,
    drop_script,
    save_script,
)
from langgraph_sessionmem.item_records import (
    CandidateRow,
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


class SqlItems(ItemRecords):
    """Items over a link."""

    _link: Link

    @override
    async def read_items(self, keys: Sequence[ItemKey]) -> list[ItemRow]:
        return [item_out(row) for row in await self._read("read_items", _asked(keys))]

    @override
    async def read_items_by_id(self, item_ids: Sequence[int]) -> list[ItemRow]:
        rows = await self._read("read_items_by_id", {"item_ids": json_in(list(item_ids))})
        return [item_out(row) for row in rows]

    @override
    async def scan_items(self, scan: ItemScan) -> list[ItemRow]:
        after, terms = scan.after, sorted(set(scan.terms))
        params: Params = {
            **scope_in(scan.scope),
            "after_updated_at": after and after.updated_at,
            "after_namespace": after and namespace_in(after.namespace),
            "after_key": after and text_in(after.key),
            "limit": scan.limit,
            "terms": json_in([text_in(term) for term in terms]),
            "count": len(terms),
        }
        rows = await self._read("scan_items_with" if terms else "scan_items", params)
        return [item_out(row) for row in rows]

    @override
    async def read_versions(self, key: ItemKey) -> list[VersionRow]:
        rows = await self._read("read_versions", _asked([key]))
        return [VersionRow(bytes(value), since) for value, since in rows]

    @override
    async def scan_namespaces(
        self, prefix: Namespace, after: Namespace | None, limit: int
    ) -> list[Namespace]:
        start = None if after is None else namespace_in(after)
        params: Params = {**scope_in(Scope(prefix)), "after": start, "limit": limit}
        return [namespace_out(name) for (name,) in await self._read("scan_namespaces", params)]

    @override
    async def read_scope(self, scope: Scope, tokens: Sequence[str]) -> ScopeRow:
        params: Params = {**scope_in(scope), "tokens": _tokens(tokens)}
        (_, items, length, stamp, turns), *counts = await self._read("read_scope", params)
        frequencies = {text_out(token): int(count) for token, count, *_ in counts if count}
        return ScopeRow(int(items), int(length), frequencies, int(stamp), bool(turns))

    @override
    async def search_postings(
        self, scope: Scope, tokens: Sequence[str], among: Sequence[int] | None
    ) -> list[PostingsRow]:
        params: dict[str, object] = {**scope_in(scope), "tokens": _tokens(tokens)}
        if among is None:
            rows = await self._read("search_postings", params)
        else:
            params["item_ids"] = json_in(list(among))
            rows = await self._read("search_postings_among", params)
        return [postings_out(row) for row in rows]

    @override
    async def read_candidates(self, item_ids: Sequence[int]) -> list[CandidateRow]:
        rows = await self._read("read_candidates", {"item_ids": json_in(list(item_ids))})
        return [candidate_out(row) for row in rows]

    @override
    async def read_neighbours(
        self, item_ids: Sequence[int], distance: int, known: Sequence[int]
    ) -> list[CandidateRow]:
        params: Params = {
            "item_ids": json_in(list(item_ids)),
            "distance": distance,
            "known": json_in(list(known)),
        }
        return [candidate_out(row) for row in await self._read("read_neighbours", params)]

    @override
    async def scan_vectors(self, scope: Scope) -> list[VectorRow]:
        return [vector_out(row) for row in await self._read("scan_vectors", scope_in(scope))]

    @override
    async def read_vectors(self, keys: Sequence[ItemKey]) -> list[VectorRow]:
        return [vector_out(row) for row in await self._read("read_vectors", _asked(keys))]

    @override
    async def save_items(self, save: ItemsSave) -> bool:
        if not (save.puts or save.drops or save.touched):
            return True
        [(is_settled,)] = await self._run(save_script(save))
        return bool(is_settled)

    @override
    async def drop_items(self, scope: Scope) -> int:
        [(count,)] = await self._run(drop_script(scope))
        return int(count)

    @override
    async def drop_expired_items(self, limit: int) -> int:
        return len(await self._run(drop_expired_script(limit)))

    async def _read(self, query: str, params: Params) -> list[SqlRow]:
        [rows] = await self._link.execute([Step(query, params)])
        return rows

    async def _run(self, script: Script) -> list[SqlRow]:
        results = await self._link.execute(script.steps)
        return results[script.answer]


def _asked(keys: Sequence[ItemKey]) -> Params:
    return {"named": json_in([(namespace_in(namespace), text_in(key)) for namespace, key in keys])}


def _tokens(tokens: Sequence[str]) -> str:
    return json_in([text_in(token) for token in dict.fromkeys(tokens)])
