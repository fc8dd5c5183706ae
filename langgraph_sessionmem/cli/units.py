"""Sizes and times as people read and write them."""

import re
from datetime import timedelta

from langgraph_sessionmem.errors import InvalidArgument

_SIZES = ("B", "KB", "MB", "GB", "TB")
_TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def size_text(size: int) -> str:
    """A size in bytes, in a unit (of 1,000) that leaves at most four digits."""
    amount = float(size)
    for unit in _SIZES:
        if round(amount) < 1_000 or unit == _SIZES[-1]:
            digits = 0 if unit == "B" or amount >= 99.95 else 1
            return f"{amount:,.{digits}f} {unit}"
        amount /= 1_000
    raise AssertionError("the last unit takes everything")


def time_text(seconds: float) -> str:
    """A duration in its largest unit, and the one below it where that says more."""
    left = round(abs(seconds))
    for index, (length, unit) in enumerate(_TIMES):
        whole, rest = divmod(left, length)
        if not whole:
            continue
        text = f"{whole} {unit}"
        if whole < 10 and index + 1 < len(_TIMES):
            below, unit_below = _TIMES[index + 1]
            text += f" {rest // below} {unit_below}" if rest // below else ""
        return text
    return "0 s"


def ago(seconds: float) -> str:
    """How long ago something was."""
    return "now" if seconds < 1 else f"{time_text(seconds)} ago"


def ahead(seconds: float | None) -> str:
    """How far ahead a deadline is; None is never."""
    if seconds is None:
        return "never"
    return f"in {time_text(seconds)}" if seconds > 0 else "due"


_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def read_duration(name: str, given: str) -> timedelta:
    """A duration as one writes it: `90min`, `12h`, `30d`.

    Raises:
        InvalidArgument: it is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|d|w)", given.strip())
    if found is None:
        raise InvalidArgument(f"{name} {given!r}: give a number with s, min, h, d or w, as in 30d.")
    return timedelta(seconds=float(found[1]) * _UNITS[found[2]])
