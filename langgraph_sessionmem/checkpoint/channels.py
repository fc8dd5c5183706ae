"""Channel values as entries of a head: what a put has to store, and how a get puts it together.

Works on snapshots (`snapshots.py`) when it stores, and on bytes that were read, or are remembered,
when it reads.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from langgraph.checkpoint.base import ChannelVersions, Checkpoint

from langgraph_sessionmem.checkpoint.codec import Codec, is_exact
from langgraph_sessionmem.checkpoint.compression import seal
from langgraph_sessionmem.checkpoint.head import Entry, Head, Version
from langgraph_sessionmem.checkpoint.runs import (
    KnownList,
    Layout,
    begins_with,
    chunks_to_seal,
    merged,
    plan_list,
)
from langgraph_sessionmem.checkpoint.snapshots import ListSnapshot
from langgraph_sessionmem.errors import ThreadDamaged
from langgraph_sessionmem.rows import Block, CheckpointRow, Element, Run

INLINE_BYTES = 96
"""A value this small stands in the head itself; a row of its own would cost more."""

_INPUT, _INPUT_BYTES = "__start__", 2_048
"""The input of a run stands in one checkpoint only, so it may be larger: a row isn't shared."""

MOST_SEALED = 1024 * 1024
"""Bytes of elements that are sealed together; larger ones stay as they are."""

_DIGEST = b"\xff"
"""What a digest begins with; no stored form does."""

_EACH = 16
"""Of so many marks one is measured."""

MOST_KEPT = 1024 * 1024
"""Bytes of a value that is remembered whole; of a larger one only a digest is."""


class ListState(NamedTuple):
    """A stored list: of each element, its mark and its stored form.

    Attributes:
        objects: the elements themselves, where they may be handed out again.
    """

    marks: list[bytes]
    bodies: list[bytes]
    objects: list[Any] | None


class Known(NamedTuple):
    """A stored checkpoint as far as the next one may build on it.

    Attributes:
        lists: the list channels that have a log.
        bodies: of each other channel that has a log of its own, its stored form, or the digest of
            a large one.
    """

    generation: int
    versions: Mapping[str, Version]
    entries: Mapping[str, Entry]
    lists: Mapping[str, ListState]
    bodies: Mapping[str, bytes]

    def marks(self) -> dict[str, list[bytes]]:
        """The marks of each list's elements."""
        return {channel: state.marks for channel, state in self.lists.items()}

    def size(self) -> int:
        """About how many bytes of memory it takes."""
        size = sum(map(len, self.bodies.values())) + 200 * len(self.entries) + 1_000
        for marks, _, objects in self.lists.values():
            # Stored forms are about as large as marks; an object takes a kilobyte beside its text.
            size += 2 * _EACH * sum(map(len, marks[::_EACH]))
            size += len(marks) * (1_000 if objects else 64)
        return size


class Stored(NamedTuple):
    """What becomes of the channels: the head's entries, new elements, and what is known then."""

    entries: dict[str, Entry]
    elements: list[Element]
    blocks: list[Block]
    lists: dict[str, ListState]
    bodies: dict[str, bytes]

    @property
    def known(self) -> tuple[dict[str, Entry], dict[str, ListState], dict[str, bytes]]:
        """The last three fields of `Known`."""
        return self.entries, self.lists, self.bodies


def store_channels(
    codec: Codec,
    taken: Mapping[str, ListSnapshot | bytes],
    inherited: Mapping[str, Entry],
    known: Known | None,
    *,
    new_logs: bool,
) -> Stored:
    """Entries for the channels in `taken`, beside those that are `inherited` from `known`.

    Args:
        codec: writes the elements.
        taken: the values to store, by channel.
        inherited: entries that stay as they are.
        known: the checkpoint to build on; `None` stores everything.
        new_logs: somebody else appended where we would, so take new logs.
    """
    stored = Stored(dict(inherited), [], [], {}, {})
    for channel in inherited:
        if known is not None and channel in known.lists:
            stored.lists[channel] = known.lists[channel]
        if known is not None and channel in known.bodies:
            stored.bodies[channel] = known.bodies[channel]
    for channel, value in taken.items():
        if isinstance(value, ListSnapshot):
            _store_list(codec, channel, value, known, stored, new_logs)
        else:
            _store_value(codec, channel, value, known, stored)
    return stored


def inherited_entries(
    checkpoint: Checkpoint, new_versions: ChannelVersions, known: Known | None
) -> dict[str, Entry]:
    """The entries that a checkpoint shares with its parent: same channel, same version."""
    if known is None:
        return {}
    versions = checkpoint["channel_versions"]
    return {
        channel: entry
        for channel, entry in known.entries.items()
        if channel not in new_versions
        and channel in versions
        and known.versions.get(channel) == versions[channel]
    }


def runs_to_read(heads: Sequence[Head]) -> list[Run]:
    """The fewest stretches of logs that hold all values of these heads."""
    return _runs_of(entry for head in heads for entry in head.entries.values())


def missing_runs(head: Head, known: Known | None) -> list[Run]:
    """What has to be read for a head, beside what is known."""
    again = _remembered(head, known)
    return _runs_of(entry for channel, entry in head.entries.items() if channel not in again)


def read_channels(
    codec: Codec,
    row: CheckpointRow,
    head: Head,
    bodies: Mapping[tuple[int, int], bytes],
    known: Known | None = None,
    *,
    reuse: bool = False,
) -> tuple[dict[str, Any], Known]:
    """The channel values of a head, and what is known by them.

    Args:
        codec: reads the elements.
        row: the checkpoint.
        head: its head.
        bodies: the elements by `(log, position)`, apart from those that `known` has.
        known: what is remembered of this checkpoint.
        reuse: hand out the remembered elements of lists where they are as they were; otherwise each
            value is made anew.

    Raises:
        ThreadDamaged: an element is gone.
    """
    again = _remembered(head, known)
    states = {name: known.lists[name] for name in again if name in known.lists} if known else {}
    small = {name: known.bodies[name] for name in again if name in known.bodies} if known else {}
    entries = {name: entry for name, entry in head.entries.items() if name not in again}
    found = _find_bodies(row, entries, bodies)
    values = _values_of(codec, head, found | {name: [body] for name, body in small.items()})
    for channel, state in states.items():
        values[channel] = _recall(codec, state, reuse=reuse)
    lists: dict[str, ListState] = {}
    kept: dict[str, bytes] = {}
    for channel, entry in head.entries.items():
        if isinstance(entry, Layout):
            state = states.get(channel) or ListState(
                codec.marks_of(found[channel], values[channel]), found[channel], None
            )
            lists[channel] = state._replace(objects=list(values[channel]) if reuse else None)
        elif isinstance(entry, int):
            kept[channel] = small.get(channel) or _kept_body(found[channel][0])
    return values, Known(row.generation, head.channel_versions, head.entries, lists, kept)


def recall_values(codec: Codec, head: Head, known: Known) -> dict[str, Any] | None:
    """The channel values of a head, each made anew, if all of them are known."""
    if known.entries != head.entries or known.versions != head.channel_versions:
        return None
    values: dict[str, Any] = {}
    for channel, entry in head.entries.items():
        if isinstance(entry, Layout):
            values[channel] = codec.decode_all(known.lists[channel].bodies)
            continue
        body = entry if isinstance(entry, bytes) else known.bodies[channel]
        if body[:1] == _DIGEST:
            return None
        values[channel] = codec.decode(body)
    return values


def read_values(
    codec: Codec, row: CheckpointRow, head: Head, bodies: Mapping[tuple[int, int], bytes]
) -> dict[str, Any]:
    """The channel values of a head, each made anew.

    Raises:
        ThreadDamaged: an element is gone.
    """
    return _values_of(codec, head, _find_bodies(row, head.entries, bodies))


def make_log() -> int:
    """A log id of 59 bits that nobody else has; no `uuid4`, which LangGraph's own tests replace."""
    return int.from_bytes(os.urandom(8)) >> 5


def _remembered(head: Head, known: Known | None) -> set[str]:
    """The channels of a head whose values are known: the same places hold the same for ever."""
    if known is None:
        return set()
    return {
        channel
        for channel, entry in head.entries.items()
        if known.entries.get(channel) == entry
        and (channel in known.lists or known.bodies.get(channel, _DIGEST)[:1] != _DIGEST)
    }


def _find_bodies(
    row: CheckpointRow, entries: Mapping[str, Entry], bodies: Mapping[tuple[int, int], bytes]
) -> dict[str, list[bytes]]:
    """The elements of each entry that has some, in order."""
    try:
        return {
            channel: [
                bodies[run.log, position]
                for run in entry.runs
                for position in range(run.start, run.end)
            ]
            if isinstance(entry, Layout)
            else [bodies[entry, 0]]
            for channel, entry in entries.items()
            if not isinstance(entry, bytes)
        }
    except KeyError as error:
        raise ThreadDamaged(
            row.thread_id, f"checkpoint {row.checkpoint_id!r} lost the element at {error.args[0]}"
        ) from error


def _values_of(codec: Codec, head: Head, found: Mapping[str, Sequence[bytes]]) -> dict[str, Any]:
    """The values whose elements were found, and those that stand in the head itself."""
    values: dict[str, Any] = {}
    for channel, entry in head.entries.items():
        if isinstance(entry, bytes):
            values[channel] = codec.decode(entry)
        elif isinstance(entry, int):
            values[channel] = codec.decode(found[channel][0])
        else:
            # What is remembered as a list comes later, and keeps its place here.
            values[channel] = codec.decode_all(found.get(channel, ()))
    return values


def _recall(codec: Codec, state: ListState, *, reuse: bool) -> list[Any]:
    """The elements of a remembered list; with `reuse` those that are as they were, themselves.

    What has no exact form is made anew: the one that was put may differ from what comes back.
    """
    if not reuse or state.objects is None:
        return codec.decode_all(state.bodies)
    present = codec.marks_now(state.objects, state.marks)
    return [
        element if mark == now and is_exact(mark) else codec.decode(body)
        for element, mark, now, body in zip(
            state.objects, state.marks, present, state.bodies, strict=True
        )
    ]


def _runs_of(entries: Iterable[Entry]) -> list[Run]:
    spans: dict[int, list[tuple[int, int]]] = {}
    for entry in entries:
        if isinstance(entry, Layout):
            for run in entry.runs:
                spans.setdefault(run.log, []).append((run.start, run.end))
        elif isinstance(entry, int):
            spans.setdefault(entry, []).append((0, 1))
    return [run for log, ranges in spans.items() for run in merged(log, sorted(ranges))]


def _kept_body(body: bytes) -> bytes:
    """What is remembered of a value that is no list: its stored form, or a digest of it."""
    if len(body) <= MOST_KEPT:
        return body
    return _DIGEST + blake2b(body, digest_size=16).digest()


def _store_list(
    codec: Codec,
    channel: str,
    value: ListSnapshot,
    known: Known | None,
    stored: Stored,
    new_logs: bool,
) -> None:
    state = known.lists.get(channel) if known is not None else None
    if state is None and value.bodies is None and sum(map(len, value.marks)) <= INLINE_BYTES:
        inline = [codec.encode_mark(mark) for mark in value.marks]
        stored.entries[channel] = codec.encode_list(inline)
        return
    before = None
    if known is not None and state is not None:
        before = KnownList(_layout_of(known, channel, new_logs), state.marks)
    plan = plan_list(value.marks, before, make_log)
    if state is not None and before is not None and plan.layout == before.layout:
        stored.entries[channel] = plan.layout
        stored.lists[channel] = state._replace(marks=value.marks, objects=value.objects)
        return
    bodies = value.bodies or _bodies_of(codec, value.marks, state)
    rows = {place: codec.row_of(bodies[index]) for index, place in plan.added}
    if value.bodies is None:
        for block in _seal(plan.layout, before.layout if before else None, bodies):
            places = [(block.log, position) for position in range(block.first, block.last + 1)]
            if rows.keys() >= set(places):
                # All of it is new, so it is stored as it will be read.
                rows |= dict.fromkeys(places, b"") | {places[-1]: block.body}
            else:
                stored.blocks.append(block)
    stored.elements.extend(Element(*place, body) for place, body in rows.items())
    stored.entries[channel] = plan.layout
    stored.lists[channel] = ListState(value.marks, bodies, value.objects)


def _layout_of(known: Known, channel: str, new_logs: bool) -> Layout:
    layout = known.entries[channel]
    assert isinstance(layout, Layout)  # noqa: S101 - `lists` has list channels only
    if new_logs:
        return layout._replace(tip=layout.tip._replace(log=make_log(), position=0))
    return layout


def _bodies_of(codec: Codec, marks: list[bytes], state: ListState | None) -> list[bytes]:
    """The stored form of each element; those that are known are not made again."""
    if state is None:
        return [codec.encode_mark(mark) for mark in marks]
    if begins_with(marks, state.marks):
        return state.bodies + [codec.encode_mark(mark) for mark in marks[len(state.marks) :]]
    found = dict(zip(state.marks, state.bodies, strict=True))
    return [found.get(mark) or codec.encode_mark(mark) for mark in marks]


def _seal(layout: Layout, before: Layout | None, bodies: Sequence[bytes]) -> list[Block]:
    """The blocks that make a list smaller now."""
    blocks = []
    for run, indexes in chunks_to_seal(layout, before):
        elements = [bodies[index] for index in indexes]
        size = sum(map(len, elements))
        block = seal(run.start, elements) if size <= MOST_SEALED else b""
        if block and len(block) < size:
            blocks.append(Block(run.log, run.start, run.end - 1, block))
    return blocks


def _store_value(
    codec: Codec, channel: str, body: bytes, known: Known | None, stored: Stored
) -> None:
    if len(body) <= (_INPUT_BYTES if channel == _INPUT else INLINE_BYTES):
        stored.entries[channel] = body
        return
    kept = _kept_body(body)
    if known is not None and known.bodies.get(channel) == kept:
        stored.entries[channel] = known.entries[channel]
    else:
        log = make_log()
        stored.elements.append(Element(log, 0, codec.row_of(body)))
        stored.entries[channel] = log
    stored.bodies[channel] = kept
