"""Looking into a database: what its threads consist of, and whether they are whole."""

from collections.abc import Iterable

from langchain_core.runnables import RunnableConfig

from langgraph_sessionmem.backends.opened import Opened
from langgraph_sessionmem.checkpoint.configs import read_place, read_thread_id
from langgraph_sessionmem.checkpoint.inspecting import Inspection, Peek, inspect_thread, peek
from langgraph_sessionmem.checkpoint.integrity import Verified, VerifyProgress, verify_steps
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.retention import arun_steps, run_steps


class Looking(Opened):
    """Looks into an open database; a part of `SessionSaver`."""

    __slots__ = ()
    _state: SaverState

    def clock(self) -> float:
        """The database's time, by which threads expire: seconds since the epoch (UTC)."""
        return self.backend.run(lambda records: records.read_clock())

    async def aclock(self) -> float:
        """`clock` without blocking the loop."""
        return await self.backend.arun(lambda records: records.read_clock())

    def inspect(self, thread_id: str) -> Inspection | None:
        """A thread's checkpoints and where its bytes are; None if there is no such thread.

        Raises:
            CorruptData: a checkpoint is not in a form that this package writes.
        """
        name = read_thread_id(thread_id)
        return self.backend.run(lambda records: inspect_thread(records, self._state, name))

    async def ainspect(self, thread_id: str) -> Inspection | None:
        """`inspect` without blocking the loop."""
        name = read_thread_id(thread_id)
        return await self.backend.arun(lambda records: inspect_thread(records, self._state, name))

    def peek(self, config: RunnableConfig) -> Peek | None:
        """A checkpoint's values; what may not be rebuilt in this program comes as `Unbuilt`.

        Raises:
            ThreadDamaged: the database lost a part of it.
            CorruptData: a value is not in a form that this package writes.
        """
        place = read_place(config)
        return self.backend.run(lambda records: peek(records, self._state, place))

    async def apeek(self, config: RunnableConfig) -> Peek | None:
        """`peek` without blocking the loop."""
        place = read_place(config)
        return await self.backend.arun(lambda records: peek(records, self._state, place))

    def verify(
        self, thread_ids: Iterable[str] | None = None, *, progress: VerifyProgress | None = None
    ) -> Verified:
        """Read everything that checkpoints name, and say what is damaged and what is left over.

        Args:
            thread_ids: only these; by default all that have not expired.
            progress: called with each thread that was looked at.
        """
        report = Verified()
        run_steps(self.backend, verify_steps(self._state, report, thread_ids, progress))
        return report

    async def averify(
        self, thread_ids: Iterable[str] | None = None, *, progress: VerifyProgress | None = None
    ) -> Verified:
        """`verify` without blocking the loop."""
        report = Verified()
        steps = verify_steps(self._state, report, thread_ids, progress)
        await arun_steps(self.backend, steps)
        return report
