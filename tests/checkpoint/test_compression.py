"""Compression: large values become small, every saver reads them, and nothing inflates for ever."""

import random
import struct
import zlib
from typing import Any

import ormsgpack
import pytest
from conftest import Database, Face
from elements import elements_of
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_SINGLE_ARG
from threads import Thread, place, values_of

from langgraph_sessionmem.checkpoint import compression
from langgraph_sessionmem.checkpoint.codec import COMPRESSED, PLAIN, Codec
from langgraph_sessionmem.checkpoint.compression import (
    MOST_INFLATED,
    MOST_WORDED,
    compress,
    deflate_words,
    expand,
    inflate_words,
    pack_words,
    seal,
    unseal,
)
from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.errors import CorruptData, InvalidArgument, TypeNotAllowed

CODEC = Codec(Types())
TEXT = "the same again and again, "


def stored_bytes(saver: Any) -> int:
    return sum(len(element.body) for element in elements_of(saver))


async def test_large_values_are_compressed_where_it_helps_and_any_saver_reads_them(
    database: Database, face_name: str
) -> None:
    saver = Face(database.open_saver(compress=500), face_name == "async")
    thread = Thread(saver)
    noise = random.Random(1).randbytes(20_000)
    values = {
        "large": {"text": TEXT * 100},
        "messages": [HumanMessage(TEXT * 100, id="1"), HumanMessage(TEXT * 4, id="2")],
        "noise": noise,
        "bytes": b"\x00" * 5_000,
        "small": TEXT * 10,
    }
    config = await thread.put(values, metadata={"note": TEXT * 2_000})
    await thread.write([("large", {"text": TEXT * 2_000}), ("small", 1)])
    forms = [element.body for element in elements_of(saver.target)]
    compressed = [body for body in forms if body[:1] == COMPRESSED]
    assert len(compressed) == 3
    assert max(map(len, compressed)) < 200
    assert sorted(map(len, forms))[-1] == len(noise) + 1
    plain = Face(database.open_saver(), saver.is_async)
    for reader in (saver, plain):
        found = await reader("get_tuple", config)
        assert found.checkpoint["channel_values"] == values
        assert found.metadata["note"] == TEXT * 2_000
        assert [value for _, _, value in found.pending_writes] == [{"text": TEXT * 2_000}, 1]
    other = Thread(plain)
    await other.load()
    await other.put({"messages": [*values["messages"], HumanMessage("3" * 99)], "small": 0})
    assert sum(element.body[:1] == COMPRESSED for element in elements_of(saver.target)) == 3
    assert len(elements_of(saver.target)) == len(forms) + 1
    found = await values_of(saver, place())
    assert found["messages"][:2] == values["messages"]


async def test_a_thousand_similar_messages_take_a_quarter_of_their_size(
    database: Database,
) -> None:
    for options in ({"compress": True}, {}):
        saver = Face(database.open_saver(**options), False)
        thread = Thread(saver)
        messages = [HumanMessage(f"{TEXT * 20}{n}", id=f"{n}") for n in range(1_000)]
        await thread.put({"messages": messages})
        assert stored_bytes(saver.target) < 0.25 * sum(len(m.text) for m in messages)
        assert (await values_of(saver, place()))["messages"] == messages
        saver.target.delete_thread("t")


async def test_types_are_refused_in_compressed_data_as_in_any(database: Database) -> None:
    saver = database.open_saver(compress=1)
    thread = Thread(Face(saver, False))
    await thread.put({"large": {"text": (TEXT * 9, {"x"})}})
    strict = saver.with_allowlist({("user_models", "Pair")})
    assert strict.get_tuple(place()).checkpoint["channel_values"] == {
        "large": {"text": [TEXT * 9, {"x"}]}
    }
    assert strict._state.codec._compress_bytes == 1
    call = ormsgpack.Ext(EXT_CONSTRUCTOR_SINGLE_ARG, ormsgpack.packb(["os", "system", "true"]))
    forged = b"\x03" + ormsgpack.packb([call] * 20)
    for body in (compress(forged), pack_words(forged)):
        assert body[:1] in (COMPRESSED, b"\x12")
        with pytest.raises(TypeNotAllowed):
            CODEC.decode(body)


def test_only_true_false_or_a_size_can_be_asked_for(database: Database) -> None:
    for bad in (0, -1, "yes", 1.5, None):
        with pytest.raises(InvalidArgument, match="compress="):
            database.open_saver(compress=bad)


@given(st.binary(max_size=400), st.integers(1, 30))
def test_any_form_comes_back_from_its_compressed_one(data: bytes, times: int) -> None:
    body = PLAIN + data * times
    for packed in (compress(body), pack_words(body)):
        assert expand(packed) == body
        assert len(packed) <= len(body)
    assert unseal(seal(7, [body, b"\x04", body])) == (7, [body, b"\x04", body])


def claiming(size: int, data: bytes) -> bytes:
    return COMPRESSED + struct.pack(">I", size) + data


def test_a_bomb_is_refused_before_it_is_large() -> None:
    bomb = zlib.compress(b"\x00" * 10_000_000)
    words = zlib.compressobj(9, zlib.DEFLATED, -15)
    wide = words.compress(b"\x01" * (MOST_WORDED + 1)) + words.flush()
    for bad in (
        claiming(100, bomb),
        claiming(10_000_001, bomb),
        claiming(0, bomb),
        claiming(MOST_INFLATED + 1, bomb),
        claiming(2**32 - 1, bomb),
        claiming(10_000_000, bomb[:-5]),
        claiming(10_000_000, bomb + b"more"),
        b"\x12" + wide,
        b"\x12" + deflate_words(b"\x01\xc0")[:-1],
        b"\x12\xff\xff",
        COMPRESSED,
        COMPRESSED + b"\x00\x00",
        claiming(10, b"no zlib at all"),
    ):
        with pytest.raises(CorruptData):
            CODEC.decode(bad)
    with pytest.raises(CorruptData):
        inflate_words(wide)


def test_compressed_data_in_compressed_data_is_refused() -> None:
    inner = compress(PLAIN + b"\xd9\x78" + b"a" * 120)
    assert inner[:1] == COMPRESSED
    block = seal(0, [PLAIN + b"\xc0"])
    for body in (inner, pack_words(PLAIN + b"\xd9\xc8" + b"a" * 200), block):
        for outer in (claiming(len(body), zlib.compress(body)), b"\x12" + deflate_words(body)):
            with pytest.raises(CorruptData):
                CODEC.decode(outer)
        with pytest.raises(CorruptData):
            unseal(seal(0, [body]))
        with pytest.raises(CorruptData):
            CODEC.decode(CODEC.encode_list([body]))


def test_what_is_larger_than_may_be_read_is_not_compressed(monkeypatch: Any) -> None:
    monkeypatch.setattr(compression, "MOST_INFLATED", 50)
    body = PLAIN + b"\xd9\x78" + b"a" * 120
    assert compress(body) == body
