"""How long a thread lives: what people say, as limits in seconds.

Only durations are made here. Deadlines are computed by the database from its own clock, so two
processes with different clocks agree on what has expired.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.rows import Limits

DEFAULT_INTERRUPTED = timedelta(days=7)

Strategy: TypeAlias = Literal["delete", "keep_latest"]
_STRATEGIES: tuple[str, ...] = get_args(Strategy)


@dataclass(frozen=True, slots=True)
class TTL:
    """How long a thread lives.

    Attributes:
        idle: after its last checkpoint; `None` is for ever.
        max_age: after its first checkpoint; `None` is for ever.
        interrupted: instead of `idle`, while the thread waits: on an interrupt, on a human, on a
            run that was cut off. It never shortens `idle`.
        refresh_on_read: reading the thread counts as a sign of life.
        strategy: what happens past `idle`. `"delete"`: the thread is gone. `"keep_latest"`: its
            history is gone, and the latest checkpoint of each namespace stays for ever; it goes by
            `idle` only, so it can't be had together with `max_age`.
    """

    idle: timedelta | None = None
    max_age: timedelta | None = None
    interrupted: timedelta | None = DEFAULT_INTERRUPTED
    refresh_on_read: bool = False
    strategy: Strategy = "delete"

    def __post_init__(self) -> None:
        """Refuse what is no duration.

        Raises:
            InvalidArgument: a limit is not a positive `timedelta`, or the strategy is unknown, or
                contradicts `max_age`.
        """
        for name in ("idle", "max_age", "interrupted"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, timedelta) or value <= timedelta(0):
                raise InvalidArgument(
                    f"TTL({name}={value!r}): give a positive timedelta, or None for no limit."
                )
        if self.strategy not in _STRATEGIES:
            raise InvalidArgument(
                f"TTL(strategy={self.strategy!r}): give one of {', '.join(_STRATEGIES)}."
            )
        if self.strategy == "keep_latest" and self.max_age is not None:
            raise InvalidArgument(
                f'TTL(max_age={self.max_age!r}, strategy="keep_latest"): max_age ends a thread, '
                "keep_latest keeps it; give idle= instead of max_age=."
            )

    @property
    def limits(self) -> Limits:
        """The same in seconds, as the database is told."""
        idle, interrupted = _seconds(self.idle), _seconds(self.interrupted)
        # While it waits, a thread lives at least as long as it would without waiting.
        interrupted = None if idle is None or interrupted is None else max(idle, interrupted)
        return Limits(
            idle,
            _seconds(self.max_age),
            interrupted,
            self.refresh_on_read,
            keep_latest=self.strategy == "keep_latest",
        )


class Sweeping(NamedTuple):
    """How a saver sweeps by itself.

    Attributes:
        every_seconds: from the end of one sweep to the next.
        most: threads a sweep may take; `None`: all that are due.
    """

    every_seconds: float
    most: int | None = None


_MappingKey = Literal[
    "default_ttl", "refresh_on_read", "strategy", "sweep_interval_minutes", "sweep_limit"
]
_MAPPING_KEYS: tuple[str, ...] = get_args(_MappingKey)
TTLMapping: TypeAlias = Mapping[_MappingKey, Any]
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


def read_session_ttl(given: object, strategy: Strategy = "delete") -> TTL:
    """What `configurable["session_ttl"]` means: a `TTL`, a timedelta, minutes, or None to pin.

    Args:
        given: the value.
        strategy: of a duration alone, which says nothing about it.

    Raises:
        InvalidArgument: it is none of these.
    """
    if given is None:
        return TTL(interrupted=None)
    if isinstance(given, TTL):
        return given
    if isinstance(given, timedelta):
        return TTL(idle=given, strategy=strategy)
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return TTL(idle=timedelta(minutes=given), strategy=strategy)
    raise InvalidArgument(
        f'configurable["session_ttl"] = {given!r}: give a timedelta, a number of minutes, '
        "or None so that the thread never expires."
    )


def read_sweeping(interval: timedelta | None, ttl: TTLSource) -> Sweeping | None:
    """When a saver sweeps by itself; `None`: only by hand.

    Args:
        interval: the saver's `sweep_interval=`. Without it, a mapping's `sweep_interval_minutes`
            decides.
        ttl: the saver's `ttl=`.

    Raises:
        InvalidArgument: an interval is no positive duration, or `sweep_limit` no positive number.
    """
    given = ttl if isinstance(ttl, Mapping) else {}
    most, minutes = given.get("sweep_limit"), given.get("sweep_interval_minutes")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise InvalidArgument(f'ttl["sweep_limit"] = {most!r}: give a whole number of at least 1.')
    if interval is not None:
        if not isinstance(interval, timedelta) or interval <= timedelta(0):
            raise InvalidArgument(
                f"sweep_interval={interval!r}: give a positive timedelta, or None to sweep by hand."
            )
        return Sweeping(interval.total_seconds(), most)
    if minutes is None:
        return None
    return Sweeping(_minutes("sweep_interval_minutes", minutes).total_seconds(), most)


def _from_mapping(given: Mapping[Any, Any]) -> TTL:
    unknown = set(given) - set(_MAPPING_KEYS)
    if unknown:
        raise InvalidArgument(
            f"ttl has unknown keys {sorted(map(str, unknown))}; known are "
            f"{', '.join(_MAPPING_KEYS)}."
        )
    minutes, strategy = given.get("default_ttl"), given.get("strategy")
    return TTL(
        idle=None if minutes is None else _minutes("default_ttl", minutes),
        refresh_on_read=bool(given.get("refresh_on_read", False)),
        strategy="delete" if strategy is None else strategy,
    )


def _minutes(key: str, given: object) -> timedelta:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < math.inf:
        raise InvalidArgument(f"ttl[{key!r}] = {given!r}: give a positive number of minutes.")
    return timedelta(minutes=given)


def _seconds(limit: timedelta | None) -> float | None:
    return None if limit is None else limit.total_seconds()
