"""What a saver holds, without its values: its threads, their checkpoints, the paths of writes.

LangGraph's contract can list checkpoints only whole, and lists all threads mixed. So what can be
asked for cheaply is asked for in the saver's own way; any other saver is listed through once.
"""

from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from langchain_core.runnables import RunnableConfig

from langgraph_sessionmem.checkpoint.pruning import cut_idle
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.saver import SessionSaver
from langgraph_sessionmem.checkpoint.whole import scan_rows
from langgraph_sessionmem.rows import CheckpointScan, ThreadScan
from langgraph_sessionmem.transfer.faces import Face

_PAGE_SIZE = 1_000


class Place(NamedTuple):
    """A checkpoint within its thread."""

    checkpoint_ns: str
    checkpoint_id: str

    def config(self, thread_id: str) -> RunnableConfig:
        """The config that names it."""
        return {
            "configurable": {
                "thread_id": thread_id,
                "checkpoint_ns": self.checkpoint_ns,
                "checkpoint_id": self.checkpoint_id,
            }
        }


class WritePath(NamedTuple):
    """Whose pending write it is, and where it stands among the others."""

    task_id: str
    task_path: str
    idx: int
    channel: str


class Catalog(Protocol):
    """What a saver holds."""

    def threads(self) -> AsyncIterator[str]:
        """Every thread, once."""
        ...

    async def places(self, thread_id: str) -> list[Place]:
        """The thread's checkpoints, in the order in which they are to be put."""
        ...

    async def paths(self, thread_id: str, place: Place) -> list[WritePath]:
        """Its pending writes in any order; empty if the saver doesn't tell their paths."""
        ...


def catalog_of(face: Face) -> Catalog:
    """The catalog of a saver: of ours, of an official one on SQL or Redis, or of any other."""
    if isinstance(face.saver, SessionSaver):
        return OwnCatalog(face, face.saver._state)
    origins = {kind.__module__.partition(".aio")[0] for kind in type(face.saver).__mro__}
    if "langgraph.checkpoint.sqlite" in origins:
        return SqlCatalog(face, "?", "writes")
    if "langgraph.checkpoint.postgres" in origins:
        return SqlCatalog(face, "%s", "checkpoint_writes")
    if "langgraph.checkpoint.redis" in origins:
        return RedisCatalog(face)
    return ListedCatalog(face)


class OwnCatalog:
    """Of a `SessionSaver`."""

    def __init__(self, face: Face, state: SaverState) -> None:
        self._face, self._state = face, state

    async def threads(self) -> AsyncIterator[str]:
        """Every thread, by id."""
        scan: ThreadScan | None = ThreadScan(limit=_PAGE_SIZE)
        while scan is not None:
            part = scan
            page = await self._face.run(lambda records: records.scan_threads(part))  # noqa: B023 - run ends before the next turn
            for row in page:
                yield row.thread_id
            scan = part._replace(after=page[-1]) if len(page) == part.limit else None

    async def places(self, thread_id: str) -> list[Place]:
        """The thread's checkpoints as they were first put; what they are rebuilt from, too."""
        # What an idle thread hides is no part of it any more, but a scan with anchors shows it.
        await self._face.run(lambda records: cut_idle(records, self._state, thread_id))
        scan = CheckpointScan(thread_id, anchors=True)
        rows = await self._face.run(lambda records: scan_rows(records, scan))
        ordered = sorted(rows, key=lambda row: row.seq)
        return [Place(row.checkpoint_ns, row.checkpoint_id) for row in ordered]

    async def paths(self, thread_id: str, place: Place) -> list[WritePath]:
        """As they are stored."""
        found = await self._face.run(lambda records: records.read_checkpoint(thread_id, *place))
        _, writes = found or (None, [])
        return [
            WritePath(write.task_id, write.task_path, write.idx, write.channel) for write in writes
        ]


class SqlCatalog:
    """Of an official saver on SQLite or PostgreSQL.

    Args:
        face: of the saver.
        mark: how its driver writes a parameter.
        writes: its table of pending writes.
    """

    def __init__(self, face: Face, mark: str, writes: str) -> None:
        self._face = face
        self._threads = (
            "select distinct thread_id from checkpoints where thread_id {} "  # noqa: S608 - our own words
            f"{mark} order by thread_id limit {_PAGE_SIZE}"
        )
        self._places = (
            f"select checkpoint_ns, checkpoint_id from checkpoints where thread_id = {mark}"  # noqa: S608 - as above
        )
        self._paths = (
            f"select task_id, task_path, idx, channel from {writes} where thread_id = {mark} "  # noqa: S608 - as above
            f"and checkpoint_ns = {mark} and checkpoint_id = {mark}"
        )

    async def threads(self) -> AsyncIterator[str]:
        """Every thread, by id."""
        page = await self._face.rows(self._threads.format(">="), ("",))
        while page:
            for (thread_id,) in page:
                yield thread_id
            page = await self._face.rows(self._threads.format(">"), page[-1])

    async def places(self, thread_id: str) -> list[Place]:
        """By checkpoint id: to these savers the largest is the latest."""
        rows = await self._face.rows(self._places, (thread_id,))
        return _by_id(Place(*row) for row in rows)

    async def paths(self, thread_id: str, place: Place) -> list[WritePath]:
        """As they are stored."""
        return [WritePath(*row) for row in await self._face.rows(self._paths, (thread_id, *place))]


class RedisCatalog:
    """Of the official saver on Redis with its modules for JSON and search."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._saver: Any = face.saver

    async def threads(self) -> AsyncIterator[str]:
        """Every thread, in no order: `list` ends at 10,000 checkpoints, a scan of the keys not."""
        index, seen = self._saver.checkpoints_index, set()
        unsafe = _util().from_storage_safe_id
        keys = index.client.scan_iter(match=f"{index.prefix.rstrip(':')}:*", count=_PAGE_SIZE)
        async for key in self._face.each(keys):
            found = await self._face.done(index.client.json().get(key, "$.thread_id"))
            for thread_id in map(unsafe, found or ()):
                if thread_id not in seen:
                    seen.add(thread_id)
                    yield thread_id

    async def places(self, thread_id: str) -> list[Place]:
        """By checkpoint id: to this saver the largest is the latest."""
        fields = ["$.checkpoint_ns", "$.checkpoint_id"]
        found = self._found(self._saver.checkpoints_index, fields, thread_id)
        return _by_id([Place(*row) async for row in found])

    async def paths(self, thread_id: str, place: Place) -> list[WritePath]:
        """As they are stored."""
        fields = ["$.task_id", "$.task_path", "$.idx", "$.channel"]
        found = self._found(self._saver.checkpoint_writes_index, fields, thread_id, place)
        return [
            WritePath(task_id, task_path, int(idx), channel)
            async for task_id, task_path, idx, channel in found
        ]

    async def _found(
        self, index: Any, fields: list[str], thread_id: str, place: Place | None = None
    ) -> AsyncIterator[list[str]]:
        util, tag = _util(), import_module("redisvl.query.filter").Tag
        wanted = tag("thread_id") == util.to_storage_safe_id(thread_id)
        if place is not None:
            wanted &= tag("checkpoint_ns") == util.to_storage_safe_str(place.checkpoint_ns)
            wanted &= tag("checkpoint_id") == util.to_storage_safe_id(place.checkpoint_id)
        query = import_module("redisvl.query").FilterQuery(
            filter_expression=wanted, return_fields=fields, num_results=_PAGE_SIZE
        )
        query.timeout(0)  # at a timeout the server answers with what it has so far
        offset = 0
        while True:
            page = (await self._face.done(index.search(query.paging(offset, _PAGE_SIZE)))).docs
            for document in page:
                yield [util.from_storage_safe_str(getattr(document, field, "")) for field in fields]
            offset += len(page)
            if len(page) < _PAGE_SIZE:
                return


class ListedCatalog:
    """Of any saver, by what it lists; threads are found by listing all of them through once."""

    def __init__(self, face: Face) -> None:
        self._face = face

    async def threads(self) -> AsyncIterator[str]:
        """Every thread, as it is first met."""
        seen = set()
        async for found in self._face.listed(None):
            thread_id = found.config["configurable"]["thread_id"]
            if thread_id not in seen:
                seen.add(thread_id)
                yield thread_id

    async def places(self, thread_id: str) -> list[Place]:
        """The reverse of the saver's own order, the latest first, by namespace."""
        listed = self._face.listed({"configurable": {"thread_id": thread_id}})
        configs = [found.config["configurable"] async for found in listed]
        return [
            Place(config.get("checkpoint_ns", ""), config["checkpoint_id"])
            for config in reversed(configs)
        ]

    async def paths(self, thread_id: str, place: Place) -> list[WritePath]:
        """Nothing: LangGraph's contract doesn't tell them."""
        return []


def _by_id(places: Sequence[Place] | Any) -> list[Place]:
    return sorted(places, key=lambda place: (place.checkpoint_id, place.checkpoint_ns))


def _util() -> Any:
    return import_module("langgraph.checkpoint.redis.util")
