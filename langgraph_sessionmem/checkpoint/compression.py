"""Stored forms made smaller: blocks of elements, large values, and small maps of known words.

Reading is bounded: each form says, or the format fixes, how large it becomes, and never more than
that is inflated. `docs/format.md` has the layouts. Pure.
"""

import struct
import zlib
from collections.abc import Sequence

import ormsgpack

from langgraph_sessionmem.errors import CorruptData

BLOCK = b"\x10"
COMPRESSED = b"\x11"
WORDED = b"\x12"

MOST_INFLATED = 256 * 1024 * 1024
"""Bytes that a block or a compressed value may become; a larger one is not compressed."""
MOST_WORDED = 1024 * 1024
"""Likewise for what is compressed with the preset dictionary."""
FEWEST_WORDED, _MOST_WORDS = 192, 16 * 1024
"""Shorter and longer forms aren't worth the time of a put."""

_LEVEL = 4
"""Nearly as small as the usual 6, in a fifth of the time."""
_BLOCK_HEADER = struct.Struct(">QI")
_VALUE_HEADER = struct.Struct(">I")
_RAW = -zlib.MAX_WBITS
_SMALL_WINDOW, _SMALL_MEMORY = -12, 5
"""For small data: setting up zlib's usual 256 KiB takes longer than compressing a head."""

_WORDS = (
    b"langgraph_api_urllanggraph_hostlanggraph_planlanggraph_request_idlanggraph_auth_user"
    b"langgraph_auth_user_idlanggraph_auth_permissionslanggraph_api_versionassistant_idgraph_id"
    b"created_bysystemorganization_iduser_idrun_idrun_attemptls_integrationlangchain_create_agent"
    b"langgraph_version1.2.model_nametagscheckpoint_idcounters_since_delta_snapshot"
    b"updateforkinput\x83\xa6source\xa4loop\xa4step\x00\xa7parents\x81\xa0\xd9$1f0-6"
    b"documentsquestionanswercontextsummaryfilestodosjump_tostructured_responseremaining_steps"
    b"__interrupt____resume____error____previous____end____no_writes__"
    b"\x84\x85\x86\x87\x88\x94\x95\x96\xa5agent\xafbranch:to:agent\xaebranch:to:join:"
    b"\xafbranch:to:tools\xa5tools\x80\xa5model\x81\xafbranch:to:model\x92\xae__pregel_tasks"
    b"\x98\x04\xd9 2026-01-01T00:00:00.000000+00:00\x93\xd9+00000000000000000000000000000001.0"
    b"\xd9+00000000000000000000000000000002.1\xd9+00000000000000000000000000000003.2"
    b"\x83\xa9__start__\x00\xa8messages\x01\xabbranch:to:\x01\x83\xa9__input__\x80\xa9__start__\x81"
    b"\xa9__start__\x02\xa1\x81\xabbranch:to:\x00\x91\xa8messages\x81\xa8messages\x95\xcf\x00\x02\xc0"
)
"""What metadata is full of, the most frequent last. It never changes: a better one is
another codec byte and head version."""


def seal(first: int, bodies: Sequence[bytes]) -> bytes:
    """The block of the elements from position `first` on, in order."""
    joined = ormsgpack.packb(list(bodies))
    return BLOCK + _BLOCK_HEADER.pack(first, len(joined)) + zlib.compress(joined, _LEVEL)


def unseal(block: bytes) -> tuple[int, list[bytes]]:
    """The first position of a block, and its elements in order.

    Raises:
        CorruptData: it is no block, or not a whole one.
    """
    data = memoryview(block)[1:]
    try:
        first, size = _BLOCK_HEADER.unpack_from(data)
        bodies = ormsgpack.unpackb(_inflate(data[_BLOCK_HEADER.size :], size))
    except (struct.error, ValueError) as error:
        raise CorruptData(f"A block of elements can't be read: {error}.") from error
    if not (isinstance(bodies, list) and bodies and all(type(body) is bytes for body in bodies)):
        raise CorruptData("A block of elements holds something else.")
    return first, [_plain(body) for body in bodies]


def compress(body: bytes) -> bytes:
    """A stored form compressed, or as it is where that doesn't make it smaller."""
    if len(body) > MOST_INFLATED:
        return body
    packed = COMPRESSED + _VALUE_HEADER.pack(len(body)) + zlib.compress(body, _LEVEL)
    return packed if len(packed) < len(body) else body


def pack_words(body: bytes) -> bytes:
    """A stored form compressed with the preset dictionary, or as it is."""
    if not FEWEST_WORDED <= len(body) <= _MOST_WORDS:
        return body
    packed = WORDED + deflate_words(body)
    return packed if len(packed) < len(body) else body


def expand(body: bytes) -> bytes:
    """A stored form as it was before `compress` or `pack_words`; any other as it is.

    Raises:
        CorruptData: it isn't whole, or becomes larger than it may.
    """
    code = body[:1]
    if code == COMPRESSED:
        data = memoryview(body)[1:]
        try:
            (size,) = _VALUE_HEADER.unpack_from(data)
        except struct.error as error:
            raise CorruptData(f"A compressed value can't be read: {error}.") from error
        return _plain(_inflate(data[_VALUE_HEADER.size :], size))
    if code == WORDED:
        return _plain(inflate_words(body[1:]))
    return body


def deflate_words(data: bytes) -> bytes:
    """Bytes compressed with the preset dictionary, without header and checksum."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _SMALL_WINDOW, _SMALL_MEMORY, zdict=_WORDS)
    return deflate.compress(data) + deflate.flush()


def inflate_words(data: bytes) -> bytes:
    """What `deflate_words` compressed.

    Raises:
        CorruptData: it isn't whole, or becomes larger than `MOST_WORDED`.
    """
    inflate = zlib.decompressobj(_RAW, zdict=_WORDS)
    try:
        found = inflate.decompress(data, MOST_WORDED)
    except zlib.error as error:
        raise CorruptData(f"Compressed data can't be read: {error}.") from error
    if not inflate.eof or inflate.unused_data:
        raise CorruptData("Compressed data is cut short, or larger than it may be.")
    return found


def _inflate(data: memoryview, size: int) -> bytes:
    """Inflate `size` bytes and not one more."""
    if size > MOST_INFLATED:
        raise CorruptData(
            f"Compressed data says that it holds {size} bytes; at most {MOST_INFLATED} are read."
        )
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(data, size + 1)
    except zlib.error as error:
        raise CorruptData(f"Compressed data can't be read: {error}.") from error
    if len(found) != size or not inflate.eof or inflate.unused_data:
        raise CorruptData(f"Compressed data doesn't hold the {size} bytes that it says.")
    return found


def _plain(body: bytes) -> bytes:
    """A stored form that was inside another one.

    Raises:
        CorruptData: it would have to be expanded again.
    """
    if body[:1] in (BLOCK, COMPRESSED, WORDED):
        raise CorruptData("Compressed data holds compressed data.")
    return body
