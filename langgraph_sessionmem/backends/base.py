"""What a database someone opened can do: run operations, blocking or async.

An operation is an `async def` over records. `run` and `arun` own the connection, the retry and the
mapping of driver errors, so an operation touches nothing but its records and may run twice.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias, TypeVar

from langgraph_sessionmem.item_records import ItemRecords
from langgraph_sessionmem.records import CheckpointRecords

T = TypeVar("T")


class Records(CheckpointRecords, ItemRecords, Protocol):
    """All that can be done to a database's rows."""


Operation: TypeAlias = Callable[[Records], Coroutine[Any, Any, T]]


class Backend(Protocol):
    """An open database.

    Attributes:
        offset_seconds: added to the database's own clock wherever time decides; 0 in production.
            Tests move it instead of waiting.
    """

    offset_seconds: float

    @property
    def is_async_only(self) -> bool:
        """Blocking callers are refused: the user passed an async client, connection or pool."""
        return False

    @property
    def prefers_small(self) -> bool:
        """Short values are worth compressing: their bytes travel, and lie in a server's memory."""
        return False

    def in_callers_transaction(self) -> bool:
        """Whether the user's own connection is in a transaction that the user began."""
        return False

    def run(self, operation: Operation[T]) -> T:
        """Finish `operation` on a blocking link; safe in any thread, and inside a running loop."""
        ...

    async def arun(self, operation: Operation[T]) -> T:
        """Finish `operation` without blocking the loop; any loop will do, several at once too."""
        ...

    def setup(self) -> None:
        """Make or upgrade the schema; safe to call twice, and from many processes at once.

        Raises:
            SchemaTooNew: a newer version of the package made the schema; nothing was written.
        """
        ...

    async def asetup(self) -> None:
        """`setup` without blocking the loop."""
        ...

    def schema_version(self) -> int:
        """The version of the schema that is there, be it too old or too new; 0: there is none."""
        ...

    async def aschema_version(self) -> int:
        """`schema_version` without blocking the loop."""
        ...

    def close(self) -> None:
        """Close what was opened here, and nothing that was passed in; safe to call twice."""
        ...

    async def aclose(self) -> None:
        """`close` without blocking the loop."""
        ...
