"""How a saver behaves, beyond where it keeps things and for how long."""

from typing import Literal, NamedTuple

from langgraph_sessionmem.errors import InvalidArgument

COMPRESS_BYTES = 1_024
"""What `compress=True` means: stored forms from this size on are compressed."""


class Options(NamedTuple):
    """What a saver was told when it was made.

    Attributes:
        verifies: every value is read back before it is stored, and one that changes is refused.
        compress_bytes: compress stored forms of at least this size; `None`: none.
        reuses_objects: reading a checkpoint again may hand out the same message objects.
        may_fork: two runs on one thread may go on from the same checkpoint.
        tells_expiry: an expired thread raises `SessionExpired` instead of looking new.
    """

    verifies: bool = False
    compress_bytes: int | None = None
    reuses_objects: bool = False
    may_fork: bool = True
    tells_expiry: bool = False


def read_options(
    *,
    verify: object = None,
    compress: object = False,
    reuse_objects: object = False,
    on_conflict: object = "fork",
    on_expired: object = "restart",
) -> Options:
    """The options of a saver, as its constructor takes them.

    Raises:
        InvalidArgument: one of them is not what its name can mean.
    """
    _choose("verify", verify, (None, "raise"))
    _choose("reuse_objects", reuse_objects, (False, True))
    _choose("on_conflict", on_conflict, ("fork", "error"))
    _choose("on_expired", on_expired, ("restart", "raise"))
    if isinstance(compress, bool):
        compress_bytes = COMPRESS_BYTES if compress else None
    elif isinstance(compress, int) and compress > 0:
        compress_bytes = compress
    else:
        raise InvalidArgument(
            f"compress={compress!r}: give True, False, or the least size in bytes to compress."
        )
    return Options(
        verify == "raise",
        compress_bytes,
        bool(reuse_objects),
        on_conflict == "fork",
        on_expired == "raise",
    )


OnConflict = Literal["fork", "error"]
OnExpired = Literal["restart", "raise"]


def _choose(name: str, given: object, choices: tuple[object, ...]) -> None:
    if given not in choices:
        raise InvalidArgument(f"{name}={given!r}: give one of {', '.join(map(repr, choices))}.")
