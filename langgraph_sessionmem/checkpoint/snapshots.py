"""Values as they are at one moment: LangGraph may change what it handed over at any time.

A snapshot is taken before the first wait. It holds bytes, and for a saver that reuses objects the
elements of lists too, which are handed out again only where they still have their marks.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langgraph_sessionmem.checkpoint.codec import Codec, is_exact
from langgraph_sessionmem.checkpoint.verifying import locate, verify
from langgraph_sessionmem.errors import ValueNotStorable


class ListSnapshot(NamedTuple):
    """A list as it was.

    Attributes:
        marks: of each element.
        bodies: the stored forms, where they don't follow from the marks.
        objects: the elements, where they are to be remembered.
    """

    marks: list[bytes]
    bodies: list[bytes] | None
    objects: list[Any] | None


class Taking(NamedTuple):
    """How values are taken.

    Attributes:
        custom: the user's own serializer writes the elements, so a mark can't stand for one.
        verifies: what wouldn't come back as it is is refused.
        keeps_objects: the elements of lists are remembered too.
    """

    custom: bool = False
    verifies: bool = False
    keeps_objects: bool = False


def take_snapshot(
    codec: Codec, values: Mapping[str, Any], likely: Mapping[str, Sequence[bytes]], taking: Taking
) -> dict[str, ListSnapshot | bytes]:
    """Each value as it is now: a list as a `ListSnapshot`, any other in its stored form.

    Args:
        codec: writes the values.
        values: by channel.
        likely: the marks that the first elements of lists probably have, by channel.
        taking: how.

    Raises:
        ValueNotStorable: a value can't be stored, or not so that it comes back; the message names
            channel and place.
    """
    taken: dict[str, ListSnapshot | bytes] = {}
    for channel, value in values.items():
        if type(value) is list:
            before = likely.get(channel, ())
            taken[channel] = _take_list(codec, channel, list(value), before, taking)
        else:
            taken[channel] = take_value(codec, channel, value, verifies=taking.verifies)
    return taken


def take_value(codec: Codec, channel: str, value: Any, *, verifies: bool) -> bytes:
    """The stored form of a value.

    Raises:
        ValueNotStorable: as for `take_snapshot`.
    """
    try:
        body = codec.encode(value)
    except ValueNotStorable as error:
        raise locate(codec, value, error).under(channel) from error
    if verifies:
        verify(codec, channel, value, body)
    return body


def _take_list(
    codec: Codec, channel: str, elements: list[Any], likely: Sequence[bytes], taking: Taking
) -> ListSnapshot:
    try:
        marks = codec.marks(elements, likely)
        bodies = [codec.encode(element) for element in elements] if taking.custom else None
    except ValueNotStorable as error:
        raise locate(codec, elements, error).under(channel) from error
    if taking.verifies:
        for index, (element, mark) in enumerate(zip(elements, marks, strict=True)):
            # What was here before in an exact form was verified then.
            if not (is_exact(mark) and index < len(likely) and mark == likely[index]):
                body = bodies[index] if bodies else codec.encode_mark(mark)
                verify(codec, f"{channel}[{index}]", element, body)
    return ListSnapshot(marks, bodies, elements if taking.keeps_objects else None)
