"""A checkpoint's head: all of it that isn't an element of a log, as bytes.

The head names each channel's value: inline when small, else by the log that holds it, for a list by
its runs. `docs/format.md` has the layout; the first byte is its version.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

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

_NAMES = (
    "__start__",
    "__input__",
    "__pregel_tasks",
    "__interrupt__",
    "__end__",
    "__previous__",
    "messages",
    "model",
    "tools",
    "agent",
)
"""Names that are stored as their place here, which never changes; more may follow them."""
_KNOWN_NAMES = {name: number for number, name in enumerate(_NAMES)}
_BRANCH = "branch:to:"
"""What the channels begin with that LangGraph makes for each node; stored as bytes without it."""

VERSION_LENGTH = 43
"""Of the versions that `get_next_version` makes, until the number has more than 32 digits."""
_UTC = "+00:00"

_OWN_KEYS = frozenset(
    {"v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels"}
)


class Head(NamedTuple):
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
    rest: Mapping[str, Any] = MappingProxyType({})

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
    """A head as bytes; each name and each version stands in it once.

    Raises:
        ValueNotStorable: a name or version in it is no text or number that can be stored.
    """
    names, versions = _Numbers(), _Numbers()
    updated, rest = head.updated_channels, codec.encode(dict(head.rest)) if head.rest else None
    try:
        fields = [
            head.v,
            _pack_time(head.ts),
            _pack_versions(head.channel_versions, names, versions),
            [
                part
                for node, seen in head.versions_seen.items()
                for part in (names[node], _pack_versions(seen, names, versions))
            ],
            None if updated is None else [names[name] for name in updated],
            [
                part
                for name, entry in head.entries.items()
                for part in (names[name], _pack_entry(entry))
            ],
            rest,
            [*map(_pack_name, names)],
            [*map(_pack_version, versions)],
        ]
        packed = ormsgpack.packb(fields)
    except (ormsgpack.MsgpackEncodeError, TypeError, UnicodeEncodeError) as error:
        reason = (
            f"a name or version can't be stored ({error}): {list(head.channel_versions)!r:.200}"
        )
        raise ValueNotStorable("channel_versions", reason) from error
    if codec.fewest_packed <= len(packed) <= MOST_WORDED:
        return min(_PLAIN + packed, _WORDED + deflate_words(packed), key=len)
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


class _Numbers(dict[Any, int]):
    """Numbers things from 0 in the order in which they are first asked for."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


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
    v, ts, channel_versions, versions_seen, updated, entries, rest, packed, versions = fields
    names, found = [*map(_unpack_name, packed)], [*map(_unpack_version, versions)]
    return Head(
        v,
        _unpack_time(ts),
        _unpack_versions(channel_versions, names, found),
        {names[node]: _unpack_versions(seen, names, found) for node, seen in _pairs(versions_seen)},
        None if updated is None else [names[number] for number in updated],
        {names[number]: _unpack_entry(entry) for number, entry in _pairs(entries)},
        codec.decode(rest) if rest is not None else {},
    )


def _unpack_outline(fields: Any, codec: Codec) -> Head:
    v, ts, channel_versions, _, _, entries, _, packed, versions = fields
    names, found = [*map(_unpack_name, packed)], [*map(_unpack_version, versions)]
    return Head(
        v,
        _unpack_time(ts),
        _unpack_versions(channel_versions, names, found),
        {},
        None,
        {names[number]: _unpack_entry(entry) for number, entry in _pairs(entries)},
    )


def _pairs(flat: list[Any]) -> Iterable[tuple[Any, Any]]:
    each = iter(flat)
    return zip(each, each, strict=True)


def _pack_versions(given: dict[str, Version], names: _Numbers, versions: _Numbers) -> list[int]:
    return [part for name, at in given.items() for part in (names[name], versions[at])]


def _unpack_versions(
    flat: list[int], names: list[str], versions: list[Version]
) -> dict[str, Version]:
    return {names[name]: versions[version] for name, version in _pairs(flat)}


@lru_cache(1024)
def _pack_name(name: object) -> int | bytes | str:
    """A name; what LangGraph itself calls things is shorter."""
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no text")
    known = _KNOWN_NAMES.get(name)
    if known is not None:
        return known
    return name[len(_BRANCH) :].encode() if name.startswith(_BRANCH) else name


@lru_cache(1024)
def _unpack_name(packed: int | bytes | str) -> str:
    if isinstance(packed, int):
        return _NAMES[packed]
    return _BRANCH + packed.decode() if isinstance(packed, bytes) else packed


def _pack_version(version: Version) -> bytes | Version:
    """A version; one of ours is shorter, as bytes without the zeros it begins with."""
    if type(version) is str and len(version) == VERSION_LENGTH:
        short = version.lstrip("0")
        if short.zfill(VERSION_LENGTH) == version:
            return short.encode()
    return version


def _unpack_version(packed: bytes | Version) -> Version:
    return packed.decode().zfill(VERSION_LENGTH) if isinstance(packed, bytes) else packed


def _pack_time(ts: str) -> bytes | str:
    """A time; one of UTC is shorter, as bytes that don't say so."""
    return ts[: -len(_UTC)].encode() if ts.endswith(_UTC) else ts


def _unpack_time(packed: bytes | str) -> str:
    return packed.decode() + _UTC if isinstance(packed, bytes) else packed


def _pack_entry(entry: Entry) -> bytes | int | list[int]:
    """An entry; of a list that is the whole of its log, the tip alone says it."""
    if not isinstance(entry, Layout):
        return entry
    runs, tip = entry
    if runs == ((tip.log, 0, tip.position),):
        return [*tip]
    return [*tip, len(runs), *(number for run in runs for number in run)]


def _unpack_entry(entry: bytes | int | list[int]) -> Entry:
    if not isinstance(entry, list):
        return entry
    log, position, *more = entry
    if not more:
        return Layout((Run(log, 0, position),), Tip(log, position))
    count, *numbers = more
    runs = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    if 3 * count != len(numbers):
        raise ValueError(f"{count} runs in {len(numbers)} numbers")
    return Layout(tuple(Run(*run) for run in runs), Tip(log, position))
