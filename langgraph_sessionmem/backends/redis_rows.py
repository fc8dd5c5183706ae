"""Texts, order keys and rows as the bytes that Redis holds; pure.

`docs/format.md` has the layout.
"""

from collections.abc import Iterable, Sequence

import ormsgpack

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.rows import (
    ANCHOR_ORDER,
    CheckpointRow,
    Element,
    Limits,
    OrderKey,
    OrderRow,
    Run,
    ThreadRow,
    WriteRow,
)

CHUNK_BYTES = 4096
"""A chunk of writes that has so many grows no further."""

_HOLES = (b"", b"\x00")
"""Places of a log without an element: one that is in a block behind it, and one that was cut."""


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


def index_member(order: OrderKey, checkpoint_ns: str, checkpoint_id: str) -> bytes:
    """What stands for a checkpoint in its thread's index."""
    own = b"" if checkpoint_id == order.id else b"+" + escape(checkpoint_id)
    return b"%b%b\x00%b" % (order_bytes(order), escape(checkpoint_ns), own)


def join_place(checkpoint_ns: str, checkpoint_id: str) -> bytes:
    """Where a checkpoint stands in its thread: no two pairs give the same bytes."""
    return escape(checkpoint_ns) + b"\x00" + escape(checkpoint_id)


def split_place(place: bytes) -> tuple[str, str]:
    """The namespace and checkpoint id that `join_place` was given."""
    end = place.index(b"\x00")
    while place[end + 1 : end + 2] == b"\xff":
        end = place.index(b"\x00", end + 1)
    return unescape(place[:end]), unescape(place[end + 1 :])


def pack_body(parent_id: str | None, run_id: str | None, head: bytes, metadata: bytes) -> bytes:
    """The last part of a checkpoint's value."""
    return ormsgpack.packb((parent_id, run_id, head, metadata))


def pack_checkpoint(row: CheckpointRow, run_id: str | None) -> bytes:
    """The value of a checkpoint's field."""
    order_id = b"" if row.order.id == row.checkpoint_id else escape(row.order.id)
    if row.order == ANCHOR_ORDER:
        order_id = b""
    heads = (row.order.n, len(order_id), row.seq, row.elder or 0)
    body = pack_body(row.parent_id, run_id, row.head, row.metadata)
    return b"%d %d %d %d %b%b" % (*heads, order_id, body)


def read_order_row(place: bytes, value: bytes) -> OrderRow:
    """Where a checkpoint stands; `value` is that of its field."""
    namespace, identity = split_place(place)
    n, size, _, _, rest = value.split(b" ", 4)
    if n == b"-1":
        return OrderRow(namespace, identity, ANCHOR_ORDER)
    order_id = unescape(rest[: int(size)]) if size != b"0" else identity
    return OrderRow(namespace, identity, OrderKey(order_id, int(n)))


def read_checkpoint_row(
    thread_id: str, generation: bytes, flags: int, place: bytes, value: bytes
) -> CheckpointRow:
    """A checkpoint; `value` is that of its field, `flags` as in `common.lua`."""
    namespace, identity, order = read_order_row(place, value)
    _, size, seq, elder, rest = value.split(b" ", 4)
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
        bool(flags & 1),
        int(seq),
        int(elder) or None,
        bool(flags & 2),
    )


def pack_writes(rows: Iterable[WriteRow]) -> list[bytes]:
    """The chunks of one checkpoint's writes, each row with the `seq` that it has."""
    chunks: list[bytes] = []
    for row in {(row.task_id, row.idx): row for row in rows}.values():
        if not chunks or len(chunks[-1]) >= CHUNK_BYTES:
            chunks.append(b"")
        task_id = to_bytes(row.task_id)
        body = ormsgpack.packb((row.task_path, row.channel, row.body))
        chunks[-1] += b"%d %d %d %d " % (len(task_id), row.idx, len(body), row.seq)
        chunks[-1] += task_id + body
    return chunks


def read_write_rows(place: bytes, chunks: Sequence[bytes]) -> Iterable[WriteRow]:
    """The writes in the chunks of one checkpoint."""
    namespace, identity = split_place(place)
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            # No copy of the rest: a chunk may hold many rows.
            heads = []
            for _ in range(4):
                end = chunk.index(b" ", start)
                heads.append(int(chunk[start:end]))
                start = end + 1
            task_size, idx, size, seq = heads
            task_id = chunk[start : start + task_size].decode()
            start += task_size
            task_path, channel, body = ormsgpack.unpackb(chunk[start : start + size])
            start += size
            yield WriteRow(namespace, identity, task_id, idx, task_path, channel, body, seq)


def pack_entries(entries: Iterable[tuple[int, bytes]]) -> bytes:
    """A list of numbered entries, as `pack_entries` in `common.lua` has it."""
    return b"".join(b"%d %d %b" % (number, len(entry), entry) for number, entry in entries)


def pack_limits(limits: Limits) -> list[int]:
    """Limits as scripts take them: milliseconds, 0 for none; then what they say, 0 or 1."""
    seconds = (limits.idle_seconds, limits.max_age_seconds, limits.interrupted_seconds)
    milliseconds = [0 if given is None else max(1, round(given * 1000)) for given in seconds]
    says = (limits.refresh_on_read, limits.keep_latest, limits.tells_expiry)
    return [*milliseconds, *map(int, says)]


def read_thread_row(packed: bytes) -> ThreadRow:
    """A thread, as `thread_row` in `common.lua` gives it: times in milliseconds."""
    (
        name, generation, created, updated, expires, checkpoints, size, owner, seq,
        idle, max_age, interrupted, refresh, keeps, tells, own, waiting,
    ) = ormsgpack.unpackb(packed)  # fmt: skip
    seconds = [given / 1000 if given else None for given in (idle, max_age, interrupted)]
    return ThreadRow(
        name,
        generation,
        created / 1000,
        updated / 1000,
        expires / 1000 if expires else None,
        checkpoints,
        size,
        owner or None,
        seq,
        Limits(seconds[0], seconds[1], seconds[2], refresh == 1, keeps == 1, tells == 1),
        own == 1,
        waiting == 1,
    )


def read_element_rows(
    runs: Sequence[Run], found: Sequence[tuple[int, list[bytes]]]
) -> list[Element]:
    """What the logs hold of the runs, each element once; nothing is found where it is gone."""
    bodies: dict[tuple[int, int], bytes] = {}
    for run, (beyond, elements) in zip(runs, found, strict=False):
        last = len(elements) - 1
        for number, body in enumerate(elements):
            if body not in _HOLES:
                position = run.start + number + (beyond if number == last else 0)
                bodies[run.log, position] = body
    return [Element(log, position, body) for (log, position), body in bodies.items()]
