"""The contract with a database, for items: typed rows, and what can be done to them.

An `ItemRecords` is bound to one connection. Each primitive is atomic and one round trip; an
operation writes through one primitive, its last. Namespaces are tuples of labels and keys are any
text without lone surrogates: how they are encoded is the database's business, as long as they are
compared exactly, and ordered label by label in code point order. An expired item is invisible to
every primitive but `drop_expired_items`, and counts in no statistics. `docs/format.md` has the
layout of each database.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Namespace: TypeAlias = tuple[str, ...]
ItemKey: TypeAlias = tuple[Namespace, str]


class Scope(NamedTuple):
    """Which namespaces are meant: those under a prefix, or with `exact` the one it names.

    An empty prefix is every namespace.
    """

    prefix: Namespace
    exact: bool = False


class ItemRow(NamedTuple):
    """One stored item.

    Attributes:
        item_id: made by the database; another one after a delete and a new put.
        value: JSON, UTF-8.
        created_at: in microseconds since the epoch (UTC), as is `updated_at`.
        ttl_minutes: its time to live after the last access; `None` is for ever.
        paths: what of its value it is found by; `None` is what the store says.
    """

    item_id: int
    namespace: Namespace
    key: str
    value: bytes
    created_at: int
    updated_at: int
    ttl_minutes: float | None
    paths: Sequence[str] | None


class VersionRow(NamedTuple):
    """A value that an item has, or had, from `updated_at` on; in microseconds."""

    value: bytes
    updated_at: int


class CandidateRow(NamedTuple):
    """What the ranking knows of an item.

    Attributes:
        length: the tokens of its text.
        position: its place among the items of its namespace, if they are turns of a thread.
        session: what it was said in, `None` for unknown.
        asks: its text ends as a question.
    """

    item_id: int
    namespace: Namespace
    key: str
    updated_at: int
    length: int
    position: int | None
    session: str | None
    asks: bool


class PostingsRow(NamedTuple):
    """Where a token occurs: three columns, `(n,)` int64 each, with an entry for each item.

    Attributes:
        occurrences: in the text of an item.
        lengths: the tokens of that text.
    """

    token: str
    item_ids: npt.NDArray[np.int64]
    occurrences: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]


class ScopeRow(NamedTuple):
    """The statistics of the items of a scope that have a text.

    Attributes:
        items: how many they are.
        length: the tokens of all of their texts.
        frequencies: how many of them a token occurs in; without those that occur in none.
        stamp: another number after each save or drop in the scope; expiry alone doesn't change it.
        turns: whether an item may have a position; False where it is known that none has.
    """

    items: int
    length: int
    frequencies: Mapping[str, int]
    stamp: int
    turns: bool = True


class VectorRow(NamedTuple):
    """The embedding of one text of an item.

    Attributes:
        digest: of the text, so that a text that stays isn't embedded again.
        vector: `(dims,)` float32, little-endian.
    """

    item_id: int
    digest: bytes
    vector: bytes


class ItemPut(NamedTuple):
    """An item to store, with all that finds it; it takes the place of what is there.

    Attributes:
        ttl_minutes: after the last access; `None` is for ever.
        tokens: how often each token occurs in its text.
        vectors: digest and vector of each embedded text.
        terms: what a filter may pre-select by; none of them is a token.
        paths: as in `ItemRow`.
        expected: the `updated_at` that the item must still have, 0: it must not be there.
        times: `created_at` and `updated_at` of an item that comes from elsewhere, kept as they are.
        versions: what such an item was before, the latest first; takes the place of what is kept.
    """

    namespace: Namespace
    key: str
    value: bytes
    ttl_minutes: float | None
    tokens: Mapping[str, int]
    position: int | None
    session: str | None
    asks: bool
    vectors: Sequence[tuple[bytes, bytes]]
    terms: Sequence[str]
    paths: Sequence[str] | None = None
    expected: int | None = None
    times: tuple[int, int] | None = None
    versions: Sequence[VersionRow] = ()


class ItemsSave(NamedTuple):
    """All that one batch writes; no item is named twice in `puts` and `drops` together.

    Attributes:
        touched: ids of items whose time to live begins anew.
        keeps: how many former values are kept of each item put; `None` is all.
    """

    puts: Sequence[ItemPut]
    drops: Sequence[ItemKey]
    touched: Sequence[int]
    keeps: int | None = None


class ItemCursor(NamedTuple):
    """The last item of a page; the next page begins after it."""

    updated_at: int
    namespace: Namespace
    key: str


class ItemScan(NamedTuple):
    """Which items to scan.

    Attributes:
        terms: only items that have all of these; a database may ignore any of them.
    """

    scope: Scope
    terms: Sequence[str] = ()
    after: ItemCursor | None = None
    limit: int = 100


class ItemRecords(Protocol):
    """What a database does for items."""

    async def read_items(self, keys: Sequence[ItemKey]) -> list[ItemRow]:
        """The named items that are there, in any order."""
        ...

    async def read_items_by_id(self, item_ids: Sequence[int]) -> list[ItemRow]:
        """The items of these ids that are there, in any order."""
        ...

    async def scan_items(self, scan: ItemScan) -> list[ItemRow]:
        """A page, the latest `updated_at` first, then by namespace and key."""
        ...

    async def read_versions(self, key: ItemKey) -> list[VersionRow]:
        """The present value of an item and its former ones, the latest first; none: no item."""
        ...

    async def scan_namespaces(
        self, prefix: Namespace, after: Namespace | None, limit: int
    ) -> list[Namespace]:
        """A page of the namespaces that have an item, in order, each once."""
        ...

    async def read_scope(self, scope: Scope, tokens: Sequence[str]) -> ScopeRow:
        """The statistics of the items of a scope."""
        ...

    async def search_postings(
        self, scope: Scope, tokens: Sequence[str], among: Sequence[int] | None
    ) -> list[PostingsRow]:
        """Where tokens occur in a scope, a row for each that does; `among` keeps to these ids."""
        ...

    async def read_candidates(self, item_ids: Sequence[int]) -> list[CandidateRow]:
        """The items of these ids that are there, in any order."""
        ...

    async def read_neighbours(
        self, item_ids: Sequence[int], distance: int, known: Sequence[int]
    ) -> list[CandidateRow]:
        """The turns up to `distance` before and after those of `item_ids`, but none of `known`."""
        ...

    async def scan_vectors(self, scope: Scope) -> list[VectorRow]:
        """The vectors of all items of a scope, in any order; expired ones may be among them."""
        ...

    async def read_vectors(self, keys: Sequence[ItemKey]) -> list[VectorRow]:
        """The vectors of the named items, in any order."""
        ...

    async def save_items(self, save: ItemsSave) -> bool:
        """Store, delete and renew, all or nothing, by the database's clock.

        What is stored already keeps its `created_at`, and its `updated_at` grows by at least a
        microsecond; the value it had is kept as a former one, if it is another. An expired item
        counts as absent, and is not renewed. All that found the old value goes with it, and with a
        deleted item its former values.

        Returns:
            False: an item is not as a put expects it; nothing was written. Items whose namespaces
            differ in their first two labels may be several saves, one after the other.
        """
        ...

    async def drop_items(self, scope: Scope) -> int:
        """Delete every item of a scope, with all that finds it; how many there were."""
        ...

    async def drop_expired_items(self, limit: int) -> int:
        """Delete up to `limit` expired items, with all that finds them; how many there were."""
        ...
