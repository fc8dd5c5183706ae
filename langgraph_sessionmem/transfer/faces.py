"""Either face of any LangGraph saver or store, so that copying is written once."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.store.base import BaseStore
from typing_extensions import override

from langgraph_sessionmem.backends.base import Operation, T


class Face(Protocol):
    """One face of a saver, or of a store.

    Attributes:
        saver: whose face it is.
    """

    saver: Any

    async def call(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """The result of a method of LangGraph's contract, by its blocking name."""
        ...

    def listed(self, config: RunnableConfig | None) -> AsyncIterator[CheckpointTuple]:
        """What the saver lists, one by one."""
        ...

    async def run(self, operation: Operation[T]) -> T:
        """The result of an operation over the records of a `SessionSaver` or `LongTermStore`."""
        ...

    async def rows(self, query: str, params: Sequence[object]) -> list[tuple[Any, ...]]:
        """The rows of a query, for an official saver or store on an SQL database."""
        ...

    async def done(self, result: Any) -> Any:
        """What a driver's call of this face comes to."""
        ...

    def each(self, results: Any) -> AsyncIterator[Any]:
        """What a driver's iterator of this face gives, one by one."""
        ...


class Blocking(Face):
    """The blocking face; no call of it ever suspends."""

    def __init__(self, saver: BaseCheckpointSaver[Any] | BaseStore) -> None:
        self.saver: Any = saver

    @override
    async def call(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self.saver, method)(*arguments, **keywords)

    @override
    async def listed(self, config: RunnableConfig | None) -> AsyncIterator[CheckpointTuple]:
        for found in self.saver.list(config):
            yield found

    @override
    async def run(self, operation: Operation[T]) -> T:
        backend = self.saver.backend
        result: T = backend.run(operation)
        return result

    @override
    async def rows(self, query: str, params: Sequence[object]) -> list[tuple[Any, ...]]:
        saver = self.saver
        with saver.cursor() if hasattr(saver, "cursor") else saver._cursor() as cursor:
            cursor.execute(query, params)
            return _tuples(cursor.fetchall())

    @override
    async def done(self, result: Any) -> Any:
        return result

    @override
    async def each(self, results: Any) -> AsyncIterator[Any]:
        for result in results:
            yield result


class Async(Face):
    """The async face."""

    def __init__(self, saver: BaseCheckpointSaver[Any] | BaseStore) -> None:
        self.saver: Any = saver

    @override
    async def call(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        return await getattr(self.saver, f"a{method}")(*arguments, **keywords)

    @override
    async def listed(self, config: RunnableConfig | None) -> AsyncIterator[CheckpointTuple]:
        async for found in self.saver.alist(config):
            yield found

    @override
    async def run(self, operation: Operation[T]) -> T:
        backend = self.saver.backend
        result: T = await backend.arun(operation)
        return result

    @override
    async def rows(self, query: str, params: Sequence[object]) -> list[tuple[Any, ...]]:
        saver = self.saver
        if hasattr(saver, "_cursor"):
            async with saver._cursor() as cursor:
                await cursor.execute(query, params)
                return _tuples(await cursor.fetchall())
        await saver.setup()
        async with saver.lock, saver.conn.execute(query, params) as cursor:
            return _tuples(await cursor.fetchall())

    @override
    async def done(self, result: Any) -> Any:
        return await result

    @override
    async def each(self, results: Any) -> AsyncIterator[Any]:
        async for result in results:
            yield result


def _tuples(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row.values() if isinstance(row, dict) else row) for row in rows]
