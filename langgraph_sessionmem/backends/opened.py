"""The life of an object over a database, from setup to close: the same for every product."""

from collections.abc import Generator
from typing import Self

from langgraph_sessionmem.backends.base import Backend


class Done:
    """Something that is done already, and may be awaited all the same; it is true."""

    def __await__(self) -> Generator[None, None, bool]:
        """Wait for nothing."""
        yield from ()
        return True


class Opened:
    """Something that stands on a backend; works in `with`, in `async with` and without either.

    Attributes:
        backend: the open database.
    """

    __slots__ = ()
    backend: Backend

    def setup(self) -> Done:
        """Make or upgrade the schema; safe to call twice, and from many processes at once.

        It is done when the call returns; what comes back may be awaited, as with LangGraph's
        async savers and stores.
        """
        self.backend.setup()
        return Done()

    async def asetup(self) -> None:
        """`setup` without blocking the loop."""
        await self.backend.asetup()

    def schema_version(self) -> int:
        """The version of the schema that is there, be it too old or too new; 0: there is none."""
        return self.backend.schema_version()

    async def aschema_version(self) -> int:
        """`schema_version` without blocking the loop."""
        return await self.backend.aschema_version()

    def close(self) -> None:
        """Close what was opened here, and nothing that was passed in; safe to call twice."""
        self.backend.close()

    async def aclose(self) -> None:
        """`close` without blocking the loop."""
        await self.backend.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
