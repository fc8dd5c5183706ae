"""Where memories are read and written: one operation for blocking and async callers.

A write reads what was said, decides what to add, and stores that only if nobody added to it
meanwhile; else it reads again. So two writers never lose an update.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, cast

from langgraph.store.base import NOT_PROVIDED, GetOp, Item, NotProvided, SearchItem, SearchOp
from typing_extensions import override

from langgraph_sessionmem.errors import ConcurrentUpdate, CorruptData, InvalidArgument
from langgraph_sessionmem.memories.deciding import Decide
from langgraph_sessionmem.memories.keys import Place, place_of_id
from langgraph_sessionmem.memories.kinds import Memory, written_date
from langgraph_sessionmem.memories.known import (
    Asking,
    Kinds,
    Known,
    all_versions,
    conflicts_of,
    held,
)
from langgraph_sessionmem.memories.slots import Policy
from langgraph_sessionmem.memories.statements import Dossier, is_dossier, read_dossier, utc_text
from langgraph_sessionmem.store.store import LongTermStore
from langgraph_sessionmem.store.writes import ABSENT, ItemWrite
from langgraph_sessionmem.store_links import AsyncStore, BlockingStore, StoreLink

FOUND_BY: Final = ["text", "past[*]"]
"""The paths that a memory's item is found by."""
_TRIES: Final = 200
_AT_ONCE: Final = 500
_PAGE: Final = 500
_PAST_LINES: Final = 20
"""So many of the lines that no longer hold can be found."""


class MemoryLink(StoreLink, Protocol):
    """A `LongTermStore`, whichever way it is called."""

    async def write(self, writes: Sequence[ItemWrite]) -> bool:
        """`LongTermStore.write`, without former values: statements are their own history."""
        ...

    async def erase(self, prefix: tuple[str, ...], *, exact: bool = False) -> int:
        """`LongTermStore.erase`."""
        ...


class BlockingLink(BlockingStore, MemoryLink):
    """A store called from blocking code; never suspends."""

    def __init__(self, store: LongTermStore) -> None:
        super().__init__(store)
        self._long = store

    @override
    async def write(self, writes: Sequence[ItemWrite]) -> bool:
        return self._long.write(writes, history=0)

    @override
    async def erase(self, prefix: tuple[str, ...], *, exact: bool = False) -> int:
        return self._long.erase(prefix, exact=exact)

    def export(self, prefix: tuple[str, ...]) -> Iterator[str]:
        """`LongTermStore.export`."""
        return self._long.export(prefix)


class AsyncLink(AsyncStore, MemoryLink):
    """A store called on an event loop."""

    def __init__(self, store: LongTermStore) -> None:
        super().__init__(store)
        self._long = store

    @override
    async def write(self, writes: Sequence[ItemWrite]) -> bool:
        return await self._long.awrite(writes, history=0)

    @override
    async def erase(self, prefix: tuple[str, ...], *, exact: bool = False) -> int:
        return await self._long.aerase(prefix, exact=exact)

    def export(self, prefix: tuple[str, ...]) -> AsyncIterator[str]:
        """`LongTermStore.aexport`."""
        return self._long.aexport(prefix)


async def searched(link: MemoryLink, op: SearchOp) -> list[SearchItem]:
    """What a search finds."""
    [found] = await link.batch([op])
    return cast("list[SearchItem]", found)


@dataclass(frozen=True, slots=True)
class Desk:
    """Whose memories they are, and by which rules they are kept.

    Attributes:
        namespace: theirs.
        kinds: the types of memories by name.
        policy: what settles conflicts.
        ttl: how long memories of a type are kept after they were last written or read.
        clock: tells the time.
    """

    namespace: tuple[str, ...]
    kinds: Kinds
    policy: Policy
    ttl: Mapping[str, timedelta]
    clock: Callable[[], datetime]

    def asking(self, at: datetime | None = None, known_at: datetime | None = None) -> Asking:
        """About now, unless another time is given."""
        return Asking(self.kinds, self.policy, at or self.clock(), known_at)

    async def read(self, link: MemoryLink, places: Sequence[Place]) -> dict[Place, Item]:
        """The items of those memories that are there.

        Raises:
            InvalidArgument: something else has the place of one.
        """
        found: dict[Place, Item] = {}
        for start in range(0, len(places), _AT_ONCE):
            part = places[start : start + _AT_ONCE]
            items = await link.batch([GetOp(*place.item(self.namespace), False) for place in part])
            for place, item in zip(part, items, strict=True):
                if isinstance(item, Item):
                    if not is_dossier(item.value):
                        raise InvalidArgument(
                            f"The item {item.key!r} in {tuple(item.namespace)!r} is no memory, "
                            f"but has the place of {place.id}: delete it, or take another "
                            "namespace for memories."
                        )
                    found[place] = item
        return found

    async def dossiers(self, link: MemoryLink, places: Sequence[Place]) -> dict[Place, Dossier]:
        """What was said of those memories that are there."""
        items = await self.read(link, list(dict.fromkeys(places)))
        return {place: read_dossier(item.key, item.value) for place, item in items.items()}

    async def change(
        self, link: MemoryLink, decisions: Iterable[tuple[Place, Decide]], *, creates: bool = False
    ) -> dict[Place, Dossier]:
        """Add to what was said, all of it together for up to 500 memories.

        Args:
            link: the store.
            decisions: by place, in their order.
            creates: a memory that isn't there is begun.

        Raises:
            InvalidArgument: a memory isn't there, or a decision refuses; nothing was written.
            ConcurrentUpdate: others wrote first, again and again.
        """
        by_place: dict[Place, list[Decide]] = {}
        for place, decide in decisions:
            by_place.setdefault(place, []).append(decide)
        places = list(by_place)
        changed: dict[Place, Dossier] = {}
        for start in range(0, len(places), _AT_ONCE):
            part = {place: by_place[place] for place in places[start : start + _AT_ONCE]}
            changed |= await self._change(link, part, creates)
        return changed

    async def _change(
        self, link: MemoryLink, decisions: Mapping[Place, Sequence[Decide]], creates: bool
    ) -> dict[Place, Dossier]:
        for _ in range(_TRIES):
            items = await self.read(link, list(decisions))
            now = self.clock()
            changed: dict[Place, Dossier] = {}
            writes: list[ItemWrite] = []
            for place, decides in decisions.items():
                item = items.get(place)
                if item is None and not creates:
                    raise InvalidArgument(f"Nothing is remembered as {place.id!r}.")
                before = (
                    Dossier(place.type, place.key, {})
                    if item is None
                    else read_dossier(item.key, item.value)
                )
                after = before
                for decide in decides:
                    after = decide(after, now)
                changed[place] = after
                if after is not before:
                    writes.append(self._write(place, after, item))
            if not writes or await link.write(writes):
                return changed
        raise ConcurrentUpdate(
            f"Others wrote the same memories first, {_TRIES} times in a row; nothing was written."
        )

    def _write(self, place: Place, dossier: Dossier, item: Item | None) -> ItemWrite:
        namespace, key = place.item(self.namespace)
        kept = self.ttl.get(place.type)
        ttl: float | NotProvided = NOT_PROVIDED if kept is None else kept.total_seconds() / 60
        expected = ABSENT if item is None else item.updated_at
        return ItemWrite(namespace, key, self._value(dossier), FOUND_BY, ttl, expected)

    def _value(self, dossier: Dossier) -> dict[str, Any]:
        """A dossier as an item's value, with what follows from it."""
        asking = self.asking()
        now = held(dossier, asking)
        versions = all_versions(dossier, asking)
        text = "" if now is None else _found_by(now)
        past = dict.fromkeys(line for line in map(_found_by, versions) if line != text)
        value = dossier.dumped() | {
            "text": text,
            "past": list(past)[:_PAST_LINES],
            "open": bool(conflicts_of(dossier, asking)),
        }
        shown = now or (versions[0] if versions else None)
        if shown is None:
            return value
        value["at"] = utc_text(shown.valid_from)
        if shown.valid_to is not None:
            value["until"] = utc_text(shown.valid_to)
        if now is not None:
            value["current"] = now.memory.content()
        position = getattr(shown.memory, "position", None)
        if position is not None:
            value |= {"position": position, "session": getattr(shown.memory, "thread", None)}
        return value

    def found(self, item: Item) -> Dossier | None:
        """The memory in an item that a search found; `None`: it is none of these.

        Raises:
            CorruptData: it is one of ours and can't be read.
        """
        if not is_dossier(item.value) or item.value.get("type") not in self.kinds:
            return None
        try:
            place = place_of_id(self.kinds, str(item.value.get("id")))
        except InvalidArgument as error:
            raise CorruptData(f"The item {item.key!r} holds no memory: {error}") from error
        if place.item(self.namespace) != (tuple(item.namespace), item.key):
            return None  # of another namespace that begins with this one
        return read_dossier(item.key, item.value)

    async def scan(
        self, link: MemoryLink, labels: Sequence[str], filter_: dict[str, Any] | None = None
    ) -> list[Dossier]:
        """Every memory of some types, or of all if none is named, in any order."""
        found: dict[str, Dossier] = {}
        for prefix in [(*self.namespace, label) for label in labels] or [self.namespace]:
            offset, is_last = 0, False
            while not is_last:
                op = SearchOp(prefix, filter_, _PAGE, offset, refresh_ttl=False)
                items = await searched(link, op)
                dossiers = [self.found(item) for item in items]
                found |= {each.id: each for each in dossiers if each is not None}
                offset, is_last = offset + _PAGE, len(items) < _PAGE
        return list(found.values())


def _found_by(known: Known[Memory]) -> str:
    """What a memory is searched by; what happened or was said has its day before it."""
    is_dated = known.memory.rule == "once"
    return f"{written_date(known.valid_from)}: {known.text}" if is_dated else known.text
