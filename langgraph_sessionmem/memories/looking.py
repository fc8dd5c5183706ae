"""Reading memories: what holds, what held, and what is open; each an `async def` for both faces."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from langgraph_sessionmem.memories.deciding import evidence_of, is_there
from langgraph_sessionmem.memories.desk import Desk, MemoryLink
from langgraph_sessionmem.memories.keys import Place, place_of_id
from langgraph_sessionmem.memories.kinds import Memory
from langgraph_sessionmem.memories.known import (
    Asking,
    Conflict,
    Known,
    all_versions,
    conflicts_of,
    held,
)
from langgraph_sessionmem.memories.statements import Dossier, utc_text


async def get(desk: Desk, link: MemoryLink, place: Place, asking: Asking) -> Known[Memory] | None:
    """What a memory says about the time asked for."""
    dossiers = await desk.dossiers(link, [place])
    found = await standing_ones(desk, link, dossiers.values(), asking)
    return found[0] if found else None


async def history(desk: Desk, link: MemoryLink, place: Place) -> list[Known[Memory]]:
    """Every version of a memory, the latest first."""
    dossiers = await desk.dossiers(link, [place])
    return [each for dossier in dossiers.values() for each in all_versions(dossier, desk.asking())]


async def as_of(
    desk: Desk, link: MemoryLink, labels: Sequence[str], asking: Asking
) -> list[Known[Memory]]:
    """All that holds at the time asked for, in the order of types and ids."""
    found = await standing_ones(desk, link, await desk.scan(link, labels), asking)
    order = {label: place for place, label in enumerate(asking.kinds)}
    return sorted(found, key=lambda each: (order[each.memory.type], each.id))


async def timeline(
    desk: Desk, link: MemoryLink, labels: Sequence[str], since: datetime, until: datetime
) -> list[Known[Memory]]:
    """What was the case in a span of time, in the order it began; `until` isn't part of it."""
    after, before = utc_text(since), utc_text(until)
    overlaps: dict[str, Any] = {
        "at": {"$lt": before},
        "$or": [{"at": {"$gte": after}}, {"until": {"$gt": after}}],
    }
    dossiers = await desk.scan(link, labels, overlaps)
    found = [each for dossier in dossiers for each in _versions(dossier, desk.asking())]
    inside = [
        each
        for each in found
        if each.valid_from < until
        and (each.valid_from >= since or (each.valid_to is not None and each.valid_to > since))
    ]
    return sorted(inside, key=lambda each: (each.valid_from, each.id))


async def conflicts(desk: Desk, link: MemoryLink) -> list[Conflict]:
    """All that sources contradict each other about, the latest first."""
    dossiers = await desk.scan(link, [], {"open": True})
    found = [each for dossier in dossiers for each in conflicts_of(dossier, desk.asking())]
    return sorted(found, key=lambda each: (each.since, each.id), reverse=True)


async def standing_ones(
    desk: Desk, link: MemoryLink, dossiers: Iterable[Dossier], asking: Asking
) -> list[Known[Memory]]:
    """What memories say about the time asked for, without those whose evidence is gone."""
    found = [(dossier, held(dossier, asking)) for dossier in dossiers]
    there = [(dossier, known) for dossier, known in found if known is not None]
    missing = await missing_evidence(
        desk, link, {each for dossier, _ in there for each in evidence_of(asking.kinds, dossier)}
    )
    kept = []
    for dossier, known in there:
        evidence = evidence_of(asking.kinds, dossier)
        if not evidence or not missing.issuperset(evidence):
            kept.append(known)
    return kept


async def missing_evidence(desk: Desk, link: MemoryLink, ids: Iterable[str]) -> set[str]:
    """Those of the ids of which nothing stands any more: forgotten, or retracted."""
    places = {each: place_of_id(desk.kinds, each) for each in ids}
    dossiers = await desk.dossiers(link, list(places.values()))
    return {
        each
        for each, place in places.items()
        if place not in dossiers or not is_there(dossiers[place])
    }


def _versions(dossier: Dossier, asking: Asking) -> list[Known[Memory]]:
    return [each for each in all_versions(dossier, asking) if each.version]
