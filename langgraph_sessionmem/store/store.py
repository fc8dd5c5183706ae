"""`LongTermStore`: LangGraph's `BaseStore`, with filters that hold, expiry and search.

A batch is checked as a whole before anything is read, then answered from the state before it, then
written by one primitive. Models are asked outside, between two operations: what they take is never
taken from the database's time.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final, Self, TypedDict, Unpack

from langgraph.store.base import BaseStore, IndexConfig, Op, Result, TTLConfig
from typing_extensions import override

from langgraph_sessionmem.backends.opening import open_backend
from langgraph_sessionmem.backends.time_limit import DEFAULT_TIMEOUT
from langgraph_sessionmem.bounded import Remembered
from langgraph_sessionmem.store.answering import Habits, answer
from langgraph_sessionmem.store.batch import plan
from langgraph_sessionmem.store.beyond import Beyond
from langgraph_sessionmem.store.config import read_history, read_index, read_ttl_config
from langgraph_sessionmem.store.tending import Tending
from langgraph_sessionmem.store.vectors import CACHE_BYTES
from langgraph_sessionmem.telemetry import observed

HISTORY: Final = 100
"""So many former values of an item are kept unless the store says otherwise."""


class StoreArguments(TypedDict, total=False):
    """The keyword arguments of `LongTermStore`, which explains them."""

    index: IndexConfig | None
    ttl: TTLConfig | None
    history: int | None
    prefix: str | None
    schema: str | None
    setup: bool
    timeout: timedelta


class LongTermStore(Beyond, Tending, BaseStore):
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
    - `write` stores only what nobody changed meanwhile; `history` and `as_of` tell what an item
      was; `search_exact`, `explain`, `erase`, `export`, `import_` say themselves what they do.

    Args:
        source: a connection string (`sqlite:///agent.db`, `postgresql://…`, `redis://…`), a path,
            or an open connection, pool or client, which stays the caller's to close. By default a
            database in memory.
        index: `{"embed": …, "dims": …, "fields": […]}` as in LangGraph; `fields` alone is allowed,
            and says what is searched by words. `{"embed": "local"}` is a small English model on
            this machine (extra `embed`).
        ttl: LangGraph's mapping: `default_ttl` and `sweep_interval_minutes` in minutes,
            `refresh_on_read` (True unless given). With an interval, what has expired is deleted in
            the background that often, until the store is closed.
        history: how many former values of an item are kept; 0 is none, `None` is all.
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
        history: int | None = HISTORY,
        prefix: str | None = None,
        schema: str | None = None,
        setup: bool = True,
        timeout: timedelta = DEFAULT_TIMEOUT,
    ) -> None:
        self._embedder, self._fields = read_index(index)
        self.ttl_config = read_ttl_config(ttl)
        self._habits = Habits(
            Remembered(CACHE_BYTES),
            (self.ttl_config or {}).get("refresh_on_read", True),
            read_history(history),
        )
        opened = open_backend(source, setup=setup, prefix=prefix, schema=schema, timeout=timeout)
        self.backend = observed(opened)
        minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        self._sweeper = None if minutes is None else self._recurring(60.0 * minutes)

    @classmethod
    def from_conn_string(cls, url: str, **options: Unpack[StoreArguments]) -> Self:
        """A store for a connection string; the options are the constructor's.

        Works in `with`, in `async with` and without either (then `close()` it yourself).
        """
        return cls(url, **options)

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        work = plan(ops, self._fields, embeds=self._embedder is not None)
        vectors = self._embed(work)
        return self.backend.run(lambda records: answer(records, self._habits, work, vectors))

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        work = plan(ops, self._fields, embeds=self._embedder is not None)
        vectors = await self._aembed(work)
        return await self.backend.arun(lambda records: answer(records, self._habits, work, vectors))
