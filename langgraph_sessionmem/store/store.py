"""`LongTermStore`: LangGraph's `BaseStore`, with filters that hold, expiry and search.

A batch is checked as a whole before anything is read, then answered from the state before it, then
written by one primitive. Models are asked outside, between two operations: what they take is never
taken from the database's time.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Self

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from typing_extensions import override

from langgraph_sessionmem.backends.base import Backend
from langgraph_sessionmem.backends.opened import Opened
from langgraph_sessionmem.backends.opening import open_backend
from langgraph_sessionmem.backends.sqlite import SqliteBackend
from langgraph_sessionmem.backends.time_limit import DEFAULT_TIMEOUT
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.item_records import ItemRecords, ItemRow, ItemsSave
from langgraph_sessionmem.store import search, values
from langgraph_sessionmem.store.batch import Work, plan, with_vectors
from langgraph_sessionmem.store.config import read_index, read_ttl_config
from langgraph_sessionmem.store.embedding import digest
from langgraph_sessionmem.store.ops import check_namespace

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SWEEP_PAGE: Final = 1_000


class _Vectors(NamedTuple):
    """What the model said: vectors of texts by digest, and of queries."""

    of_texts: Mapping[bytes, bytes]
    of_queries: Mapping[str, bytes]


class LongTermStore(Opened, BaseStore):
    """Items by namespace and key, that outlive a thread; a drop-in for LangGraph's stores.

    Everything of LangGraph's `BaseStore` is here, blocking and async in the same object, for any
    number of threads and event loops. Beyond it, or where LangGraph's own stores differ:

    - `search(..., query=...)` works without an embedding model: it ranks by the words of the items'
      texts (`index=` of a put, or of the store, says which; the whole value by default), and
      returns only what fits. With `index={"embed": …, "dims": …}` the vectors' order is mixed in.
    - Items of one namespace whose value has a whole number `position` are taken as turns of one
      thread, in that order: a turn is then found by what is said around it as well. A `session`
      (text or number) beside it says which turns were one session; neighbours are of one session.
    - Filters mean what MongoDB's mean; `store/filters.py` lists the operators.
    - Without a query, the latest `updated_at` comes first, then by namespace and key.
    - `ttl` is in minutes since the last access. What has expired is gone at once, and no read
      brings it back.
    - Values are JSON and come back equal; anything else raises with its place in the value.

    Args:
        source: as for `from_conn_string`, or an open `sqlite3` connection, which stays open.
        index: `{"embed": …, "dims": …, "fields": […]}` as in LangGraph; `fields` alone is allowed,
            and says what is searched by words.
        ttl: LangGraph's mapping: `default_ttl` and `sweep_interval_minutes` in minutes,
            `refresh_on_read` (True unless given). With an interval, a put that comes later than
            that after the last sweep deletes what has expired.
        prefix: of every Redis key.
        schema: of every PostgreSQL table.
        setup: make the schema on first use.
        timeout: how long one call may take, whatever it waits for, before it raises `TimedOut`.

    Raises:
        InvalidArgument: an argument can't be used; nothing was opened.

    Attributes:
        backend: the open database.
    """

    supports_ttl = True

    def __init__(
        self,
        source: object = ":memory:",
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        prefix: str | None = None,
        schema: str | None = None,
        setup: bool = True,
        timeout: timedelta = DEFAULT_TIMEOUT,
    ) -> None:
        self._embedder, self._fields = read_index(index)
        self.ttl_config = read_ttl_config(ttl)
        self.backend = _only_sqlite(
            open_backend(source, setup=setup, prefix=prefix, schema=schema, timeout=timeout)
        )
        self._swept_at = time.monotonic()

    @classmethod
    def from_conn_string(
        cls,
        url: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        prefix: str | None = None,
        schema: str | None = None,
        setup: bool = True,
        timeout: timedelta = DEFAULT_TIMEOUT,
    ) -> Self:
        """Open `sqlite:///relative.db`, `sqlite:////absolute.db`, a `*.db` path or `:memory:`.

        Works in `with`, in `async with` and without either (then `close()` it yourself). The other
        arguments are those of the class.

        Raises:
            UnknownScheme: the string names no database we know.
            InvalidArgument: an argument can't be used; nothing was opened.
            BackendUnavailable: the file can't be opened.
        """
        return cls(
            url,
            index=index,
            ttl=ttl,
            prefix=prefix,
            schema=schema,
            setup=setup,
            timeout=timeout,
        )

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        work = plan(ops, self._fields, embeds=self._embedder is not None)
        vectors = self._embed(work)
        results = self.backend.run(lambda records: self._apply(records, work, vectors))
        if work.puts and self._sweep_is_due():
            self.sweep()
        return results

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        work = plan(ops, self._fields, embeds=self._embedder is not None)
        vectors = await self._aembed(work)
        results = await self.backend.arun(lambda records: self._apply(records, work, vectors))
        if work.puts and self._sweep_is_due():
            await self.asweep()
        return results

    def sweep(self) -> int:
        """Delete what has expired, which no call shows any more; how many items there were."""
        total = dropped = self.backend.run(_sweep_page)
        while dropped == _SWEEP_PAGE:
            dropped = self.backend.run(_sweep_page)
            total += dropped
        return total

    async def asweep(self) -> int:
        """`sweep` without blocking the loop."""
        total = dropped = await self.backend.arun(_sweep_page)
        while dropped == _SWEEP_PAGE:
            dropped = await self.backend.arun(_sweep_page)
            total += dropped
        return total

    def erase(self, prefix: tuple[str, ...]) -> int:
        """Delete every item under a prefix, with all that finds it; how many there were.

        Raises:
            InvalidNamespaceError: the prefix is no tuple of labels.
            InvalidArgument: the prefix is empty, which would be the whole store.
        """
        _check_erasable(prefix)
        return self.backend.run(lambda records: records.drop_items(prefix))

    async def aerase(self, prefix: tuple[str, ...]) -> int:
        """`erase` without blocking the loop."""
        _check_erasable(prefix)
        return await self.backend.arun(lambda records: records.drop_items(prefix))

    def _embed(self, work: Work) -> _Vectors:
        if self._embedder is None:
            return _Vectors({}, {})
        known: dict[bytes, bytes] = {}
        if work.keys:
            rows = self.backend.run(lambda records: records.read_vectors(work.keys))
            known = self._embedder.usable(rows)
        new = self._embedder.embed([text for text in work.texts if digest(text) not in known])
        queries = {query: self._embedder.embed_query(query) for query in work.queries}
        return _Vectors(known | new, queries)

    async def _aembed(self, work: Work) -> _Vectors:
        if self._embedder is None:
            return _Vectors({}, {})
        known: dict[bytes, bytes] = {}
        if work.keys:
            rows = await self.backend.arun(lambda records: records.read_vectors(work.keys))
            known = self._embedder.usable(rows)
        unknown = [text for text in work.texts if digest(text) not in known]
        new = await self._embedder.aembed(unknown)
        queries = {query: await self._embedder.aembed_query(query) for query in work.queries}
        return _Vectors(known | new, queries)

    async def _apply(self, records: ItemRecords, work: Work, vectors: _Vectors) -> list[Result]:
        wanted = {(op.namespace, op.key): None for op in work.ops if isinstance(op, GetOp)}
        rows = await records.read_items(list(wanted)) if wanted else []
        there = {(row.namespace, row.key): row for row in rows}
        results: list[Result] = []
        touched: set[int] = set()
        for op in work.ops:
            if isinstance(op, GetOp):
                row = there.get((op.namespace, op.key))
                results.append(None if row is None else _item(row))
                touched.update(self._renewed(op, [row] if row else []))
            elif isinstance(op, SearchOp):
                found = await search.search(records, op, vectors.of_queries.get(op.query or ""))
                results.append([_search_item(one) for one in found])
                touched.update(self._renewed(op, [one.row for one in found]))
            elif isinstance(op, ListNamespacesOp):
                results.append(await search.list_namespaces(records, op))
            else:
                results.append(None)
        save = ItemsSave(with_vectors(work.puts, vectors.of_texts), work.drops, sorted(touched))
        if any(save):
            await records.save_items(save)
        return results

    def _renewed(self, op: GetOp | SearchOp, read: Sequence[ItemRow]) -> list[int]:
        asked: bool | None = op.refresh_ttl
        if asked is None:
            asked = (self.ttl_config or {}).get("refresh_on_read", True)
        return [row.item_id for row in read if row.expires] if asked else []

    def _sweep_is_due(self) -> bool:
        minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        if minutes is None or time.monotonic() - self._swept_at < 60 * minutes:
            return False
        self._swept_at = time.monotonic()
        return True


async def _sweep_page(records: ItemRecords) -> int:
    return await records.drop_expired_items(_SWEEP_PAGE)


def _item(row: ItemRow) -> Item:
    return Item(
        value=values.decode(row.value),
        key=row.key,
        namespace=row.namespace,
        created_at=_time(row.created_at),
        updated_at=_time(row.updated_at),
    )


def _search_item(found: search.Found) -> SearchItem:
    row = found.row
    created_at, updated_at = _time(row.created_at), _time(row.updated_at)
    return SearchItem(row.namespace, row.key, found.value, created_at, updated_at, found.score)


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _check_erasable(prefix: tuple[str, ...]) -> None:
    check_namespace(prefix)
    if not prefix:
        raise InvalidArgument("prefix=() would erase the whole store: name at least one label.")


def _only_sqlite(backend: Backend) -> Backend:
    if isinstance(backend, SqliteBackend):
        return backend
    backend.close()
    raise InvalidArgument(
        "LongTermStore runs on SQLite in this version: give sqlite:///file.db or :memory:."
    )
