"""Items as JSON Lines, one a line: what an export writes, and an import reads.

    {"format": 1, "namespace": ["users", "u1"], "key": "k", "value": {...},
     "created_at": "2026-01-31T12:00:00.000001+00:00", "updated_at": "...",
     "ttl_minutes": null, "index": ["text"], "versions": [{"value": {...}, "since": "..."}]}

`versions` are the present value and the former ones, the latest first; it may be left out, as may
`ttl_minutes` and `index`. A time to live begins anew with the import.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from langgraph.store.base import PutOp

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.item_records import ItemRow, VersionRow
from langgraph_sessionmem.store import values
from langgraph_sessionmem.store.times import to_microseconds, to_time

FORMAT: Final = 1
_TIMES: Final = ("created_at", "updated_at")
_KNOWN: Final = ("format", "namespace", "key", "value", *_TIMES, "ttl_minutes", "index", "versions")


class Line(NamedTuple):
    """An item of an import: the op that puts it, and what no op can say."""

    op: PutOp
    times: tuple[int, int]
    versions: Sequence[VersionRow]


def write_line(row: ItemRow, versions: Sequence[VersionRow]) -> str:
    """An item as a line, without its end."""
    told = {
        "format": FORMAT,
        "namespace": list(row.namespace),
        "key": row.key,
        "value": values.decode(row.value),
        "created_at": to_time(row.created_at).isoformat(),
        "updated_at": to_time(row.updated_at).isoformat(),
        "ttl_minutes": row.ttl_minutes,
        "index": None if row.paths is None else list(row.paths) or False,
        "versions": [
            {
                "value": values.decode(version.value),
                "since": to_time(version.updated_at).isoformat(),
            }
            for version in versions
        ],
    }
    return json.dumps(told, ensure_ascii=False)


def read_line(number: int, line: str) -> Line:
    """An item from its line.

    Raises:
        InvalidArgument: it is no item, with the number of the line and what is wrong.
        ValueNotStorable: a former value can't be stored.
    """
    try:
        told = json.loads(line)
    except ValueError as error:
        raise InvalidArgument(f"Line {number} is no JSON: {error}.") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT or not set(told) <= set(_KNOWN):
        raise InvalidArgument(
            f'Line {number} is no item of an export: it needs "format": {FORMAT}, and may have '
            f"{', '.join(_KNOWN)}."
        )
    namespace = told.get("namespace")
    if not isinstance(namespace, list) or not isinstance(told.get("value"), dict):
        raise InvalidArgument(f'Line {number}: "namespace" must be a list and "value" an object.')
    op = PutOp(  # its parts are checked with all other ops
        tuple(namespace),
        told.get("key"),  # type: ignore[arg-type]
        told["value"],
        told.get("index"),
        told.get("ttl_minutes"),
    )
    times = (_time(number, told, "created_at"), _time(number, told, "updated_at"))
    return Line(op, times, [_version(number, each) for each in _versions(number, told)])


def _versions(number: int, told: Mapping[str, Any]) -> list[Any]:
    versions = told.get("versions", [])
    if not isinstance(versions, list):
        raise InvalidArgument(f'Line {number}: "versions" must be a list.')
    return versions


def _version(number: int, told: Any) -> VersionRow:
    if not isinstance(told, dict) or not isinstance(told.get("value"), dict):
        raise InvalidArgument(f'Line {number}: a version has a "value" and a time "since".')
    return VersionRow(values.encode(told["value"]), _time(number, told, "since"))


def _time(number: int, told: Mapping[str, Any], name: str) -> int:
    try:
        time = datetime.fromisoformat(told[name])
        return to_microseconds(name, time)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f'Line {number}: "{name}" is {told.get(name)!r}; it must be a time with a zone, such '
            "as 2026-01-31T12:00:00+00:00."
        ) from error
