"""Writing memories: each an `async def` for both faces."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import cast

from langchain_core.messages import BaseMessage
from langgraph.store.base import ListNamespacesOp, MatchCondition

from langgraph_sessionmem.errors import InvalidArgument, VersionConflict
from langgraph_sessionmem.memories.deciding import Decide
from langgraph_sessionmem.memories.deciding import remember as claimed
from langgraph_sessionmem.memories.desk import Desk, MemoryLink
from langgraph_sessionmem.memories.keys import Place, place_of, place_of_id
from langgraph_sessionmem.memories.kinds import (
    Conversation,
    Memory,
    Reflection,
    Source,
    canonical,
    hashed,
)
from langgraph_sessionmem.memories.known import Known, all_versions
from langgraph_sessionmem.memories.looking import missing_evidence, standing_ones
from langgraph_sessionmem.memories.statements import Dossier
from langgraph_sessionmem.said import plain_text
from langgraph_sessionmem.store.writes import ItemWrite

_PAGE = 1_000


async def remember(
    desk: Desk,
    link: MemoryLink,
    memories: Sequence[Memory],
    source: Source | None,
    expected: int | None,
) -> list[Known[Memory]]:
    """Claim memories; what was claimed, as it now stands.

    Raises:
        InvalidArgument: a reflection names a memory as evidence that isn't there.
        VersionConflict: the memory has another revision than is expected.
    """
    places = [place_of(memory) for memory in memories]
    decisions: list[tuple[Place, Decide]] = []
    for place, memory in zip(places, memories, strict=True):
        if expected is not None:
            decisions.append((place, _expecting(expected)))
        decisions.append((place, claimed(memory, source, desk.policy)))
    await _check_evidence(desk, link, memories)
    changed = await desk.change(link, decisions, creates=True)
    return [
        _as_said(desk, changed[place], memory)
        for place, memory in zip(places, memories, strict=True)
    ]


async def remember_turns(
    desk: Desk, link: MemoryLink, messages: Sequence[BaseMessage], thread: str
) -> list[Known[Memory]]:
    """Keep the turns of a thread; those of them that have a text, as they now stand."""
    turns = [
        _turn(message, thread)
        for message in messages
        if message.type != "system" and plain_text(message).strip()
    ]
    there = await desk.dossiers(link, [place_of(turn) for turn, _ in turns])
    decisions: list[tuple[Place, Decide]] = []
    after = -1
    for turn, source in turns:
        place = place_of(turn)
        known = there[place].of.get("position") if place in there else None
        after = known if isinstance(known, int) else after + 1
        placed = turn.model_copy(update={"position": after})
        decisions.append((place, claimed(placed, source, desk.policy)))
    changed = await desk.change(link, decisions, creates=True)
    return [_as_said(desk, changed[place_of(turn)], turn) for turn, _ in turns]


async def say(desk: Desk, link: MemoryLink, place: Place, decide: Decide) -> Known[Memory] | None:
    """Add to what was said of a memory; what it says now."""
    changed = await desk.change(link, [(place, decide)])
    standing = await standing_ones(desk, link, changed.values(), desk.asking())
    return standing[0] if standing else None


async def forget(desk: Desk, link: MemoryLink, places: Sequence[Place]) -> int:
    """Delete memories; how many of them there were."""
    items = await desk.read(link, list(dict.fromkeys(places)))
    writes = [ItemWrite(*place.item(desk.namespace), None) for place in items]
    if writes:
        await link.write(writes)
    return len(writes)


async def forget_everything(desk: Desk, link: MemoryLink) -> dict[str, int]:
    """Delete all there is in and below the namespace; how much that was, by the next label."""
    counts: dict[str, int] = {}
    for label in await _labels(desk, link):
        counts[label] = await link.erase((*desk.namespace, label))
    rest = await link.erase(desk.namespace)
    return {label: count for label, count in {**counts, "": rest}.items() if count}


async def _labels(desk: Desk, link: MemoryLink) -> list[str]:
    depth = len(desk.namespace) + 1
    condition = (MatchCondition("prefix", desk.namespace),)
    labels: dict[str, None] = {}
    offset, is_last = 0, False
    while not is_last:
        [page] = await link.batch([ListNamespacesOp(condition, depth, _PAGE, offset)])
        found = cast("list[tuple[str, ...]]", page)
        labels |= dict.fromkeys(each[-1] for each in found if len(each) == depth)
        offset, is_last = offset + _PAGE, len(found) < _PAGE
    return list(labels)


async def _check_evidence(desk: Desk, link: MemoryLink, memories: Iterable[Memory]) -> None:
    needed = {
        name: memory
        for memory in memories
        if isinstance(memory, Reflection)
        for name in memory.evidence
    }
    for name in needed:
        place_of_id(desk.kinds, name)
    missing = await missing_evidence(desk, link, needed) if needed else set()
    if missing:
        raise InvalidArgument(
            f"evidence: nothing is remembered as {', '.join(map(repr, sorted(missing)))}; a "
            "reflection rests on memories that are there."
        )


def _expecting(expected: int) -> Decide:
    def decide(dossier: Dossier, now: datetime) -> Dossier:
        del now
        if dossier.revision != expected:
            raise VersionConflict(dossier.id, expected, dossier.revision)
        return dossier

    return decide


def _as_said(desk: Desk, dossier: Dossier, memory: Memory) -> Known[Memory]:
    """The version that says what was just claimed; of several the latest."""
    versions = all_versions(dossier, desk.asking())
    content = canonical(memory.content())
    for known in versions:
        claims = (known.memory, *known.alternatives)
        if any(canonical(claim.content()) == content for claim in claims):
            return known
    return versions[0]  # a reflection, with the evidence there was before


def _turn(message: BaseMessage, thread: str) -> tuple[Conversation, Source]:
    told = Source(message=message, thread=thread)
    text, by = plain_text(message), told.by or "user"
    name = message.id or f"turn-{hashed([by, text])}"
    turn = Conversation(text, thread=thread, message=name, by=by, valid_from=told.at)
    return turn, told.model_copy(update={"messages": (name,), "quote": None})
