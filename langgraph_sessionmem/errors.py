"""Every exception of the package, and what the caller can do about it.

All of them are `SessionMemoryError`. Those that answer a bad argument are `ValueError`s as well, so
that code written against LangGraph's own savers and stores goes on catching them.
"""

from collections.abc import Sequence


class SessionMemoryError(Exception):
    """Anything this package raises on purpose."""


class InvalidArgument(SessionMemoryError, ValueError):
    """An argument can't be used; nothing was read or written."""


class UnknownScheme(InvalidArgument):
    """A connection string names a database we don't know.

    Attributes:
        scheme: what stood before `://`.
        known: the schemes that would do.
    """

    def __init__(self, scheme: str, known: Sequence[str]) -> None:
        super().__init__(
            f"Unknown scheme {scheme!r} in the connection string; known are {', '.join(known)}."
        )
        self.scheme, self.known = scheme, tuple(known)


class BackendUnavailable(SessionMemoryError):
    """The database can't be reached or refused the call; what was acknowledged before is safe."""


class TimedOut(BackendUnavailable, TimeoutError):
    """The database didn't answer in time.

    A write may have been stored all the same; repeating it stores nothing twice.

    Attributes:
        seconds: the time limit.
    """

    def __init__(self, seconds: float, what: object = "") -> None:
        reason = f" ({what})" if what else ""
        super().__init__(f"The database gave no answer within {seconds:g} s{reason}.")
        self.seconds = seconds


class DriverMissing(SessionMemoryError, ImportError):
    """A driver or extra isn't installed; the message has the line to run."""


class SchemaTooNew(SessionMemoryError):
    """The database was set up by a newer version of the package; nothing was written.

    Attributes:
        found: the schema version in the database.
        known: the newest version this package knows.
    """

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"The database has schema version {found}, this package knows up to {known}: "
            "upgrade langgraph-sessionmem."
        )
        self.found, self.known = found, known


class SchemaMissing(SessionMemoryError):
    """The tables aren't there and `setup=False` forbids making them; call `setup()` once."""


class ThreadDeleted(SessionMemoryError):
    """The thread was deleted after this run began; its late write was refused.

    Attributes:
        thread_id: the thread that was deleted.
    """

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"Thread {thread_id!r} was deleted while this run was under way; its write is refused. "
            "A new run on the same thread id starts afresh."
        )
        self.thread_id = thread_id


class SessionExpired(SessionMemoryError):
    """The thread's time is over and the call can't go on without its state.

    Attributes:
        thread_id: the thread that expired.
    """

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"Thread {thread_id!r} has expired. To start afresh, take another thread_id, or call "
            "delete_thread first."
        )
        self.thread_id = thread_id


class ThreadDamaged(SessionMemoryError):
    """The database lost a part of a thread (evicted, or deleted by somebody else).

    Attributes:
        thread_id: the thread that can't be read whole.
    """

    def __init__(self, thread_id: str, what: str) -> None:
        super().__init__(f"Thread {thread_id!r} can't be read whole: {what}.")
        self.thread_id = thread_id


class TypeNotAllowed(SessionMemoryError):
    """Stored data names a type that may not be rebuilt; it never becomes something else.

    Attributes:
        module: the module the data names.
        name: the type's name in that module.
    """

    def __init__(self, module: str, name: str) -> None:
        super().__init__(
            f"Stored data names {module}.{name}, which may not be rebuilt. Import it before "
            f"reading, or allow it: SessionSaver(..., types=[{module!r}]), or types=[{name}] for "
            "a class that its module doesn't have under this name."
        )
        self.module, self.name = module, name


class CorruptData(SessionMemoryError):
    """Bytes in the database are not in a format this package writes."""


class ValueNotStorable(InvalidArgument):
    """A value can't be stored; nothing was written.

    Attributes:
        path: where in the value the offender stands, e.g. `messages[3].additional_kwargs.usage`.
        reason: what is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason

    def under(self, outer: str) -> "ValueNotStorable":
        """The same error, one level further out."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return ValueNotStorable(outer + dot + self.path, self.reason)


class ConcurrentUpdate(SessionMemoryError):
    """Others wrote first: a run that must not fork, or more often than a retry can help.

    Nothing of this call was written. Read the thread's latest state and go on from there.
    """


class VersionConflict(SessionMemoryError):
    """Another writer changed the memory first; read it again and decide.

    Attributes:
        memory_id: the memory that was not written.
        expected: the revision that the caller had read (0: nothing was said of it).
        found: the revision it has now.
    """

    def __init__(self, memory_id: str, expected: int, found: int) -> None:
        super().__init__(f"{memory_id}: expected revision {expected}, found {found}.")
        self.memory_id, self.expected, self.found = memory_id, expected, found


class CheckpointDeleted(SessionMemoryError):
    """The checkpoint that a run went on from was pruned or deleted; its write was refused.

    Attributes:
        thread_id: the thread.
        checkpoint_id: the checkpoint that is gone.
    """

    def __init__(self, thread_id: str, checkpoint_id: str) -> None:
        super().__init__(
            f"Checkpoint {checkpoint_id!r} of thread {thread_id!r} was pruned or deleted while a "
            "run went on from it; nothing was written. Start a new run from the latest checkpoint."
        )
        self.thread_id, self.checkpoint_id = thread_id, checkpoint_id


class InvalidFilter(InvalidArgument):
    """A filter can't be understood; nothing was searched."""


class InvalidTranscript(InvalidArgument):
    """A conversation file isn't in a form that can be replayed; the message has the place."""


class BudgetExceeded(SessionMemoryError):
    """What must be in the view doesn't fit into the budget, whatever is left out.

    Attributes:
        needed_tokens: the smallest request that would be valid.
        max_tokens: the budget.
    """

    def __init__(self, needed_tokens: int, max_tokens: int, what: str) -> None:
        super().__init__(
            f"The smallest valid request needs {needed_tokens} tokens ({what}), the budget is "
            f"{max_tokens}: raise max_tokens, or shorten what is pinned."
        )
        self.needed_tokens, self.max_tokens = needed_tokens, max_tokens


class ArchiveFailed(SessionMemoryError):
    """The store doesn't give back what was archived, and the view can't hold all turns any more."""
