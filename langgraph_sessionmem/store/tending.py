"""Looking after a store: erasing, moving in and out, and sweeping; each call has its `a…` twin."""

from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from typing_extensions import override

from langgraph_sessionmem.backends.opened import Done
from langgraph_sessionmem.background import Recurring, Stopping, start_sweeping
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.item_records import ItemCursor, ItemKey, ItemRecords, ItemScan, Scope
from langgraph_sessionmem.store import answering
from langgraph_sessionmem.store.answering import Vectors
from langgraph_sessionmem.store.batch import Work, plan, with_vectors
from langgraph_sessionmem.store.lines import Line, read_line, write_line
from langgraph_sessionmem.store.ops import check_minutes, check_namespace
from langgraph_sessionmem.store.standing import Standing

_SWEPT: Final = 1_000
_EXPORTED: Final = 200
_IMPORTED: Final = 500


class Page(NamedTuple):
    """Lines of an export, and where the next page begins; None: nowhere."""

    lines: list[str]
    after: ItemCursor | None


class _Count(int):
    """A number that may be awaited, as LangGraph's async stores give it."""

    def __await__(self) -> Generator[None, None, int]:
        yield from ()
        return int(self)


class Tending(Standing):
    """Erasing, export and import, and the sweep."""

    def erase(self, prefix: tuple[str, ...], *, exact: bool = False) -> int:
        """Delete every item under a prefix, with all that finds it; how many there were.

        Args:
            prefix: at least one label.
            exact: only the items of the very namespace.

        Raises:
            InvalidNamespaceError: the prefix is no tuple of labels.
            InvalidArgument: the prefix is empty, which would be the whole store.
        """
        scope = _erasable(prefix, exact)
        return self.backend.run(lambda records: records.drop_items(scope))

    async def aerase(self, prefix: tuple[str, ...], *, exact: bool = False) -> int:
        """`erase` without blocking the loop."""
        scope = _erasable(prefix, exact)
        return await self.backend.arun(lambda records: records.drop_items(scope))

    def export(self, prefix: tuple[str, ...] = ()) -> Iterator[str]:
        """The items under a prefix as JSON Lines, with their former values; see `store/lines.py`.

        Read in pages, the latest first: what is put meanwhile may be missing.
        """
        check_namespace(prefix)
        page = Page([], None)
        while True:
            after = page.after
            page = self.backend.run(lambda records: read_export_page(records, prefix, after))  # noqa: B023 - run ends before the next turn
            yield from page.lines
            if page.after is None:
                return

    async def aexport(self, prefix: tuple[str, ...] = ()) -> AsyncIterator[str]:
        """`export` without blocking the loop."""
        check_namespace(prefix)
        page = Page([], None)
        while True:
            after = page.after
            page = await self.backend.arun(lambda records: read_export_page(records, prefix, after))  # noqa: B023 - as above
            for line in page.lines:
                yield line
            if page.after is None:
                return

    def import_(self, lines: Iterable[str]) -> int:
        """Store items of an export with their times and former values; how many there were.

        What is there under the same name is replaced, so the same import may be run again.

        Raises:
            InvalidArgument: a line is no item; it says which. Nothing was written.
        """
        count = 0
        for work, imported in self._imports(lines):
            vectors = self._embed(work)
            self.backend.run(lambda records: self._import(records, work, vectors, imported))  # noqa: B023 - run ends before the next turn
            count += len(work.puts)
        return count

    async def aimport_(self, lines: Iterable[str]) -> int:
        """`import_` without blocking the loop."""
        count = 0
        for work, imported in self._imports(lines):
            vectors = await self._aembed(work)
            await self.backend.arun(lambda records: self._import(records, work, vectors, imported))  # noqa: B023 - as above
            count += len(work.puts)
        return count

    def sweep(self) -> int:
        """Delete what has expired, which no call shows any more; how many items there were."""
        total = dropped = self.backend.run(_sweep_page)
        while dropped == _SWEPT:
            dropped = self.backend.run(_sweep_page)
            total += dropped
        return total

    async def asweep(self) -> int:
        """`sweep` without blocking the loop."""
        total = dropped = await self.backend.arun(_sweep_page)
        while dropped == _SWEPT:
            dropped = await self.backend.arun(_sweep_page)
            total += dropped
        return total

    def sweep_ttl(self) -> int:
        """`sweep` by the name it has in LangGraph's stores; the number may be awaited."""
        return _Count(self.sweep())

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Done:
        """Sweep in the background from now on, as LangGraph's stores do; may be awaited.

        A store whose `ttl` has a `sweep_interval_minutes` does so by itself.

        Args:
            sweep_interval_minutes: between sweeps; by default that of `ttl`, or 5.

        Raises:
            InvalidArgument: the interval is no positive number, or the backend serves async callers
                only and no event loop is running.
        """
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        minutes = sweep_interval_minutes if sweep_interval_minutes is not None else configured
        check_minutes("sweep_interval_minutes", minutes)
        self.stop_ttl_sweeper()
        self._sweeper = self._recurring(60.0 * (5.0 if minutes is None else minutes))
        return Done()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> Done:
        """Stop the background sweep; may be awaited, and called twice. `timeout` is LangGraph's."""
        if self._sweeper is not None:
            self._sweeper.stop()
            self._sweeper = None
        return Done()

    @override
    def close(self) -> None:
        """Stop sweeping, and close what was opened here; safe to call twice."""
        self.stop_ttl_sweeper()
        super().close()

    @override
    async def aclose(self) -> None:
        """`close` without blocking the loop."""
        if self._sweeper is not None:
            await self._sweeper.astop()
            self._sweeper = None
        await super().aclose()

    def _recurring(self, seconds: float) -> Recurring:
        backend = self.backend

        def sweep(stopping: Stopping) -> None:
            # In the user's own transaction a sweep would hold its locks, and could break it.
            while not (stopping() or backend.in_callers_transaction()):
                if backend.run(_sweep_page) < _SWEPT:
                    return

        async def asweep() -> None:
            while not backend.in_callers_transaction():
                if await backend.arun(_sweep_page) < _SWEPT:
                    return

        return start_sweeping(seconds, sweep, asweep, is_async_only=backend.is_async_only)

    def _imports(self, lines: Iterable[str]) -> Sequence[tuple[Work, Mapping[ItemKey, Line]]]:
        read = [read_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        imports = []
        for start in range(0, len(read), _IMPORTED):
            chunk = read[start : start + _IMPORTED]
            ops = [line.op for line in chunk]
            work = plan(ops, self._fields, embeds=self._embedder is not None)
            imports.append((work, {(line.op.namespace, line.op.key): line for line in chunk}))
        return imports

    async def _import(
        self, records: ItemRecords, work: Work, vectors: Vectors, imported: Mapping[ItemKey, Line]
    ) -> bool:
        puts = []
        for put in with_vectors(work.puts, vectors.of_texts):
            line = imported[put.namespace, put.key]
            puts.append(put._replace(times=line.times, versions=line.versions))
        return await answering.save(records, self._habits, puts)


async def _sweep_page(records: ItemRecords) -> int:
    return await records.drop_expired_items(_SWEPT)


async def read_export_page(
    records: ItemRecords, prefix: tuple[str, ...], after: ItemCursor | None
) -> Page:
    """A page of an export: items under a prefix from `after` on, the latest first."""
    rows = await records.scan_items(ItemScan(Scope(prefix), (), after, _EXPORTED))
    lines = []
    for row in rows:
        versions = await records.read_versions((row.namespace, row.key))
        lines.append(write_line(row, versions))
    if len(rows) < _EXPORTED:
        return Page(lines, None)
    last = rows[-1]
    return Page(lines, ItemCursor(last.updated_at, last.namespace, last.key))


def _erasable(prefix: tuple[str, ...], exact: bool) -> Scope:
    check_namespace(prefix)
    if not prefix:
        raise InvalidArgument("prefix=() would erase the whole store: name at least one label.")
    return Scope(prefix, exact)
