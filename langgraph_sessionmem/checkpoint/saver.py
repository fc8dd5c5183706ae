"""`SessionSaver`: LangGraph's checkpointer contract, over any backend, blocking and async.

Each operation is written once, as an `async def` over records; a public method and its `a…` twin
are one line each. What LangGraph hands over is taken as bytes before the first wait.
"""

import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import timedelta
from typing import Any, Literal, Self, TypedDict, Unpack

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol, maybe_add_typed_methods
from typing_extensions import override

from langgraph_sessionmem.backends.opening import open_backend
from langgraph_sessionmem.backends.time_limit import DEFAULT_TIMEOUT
from langgraph_sessionmem.checkpoint.branches import branch_head
from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.checkpoint.configs import read_place, read_thread_id
from langgraph_sessionmem.checkpoint.copying import copy_thread, plan_copy
from langgraph_sessionmem.checkpoint.deltas import delta_history, plan_history
from langgraph_sessionmem.checkpoint.listing import Listing, next_page, plan_listing
from langgraph_sessionmem.checkpoint.looking import Looking
from langgraph_sessionmem.checkpoint.options import (
    OnConflict,
    OnExpired,
    read_options,
)
from langgraph_sessionmem.checkpoint.pruning import (
    delete_runs,
    plan_prune,
    prune_thread,
    read_run_ids,
)
from langgraph_sessionmem.checkpoint.putting import plan_put, plan_writes, put, put_writes
from langgraph_sessionmem.checkpoint.reading import get_tuple
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.retention import start_sweeper
from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.checkpoint.upkeep import Upkeep
from langgraph_sessionmem.expiry import TTLSource, read_sweeping, read_ttl
from langgraph_sessionmem.telemetry import observed


class SaverArguments(TypedDict, total=False):
    """The keyword arguments of `SessionSaver`, which explains them."""

    ttl: TTLSource
    types: Iterable[type | str]
    serde: SerializerProtocol | None
    setup: bool
    prefix: str | None
    schema: str | None
    on_expired: OnExpired
    on_conflict: OnConflict
    verify: Literal["raise"] | None
    compress: bool | int
    reuse_objects: bool
    sweep_interval: timedelta | None
    timeout: timedelta


class SessionSaver(Upkeep, Looking, BaseCheckpointSaver[str]):
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
        on_expired: `"restart"`: an expired thread looks like one that never was. `"raise"`: reading
            or listing it raises `SessionExpired`, until `delete_thread`.
        on_conflict: `"fork"`: of two runs on one thread each goes on, as in LangGraph's savers.
            `"error"`: one wins, and the other's `put` raises `ConcurrentUpdate` before anything is
            written.
        verify: `"raise"`: a value that would not come back as it is raises `ValueNotStorable`,
            which names channel and path. Every value is read back, so it costs about a read.
        compress: compress values of at least this size in bytes (True: 1,024).
        reuse_objects: reading the same checkpoint again hands out the same message objects where
            they are unchanged: faster, for readers that don't change them.
        sweep_interval: sweep in the background this often while the saver is open.
        timeout: how long one call may take, whatever it waits for, before it raises `TimedOut`.

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
        on_expired: OnExpired = "restart",
        on_conflict: OnConflict = "fork",
        verify: Literal["raise"] | None = None,
        compress: bool | int = False,
        reuse_objects: bool = False,
        sweep_interval: timedelta | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
    ) -> None:
        self._ttl = read_ttl(ttl)
        sweeping = read_sweeping(sweep_interval, ttl)
        options = read_options(
            verify=verify,
            compress=compress,
            reuse_objects=reuse_objects,
            on_conflict=on_conflict,
            on_expired=on_expired,
        )
        custom = None if serde is None else maybe_add_typed_methods(serde)
        known_types = Types(types)
        opened = open_backend(source, setup=setup, prefix=prefix, schema=schema, timeout=timeout)
        self.backend = observed(opened)
        packs_short = opened.prefers_small
        codec = Codec(known_types, custom, options.compress_bytes, packs_short=packs_short)
        super().__init__(serde=custom or codec.jsonplus)
        self._state = SaverState.empty(codec, options, custom_serde=custom is not None)
        self._sweeper = start_sweeper(self.backend, self._state, sweeping)

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Unpack[SaverArguments]) -> Self:
        """A saver for a connection string; the options are the constructor's."""
        return cls(conn_string, **options)

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
        self.backend.run(lambda records: put_writes(records, self._state, save))

    @override
    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        save = plan_writes(self._state, config, writes, task_id, task_path)
        await self.backend.arun(lambda records: put_writes(records, self._state, save))

    @override
    def delete_thread(self, thread_id: str) -> None:
        name = read_thread_id(thread_id)
        self.backend.run(lambda records: records.drop_thread(name))

    @override
    async def adelete_thread(self, thread_id: str) -> None:
        name = read_thread_id(thread_id)
        await self.backend.arun(lambda records: records.drop_thread(name))

    @override
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = read_run_ids(run_ids)
        for name in self.backend.run(lambda records: records.read_run_threads(runs)):
            self.backend.run(lambda records: delete_runs(records, self._state, name, runs))  # noqa: B023 - run ends before the next turn

    @override
    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = read_run_ids(run_ids)
        for name in await self.backend.arun(lambda records: records.read_run_threads(runs)):
            await self.backend.arun(lambda records: delete_runs(records, self._state, name, runs))  # noqa: B023 - as above

    @override
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        plan = plan_copy(source_thread_id, target_thread_id)
        self.backend.run(lambda records: copy_thread(records, self._state, plan))

    @override
    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        plan = plan_copy(source_thread_id, target_thread_id)
        await self.backend.arun(lambda records: copy_thread(records, self._state, plan))

    @override
    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: timedelta | None = None,
    ) -> None:
        """Cut threads down, each at once and for itself; what stays reads as before.

        Args:
            thread_ids: the threads; one that doesn't exist is passed over.
            strategy: `"keep_latest"` keeps the latest checkpoint of each namespace; a subgraph's
                call goes with the checkpoint that it started from. `"delete"` keeps nothing.
            keep_last: with `"keep_latest"`, keep that many of each namespace.
            older_than: with `"keep_latest"`, also keep what is not older, by its `ts` against the
                database's clock.

        Raises:
            InvalidArgument: an argument can't be used; nothing was cut.
            ConcurrentUpdate: a thread was written to time and again; those before it are cut.
        """
        names, cut = plan_prune(thread_ids, strategy, keep_last, older_than)
        for name in names:
            self.backend.run(lambda records: prune_thread(records, self._state, name, cut))  # noqa: B023 - run ends before the next turn

    @override
    async def aprune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: timedelta | None = None,
    ) -> None:
        """`prune` without blocking the loop."""
        names, cut = plan_prune(thread_ids, strategy, keep_last, older_than)
        for name in names:
            await self.backend.arun(lambda records: prune_thread(records, self._state, name, cut))  # noqa: B023 - as above

    @override
    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        plan = plan_history(config, channels)
        return self.backend.run(lambda records: delta_history(records, self._state, *plan))

    @override
    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        plan = plan_history(config, channels)
        return await self.backend.arun(lambda records: delta_history(records, self._state, *plan))

    def branch_head(self, config: RunnableConfig) -> RunnableConfig | None:
        """The config of the latest checkpoint that came of the one `config` names, or that one.

        A graph that is invoked with an old `checkpoint_id` forks each time. To go on where that
        branch ended, invoke it with this config; `None`: there is no such checkpoint.
        """
        place = read_place(config)
        return self.backend.run(lambda records: branch_head(records, place))

    async def abranch_head(self, config: RunnableConfig) -> RunnableConfig | None:
        """`branch_head` without blocking the loop."""
        place = read_place(config)
        return await self.backend.arun(lambda records: branch_head(records, place))

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
        codec = self._state.codec.limited_to(extra_allowlist)
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
