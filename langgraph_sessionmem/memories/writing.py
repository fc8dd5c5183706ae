"""The writing half of `Memories`; each call has its `a…` twin."""

from collections.abc import Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from langchain_core.messages import BaseMessage

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.memories import doing
from langgraph_sessionmem.memories.asked import About, checked_kind, checked_time, place_of_any
from langgraph_sessionmem.memories.deciding import (
    WHATEVER,
    Decide,
    confirm,
    end,
    outcome,
    resolve,
    retract,
)
from langgraph_sessionmem.memories.desk import MemoryLink
from langgraph_sessionmem.memories.keys import Place
from langgraph_sessionmem.memories.kinds import Conversation, Memory, Source
from langgraph_sessionmem.memories.known import Known
from langgraph_sessionmem.memories.seat import Seated
from langgraph_sessionmem.running import run_now

M = TypeVar("M", bound=Memory)


class Writing(Seated):
    """Remembering, correcting and forgetting.

    Every call adds to what was said, and never overwrites it; only `forget` deletes. Two writers of
    one memory never lose what the other said: who comes second reads again.

    Raises (each of them):
        InvalidArgument: an argument can't be used, or there is no such memory; nothing was written.
        ConcurrentUpdate: others wrote the same memory first, again and again.
    """

    def remember(
        self, memory: M, *, source: Source | None = None, expected: int | None = None
    ) -> Known[M]:
        """Claim something.

        Another value of the same memory becomes a version beside those there are, in the order of
        `valid_from`; the same value again only adds its source. Said again from the same message,
        nothing changes.

        Args:
            memory: what is claimed.
            source: where that was learnt.
            expected: the `revision` that the memory must still have; 0: nothing was said of it.

        Returns:
            What was claimed, as it now stands.

        Raises:
            VersionConflict: somebody else said something of it meanwhile; nothing was written.
        """
        self._check([memory])
        claim = doing.remember(self.desk, self._blocking, [memory], source, expected)
        return cast("Known[M]", run_now(claim)[0])

    async def aremember(
        self, memory: M, *, source: Source | None = None, expected: int | None = None
    ) -> Known[M]:
        """`remember` without blocking the loop."""
        self._check([memory])
        claim = doing.remember(self.desk, self._async, [memory], source, expected)
        return cast("Known[M]", (await claim)[0])

    def remember_all(
        self, memories: Iterable[Memory], *, source: Source | None = None
    ) -> list[Known[Memory]]:
        """`remember` several, together for up to 500; in their order."""
        given = self._check(memories)
        return run_now(doing.remember(self.desk, self._blocking, given, source, None))

    async def aremember_all(
        self, memories: Iterable[Memory], *, source: Source | None = None
    ) -> list[Known[Memory]]:
        """`remember_all` without blocking the loop."""
        given = self._check(memories)
        return await doing.remember(self.desk, self._async, given, source, None)

    def remember_turns(
        self, messages: Sequence[BaseMessage], *, thread: str
    ) -> list[Known[Conversation]]:
        """Keep the turns of a thread word for word; those that are kept already are left as is.

        System messages and messages without text are left out. Give the messages in their order;
        their places go on from those that are kept.

        Args:
            messages: of the thread; a message's `additional_kwargs["timestamp"]` says when it was
                said.
            thread: the thread's id.
        """
        work = doing.remember_turns(self.desk, self._blocking, messages, thread)
        return cast("list[Known[Conversation]]", run_now(work))

    async def aremember_turns(
        self, messages: Sequence[BaseMessage], *, thread: str
    ) -> list[Known[Conversation]]:
        """`remember_turns` without blocking the loop."""
        work = doing.remember_turns(self.desk, self._async, messages, thread)
        return cast("list[Known[Conversation]]", await work)

    def retract(
        self,
        about: About,
        *,
        reason: str,
        value: Any = WHATEVER,
        at: datetime | None = None,
        source: Source | None = None,
    ) -> Known[Memory] | None:
        """Say that something was never true; it stays in the history, with the reason.

        Args:
            about: the memory.
            reason: why, in words.
            value: which value; by default the one that holds.
            at: the one that held then.
            source: where that was learnt.

        Returns:
            What holds now: what was known before, or nothing.
        """
        decide = retract(reason, source, checked_time("at", at), value)
        return run_now(self._say(self._blocking, about, decide))

    async def aretract(
        self,
        about: About,
        *,
        reason: str,
        value: Any = WHATEVER,
        at: datetime | None = None,
        source: Source | None = None,
    ) -> Known[Memory] | None:
        """`retract` without blocking the loop."""
        decide = retract(reason, source, checked_time("at", at), value)
        return await self._say(self._async, about, decide)

    def end(
        self,
        about: About,
        *,
        at: datetime | None = None,
        reason: str = "",
        source: Source | None = None,
    ) -> None:
        """Say that something was true until a time, now by default, and nothing came after it."""
        decide = end(checked_time("at", at), reason, source)
        run_now(self._say(self._blocking, about, decide))

    async def aend(
        self,
        about: About,
        *,
        at: datetime | None = None,
        reason: str = "",
        source: Source | None = None,
    ) -> None:
        """`end` without blocking the loop."""
        await self._say(self._async, about, end(checked_time("at", at), reason, source))

    def resolve(
        self,
        about: About,
        value: Any,
        *,
        reason: str = "",
        source: Source | None = None,
    ) -> Known[Memory] | None:
        """Settle a conflict: of the values that are claimed, this one holds.

        Args:
            about: the memory, or a conflict of `conflicts()`.
            value: one of the claimed values; of types without a `value`, what it says of its own.
            reason: why, in words.
            source: who decided.
        """
        return run_now(self._say(self._blocking, about, resolve(value, reason, source)))

    async def aresolve(
        self,
        about: About,
        value: Any,
        *,
        reason: str = "",
        source: Source | None = None,
    ) -> Known[Memory] | None:
        """`resolve` without blocking the loop."""
        return await self._say(self._async, about, resolve(value, reason, source))

    def confirm(self, about: About, *, source: Source | None = None) -> Known[Memory] | None:
        """Say that a reflection was seen again: it weighs 1 once more."""
        return run_now(self._say(self._blocking, about, confirm(source)))

    async def aconfirm(self, about: About, *, source: Source | None = None) -> Known[Memory] | None:
        """`confirm` without blocking the loop."""
        return await self._say(self._async, about, confirm(source))

    def outcome(
        self, about: About, worked: bool, *, note: str = "", version: int | None = None
    ) -> Known[Memory] | None:
        """Count that a skill was used, and whether it worked; by default the current version."""
        return run_now(self._say(self._blocking, about, outcome(worked, note, version)))

    async def aoutcome(
        self, about: About, worked: bool, *, note: str = "", version: int | None = None
    ) -> Known[Memory] | None:
        """`outcome` without blocking the loop."""
        return await self._say(self._async, about, outcome(worked, note, version))

    def forget(self, *about: About) -> int:
        """Delete memories with all that was ever said of them; how many there were."""
        return run_now(doing.forget(self.desk, self._blocking, self._places(about)))

    async def aforget(self, *about: About) -> int:
        """`forget` without blocking the loop."""
        return await doing.forget(self.desk, self._async, self._places(about))

    def forget_everything(self) -> dict[str, int]:
        """Delete everything in and below the namespace; how many items there were, by type."""
        return run_now(doing.forget_everything(self.desk, self._blocking))

    async def aforget_everything(self) -> dict[str, int]:
        """`forget_everything` without blocking the loop."""
        return await doing.forget_everything(self.desk, self._async)

    def _say(
        self, link: MemoryLink, about: About, decide: Decide
    ) -> Coroutine[Any, Any, Known[Memory] | None]:
        return doing.say(self.desk, link, place_of_any(self.desk.kinds, about), decide)

    def _places(self, about: Iterable[About]) -> list[Place]:
        places = [place_of_any(self.desk.kinds, each) for each in about]
        if not places:
            raise InvalidArgument(
                "Name the memories to forget; forget_everything() forgets all of them."
            )
        return places

    def _check(self, memories: Iterable[Memory]) -> list[Memory]:
        given = list(memories)
        for memory in given:
            checked_kind(self.desk.kinds, memory)
        return given
