"""Archived turns that bear on the user's current message.

The store ranks, this module fills: hits are taken best first while they fit, and shown in the order
of the thread. A hit counts only if the thread still has that turn with that content, so a turn of
another branch, an edited or a deleted one never comes back, whatever the store says; and the text
shown is the thread's own.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from langgraph.store.base import GetOp, Op, Result, SearchItem, SearchOp

from langgraph_sessionmem.compaction.blocks import recalled_block, recalled_line
from langgraph_sessionmem.compaction.gate import Archive, key_of
from langgraph_sessionmem.compaction.transcript import Turn
from langgraph_sessionmem.said import clip_text, plain_text, said_at
from langgraph_sessionmem.tokens import CountTokens

_QUERY_CHARS = 2_000
_TOKENS_A_HIT = 16
"""A short turn's cost; from the room it follows how many hits are asked for."""
_MOST_HITS = 100
_PAGES = 3
_MISSES = 8
"""After so many hits that don't fit, the room counts as full."""
_SHORTEST = 80
"""Characters below which a turn isn't shortened further."""
_LONGEST_SHARE = 3
"""One turn takes at most a third of the room."""


async def recall(
    archive: Archive, query: str, out: Sequence[Turn], room: int, count: CountTokens
) -> list[tuple[str, str]]:
    """The lines for a recalled block that costs at most `room` tokens; maybe none.

    Args:
        archive: the thread's archive; an unreachable store means that nothing is recalled.
        query: the user's current message.
        out: the turns that aren't shown.
        room: in tokens, for the whole block.
        count: counts tokens of a message list.
    """
    by_key = {key_of(turn): turn for turn in out if plain_text(turn.message).strip()}
    if not query.strip() or not by_key or room <= 0:
        return []
    ranked = await _ranked(archive, query[:_QUERY_CHARS], by_key, room)
    lines: dict[int, tuple[str, str]] = {}
    misses = 0
    for turn in ranked:
        candidate = {**lines, turn.position: _line(turn, room, count)}
        if _cost(candidate, count) <= room:
            lines = candidate
        else:
            misses += 1
            if misses == _MISSES:
                break
    return [lines[position] for position in sorted(lines)]


async def _ranked(
    archive: Archive, query: str, by_key: Mapping[str, Turn], room: int
) -> list[Turn]:
    """Turns, best first."""
    limit = min(max(room // _TOKENS_A_HIT, 10), _MOST_HITS)
    newest = list(by_key.values())[-1]
    ranked: dict[str, Turn] = {}
    for page in range(_PAGES):
        search: list[Op] = [
            SearchOp(
                archive.namespace,
                limit=limit,
                offset=page * limit,
                query=query,
                refresh_ttl=False,
            )
        ]
        probe: list[Op] = [] if page else [GetOp(archive.namespace, key_of(newest), False)]
        results = await archive.tried([*search, *probe])
        if probe and results and not archive.is_same(newest, results[1]):
            # The store has lost what it once gave back; the thread still has it.
            await archive.save(list(by_key.values()))
            results = await archive.tried(search)
        hits = _hits(archive, results)
        if any(hit.score is None for hit in hits):
            return _by_words(query, list(by_key.values()))
        ranked |= {hit.key: by_key[hit.key] for hit in hits if hit.key in by_key}
        if len(hits) < limit or len(ranked) * 2 >= limit:
            break
    return list(ranked.values())


def _hits(archive: Archive, results: Sequence[Result] | None) -> list[SearchItem]:
    found = results[0] if results else None
    if not isinstance(found, list):
        return []
    return [
        hit
        for hit in found
        if isinstance(hit, SearchItem) and tuple(hit.namespace) == archive.namespace
    ]


def _by_words(query: str, turns: Sequence[Turn]) -> list[Turn]:
    """Turns that share words with the query, rare words first; for stores that don't rank."""
    said = [_words(plain_text(turn.message)) for turn in turns]
    frequency = Counter(word for words in said for word in words)
    asked = _words(query)
    scored = [
        (sum(math.log(1 + len(turns) / frequency[word]) for word in asked & words), turn)
        for turn, words in zip(turns, said, strict=True)
    ]
    scored.sort(key=lambda pair: (pair[0], pair[1].position), reverse=True)
    return [turn for score, turn in scored if score > 0]


def _words(text: str) -> set[str]:
    words = re.findall(r"\w+", text.casefold())
    pairs = {word[at : at + 2] for word in words if not word.isascii() for at in range(len(word))}
    return {word for word in words if len(word) > 1 or word.isdigit()} | pairs


def _line(turn: Turn, room: int, count: CountTokens) -> tuple[str, str]:
    text = plain_text(turn.message)
    keep, most = len(text), room // _LONGEST_SHARE
    line = said_at(turn.message), recalled_line(turn.position, turn.message, text)
    while keep > _SHORTEST and _cost({0: line}, count) > most:
        keep = keep * 2 // 3
        line = line[0], recalled_line(turn.position, turn.message, clip_text(text, keep))
    return line


def _cost(lines: Mapping[int, tuple[str, str]], count: CountTokens) -> int:
    return count([recalled_block([lines[position] for position in sorted(lines)])])
