"""Channel values as entries of a head: what a put has to store, and how a get puts it together.

Works on snapshots: what LangGraph hands over may be changed by a running node at any time, so
everything that is to be stored is taken as marks and stored forms before the first wait.
"""

import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from langgraph.checkpoint.base import ChannelVersions, Checkpoint

from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.checkpoint.head import Entry, Head, Version
from langgraph_sessionmem.checkpoint.runs import KnownList, Layout, plan_list
from langgraph_sessionmem.errors import ThreadDamaged, ValueNotStorable
from langgraph_sessionmem.records import CheckpointRow, Element, Run

INLINE_BYTES = 96
"""A value this small stands in the head itself; a row of its own would cost more."""


class Known(NamedTuple):
    """A stored checkpoint as far as the next one may build on it.

    Attributes:
        marks: of each list channel, in order.
        digests: of each other channel that has a log of its own.
    """

    generation: int
    versions: Mapping[str, Version]
    entries: Mapping[str, Entry]
    marks: Mapping[str, list[bytes]]
    digests: Mapping[str, bytes]


class ListSnapshot(NamedTuple):
    """A list as it was: the mark of each element, and its stored form where only that is exact."""

    marks: list[bytes]
    bodies: list[bytes] | None


class Stored(NamedTuple):
    """What becomes of the channels: the head's entries, new elements, and what is known then."""

    entries: dict[str, Entry]
    elements: list[Element]
    marks: dict[str, list[bytes]]
    digests: dict[str, bytes]

    @property
    def known(self) -> tuple[dict[str, Entry], dict[str, list[bytes]], dict[str, bytes]]:
        """The last three fields of `Known`."""
        return self.entries, self.marks, self.digests


def take_snapshot(
    codec: Codec, values: Mapping[str, Any], *, custom: bool
) -> dict[str, ListSnapshot | bytes]:
    """Each value as it is now: a list as a `ListSnapshot`, any other in its stored form.

    Args:
        codec: writes the values.
        values: by channel.
        custom: the user's own serializer writes the elements, so a mark can't stand for one.

    Raises:
        ValueNotStorable: a value can't be stored; the message names channel and place.
    """
    taken: dict[str, ListSnapshot | bytes] = {}
    for channel, value in values.items():
        try:
            if type(value) is list:
                elements = list(value)
                bodies = [codec.encode(element) for element in elements] if custom else None
                taken[channel] = ListSnapshot([codec.mark(each) for each in elements], bodies)
            else:
                taken[channel] = codec.encode(value)
        except ValueNotStorable as error:
            raise error.under(channel) from error
    return taken


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
    stored = Stored(dict(inherited), [], {}, {})
    for channel in inherited:
        if known is not None and channel in known.marks:
            stored.marks[channel] = known.marks[channel]
        if known is not None and channel in known.digests:
            stored.digests[channel] = known.digests[channel]
    for channel, value in taken.items():
        if isinstance(value, ListSnapshot):
            _store_list(codec, channel, value, known, stored, new_logs)
        else:
            _store_value(channel, value, known, stored)
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
    spans: dict[int, list[tuple[int, int]]] = {}
    for head in heads:
        for entry in head.entries.values():
            if isinstance(entry, Layout):
                for run in entry.runs:
                    spans.setdefault(run.log, []).append((run.start, run.end))
            elif isinstance(entry, int):
                spans.setdefault(entry, []).append((0, 1))
    return [run for log, ranges in spans.items() for run in _merged(log, sorted(ranges))]


def read_channels(
    codec: Codec, row: CheckpointRow, head: Head, bodies: Mapping[tuple[int, int], bytes]
) -> tuple[dict[str, Any], Known]:
    """The channel values of a head, each made anew, and what is known by them.

    Args:
        codec: reads the elements.
        row: the checkpoint.
        head: its head.
        bodies: the elements by `(log, position)`.

    Raises:
        ThreadDamaged: an element is gone.
    """
    values: dict[str, Any] = {}
    marks: dict[str, list[bytes]] = {}
    digests: dict[str, bytes] = {}
    try:
        for channel, entry in head.entries.items():
            if isinstance(entry, Layout):
                found = [
                    bodies[run.log, position]
                    for run in entry.runs
                    for position in range(run.start, run.end)
                ]
                values[channel] = [codec.decode(body) for body in found]
                marks[channel] = codec.marks_of(found, values[channel])
            elif isinstance(entry, int):
                values[channel] = codec.decode(bodies[entry, 0])
                digests[channel] = _digest(bodies[entry, 0])
            else:
                values[channel] = codec.decode(entry)
    except KeyError as error:
        raise ThreadDamaged(
            row.thread_id, f"checkpoint {row.checkpoint_id!r} lost the element at {error.args[0]}"
        ) from error
    known = Known(row.generation, head.channel_versions, head.entries, marks, digests)
    return values, known


def make_log() -> int:
    """A log id of 59 bits that nobody else has; no `uuid4`, which LangGraph's own tests replace."""
    return int.from_bytes(os.urandom(8)) >> 5


def _store_list(
    codec: Codec,
    channel: str,
    value: ListSnapshot,
    known: Known | None,
    stored: Stored,
    new_logs: bool,
) -> None:
    before = _known_list(channel, known, new_logs)
    if before is None and sum(map(len, value.marks)) <= INLINE_BYTES and value.bodies is None:
        inline = [codec.encode_mark(mark) for mark in value.marks]
        stored.entries[channel] = codec.encode_list(inline)
        return
    plan = plan_list(value.marks, before, make_log)
    for index, (log, position) in plan.added:
        body = value.bodies[index] if value.bodies else codec.encode_mark(value.marks[index])
        stored.elements.append(Element(log, position, body))
    stored.entries[channel] = plan.layout
    stored.marks[channel] = value.marks


def _known_list(channel: str, known: Known | None, new_logs: bool) -> KnownList | None:
    if known is None or channel not in known.marks:
        return None
    layout = known.entries[channel]
    assert isinstance(layout, Layout)  # noqa: S101 - `marks` has list channels only
    if new_logs:
        layout = layout._replace(tip=layout.tip._replace(log=make_log(), position=0))
    return KnownList(layout, known.marks[channel])


def _store_value(channel: str, body: bytes, known: Known | None, stored: Stored) -> None:
    if len(body) <= INLINE_BYTES:
        stored.entries[channel] = body
        return
    digest = _digest(body)
    if known is not None and known.digests.get(channel) == digest:
        stored.entries[channel] = known.entries[channel]
    else:
        log = make_log()
        stored.elements.append(Element(log, 0, body))
        stored.entries[channel] = log
    stored.digests[channel] = digest


def _merged(log: int, ranges: Sequence[tuple[int, int]]) -> list[Run]:
    merged: list[Run] = []
    for start, end in ranges:
        if merged and start <= merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(end, merged[-1].end))
        else:
            merged.append(Run(log, start, end))
    return merged


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()
