"""Texts, order keys and rows as the bytes that Redis holds; pure.

`docs/format.md` has the layout.
"""

from collections.abc import Iterable, Sequence

import ormsgpack

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.records import CheckpointRow, OrderKey, OrderRow, ThreadRow, WriteRow


def to_bytes(text: str) -> bytes:
    """`text` in UTF-8, whose bytes have the order of the text.

    Raises:
        InvalidArgument: it has a lone surrogate, which is no text.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{text!r} has a lone surrogate, which no database can hold in an id; remove it."
        ) from error


def escape(text: str) -> bytes:
    """`text` in UTF-8, so that a NUL may end it: one in the text is followed by 255."""
    return to_bytes(text).replace(b"\x00", b"\x00\xff")


def unescape(escaped: bytes) -> str:
    """What `escape` was given."""
    return escaped.replace(b"\x00\xff", b"\x00").decode()


def order_bytes(order: OrderKey) -> bytes:
    """Bytes with the order of the keys, none the beginning of another's."""
    digits = b"%d" % order.n
    return b"%b\x00%d%b" % (escape(order.id), len(digits), digits)


def join_place(checkpoint_ns: str, checkpoint_id: str) -> bytes:
    """Where a checkpoint stands in its thread: no two pairs give the same bytes."""
    return escape(checkpoint_ns) + b"\x00" + escape(checkpoint_id)


def split_place(place: bytes) -> tuple[str, str]:
    """The namespace and checkpoint id that `join_place` was given."""
    end = place.index(b"\x00")
    while place[end + 1 : end + 2] == b"\xff":
        end = place.index(b"\x00", end + 1)
    return unescape(place[:end]), unescape(place[end + 1 :])


def read_order_row(place: bytes, value: bytes) -> OrderRow:
    """Where a checkpoint stands; `value` is that of its field."""
    namespace, identity = split_place(place)
    n, size, rest = value.split(b" ", 2)
    order_id = unescape(rest[: int(size)]) if size != b"0" else identity
    return OrderRow(namespace, identity, OrderKey(order_id, int(n)))


def read_checkpoint_row(
    thread_id: str, generation: bytes, refresh: bytes, place: bytes, value: bytes
) -> CheckpointRow:
    """A checkpoint; `value` is that of its field."""
    namespace, identity, order = read_order_row(place, value)
    _, size, rest = value.split(b" ", 2)
    parent_id, _, head, metadata = ormsgpack.unpackb(rest[int(size) :])
    return CheckpointRow(
        thread_id,
        int(generation),
        namespace,
        identity,
        parent_id,
        order,
        head,
        metadata,
        refresh == b"1",
    )


def read_write_rows(place: bytes, chunks: Sequence[bytes]) -> Iterable[WriteRow]:
    """The writes in the chunks of one checkpoint."""
    namespace, identity = split_place(place)
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            # No copy of the rest: a chunk may hold many rows.
            heads = []
            for _ in range(3):
                end = chunk.index(b" ", start)
                heads.append(int(chunk[start:end]))
                start = end + 1
            task_size, idx, size = heads
            task_id = chunk[start : start + task_size].decode()
            start += task_size
            task_path, channel, body = ormsgpack.unpackb(chunk[start : start + size])
            start += size
            yield WriteRow(namespace, identity, task_id, idx, task_path, channel, body)


def read_thread_row(row: Sequence[bytes]) -> ThreadRow:
    """A thread, as `scan_threads.lua` gives it: times in milliseconds."""
    name, generation, created, updated, expires, checkpoints = row
    return ThreadRow(
        name.decode(),
        int(generation),
        int(created) / 1000,
        int(updated) / 1000,
        int(expires) / 1000 if expires else None,
        int(checkpoints),
    )
