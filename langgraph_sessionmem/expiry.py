"""How long a thread lives: what people say, as limits in seconds.

Only durations are made here. Deadlines are computed by the database from its own clock, so two
processes with different clocks agree on what has expired.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.records import Limits

DEFAULT_INTERRUPTED = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class TTL:
    """How long a thread lives.

    Attributes:
        idle: after its last checkpoint; `None` is for ever.
        max_age: after its first checkpoint; `None` is for ever.
        interrupted: instead of `idle`, while the thread waits: on an interrupt, on a human, on a
            run that was cut off. It never shortens `idle`.
        refresh_on_read: reading the thread counts as a sign of life.
    """

    idle: timedelta | None = None
    max_age: timedelta | None = None
    interrupted: timedelta | None = DEFAULT_INTERRUPTED
    refresh_on_read: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no duration.

        Raises:
            InvalidArgument: a limit is not a positive `timedelta`.
        """
        for name in ("idle", "max_age", "interrupted"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, timedelta) or value <= timedelta(0):
                raise InvalidArgument(
                    f"TTL({name}={value!r}): give a positive timedelta, or None for no limit."
                )

    @property
    def limits(self) -> Limits:
        """The same in seconds, as the database is told."""
        idle, interrupted = _seconds(self.idle), _seconds(self.interrupted)
        # While it waits, a thread lives at least as long as it would without waiting.
        interrupted = None if idle is None or interrupted is None else max(idle, interrupted)
        return Limits(idle, _seconds(self.max_age), interrupted, self.refresh_on_read)


TTLMapping: TypeAlias = Mapping[
    Literal["default_ttl", "refresh_on_read", "sweep_interval_minutes"], Any
]
TTLFunction: TypeAlias = Callable[[RunnableConfig, CheckpointMetadata], TTL | None]
TTLSource: TypeAlias = TTL | timedelta | TTLMapping | TTLFunction | None


def read_ttl(given: TTLSource) -> TTL | TTLFunction | None:
    """What `ttl=` of a saver means: a `TTL`, LangGraph's mapping in minutes, a function, or None.

    Raises:
        InvalidArgument: it is none of these, or the mapping has an unknown key.
    """
    if given is None or isinstance(given, TTL):
        return given
    if isinstance(given, timedelta):
        return TTL(idle=given)
    if isinstance(given, Mapping):
        return _from_mapping(given)
    if callable(given):
        return given
    raise InvalidArgument(
        f"ttl={given!r}: give a TTL(idle=...), a timedelta, LangGraph's mapping "
        '{"default_ttl": minutes}, a function (config, metadata) -> TTL, or None.'
    )


def read_session_ttl(given: object) -> TTL:
    """What `configurable["session_ttl"]` means: a `TTL`, a timedelta, minutes, or None to pin.

    Raises:
        InvalidArgument: it is none of these.
    """
    if given is None:
        return TTL(interrupted=None)
    if isinstance(given, TTL):
        return given
    if isinstance(given, timedelta):
        return TTL(idle=given)
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return TTL(idle=timedelta(minutes=given))
    raise InvalidArgument(
        f'configurable["session_ttl"] = {given!r}: give a timedelta, a number of minutes, '
        "or None so that the thread never expires."
    )


def _from_mapping(given: Mapping[Any, Any]) -> TTL:
    unknown = set(given) - {"default_ttl", "refresh_on_read", "sweep_interval_minutes"}
    if unknown:
        raise InvalidArgument(
            f"ttl has unknown keys {sorted(map(str, unknown))}; known are default_ttl, "
            "refresh_on_read and sweep_interval_minutes."
        )
    minutes = given.get("default_ttl")
    if minutes is not None and (isinstance(minutes, bool) or not isinstance(minutes, int | float)):
        raise InvalidArgument(f'ttl["default_ttl"] = {minutes!r}: give a number of minutes.')
    return TTL(
        idle=None if minutes is None else timedelta(minutes=minutes),
        refresh_on_read=bool(given.get("refresh_on_read", False)),
    )


def _seconds(limit: timedelta | None) -> float | None:
    return None if limit is None else limit.total_seconds()
