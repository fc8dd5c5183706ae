"""Times between Python and the database: aware datetimes, and microseconds since the epoch."""

from datetime import UTC, datetime, timedelta
from typing import Final

from langgraph_sessionmem.errors import InvalidArgument

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_time(microseconds: int) -> datetime:
    """The time that a database's number stands for, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def to_microseconds(name: str, time: object) -> int:
    """The number that stands for a time in a database.

    Raises:
        InvalidArgument: it is no datetime with a time zone; `name` says which one.
    """
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise InvalidArgument(
            f"{name}={time!r}: give a datetime with a time zone, such as datetime.now(UTC)."
        )
    return (time - _EPOCH) // _MICROSECOND
