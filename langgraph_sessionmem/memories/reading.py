"""The reading half of `Memories`; each call has its `a…` twin."""

from collections.abc import AsyncIterator, Coroutine, Iterator
from datetime import datetime
from typing import Any, TypeVar, cast

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.memories import looking, recalling
from langgraph_sessionmem.memories.asked import (
    About,
    Types,
    checked_count,
    checked_time,
    labels_of,
    place_named,
    place_of_any,
)
from langgraph_sessionmem.memories.desk import MemoryLink
from langgraph_sessionmem.memories.keys import Place
from langgraph_sessionmem.memories.kinds import Background, Event, Fact, Memory, Skill
from langgraph_sessionmem.memories.known import Conflict, Known
from langgraph_sessionmem.memories.recalling import Question, Recalled
from langgraph_sessionmem.memories.seat import Seated
from langgraph_sessionmem.running import run_now

M = TypeVar("M", bound=Memory)


class Reading(Seated):
    """What holds, what held, what is open, and what bears on a question.

    Where a time is asked for: `at` is when it is true, now by default; with `known_at` only what
    was learnt until then counts. Both are datetimes with a zone.
    """

    def get(
        self, about: About, *, at: datetime | None = None, known_at: datetime | None = None
    ) -> Known[Memory] | None:
        """What a memory says; `None`: nothing is known to hold at that time.

        Raises:
            InvalidArgument: it is no id of a memory.
        """
        return run_now(self._get(self._blocking, self._meant(about), at, known_at))

    async def aget(
        self, about: About, *, at: datetime | None = None, known_at: datetime | None = None
    ) -> Known[Memory] | None:
        """`get` without blocking the loop."""
        return await self._get(self._async, self._meant(about), at, known_at)

    def fact(
        self,
        subject: str,
        attribute: str,
        *,
        at: datetime | None = None,
        known_at: datetime | None = None,
    ) -> Known[Fact] | None:
        """The fact in a slot; `None`: nothing is known to hold at that time."""
        place = self._named(Fact, subject=subject, attribute=attribute)
        return _as(Fact, run_now(self._get(self._blocking, place, at, known_at)))

    async def afact(
        self,
        subject: str,
        attribute: str,
        *,
        at: datetime | None = None,
        known_at: datetime | None = None,
    ) -> Known[Fact] | None:
        """`fact` without blocking the loop."""
        place = self._named(Fact, subject=subject, attribute=attribute)
        return _as(Fact, await self._get(self._async, place, at, known_at))

    def background(
        self, attribute: str, *, at: datetime | None = None, known_at: datetime | None = None
    ) -> Known[Background] | None:
        """An attribute of who somebody is; `None`: nothing is known to hold at that time."""
        place = self._named(Background, attribute=attribute)
        return _as(Background, run_now(self._get(self._blocking, place, at, known_at)))

    async def abackground(
        self, attribute: str, *, at: datetime | None = None, known_at: datetime | None = None
    ) -> Known[Background] | None:
        """`background` without blocking the loop."""
        place = self._named(Background, attribute=attribute)
        return _as(Background, await self._get(self._async, place, at, known_at))

    def skill(
        self, name: str, *, at: datetime | None = None, known_at: datetime | None = None
    ) -> Known[Skill] | None:
        """The version of a skill that holds, and how it did."""
        place = self._named(Skill, name=name)
        return _as(Skill, run_now(self._get(self._blocking, place, at, known_at)))

    async def askill(
        self, name: str, *, at: datetime | None = None, known_at: datetime | None = None
    ) -> Known[Skill] | None:
        """`skill` without blocking the loop."""
        place = self._named(Skill, name=name)
        return _as(Skill, await self._get(self._async, place, at, known_at))

    def history(self, about: About, attribute: str | None = None) -> list[Known[Memory]]:
        """Every version of a memory, the latest first, and among them what doesn't hold, and why.

        Args:
            about: the memory; or a subject, with the `attribute` of its fact.
            attribute: of a fact.
        """
        place = self._meant(about, attribute)
        return run_now(looking.history(self.desk, self._blocking, place))

    async def ahistory(self, about: About, attribute: str | None = None) -> list[Known[Memory]]:
        """`history` without blocking the loop."""
        return await looking.history(self.desk, self._async, self._meant(about, attribute))

    def as_of(
        self, at: datetime, *, known_at: datetime | None = None, types: Types = None
    ) -> list[Known[Memory]]:
        """All that holds at a time, by what was known at another; in the order of types and ids."""
        return run_now(self._as_of(self._blocking, at, known_at, types))

    async def aas_of(
        self, at: datetime, *, known_at: datetime | None = None, types: Types = None
    ) -> list[Known[Memory]]:
        """`as_of` without blocking the loop."""
        return await self._as_of(self._async, at, known_at, types)

    def current(self, types: Types = None) -> list[Known[Memory]]:
        """All that holds now, in the order of types and ids."""
        return run_now(self._as_of(self._blocking, None, None, types))

    async def acurrent(self, types: Types = None) -> list[Known[Memory]]:
        """`current` without blocking the loop."""
        return await self._as_of(self._async, None, None, types)

    def timeline(
        self, since: datetime, until: datetime, *, types: Types = (Event,)
    ) -> list[Known[Memory]]:
        """What happened from a time until, but not at, another, in the order it began.

        What began before and is known to have ended later is part of it.
        """
        return run_now(self._timeline(self._blocking, since, until, types))

    async def atimeline(
        self, since: datetime, until: datetime, *, types: Types = (Event,)
    ) -> list[Known[Memory]]:
        """`timeline` without blocking the loop."""
        return await self._timeline(self._async, since, until, types)

    def conflicts(self) -> list[Conflict]:
        """What sources contradict each other about and nobody has resolved, the latest first."""
        return run_now(looking.conflicts(self.desk, self._blocking))

    async def aconflicts(self) -> list[Conflict]:
        """`conflicts` without blocking the loop."""
        return await looking.conflicts(self.desk, self._async)

    def recall(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        types: Types = None,
        at: datetime | None = None,
        known_at: datetime | None = None,
        max_tokens: int | None = None,
        superseded: bool = False,
    ) -> Recalled:
        """The memories that bear on a question, the best first, and as a block of a prompt.

        Args:
            query: the question, in words; without one, what was written last.
            limit: how many at most.
            types: of memories.
            at: what held then, instead of now.
            known_at: what was known then.
            max_tokens: what the block may cost, by estimate; what doesn't fit is left out.
            superseded: former versions too.

        Returns:
            The same memories give the same block, byte for byte, in whatever order they rank.
        """
        question = self._question(query, limit, types, max_tokens, superseded)
        return run_now(self._recall(self._blocking, question, at, known_at))

    async def arecall(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        types: Types = None,
        at: datetime | None = None,
        known_at: datetime | None = None,
        max_tokens: int | None = None,
        superseded: bool = False,
    ) -> Recalled:
        """`recall` without blocking the loop."""
        question = self._question(query, limit, types, max_tokens, superseded)
        return await self._recall(self._async, question, at, known_at)

    def export(self) -> Iterator[str]:
        """All memories as JSON Lines, with all that was ever said; `store.import_` reads them."""
        return self._blocking.export(self.desk.namespace)

    def aexport(self) -> AsyncIterator[str]:
        """`export` without blocking the loop."""
        return self._async.export(self.desk.namespace)

    def _get(
        self, link: MemoryLink, place: Place, at: datetime | None, known_at: datetime | None
    ) -> Coroutine[Any, Any, Known[Memory] | None]:
        asking = self.desk.asking(checked_time("at", at), checked_time("known_at", known_at))
        return looking.get(self.desk, link, place, asking)

    def _as_of(
        self, link: MemoryLink, at: datetime | None, known_at: datetime | None, types: Types
    ) -> Coroutine[Any, Any, list[Known[Memory]]]:
        asking = self.desk.asking(checked_time("at", at), checked_time("known_at", known_at))
        return looking.as_of(self.desk, link, labels_of(self.desk.kinds, types), asking)

    def _timeline(
        self, link: MemoryLink, since: datetime, until: datetime, types: Types
    ) -> Coroutine[Any, Any, list[Known[Memory]]]:
        start, end = checked_time("since", since), checked_time("until", until)
        if start is None or end is None or end <= start:
            raise InvalidArgument(f"since={since!r} must be before until={until!r}.")
        return looking.timeline(self.desk, link, labels_of(self.desk.kinds, types), start, end)

    def _recall(
        self,
        link: MemoryLink,
        question: Question,
        at: datetime | None,
        known_at: datetime | None,
    ) -> Coroutine[Any, Any, Recalled]:
        asking = self.desk.asking(checked_time("at", at), checked_time("known_at", known_at))
        return recalling.recall(self.desk, link, question, asking)

    def _question(
        self, query: object, limit: int, types: Types, max_tokens: int | None, superseded: bool
    ) -> Question:
        if query is not None and not isinstance(query, str):
            raise InvalidArgument(f"query={query!r}: give a text, or None.")
        checked_count("limit", limit)
        if max_tokens is not None:
            checked_count("max_tokens", max_tokens)
        return Question(query, labels_of(self.desk.kinds, types), limit, max_tokens, superseded)

    def _meant(self, about: About, attribute: str | None = None) -> Place:
        if attribute is None:
            return place_of_any(self.desk.kinds, about)
        if not isinstance(about, str):
            raise InvalidArgument(f"{about!r} with attribute={attribute!r}: give a subject's name.")
        return self._named(Fact, subject=about, attribute=attribute)

    def _named(self, kind: type[Memory], **fields: str) -> Place:
        return place_named(self.desk.kinds, kind, **fields)


def _as(kind: type[M], known: Known[Memory] | None) -> Known[M] | None:
    """What is of a type, as its place says."""
    del kind
    return cast("Known[M] | None", known)
