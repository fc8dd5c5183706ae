"""Lists as runs over append-only logs: what a new list shares with the one before it. Pure.

A list is named by runs `(log, start, end)`. For a chat that is one run whose end grows, so a
checkpoint costs what is new in it and not the whole history. Elements are compared by their
**marks**, exact stand-ins for their content.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import count
from operator import is_
from typing import NamedTuple, TypeAlias

from langgraph_sessionmem.rows import Run

Place: TypeAlias = tuple[int, int]
"""A log, and a position in it."""

MOST_RUNS = 64
"""Above this a list is written into a new log once: reading many short runs costs more."""

SEALED = 64
"""So many neighbours of a log are sealed together."""


class Tip(NamedTuple):
    """Where the next new element of a list goes."""

    log: int
    position: int


class Layout(NamedTuple):
    """How a list is stored: its runs in order, and where it goes on."""

    runs: tuple[Run, ...]
    tip: Tip


class KnownList(NamedTuple):
    """A stored list: its layout, and the mark of each element."""

    layout: Layout
    marks: list[bytes]


class Plan(NamedTuple):
    """How to store a list.

    Attributes:
        layout: of the new list.
        added: `(index, place)` of each element that no log holds yet.
    """

    layout: Layout
    added: list[tuple[int, Place]]


def plan_list(marks: Sequence[bytes], known: KnownList | None, make_log: Callable[[], int]) -> Plan:
    """Store the list with these marks, reusing what `known` holds.

    Args:
        marks: of the new list, in order.
        known: the stored list it grew out of; `None` if there is none.
        make_log: makes the id of a log that nobody else writes.

    Returns:
        A plan whose layout, read in order, gives elements with exactly these marks.
    """
    if known is None:
        return _write_all(marks, make_log())
    if begins_with(marks, known.marks):
        if len(marks) == len(known.marks):
            return Plan(known.layout, [])
        return _append(marks, known)
    return _edit(marks, known, make_log)


def chunks_to_seal(layout: Layout, before: Layout | None) -> list[tuple[Run, list[int]]]:
    """The stretches of its log that a list may seal now, each with the indexes of its elements.

    Each time a log passes a multiple of `SEALED`, that is the stretch before the last complete one,
    if the list names all of it.

    Args:
        layout: of the list.
        before: of the list it grew out of; `None` if there is none.
    """
    log, end = layout.tip
    start = before.tip.position if before is not None and before.tip.log == log else 0
    numbers = range(max(0, start // SEALED - 1), end // SEALED - 1)
    if not numbers:
        return []
    indexes: dict[int, int] = {}
    first = 0
    for run in layout.runs:
        if run.log == log:
            indexes |= zip(range(run.start, run.end), count(first), strict=False)
        first += run.end - run.start
    chunks = [Run(log, number * SEALED, (number + 1) * SEALED) for number in numbers]
    return [
        (chunk, [indexes[position] for position in range(chunk.start, chunk.end)])
        for chunk in chunks
        if all(position in indexes for position in range(chunk.start, chunk.end))
    ]


def begins_with(marks: Sequence[bytes], known: Sequence[bytes]) -> bool:
    """Whether the first of the marks are those that are known."""
    if len(marks) < len(known):
        return False
    # Mostly they are the very same objects, and looking at those would take longer.
    return all(map(is_, known, marks)) or marks[: len(known)] == known


def places_of(runs: Sequence[Run]) -> list[Place]:
    """Every place the runs name, in order."""
    return [(run.log, position) for run in runs for position in range(run.start, run.end)]


def runs_of(places: Sequence[Place]) -> tuple[Run, ...]:
    """The fewest runs that name these places in this order."""
    runs: list[Run] = []
    for log, position in places:
        if runs and runs[-1].log == log and runs[-1].end == position:
            runs[-1] = runs[-1]._replace(end=position + 1)
        else:
            runs.append(Run(log, position, position + 1))
    return tuple(runs)


def merged(log: int, ranges: Sequence[tuple[int, int]]) -> list[Run]:
    """The fewest runs of a log that cover these ranges, which are in order."""
    runs: list[Run] = []
    for start, end in ranges:
        if runs and start <= runs[-1].end:
            runs[-1] = runs[-1]._replace(end=max(end, runs[-1].end))
        else:
            runs.append(Run(log, start, end))
    return runs


def _write_all(marks: Sequence[bytes], log: int) -> Plan:
    added = [(index, (log, index)) for index in range(len(marks))]
    runs = (Run(log, 0, len(marks)),) if marks else ()
    return Plan(Layout(runs, Tip(log, len(marks))), added)


def _append(marks: Sequence[bytes], known: KnownList) -> Plan:
    runs, tip = known.layout
    more = len(marks) - len(known.marks)
    end = tip.position + more
    added = [
        (index, (tip.log, tip.position + offset))
        for offset, index in enumerate(range(len(known.marks), len(marks)))
    ]
    last = runs[-1] if runs else None
    if last is not None and (last.log, last.end) == tip:
        runs = (*runs[:-1], last._replace(end=end))
    else:
        runs = (*runs, Run(tip.log, tip.position, end))
    return Plan(Layout(runs, Tip(tip.log, end)), added)


def _edit(marks: Sequence[bytes], known: KnownList, make_log: Callable[[], int]) -> Plan:
    found = _match(marks, known)
    tip = known.layout.tip
    places: list[Place] = []
    added: list[tuple[int, Place]] = []
    for index, place in enumerate(found):
        if place is None:
            place = tip
            added.append((index, (tip.log, tip.position)))
            tip = Tip(tip.log, tip.position + 1)
        places.append((place[0], place[1]))
    runs = runs_of(places)
    if len(runs) > MOST_RUNS:
        return _write_all(marks, make_log())
    return Plan(Layout(runs, tip), added)


def _match(marks: Sequence[bytes], known: KnownList) -> list[Place | None]:
    """Where each element stands already; equal ones are taken in order, so runs stay long."""
    places: dict[bytes, deque[Place]] = defaultdict(deque)
    for mark, place in zip(known.marks, places_of(known.layout.runs), strict=True):
        places[mark].append(place)
    return [places[mark].popleft() if places.get(mark) else None for mark in marks]
