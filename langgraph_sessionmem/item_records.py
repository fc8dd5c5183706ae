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

Namespace: TypeAlias = tuple[str, ...]
ItemKey: TypeAlias = tuple[Namespace, str]


class ItemRow(NamedTuple):
    """One stored item.

    Attributes:
        item_id: made by the database; another one after a delete and a new put.
        value: JSON, UTF-8.
        created_at: in microseconds since the epoch (UTC), as is `updated_at`.
        expires: whether the item has a time to live.
    """

    item_id: int
    namespace: Namespace
    key: str
    value: bytes
    created_at: int
    updated_at: int
    expires: bool


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


class PostingRow(NamedTuple):
    """A token occurs so many times in the text of an item."""

    token: str
    item_id: int
    occurrences: int


class ScopeRow(NamedTuple):
    """The statistics of the items under a prefix that have a text.

    Attributes:
        items: how many they are.
        length: the tokens of all of their texts.
        frequencies: how many of them a token occurs in; without those that occur in none.
    """

    items: int
    length: int
    frequencies: Mapping[str, int]


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


class ItemsSave(NamedTuple):
    """All that one batch writes; no item is named twice in `puts` and `drops` together.

    Attributes:
        touched: ids of items whose time to live begins anew.
    """

    puts: Sequence[ItemPut]
    drops: Sequence[ItemKey]
    touched: Sequence[int]


class ItemCursor(NamedTuple):
    """The last item of a page; the next page begins after it."""

    updated_at: int
    namespace: Namespace
    key: str


class ItemScan(NamedTuple):
    """Which items to scan; an empty prefix is every namespace.

    Attributes:
        terms: only items that have all of these; a database may ignore any of them.
    """

    prefix: Namespace
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

    async def scan_namespaces(
        self, prefix: Namespace, after: Namespace | None, limit: int
    ) -> list[Namespace]:
        """A page of the namespaces that have an item, in order, each once."""
        ...

    async def read_scope(self, prefix: Namespace, tokens: Sequence[str]) -> ScopeRow:
        """The statistics of the items under a prefix."""
        ...

    async def search_postings(
        self, prefix: Namespace, tokens: Sequence[str], among: Sequence[int] | None
    ) -> list[PostingRow]:
        """Where tokens occur under a prefix, in any order; `among` keeps to items of these ids."""
        ...

    async def read_candidates(self, item_ids: Sequence[int]) -> list[CandidateRow]:
        """The items of these ids that are there, in any order."""
        ...

    async def read_neighbours(
        self, item_ids: Sequence[int], distance: int, known: Sequence[int]
    ) -> list[CandidateRow]:
        """The turns up to `distance` before and after those of `item_ids`, but none of `known`."""
        ...

    async def scan_embedded(self, prefix: Namespace) -> list[CandidateRow]:
        """Every item under a prefix that has a vector, in any order."""
        ...

    async def scan_vectors(self, prefix: Namespace) -> list[VectorRow]:
        """The vectors of all items under a prefix, in any order."""
        ...

    async def read_vectors(self, keys: Sequence[ItemKey]) -> list[VectorRow]:
        """The vectors of the named items, in any order."""
        ...

    async def save_items(self, save: ItemsSave) -> None:
        """Store, delete and renew, all or nothing, by the database's clock.

        What is stored already keeps its `created_at`, and its `updated_at` grows by at least a
        microsecond; an expired item counts as absent, and is not renewed. All that found the old
        value goes with it.
        """
        ...

    async def drop_items(self, prefix: Namespace) -> int:
        """Delete every item under a prefix, with all that finds it; how many there were."""
        ...

    async def drop_expired_items(self, limit: int) -> int:
        """Delete up to `limit` expired items, with all that finds them; how many there were."""
        ...
