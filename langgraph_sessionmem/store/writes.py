"""Writes that hold only if nobody else wrote meanwhile, and what an item was before."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from langgraph.store.base import NOT_PROVIDED, NotProvided, PutOp

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.item_records import ItemKey
from langgraph_sessionmem.store.times import to_microseconds


class Expected(Enum):
    """What a write may expect of its item, beside an `updated_at`."""

    ANYTHING = "anything"
    ABSENT = "absent"


ANYTHING: Final = Expected.ANYTHING
"""The item may be there or not, as it is."""
ABSENT: Final = Expected.ABSENT
"""There must be no such item."""


class ItemWrite(NamedTuple):
    """One item to store or, without a value, to delete.

    Attributes:
        index, ttl: as for `put`.
        expected: the `updated_at` that the item must still have, `ABSENT`, or `ANYTHING`.
    """

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any] | None
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]  # as in `PutOp`
    ttl: float | NotProvided | None = NOT_PROVIDED
    expected: "datetime | Expected" = ANYTHING


class ItemVersion(NamedTuple):
    """A value that an item had, or has.

    Attributes:
        since: when it was put.
        until: when another took its place; `None` for the present one.
    """

    value: dict[str, Any]
    since: datetime
    until: datetime | None


Expectations: TypeAlias = Mapping[ItemKey, int]
"""The `updated_at` in microseconds that items must have; 0: they must not be there."""


def read_writes(
    writes: Iterable[ItemWrite], default_ttl: float | None
) -> tuple[Sequence[PutOp], Expectations]:
    """The ops of a write, and what it expects.

    Raises:
        InvalidArgument: an item is written twice, or a deletion expects something.
    """
    ops: dict[ItemKey, PutOp] = {}
    expectations: dict[ItemKey, int] = {}
    for write in writes:
        key = (write.namespace, write.key)
        if key in ops:
            raise InvalidArgument(f"{key!r} is written twice: give each item once.")
        ttl = default_ttl if isinstance(write.ttl, NotProvided) else write.ttl
        value = None if write.value is None else dict(write.value)
        ops[key] = PutOp(write.namespace, write.key, value, write.index, ttl)
        if write.expected is ANYTHING:
            continue
        if write.value is None:
            raise InvalidArgument(
                f"expected={write.expected!r} of the deletion of {key!r}: only a write of a value "
                "may expect something."
            )
        is_absent = write.expected is ABSENT
        expectations[key] = 0 if is_absent else to_microseconds("expected", write.expected)
    return list(ops.values()), expectations
