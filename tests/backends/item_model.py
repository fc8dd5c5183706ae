"""Items as the contract has them, in plain Python, to compare a database with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from primitives import Records

from langgraph_sessionmem.item_records import (
    CandidateRow,
    ItemCursor,
    ItemKey,
    ItemPut,
    ItemRow,
    ItemScan,
    ItemsSave,
    Namespace,
    PostingsRow,
    Scope,
    VersionRow,
)

FAR_AHEAD = 4_000_000_000_000_000
"""In microseconds, more than a century after the epoch."""
WORDS = ("tea", "rum", "ёж")


def new_put(namespace: Namespace, key: str, value: bytes = b"{}", **changes: Any) -> ItemPut:
    """A put of an item that nothing finds, or as `changes` have it."""
    return ItemPut(namespace, key, value, None, {}, None, None, False, (), ())._replace(**changes)


def new_save(*puts: ItemPut, **changes: Any) -> ItemsSave:
    return ItemsSave(puts, (), ())._replace(**changes)


def is_in(scope: Scope, namespace: Namespace) -> bool:
    if scope.exact:
        return namespace == scope.prefix
    return namespace[: len(scope.prefix)] == scope.prefix


async def scan_all(records: Records, scope: Scope, limit: int, *terms: str) -> list[ItemRow]:
    """The items of a scope, by pages of `limit`."""
    rows: list[ItemRow] = []
    while True:
        last = rows[-1] if rows else None
        after = last and ItemCursor(last.updated_at, last.namespace, last.key)
        page = await records("scan_items", ItemScan(scope, terms, after, limit))
        rows += page
        if len(page) < limit:
            return rows


@dataclass
class Kept:
    """What is known of an item; `row` and `since` are what the database said."""

    put: ItemPut
    row: ItemRow
    since: int
    expires: float | None
    versions: list[VersionRow] = field(default_factory=list)


class ItemModel:
    """What is in a database, as far as the namespaces under a root are concerned.

    Attributes:
        items: also those that have expired and are not deleted yet.
        minutes: the time that has passed.
    """

    def __init__(self, records: Records, root: str, keys: Sequence[ItemKey]) -> None:
        self.records, self.root, self.keys = records, root, keys
        self.items: dict[ItemKey, Kept] = {}
        self.minutes = 0.0
        self.ids: set[int] = set()
        self.latest = 0

    def living(self, scope: Scope) -> dict[ItemKey, Kept]:
        return {
            key: kept
            for key, kept in self.items.items()
            if is_in(scope, key[0]) and (kept.expires is None or kept.expires > self.minutes)
        }

    @property
    def scopes(self) -> list[Scope]:
        prefixes = {namespace[:size] for namespace, _ in self.keys for size in range(1, 4)}
        return [Scope(prefix, exact) for prefix in sorted(prefixes) for exact in (False, True)]

    async def save(self, save: ItemsSave) -> None:
        """Save in both, and compare what became of it."""
        living = self.living(Scope((self.root,)))
        expected = all(
            put.expected is None
            or put.expected == (living[at].row.updated_at if (at := place(put)) in living else 0)
            for put in save.puts
        )
        assert await self.records("save_items", save) is expected
        if expected:
            self._drop(save.drops)
            touched = [kept for kept in living.values() if kept.row.item_id in set(save.touched)]
            for kept in touched:
                minutes = kept.put.ttl_minutes
                kept.expires = None if minutes is None else self.minutes + minutes
            await self._put(save, living)

    async def drop(self, scope: Scope) -> None:
        gone = [key for key in self.items if is_in(scope, key[0])]
        assert await self.records("drop_items", scope) == len(self.living(scope))
        self._drop(gone)

    async def sweep(self, limit: int) -> None:
        living = self.living(Scope((self.root,)))
        expired = [key for key in self.items if key not in living]
        pages = [min(limit, len(expired) - at) for at in range(0, len(expired), limit)]
        for page in [*pages, 0]:
            assert await self.records("drop_expired_items", limit) == page
        self._drop(expired)

    async def check_items(self) -> None:
        """What is found by keys and by ids is what was put, and nothing else."""
        living = self.living(Scope((self.root,)))
        expected = sorted(kept.row for kept in living.values())
        assert by_id(await self.records("read_items", self.keys)) == expected
        ids = [kept.row.item_id for kept in self.items.values()]
        assert by_id(await self.records("read_items_by_id", [*ids, 1 << 50])) == expected

    async def check_scope(self, scope: Scope) -> None:
        """What a scope's items are found by."""
        living = self.living(scope)
        rows = [kept.row for kept in living.values()]
        in_order = sorted(rows, key=lambda row: (-row.updated_at, row.namespace, row.key))
        assert await scan_all(self.records, scope, 2) == in_order
        for terms in (["=x"], ["=x", "=y"]):
            found = await scan_all(self.records, scope, 3, *terms)
            wanted = [row for row in in_order if set(terms) <= set(living[at_row(row)].put.terms)]
            # A database may ignore terms, but leaves out nothing that has them.
            assert [row for row in found if row in wanted] == wanted
            assert found == [row for row in in_order if row in found]
        await self._check_statistics(scope, living)
        found = await self.records("search_postings", scope, WORDS, None)
        assert entries(found) == postings(living)
        among = [row.item_id for row in rows[::2]]
        found = await self.records("search_postings", scope, WORDS[:2], among)
        assert entries(found) == [
            row for row in postings(living) if row[1] in among and row[0] != WORDS[2]
        ]
        vectors = {tuple(row) for row in await self.records("scan_vectors", scope)}
        under = {key: kept for key, kept in self.items.items() if is_in(scope, key[0])}
        assert vectors_of(living) <= vectors <= vectors_of(under)

    async def check_everything(self) -> None:
        await self.check_items()
        for scope in self.scopes:
            await self.check_scope(scope)
        living = self.living(Scope((self.root,)))
        namespaces = sorted({namespace for namespace, _ in living})
        assert await self.records("scan_namespaces", (self.root,), None, 100) == namespaces
        paged: list[Namespace] = []
        while page := await self.records(
            "scan_namespaces", (self.root,), paged[-1] if paged else None, 1
        ):
            paged += page
        assert paged == namespaces
        ids = [kept.row.item_id for kept in self.items.values()]
        candidates = await self.records("read_candidates", ids)
        assert by_id(candidates) == by_id(map(candidate, living.values()))
        turns = [kept.row.item_id for kept in living.values()]
        known, asked = turns[:1], turns[-1:]
        found = await self.records("read_neighbours", asked, 1, known)
        assert by_id(found) == by_id(neighbours(living, asked, known))
        assert {tuple(row) for row in await self.records("read_vectors", self.keys)} == (
            vectors_of(living)
        )
        for key in self.keys:
            kept = living.get(key)
            now = [VersionRow(kept.put.value, kept.since), *kept.versions] if kept else []
            assert await self.records("read_versions", key) == now

    async def _put(self, save: ItemsSave, before: dict[ItemKey, Kept]) -> None:
        rows = {at_row(row): row for row in await self.records("read_items", self.keys)}
        latest = self.latest
        for put in save.puts:
            key = place(put)
            row, old = rows[key], before.get(key)
            assert row[1:4] == (put.namespace, put.key, put.value)
            assert row.ttl_minutes == put.ttl_minutes
            assert (row.paths and list(row.paths)) == (put.paths and list(put.paths))
            if put.times is None:
                if old and old.row.updated_at > FAR_AHEAD:
                    assert row.updated_at == old.row.updated_at + 1
                else:
                    assert latest < row.updated_at < FAR_AHEAD
                    latest = row.updated_at
                assert row.created_at == (old.row.created_at if old else row.updated_at)
            else:
                assert (row.created_at, row.updated_at) == put.times
            if old and put.times is None:
                assert row.item_id == old.row.item_id
            elif not old:
                assert row.item_id not in self.ids
            self.ids.add(row.item_id)
            expires = None if put.ttl_minutes is None else self.minutes + put.ttl_minutes
            self.items[key] = Kept(put, row, *history(put, row, old, save.keeps)[:1], expires)
            self.items[key].versions = history(put, row, old, save.keeps)[1]
        self.latest = latest

    async def _check_statistics(self, scope: Scope, living: dict[ItemKey, Kept]) -> None:
        found = await self.records("read_scope", scope, WORDS)
        lengths = [sum(kept.put.tokens.values()) for kept in living.values()]
        assert (found.items, found.length) == (sum(map(bool, lengths)), sum(lengths))
        counts = {word: sum(word in kept.put.tokens for kept in living.values()) for word in WORDS}
        assert found.frequencies == {word: count for word, count in counts.items() if count}

    def _drop(self, keys: Iterable[ItemKey]) -> None:
        for key in keys:
            self.items.pop(key, None)


def history(
    put: ItemPut, row: ItemRow, old: Kept | None, keeps: int | None
) -> tuple[int, list[VersionRow]]:
    """Since when an item has its value, and its former ones."""
    since, versions = row.updated_at, list(old.versions) if old else []
    if put.times is not None:
        versions = list(put.versions)
        if versions and versions[0].value == put.value:
            since = versions.pop(0).updated_at
    elif old and old.put.value == put.value:
        since = old.since
    elif old:
        versions = [VersionRow(old.put.value, old.since), *versions]
    return since, versions[:keeps]


def place(put: ItemPut) -> ItemKey:
    return put.namespace, put.key


def at_row(row: ItemRow) -> ItemKey:
    return row.namespace, row.key


def by_id(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: row.item_id)


def candidate(kept: Kept) -> CandidateRow:
    put, row = kept.put, kept.row
    length = sum(put.tokens.values())
    return CandidateRow(
        row.item_id,
        row.namespace,
        row.key,
        row.updated_at,
        length,
        put.position,
        put.session,
        put.asks,
    )


def neighbours(
    living: dict[ItemKey, Kept], ids: Sequence[int], known: Sequence[int]
) -> list[CandidateRow]:
    """The turns beside those of `ids`."""
    turns = [candidate(kept) for kept in living.values() if kept.put.position is not None]
    return [
        turn
        for turn in turns
        if turn.item_id not in known
        and any(
            other.item_id in ids
            and other.namespace == turn.namespace
            and abs((other.position or 0) - (turn.position or 0)) <= 1
            for other in turns
        )
    ]


def entries(found: Sequence[PostingsRow]) -> list[tuple[str, int, int, int]]:
    """Postings as one list of token, item id, occurrences and length."""
    assert len({row.token for row in found}) == len(found)
    return sorted(
        (token, *numbers) for token, *columns in found for numbers in zip(*columns, strict=True)
    )


def postings(living: dict[ItemKey, Kept]) -> list[tuple[str, int, int, int]]:
    return sorted(
        (word, kept.row.item_id, count, sum(kept.put.tokens.values()))
        for kept in living.values()
        for word, count in kept.put.tokens.items()
    )


def vectors_of(items: dict[ItemKey, Kept]) -> set[tuple[int, bytes, bytes]]:
    return {
        (kept.row.item_id, digest, vector)
        for kept in items.values()
        for digest, vector in kept.put.vectors
    }
