"""Operations watched from within: which primitives they call, and something done in between."""

from collections.abc import Awaitable, Callable
from typing import Any

from conftest import Face


class Watched:
    """Records that note each primitive that is called, and do something before one of them.

    Args:
        records: what does the work.
        calls: each primitive's name is appended.
        before: the primitive before which, the first time, `action` is done.
        action: what another caller does meanwhile.
    """

    def __init__(
        self,
        records: Any,
        calls: list[str],
        before: str | None = None,
        action: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        self._records, self._calls, self._before, self._action = records, calls, before, action

    def __getattr__(self, name: str) -> Any:
        primitive = getattr(self._records, name)

        async def call(*arguments: Any, **keywords: Any) -> Any:
            if name == self._before and self._action is not None:
                action, self._action = self._action, None
                await action()
            self._calls.append(name)
            return await primitive(*arguments, **keywords)

        return call


async def watch(
    saver: Face,
    operation: Callable[[Any], Any],
    before: str | None = None,
    action: Callable[[], Awaitable[Any]] | None = None,
) -> tuple[Any, list[str]]:
    """An operation's result, and the primitives that it called."""
    calls: list[str] = []
    backend = saver.target.backend

    def watched(records: Any) -> Any:
        return operation(Watched(records, calls, before, action))

    watched.__qualname__ = "watch"
    result = await backend.arun(watched) if saver.is_async else backend.run(watched)
    return result, calls
