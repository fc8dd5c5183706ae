"""Scripts with named arguments: what the primitives are made of."""

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph_sessionmem.backends.redis_arguments import Value, pack_arguments
from langgraph_sessionmem.backends.redis_keys import Keys
from langgraph_sessionmem.backends.redis_links import Link


class Calls:
    """Scripts over a link, by the server's clock plus an offset.

    Args:
        link: where they run.
        keys: the names of keys.
        offset_seconds: added to the server's clock.
    """

    def __init__(self, link: Link, keys: Keys, offset_seconds: float) -> None:
        self.keys = keys
        self._link, self._offset = link, round(offset_seconds * 1000)

    async def call(
        self, script: str, key: bytes, named: Mapping[str, Value], rest: Sequence[bytes] = ()
    ) -> Any:
        """What a script gives; `rest` follows its named arguments."""
        packed = pack_arguments({"offset": self._offset, **named})
        return await self._link.call(script, [key], [packed, *rest])

    async def call_all(
        self, script: str, calls: Sequence[tuple[bytes, Mapping[str, Value]]]
    ) -> list[Any]:
        """What a script gives for each key with its named arguments, in order."""
        return await self.call_each(script, [(key, named, ()) for key, named in calls])

    async def call_each(
        self, script: str, calls: Sequence[tuple[bytes, Mapping[str, Value], Sequence[bytes]]]
    ) -> list[Any]:
        """The same with what follows the named arguments."""
        offset = {"offset": self._offset}
        return await self._link.call_all(
            script,
            [([key], [pack_arguments({**offset, **named}), *rest]) for key, named, rest in calls],
        )

    async def call_thread(
        self, script: str, thread_id: str, named: Mapping[str, Value], rest: Sequence[bytes] = ()
    ) -> Any:
        """What a script gives for one thread; `id` and `mark` are among its arguments."""
        thread = self.keys.thread(thread_id)
        named = {"id": thread.name, "mark": thread.mark, **named}
        return await self.call(script, thread.key, named, rest)

    async def call_threads(
        self, script: str, calls: Sequence[tuple[str, Mapping[str, Value]]]
    ) -> list[Any]:
        """What a script gives for each thread with its named arguments, in order."""
        threads = [(self.keys.thread(thread_id), named) for thread_id, named in calls]
        return await self.call_all(
            script,
            [
                (thread.key, {"id": thread.name, "mark": thread.mark, **named})
                for thread, named in threads
            ],
        )
