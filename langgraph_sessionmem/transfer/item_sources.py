"""The items of any LangGraph store, in pages, as an export of ours tells them (`store/lines.py`).

LangGraph's contract doesn't tell times to live and pages by a count, which shifts when somebody
writes. So our store and the official ones on SQL are read in their own way; any other is searched.
"""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from langgraph_sessionmem.store.lines import FORMAT
from langgraph_sessionmem.store.store import LongTermStore
from langgraph_sessionmem.store.tending import read_export_page
from langgraph_sessionmem.transfer.faces import Face

PAGE: Final = 200
"""So many items are held at once."""

Told: TypeAlias = dict[str, Any]
"""An item as a line of an export says it."""


def pages_of(face: Face, prefix: tuple[str, ...]) -> AsyncIterator[list[Told]]:
    """The items under a prefix that have not expired, a page at a time."""
    if isinstance(face.saver, LongTermStore):
        return _own_pages(face, prefix)
    origins = {kind.__module__.rpartition(".")[0] for kind in type(face.saver).__mro__}
    if "langgraph.store.sqlite" in origins:
        return _sql_pages(face, prefix, "?", "current_timestamp")
    if "langgraph.store.postgres" in origins:
        return _sql_pages(face, prefix, "%s", "now()")
    return _searched_pages(face, prefix)


async def _own_pages(face: Face, prefix: tuple[str, ...]) -> AsyncIterator[list[Told]]:
    after = None
    while True:
        cursor = after
        page = await face.run(lambda records: read_export_page(records, prefix, cursor))  # noqa: B023 - run ends before the next turn
        yield [json.loads(line) for line in page.lines]
        after = page.after
        if after is None:
            return


async def _sql_pages(
    face: Face, prefix: tuple[str, ...], mark: str, now: str
) -> AsyncIterator[list[Told]]:
    query = (
        "select prefix, key, cast(value as text) as value, created_at, updated_at, ttl_minutes "  # noqa: S608 - our own words
        f"from store where (prefix, key) {{}} ({mark}, {mark}) "
        f"and (prefix = {mark} or substr(prefix, 1, {mark}) = {mark}) "
        f"and (expires_at is null or expires_at > {now}) order by prefix, key limit {PAGE}"
    )
    path = ".".join(prefix)
    below = f"{path}." if prefix else ""
    scope = (path, len(below), below)
    page = await face.rows(query.format(">="), ("", "", *scope))
    while page:
        yield [_told(tuple(row[0].split(".")), *row[1:]) for row in page]
        page = await face.rows(query.format(">"), (*page[-1][:2], *scope))


async def _searched_pages(face: Face, prefix: tuple[str, ...]) -> AsyncIterator[list[Told]]:
    offset = 0
    while True:
        page = await face.call("search", prefix, limit=PAGE, offset=offset, refresh_ttl=False)
        yield [
            _told(item.namespace, item.key, item.value, item.created_at, item.updated_at, None)
            for item in page
        ]
        offset += len(page)
        if len(page) < PAGE:
            return


def _told(
    namespace: Sequence[str],
    key: str,
    value: Any,
    created_at: datetime | str,
    updated_at: datetime | str,
    ttl_minutes: float | None,
) -> Told:
    return {
        "format": FORMAT,
        "namespace": list(namespace),
        "key": key,
        "value": json.loads(value) if isinstance(value, str) else value,
        "created_at": _time(created_at),
        "updated_at": _time(updated_at),
        "ttl_minutes": ttl_minutes,
    }


def _time(time: datetime | str) -> str:
    """With its zone: the official store on SQLite leaves it out, and means UTC."""
    read = datetime.fromisoformat(time) if isinstance(time, str) else time
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).isoformat()
