"""Reading and writing beyond LangGraph's contract; each call has its `a…` twin."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from langgraph.store.base import NOT_PROVIDED, NotProvided, SearchItem, SearchOp

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.item_records import ItemKey, ItemRecords
from langgraph_sessionmem.store import answering
from langgraph_sessionmem.store.answering import Explained, Habits, Vectors
from langgraph_sessionmem.store.batch import Work, plan, with_expectations, with_vectors
from langgraph_sessionmem.store.config import read_history
from langgraph_sessionmem.store.ops import check_key, check_namespace
from langgraph_sessionmem.store.search import ExactSearchOp, is_asked
from langgraph_sessionmem.store.standing import Standing
from langgraph_sessionmem.store.times import to_microseconds
from langgraph_sessionmem.store.writes import Expectations, ItemVersion, ItemWrite, read_writes


class Beyond(Standing):
    """Exact search, explanations, guarded writes, and what items were before."""

    def search_exact(
        self,
        namespace: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """`search` in the very namespace, and in none below it; the same arguments."""
        op = ExactSearchOp(namespace, filter, limit, offset, query, refresh_ttl)  # type: ignore[arg-type]  # None asks the store, as in `search`
        [found] = self.batch([op])  # type: ignore[attr-defined]  # LongTermStore has it
        return found  # type: ignore[no-any-return]  # of this op

    async def asearch_exact(
        self,
        namespace: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """`search_exact` without blocking the loop."""
        op = ExactSearchOp(namespace, filter, limit, offset, query, refresh_ttl)  # type: ignore[arg-type]  # as above
        [found] = await self.abatch([op])  # type: ignore[attr-defined]  # as above
        return found  # type: ignore[no-any-return]  # as above

    def explain(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> list[Explained]:
        """What `search` finds, and what each score is the sum of; no time to live is renewed.

        Returns:
            In the order of `search`: the item, and the shares of its words, of what was said around
            it, of its session, and of its meaning (0 without an embedding model).

        Raises:
            InvalidArgument: there is no query, or another argument can't be used.
        """
        op = _explained(namespace_prefix, query, filter, limit, offset)
        work = plan([op], self._fields, embeds=False)
        vectors = self._embed(work)
        return self.backend.run(
            lambda records: answering.explain(records, self._habits, op, vectors)
        )

    async def aexplain(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> list[Explained]:
        """`explain` without blocking the loop."""
        op = _explained(namespace_prefix, query, filter, limit, offset)
        work = plan([op], self._fields, embeds=False)
        vectors = await self._aembed(work)
        return await self.backend.arun(
            lambda records: answering.explain(records, self._habits, op, vectors)
        )

    def write(
        self, writes: Iterable[ItemWrite], *, history: int | NotProvided | None = NOT_PROVIDED
    ) -> bool:
        """Store and delete items together, if each is still as the writer expects it.

        All or nothing. On Redis that holds for items whose namespaces begin with the same two
        labels; each such group is a save of its own.

        Args:
            writes: each item once.
            history: how many former values are kept of these items, instead of what the store says.

        Returns:
            False: an item is not as it was expected, and nothing was written (on Redis: nothing of
            its group). Read again, decide again, write again.

        Raises:
            InvalidNamespaceError, InvalidArgument, ValueNotStorable: as for `put`; or an item is
                written twice.
        """
        work, expectations = self._planned(writes)
        habits, vectors = self._kept(history), self._embed(work)
        return self.backend.run(
            lambda records: _write(records, habits, work, vectors, expectations)
        )

    async def awrite(
        self, writes: Iterable[ItemWrite], *, history: int | NotProvided | None = NOT_PROVIDED
    ) -> bool:
        """`write` without blocking the loop."""
        work, expectations = self._planned(writes)
        habits, vectors = self._kept(history), await self._aembed(work)
        return await self.backend.arun(
            lambda records: _write(records, habits, work, vectors, expectations)
        )

    def history(self, namespace: tuple[str, ...], key: str) -> list[ItemVersion]:
        """The values an item has and had, the latest first; none if there is no such item.

        As many former ones are kept as the store's `history` says. A deleted or expired item takes
        them with it.
        """
        name = _key(namespace, key)
        return self.backend.run(lambda records: answering.read_versions(records, name))

    async def ahistory(self, namespace: tuple[str, ...], key: str) -> list[ItemVersion]:
        """`history` without blocking the loop."""
        name = _key(namespace, key)
        return await self.backend.arun(lambda records: answering.read_versions(records, name))

    def as_of(self, namespace: tuple[str, ...], key: str, at: datetime) -> ItemVersion | None:
        """The value an item had at a time; `None`: it was not there, or that isn't kept any more.

        Raises:
            InvalidArgument: the time has no zone.
        """
        to_microseconds("at", at)
        return _version_at(self.history(namespace, key), at)

    async def aas_of(
        self, namespace: tuple[str, ...], key: str, at: datetime
    ) -> ItemVersion | None:
        """`as_of` without blocking the loop."""
        to_microseconds("at", at)
        return _version_at(await self.ahistory(namespace, key), at)

    def _planned(self, writes: Iterable[ItemWrite]) -> tuple[Work, Expectations]:
        ops, expectations = read_writes(writes, (self.ttl_config or {}).get("default_ttl"))
        return plan(ops, self._fields, embeds=self._embedder is not None), expectations

    def _kept(self, history: int | NotProvided | None) -> Habits:
        if isinstance(history, NotProvided):
            return self._habits
        return self._habits._replace(keeps=read_history(history))


async def _write(
    records: ItemRecords, habits: Habits, work: Work, vectors: Vectors, expectations: Expectations
) -> bool:
    puts = with_expectations(with_vectors(work.puts, vectors.of_texts), expectations)
    return await answering.save(records, habits, puts, work.drops)


def _explained(
    prefix: tuple[str, ...], query: str, filter_: dict[str, Any] | None, limit: int, offset: int
) -> SearchOp:
    if not isinstance(query, str) or not is_asked(query):
        raise InvalidArgument(f"query={query!r}: give the text of a query to explain.")
    return SearchOp(prefix, filter_, limit, offset, query, refresh_ttl=False)


def _version_at(versions: Sequence[ItemVersion], at: datetime) -> ItemVersion | None:
    return next((version for version in versions if version.since <= at), None)


def _key(namespace: tuple[str, ...], key: str) -> ItemKey:
    check_namespace(namespace)
    check_key(key)
    return namespace, key
