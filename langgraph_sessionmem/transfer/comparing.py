"""Whether a checkpoint arrived as it left, part by part. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

_SERIALIZER = JsonPlusSerializer()
_GONE_KEYS = frozenset({"writes"})
"""Metadata that LangGraph itself no longer keeps."""


def differences(
    source: CheckpointTuple, target: CheckpointTuple | None, *, went_on: bool = False
) -> Iterator[str]:
    """The parts of a checkpoint that are not the same on both sides, by name.

    Args:
        source: as it was read from where it came from.
        target: as it was read from where it went; None if it isn't there.
        went_on: the thread has been continued there, so tasks may have written more.
    """
    if target is None:
        yield "the checkpoint is missing"
        return
    yield from _unequal("checkpoint", _facts(source), _facts(target))
    values = source.checkpoint["channel_values"], target.checkpoint["channel_values"]
    yield from _unequal("channel_values", *values)
    yield from _unequal("metadata", _metadata(source), _metadata(target))
    if _parent(source) != _parent(target):
        yield "parent"
    before, after = source.pending_writes or [], target.pending_writes or []
    if went_on:
        before = [write for write in before if write[1] not in WRITES_IDX_MAP]
        after = [write for write in after if any(same(write, each) for each in before)]
    if not same([*map(tuple, before)], [*map(tuple, after)]):
        yield "pending_writes"


def same(one: Any, other: Any) -> bool:
    """Whether two values are of the same type and content, however deep; NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    try:
        if bool(one == other):
            return True
    except (TypeError, ValueError):
        pass  # an array's truth is not one value
    # What has no equality of its own, or an odd one, is compared by what would be stored of it.
    return bool(_stored(one) == _stored(other))


def _stored(value: Any) -> Any:
    try:
        return _SERIALIZER.dumps_typed(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _unequal(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*one, *other}, key=str):
        if key not in one or key not in other or not same(one[key], other[key]):
            yield f"{name}.{key}"


def _facts(found: CheckpointTuple) -> dict[str, Any]:
    """A checkpoint without its values; what is None may as well be absent."""
    return {
        key: value
        for key, value in found.checkpoint.items()
        if key != "channel_values" and value is not None
    }


def _metadata(found: CheckpointTuple) -> dict[str, Any]:
    """Metadata as JSON has it, for the official savers keep it so: tuples are lists."""
    return {key: _listed(value) for key, value in found.metadata.items() if key not in _GONE_KEYS}


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _listed(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [_listed(each) for each in value]
    return value


def _parent(found: CheckpointTuple) -> str | None:
    if found.parent_config is None:
        return None
    checkpoint_id: str | None = found.parent_config["configurable"].get("checkpoint_id")
    return checkpoint_id or None
