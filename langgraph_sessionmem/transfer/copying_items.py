"""Copying the items of one store into another, and comparing what arrived, page by page."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from langgraph_sessionmem.running import run_now
from langgraph_sessionmem.store.ops import check_namespace
from langgraph_sessionmem.store.store import LongTermStore
from langgraph_sessionmem.transfer.comparing import same
from langgraph_sessionmem.transfer.faces import Async, Blocking, Face
from langgraph_sessionmem.transfer.item_sources import Told, pages_of
from langgraph_sessionmem.transfer.problems import Problems, is_lost


class ItemProblem(NamedTuple):
    """An item that is not in the target as it is in the source.

    Attributes:
        what: a part of the item, or what happened.
    """

    namespace: tuple[str, ...]
    key: str
    what: str


@dataclass(slots=True)
class ItemReport(Problems[ItemProblem]):
    """What a copy of items did.

    Attributes:
        items: how many the source has.
        complete: how many of them the target already had.
        copied: how many were put.
    """

    items: int = 0
    complete: int = 0
    copied: int = 0


ItemProgress: TypeAlias = Callable[[ItemReport], None]


def copy_store(
    source: BaseStore,
    target: BaseStore,
    *,
    prefix: tuple[str, ...] = (),
    progress: ItemProgress | None = None,
) -> ItemReport:
    """Copy items from any LangGraph store into any other, and compare them afterwards.

    Namespaces, keys, values and times to live stay what they are; a time to live begins anew.
    `created_at` and `updated_at` stay in a `LongTermStore`; any other sets both itself, for
    LangGraph's contract has no way to give them. Between two `LongTermStore`s former values and
    `index` come along. What has expired stays behind. Only a `LongTermStore` and the official
    stores on SQLite and PostgreSQL tell times to live; from any other, items come without.

    What the target has is only compared; what the source has changed since is copied again; what
    somebody changed in the target is left alone and reported. So a copy may be stopped and started
    again, and a second one brings what came to the source since.

    Args:
        source: is only read. Nobody should write to it meanwhile.
        target: its schema must be set up; its own `index` says what finds the items there.
        prefix: only items of this namespace and those below; by default all.
        progress: called after each page, with the report as it stands.

    Returns:
        What was done, and everything that did not arrive as it left. An item that can't be copied
        is such a problem and does not keep the others back.

    Raises:
        InvalidNamespaceError: the prefix is no tuple of labels.
    """
    return run_now(_copy(Blocking(source), Blocking(target), prefix, progress))


async def acopy_store(
    source: BaseStore,
    target: BaseStore,
    *,
    prefix: tuple[str, ...] = (),
    progress: ItemProgress | None = None,
) -> ItemReport:
    """`copy_store` without blocking the loop, for stores with an async face."""
    return await _copy(Async(source), Async(target), prefix, progress)


async def _copy(
    source: Face, target: Face, prefix: tuple[str, ...], progress: ItemProgress | None
) -> ItemReport:
    check_namespace(prefix)
    copier = _Copier(target)
    async for page in pages_of(source, prefix):
        await copier.copy(page)
        if progress is not None:
            progress(copier.report)
    return copier.report


class _Copier:
    """Copies one page after the other into a store."""

    def __init__(self, target: Face) -> None:
        self._target = target
        self._is_own = isinstance(target.saver, LongTermStore)
        self._keeps_ttl = bool(target.saver.supports_ttl)
        self.report = ItemReport()

    async def copy(self, page: Sequence[Told]) -> None:
        """Put what the target lacks of a page, and compare all of it."""
        report = self.report
        report.items += len(page)
        missing = []
        for told, found in zip(page, await self._found(page), strict=True):
            if found is None or (
                self._differs(told, found)
                and found.updated_at <= datetime.fromisoformat(told["updated_at"])
            ):
                missing.append(told)
            elif not self._differs(told, found):
                report.complete += 1
            else:
                self._problem(told, "changed in the target since")
        put = await self._put_each(missing)
        report.copied += len(put)
        for told, found in zip(put, await self._found(put), strict=True):
            for what in _differences(told, found, with_times=self._is_own):
                self._problem(told, what)
        if not self._keeps_ttl:
            for told in page:
                if told["ttl_minutes"] is not None:
                    self._problem(told, "ttl_minutes: the target keeps none")

    async def _found(self, page: Sequence[Told]) -> list[Item | None]:
        if not page:
            return []
        ops = [GetOp(tuple(told["namespace"]), told["key"], False) for told in page]
        try:
            found: list[Item | None] = await self._target.call("batch", ops)
        except Exception as error:
            if is_lost(error) or len(page) == 1:
                if is_lost(error):
                    raise
                return [None]  # a name that this store refuses; putting it will say so
            return [each for told in page for each in await self._found([told])]
        return found

    async def _put_each(self, page: Sequence[Told]) -> Sequence[Told]:
        """Put a page together, or else one by one; what could be put."""
        if not page:
            return page
        try:
            await self._put(page)
        except Exception as error:
            if is_lost(error):
                raise
            if len(page) == 1:
                self._problem(page[0], f"{type(error).__name__}: {error}")
                return []
            return [each for told in page for each in await self._put_each([told])]
        return page

    async def _put(self, page: Sequence[Told]) -> None:
        if self._is_own:
            lines = [json.dumps(told, ensure_ascii=False) for told in page]
            await self._target.call("import_", lines)
            return
        await self._target.call("batch", [self._op(told) for told in page])

    def _op(self, told: Told) -> PutOp:
        ttl = told["ttl_minutes"] if self._keeps_ttl else None
        return PutOp(tuple(told["namespace"]), told["key"], told["value"], told.get("index"), ttl)

    def _differs(self, told: Told, found: Item) -> bool:
        return any(_differences(told, found, with_times=self._is_own))

    def _problem(self, told: Told, what: str) -> None:
        self.report.add(ItemProblem(tuple(told["namespace"]), told["key"], what))


def _differences(told: Told, found: Item | None, *, with_times: bool) -> list[str]:
    if found is None:
        return ["the item is missing"]
    parts: list[tuple[str, Any, Any]] = [("value", told["value"], found.value)]
    if with_times:
        parts += [
            (name, datetime.fromisoformat(told[name]), getattr(found, name))
            for name in ("created_at", "updated_at")
        ]
    return [name for name, one, other in parts if not same(one, other)]
