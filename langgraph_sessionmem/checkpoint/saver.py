"""`SessionSaver`: LangGraph's checkpointer contract, over any backend, blocking and async.

Each operation is written once, as an `async def` over records; a public method and its `a…` twin
are one line each. What LangGraph hands over is taken as bytes before the first wait.
"""

import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.base import SerializerProtocol, maybe_add_typed_methods
from typing_extensions import override

from langgraph_sessionmem.backends.opened import Opened
from langgraph_sessionmem.backends.opening import open_backend
from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.checkpoint.configs import read_place, read_thread_id
from langgraph_sessionmem.checkpoint.getting import get_tuple
from langgraph_sessionmem.checkpoint.listing import Listing, next_page, plan_listing
from langgraph_sessionmem.checkpoint.putting import plan_put, plan_writes, put, put_writes
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.expiry import TTL, TTLSource, read_session_ttl, read_ttl
from langgraph_sessionmem.records import ThreadRow

SWEEP_BATCH = 100


class SessionSaver(Opened, BaseCheckpointSaver[str]):
    """Per-thread agent state that lives as long as it should; a drop-in for LangGraph's savers.

    One object serves blocking and async callers, any thread and any event loop. It works in `with`,
    in `async with` and without either.

    Args:
        source: a connection string (`sqlite:///agent.db`, `postgresql://…`, `redis://…`), a path,
            or an open connection, pool or client, which stays the caller's to close. By default a
            database in memory.
        ttl: how long a thread lives: a `TTL`, a timedelta of idleness, LangGraph's mapping in
            minutes, or a function of config and metadata. `configurable["session_ttl"]` overrules
            it for one thread, and stays with it.
        types: classes, or names of modules, that stored data may become besides LangGraph's own
            types and the data classes of modules that are already imported.
        serde: a serializer of your own, called for each element.
        setup: make the schema on first use; otherwise call `setup()` once.
        prefix: of every Redis key.
        schema: of every PostgreSQL table.

    Attributes:
        backend: the open database.

    Raises:
        UnknownScheme: the connection string names no database we know.
        InvalidArgument: an argument can't be used.
    """

    def __init__(
        self,
        source: object = ":memory:",
        *,
        ttl: TTLSource = None,
        types: Iterable[type | str] = (),
        serde: SerializerProtocol | None = None,
        setup: bool = True,
        prefix: str | None = None,
        schema: str | None = None,
    ) -> None:
        self._ttl = read_ttl(ttl)
        custom = None if serde is None else maybe_add_typed_methods(serde)
        codec = Codec(Types(types), custom)
        super().__init__(serde=custom or codec.jsonplus)
        self._state = SaverState.empty(codec, custom_serde=custom is not None)
        self.backend = open_backend(source, setup=setup, prefix=prefix, schema=schema)

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        ttl: TTLSource = None,
        types: Iterable[type | str] = (),
        serde: SerializerProtocol | None = None,
        setup: bool = True,
        prefix: str | None = None,
        schema: str | None = None,
    ) -> Self:
        """A saver for a connection string; the arguments are the constructor's."""
        return cls(
            conn_string,
            ttl=ttl,
            types=types,
            serde=serde,
            setup=setup,
            prefix=prefix,
            schema=schema,
        )

    @override
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = read_place(config)
        return self.backend.run(lambda records: get_tuple(records, self._state, place))

    @override
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = read_place(config)
        return await self.backend.arun(lambda records: get_tuple(records, self._state, place))

    @override
    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        return self._list(plan_listing(config, filter, before, limit))

    @override
    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        return self._alist(plan_listing(config, filter, before, limit))

    @override
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        plan = plan_put(self._state, config, checkpoint, metadata, new_versions, self._ttl)
        return self.backend.run(lambda records: put(records, self._state, plan))

    @override
    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        plan = plan_put(self._state, config, checkpoint, metadata, new_versions, self._ttl)
        return await self.backend.arun(lambda records: put(records, self._state, plan))

    @override
    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        save = plan_writes(self._state, config, writes, task_id, task_path)
        self.backend.run(lambda records: put_writes(records, save))

    @override
    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        save = plan_writes(self._state, config, writes, task_id, task_path)
        await self.backend.arun(lambda records: put_writes(records, save))

    @override
    def delete_thread(self, thread_id: str) -> None:
        name = read_thread_id(thread_id)
        self.backend.run(lambda records: records.drop_thread(name))

    @override
    async def adelete_thread(self, thread_id: str) -> None:
        name = read_thread_id(thread_id)
        await self.backend.arun(lambda records: records.drop_thread(name))

    def set_ttl(self, thread_id: str, ttl: TTL | None) -> bool:
        """Give a thread its own limits, counted from now, that stay with it; None pins it.

        Returns:
            False: there is no such thread.
        """
        name, limits = read_thread_id(thread_id), read_session_ttl(ttl).limits
        return self.backend.run(lambda records: records.save_limits(name, limits))

    async def aset_ttl(self, thread_id: str, ttl: TTL | None) -> bool:
        """`set_ttl` without blocking the loop."""
        name, limits = read_thread_id(thread_id), read_session_ttl(ttl).limits
        return await self.backend.arun(lambda records: records.save_limits(name, limits))

    def sweep(self) -> int:
        """Delete what has expired, in batches; it changes no answer, only space.

        Returns:
            How many threads were deleted.
        """
        swept = 0
        while True:
            found = self.backend.run(lambda records: records.drop_expired(SWEEP_BATCH))
            swept += found
            if found < SWEEP_BATCH:
                return swept

    async def asweep(self) -> int:
        """`sweep` without blocking the loop."""
        swept = 0
        while True:
            found = await self.backend.arun(lambda records: records.drop_expired(SWEEP_BATCH))
            swept += found
            if found < SWEEP_BATCH:
                return swept

    def threads(self, *, after: str | None = None, limit: int = 100) -> Sequence[ThreadRow]:
        """A page of threads that have not expired, by thread id, without loading their state.

        Args:
            after: the last thread id of the page before.
            limit: how many at the most.
        """
        return self.backend.run(lambda records: records.scan_threads(after, limit))

    async def athreads(self, *, after: str | None = None, limit: int = 100) -> Sequence[ThreadRow]:
        """`threads` without blocking the loop."""
        return await self.backend.arun(lambda records: records.scan_threads(after, limit))

    @override
    def get_next_version(self, current: str | int | float | None, channel: None) -> str:
        """The version after `current`, of its type; different on every branch.

        Text sorts like the number it begins with, as in LangGraph's own savers and its server.
        """
        if isinstance(current, int | float):
            return current + 1  # type: ignore[return-value]  # such a thread goes on with numbers
        number, _, _ = (current or "0").partition(".")
        branch = int.from_bytes(os.urandom(4))
        return f"{int(number) + 1:0{max(len(number), 32)}}.{branch:010}"

    @override
    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """A clone that rebuilds LangGraph's safe types and those listed, nothing else.

        LangGraph calls it when `LANGGRAPH_STRICT_MSGPACK` is set. The clone shares the database,
        what is remembered, and `close`.
        """
        if self._state.custom_serde:
            return super().with_allowlist(extra_allowlist)  # type: ignore[return-value]  # a clone
        clone = copy(self)
        codec = Codec(Types.only(extra_allowlist))
        clone._state, clone.serde = self._state._replace(codec=codec), codec.jsonplus
        return clone

    def _list(self, listing: Listing | None) -> Iterator[CheckpointTuple]:
        while listing is not None:
            part = listing
            page = self.backend.run(lambda records: next_page(records, self._state, part))  # noqa: B023 - run ends before the next turn
            yield from page.tuples
            listing = page.rest

    async def _alist(self, listing: Listing | None) -> AsyncIterator[CheckpointTuple]:
        while listing is not None:
            part = listing
            page = await self.backend.arun(lambda records: next_page(records, self._state, part))  # noqa: B023 - as above
            for found in page.tuples:
                yield found
            listing = page.rest
