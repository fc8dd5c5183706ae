"""A checkpoint's head: all of it that isn't an element of a log, as bytes.

The head names each channel's value: inline when small, else by the log that holds it, for a list by
its runs. `docs/format.md` has the layout; the first byte is its version.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import ormsgpack
from langgraph.checkpoint.base import Checkpoint

from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.checkpoint.compression import (
    MOST_WORDED,
    deflate_words,
    inflate_words,
)
from langgraph_sessionmem.checkpoint.runs import Layout, Tip
from langgraph_sessionmem.errors import CorruptData, ValueNotStorable
from langgraph_sessionmem.rows import Run

Version: TypeAlias = str | int | float
Entry: TypeAlias = bytes | int | Layout
"""A value: its stored form inline, the log whose first element it is, or a list's layout."""

_PLAIN, _WORDED = b"\x01", b"\x02"
"""Versions: msgpack as it is, and compressed with the preset dictionary."""

_OWN_KEYS = frozenset(
    {"v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels"}
)


@dataclass(frozen=True, slots=True)
class Head:
    """A checkpoint without its channel values.

    Attributes:
        entries: where each channel's value is; a channel without a value is absent.
        rest: keys that LangGraph may add to a checkpoint.
    """

    v: int
    ts: str
    channel_versions: dict[str, Version]
    versions_seen: dict[str, dict[str, Version]]
    updated_channels: list[str] | None
    entries: dict[str, Entry]
    rest: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, checkpoint: Checkpoint, entries: dict[str, Entry]) -> "Head":
        """The head of a checkpoint whose values are where `entries` says."""
        return cls(
            checkpoint["v"],
            checkpoint["ts"],
            dict(checkpoint["channel_versions"]),
            {node: dict(seen) for node, seen in checkpoint["versions_seen"].items()},
            checkpoint.get("updated_channels"),
            entries,
            {key: value for key, value in checkpoint.items() if key not in _OWN_KEYS},
        )

    def count_elements(self) -> int:
        """How many elements of logs it names."""
        runs = (
            run
            for entry in self.entries.values()
            if isinstance(entry, Layout)
            for run in entry.runs
        )
        return sum(run.end - run.start for run in runs)

    def checkpoint(self, checkpoint_id: str, channel_values: dict[str, Any]) -> Checkpoint:
        """The checkpoint again; every call makes new containers."""
        checkpoint = {
            "v": self.v,
            "ts": self.ts,
            "id": checkpoint_id,
            "channel_values": channel_values,
            "channel_versions": dict(self.channel_versions),
            "versions_seen": {node: dict(seen) for node, seen in self.versions_seen.items()},
            "updated_channels": self.updated_channels,
            **self.rest,
        }
        return cast("Checkpoint", checkpoint)


def pack_head(head: Head, codec: Codec) -> bytes:
    """A head as bytes; each version string stands in it once.

    Raises:
        ValueNotStorable: a name or version in it is no text or number that can be stored.
    """
    versions: dict[Version, int] = {}

    def index(names: dict[str, Version]) -> dict[str, int]:
        return {
            name: versions.setdefault(version, len(versions)) for name, version in names.items()
        }

    channel_versions = index(head.channel_versions)
    versions_seen = {node: index(seen) for node, seen in head.versions_seen.items()}
    fields = [
        head.v,
        head.ts,
        list(versions),
        channel_versions,
        versions_seen,
        head.updated_channels,
        {name: _pack_entry(entry) for name, entry in head.entries.items()},
        codec.encode(head.rest) if head.rest else None,
    ]
    try:
        packed = ormsgpack.packb(fields)
    except (ormsgpack.MsgpackEncodeError, TypeError) as error:
        reason = (
            f"a name or version can't be stored ({error}): {list(head.channel_versions)!r:.200}"
        )
        raise ValueNotStorable("channel_versions", reason) from error
    if len(packed) < MOST_WORDED:
        worded = deflate_words(packed)
        if len(worded) < len(packed):
            return _WORDED + worded
    return _PLAIN + packed


def unpack_head(body: bytes, codec: Codec) -> Head:
    """What `pack_head` packed.

    Raises:
        CorruptData: it is no head that this version knows.
    """
    return _unpack_as(_unpack, body, codec)


def unpack_outline(body: bytes, codec: Codec) -> Head:
    """A head without `versions_seen` and `rest`, which are most of the work.

    Raises:
        CorruptData: it is no head that this version knows.
    """
    return _unpack_as(_unpack_outline, body, codec)


def _unpack_as(unpack: Callable[[Any, Codec], Head], body: bytes, codec: Codec) -> Head:
    version, packed = body[:1], body[1:]
    if version == _WORDED:
        packed = inflate_words(packed)
    elif version != _PLAIN:
        raise CorruptData(
            f"A checkpoint's head begins with {version!r}, which is no known version."
        )
    try:
        return unpack(ormsgpack.unpackb(packed), codec)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise CorruptData(f"A checkpoint's head can't be read: {error}.") from error


def _unpack(fields: Any, codec: Codec) -> Head:
    v, ts, versions, channel_versions, versions_seen, updated, entries, rest = fields
    return Head(
        v,
        ts,
        {name: versions[index] for name, index in channel_versions.items()},
        {
            node: {name: versions[index] for name, index in seen.items()}
            for node, seen in versions_seen.items()
        },
        updated,
        {name: _unpack_entry(entry) for name, entry in entries.items()},
        codec.decode(rest) if rest is not None else {},
    )


def _unpack_outline(fields: Any, codec: Codec) -> Head:
    v, ts, versions, channel_versions, _, _, entries, _ = fields
    return Head(
        v,
        ts,
        {name: versions[index] for name, index in channel_versions.items()},
        {},
        None,
        {name: _unpack_entry(entry) for name, entry in entries.items()},
    )


def _pack_entry(entry: Entry) -> bytes | int | list[int]:
    if isinstance(entry, Layout):
        return [*entry.tip, *(number for run in entry.runs for number in run)]
    return entry


def _unpack_entry(entry: bytes | int | list[int]) -> Entry:
    if not isinstance(entry, list):
        return entry
    log, position, *numbers = entry
    runs = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    return Layout(tuple(Run(*run) for run in runs), Tip(log, position))
