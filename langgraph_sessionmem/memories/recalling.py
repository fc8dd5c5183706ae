"""Which memories bear on a question: the store ranks, this module judges what still holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from langgraph.store.base import SearchOp

from langgraph_sessionmem.memories.block import block, fitting
from langgraph_sessionmem.memories.desk import Desk, MemoryLink, searched
from langgraph_sessionmem.memories.kinds import Memory
from langgraph_sessionmem.memories.known import Asking, Known, all_versions
from langgraph_sessionmem.memories.looking import standing_ones
from langgraph_sessionmem.memories.statements import Dossier

_SPARE: Final = 2
"""So many times as many hits are asked for as memories are wanted: some may not hold."""
_SMALLEST_PAGE: Final = 20
_PAGES: Final = 5


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a question brought to mind.

    Attributes:
        memories: the best first.
        text: all of them as a block of a prompt; empty without any.
    """

    memories: tuple[Known[Memory], ...]
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be recalled.

    Attributes:
        query: the question; `None` or an empty text asks for what was written last.
        labels: the types' names; none is all of them.
        limit: how many memories at most.
        max_tokens: what the block may cost; `None` is any.
        superseded: former versions too.
    """

    query: str | None
    labels: Sequence[str]
    limit: int
    max_tokens: int | None
    superseded: bool


async def recall(desk: Desk, link: MemoryLink, question: Question, asking: Asking) -> Recalled:
    """The memories that bear on a question at a time, the best first."""
    size = max(question.limit * _SPARE, _SMALLEST_PAGE)
    ranked: dict[str, tuple[float, Dossier]] = {}
    found: list[Known[Memory]] = []
    for page in range(_PAGES):
        op = _search(desk, question, size, page * size)
        items = await searched(link, op)
        for item in items:
            dossier = desk.found(item)
            if dossier is not None:
                ranked.setdefault(dossier.id, (item.score or 0.0, dossier))
        found = await _judged(desk, link, ranked, question, asking)
        if len(found) >= question.limit or len(items) < size:
            break
    chosen = found[: question.limit]
    if question.max_tokens is not None:
        chosen = fitting(chosen, question.max_tokens)
    return Recalled(tuple(chosen), block(chosen))


def _search(desk: Desk, question: Question, limit: int, offset: int) -> SearchOp:
    prefix, filter_ = desk.namespace, None
    if len(question.labels) == 1:
        prefix = (*prefix, question.labels[0])
    elif question.labels:
        filter_ = {"type": {"$in": list(question.labels)}}
    renews: Any = None  # asks the store, as `search` does
    return SearchOp(prefix, filter_, limit, offset, question.query or None, renews)


async def _judged(
    desk: Desk,
    link: MemoryLink,
    ranked: dict[str, tuple[float, Dossier]],
    question: Question,
    asking: Asking,
) -> list[Known[Memory]]:
    """What holds of what was found, in its order, but what has faded further behind."""
    dossiers = [dossier for _, dossier in ranked.values()]
    holding = {each.id: each for each in await standing_ones(desk, link, dossiers, asking)}
    judged: list[tuple[float, Known[Memory]]] = []
    for name, (score, dossier) in ranked.items():
        known = holding.get(name)
        if known is not None:
            judged.append((score * known.weight, known))
        if question.superseded:
            former = [each for each in all_versions(dossier, asking) if each.status == "past"]
            judged += [(score, each) for each in former]
    judged.sort(key=lambda each: each[0], reverse=True)
    return [known for _, known in judged]
