"""Golden bytes: what one release writes, every later one reads, and writes the same.

`docs/format.md` explains the forms. A line here never changes; a new form gets a new line.
"""

from datetime import date
from hashlib import sha256
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.checkpoint.compression import (
    _WORDS,
    compress,
    inflate_words,
    seal,
    unseal,
)
from langgraph_sessionmem.checkpoint.head import Head, pack_head, unpack_head
from langgraph_sessionmem.checkpoint.runs import Layout, Tip
from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.rows import Run

CODEC = Codec(Types())
CALL = {"name": "find", "args": {"id": 7}, "id": "c1", "type": "tool_call"}

VALUES: dict[str, tuple[Any, str]] = {
    "null": (None, "01c0"),
    "a map": ({"a": [1, True, "\u0431"], "b": 1.5}, "0182a1619301c3a2d0b1a162cb3ff8000000000000"),
    "bytes": (b"\x00\xff", "0400ff"),
    "a bytearray": (bytearray(b"\x00"), "0500"),
    "a human": (HumanMessage("hi", id="h1"), "020082a7636f6e74656e74a26869a26964a26831"),
    "an AI with a call": (
        AIMessage("", id="a1", tool_calls=[CALL]),
        "020183a7636f6e74656e74a0a26964a26131aa746f6f6c5f63616c6c739184a46e616d65a466696e64a461726773"
        "81a2696407a26964a26331a474797065a9746f6f6c5f63616c6c",
    ),
    "a system": (SystemMessage("s"), "020281a7636f6e74656e74a173"),
    "a tool": (
        ToolMessage("7", tool_call_id="c1"),
        "020382a7636f6e74656e74a137ac746f6f6c5f63616c6c5f6964a26331",
    ),
    "a removal": (RemoveMessage(id="h1"), "020482a7636f6e74656e74a0a26964a26831"),
    "a chat": (
        ChatMessage("x", role="r"),
        "020582a7636f6e74656e74a178a4726f6c65a172",
    ),
    "a function": (
        FunctionMessage("x", name="f"),
        "020682a7636f6e74656e74a178a46e616d65a166",
    ),
    "an AI chunk": (AIMessageChunk("x"), "020781a7636f6e74656e74a178"),
    "a document": (
        Document("x", metadata={"n": 1}),
        "020882a86d6574616461746181a16e01ac706167655f636f6e74656e74a178",
    ),
    "a date": (
        date(2026, 1, 2),
        "03c7150193a86461746574696d65a46461746593cd07ea0102",
    ),
    "an integer beyond 64 bits": (2**64, "063138343436373434303733373039353531363136"),
    "a lone surrogate": ("x\ud800", "0622785c756438303022"),
    "a human with a lone surrogate": (
        HumanMessage("\ud800"),
        "09007b22636f6e74656e74223a20225c7564383030222c20226164646974696f6e616c5f6b7761726773223a207b7d"
        "2c2022726573706f6e73655f6d65746164617461223a207b7d2c202274797065223a202268756d616e222c20226e61"
        "6d65223a206e756c6c2c20226964223a206e756c6c7d",
    ),
    "a list of messages": (
        [HumanMessage("hi"), {"a": 1}],
        "0892c40e020081a7636f6e74656e74a26869c4050181a16101",
    ),
}

HEAD = Head(
    v=4,
    ts="2026-01-02T03:04:05+00:00",
    channel_versions={
        "messages": f"{2:032}.0000000001",
        "order": f"{2:032}.0000000001",
        "branch:to:node": f"{3:032}.0123456789",
        "gone": "1.a",
        "counted": 7,
    },
    versions_seen={"__input__": {}, "node": {"messages": "1.a"}},
    updated_channels=["messages"],
    entries={
        "messages": Layout((Run(5, 0, 2), Run(9, 0, 1)), Tip(9, 1)),
        "whole": Layout((Run(6, 0, 3),), Tip(6, 3)),
        "order": b"\x01\xa14",
        "file": 77,
    },
)
HEAD_BYTES = (
    "019904c413323032362d30312d30325430333a30343a30359a0000010002010302040394059006920002910098009909"
    "01020500020900010792060301c40301a134084dc09906a56f72646572c4046e6f6465a4676f6e65a7636f756e746564"
    "01a46e6f6465a577686f6c65a466696c6594c40c322e30303030303030303031c40c332e30313233343536373839a331"
    "2e6107"
)
WORDED_HEAD_BYTES = (
    "029bc9724418ee77a31003632b03132b03d3590c0c8c0c4c8ccc4c2ccc535827b04d62609ac8308361262723132b0313"
    "270323fb243666c623cc8c0b4d387c0fcc645b9a5f94925a7484250f18bc4bd2f3f3529743d2690ae31290d0d2f28cfc"
    "9cd425a06434e5088f11346081c0f0088fb19e81a191b189a999b985e56243bd447600"
)
BLOCK_BYTES = "1000000000000000400000000b789c9b748499716122884802001a500428"
COMPRESSED_BYTES = "1100000053789c63bc1990486500002b6b1f7b"
METADATA_BYTES = "1263c44c248cb044d20000"


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_written_as_it_always_was(name: str) -> None:
    value, golden = VALUES[name]
    assert CODEC.encode(value).hex() == golden


@pytest.mark.parametrize("name", VALUES)
def test_golden_bytes_are_read_as_what_was_written(name: str) -> None:
    value, golden = VALUES[name]
    found = CODEC.decode(bytes.fromhex(golden))
    assert found == value
    assert type(found) is type(value)
    if isinstance(value, BaseMessage | Document):
        assert found.model_dump() == value.model_dump()


def test_a_head_is_written_and_read_as_it_always_was() -> None:
    assert pack_head(HEAD, CODEC).hex() == HEAD_BYTES
    assert unpack_head(bytes.fromhex(HEAD_BYTES), CODEC) == HEAD


def test_a_head_may_be_compressed_with_the_preset_dictionary() -> None:
    assert unpack_head(bytes.fromhex(WORDED_HEAD_BYTES), CODEC) == HEAD
    packing = Codec(Types(), packs_short=True)
    long = HEAD._replace(entries={"__start__": packing.encode(["what was said before"] * 12)})
    packed = pack_head(long, packing)
    # Other builds of zlib may compress otherwise; what comes out is the same.
    assert packed[:1] == b"\x02"
    assert inflate_words(packed[1:]) == pack_head(long, CODEC)[1:]
    assert unpack_head(packed, CODEC) == long
    noise = Head(4, "", {}, {}, None, {"": bytes(range(256))})
    assert pack_head(noise, packing) == pack_head(noise, CODEC)


def test_compressed_forms_are_read_as_they_always_were() -> None:
    assert unseal(bytes.fromhex(BLOCK_BYTES)) == (64, [b"\x01\xa1a", b"\x01\xa1b"])
    assert seal(64, [b"\x01\xa1a", b"\x01\xa1b"])[:13].hex() == BLOCK_BYTES[:26]
    assert CODEC.decode(bytes.fromhex(COMPRESSED_BYTES)) == "a" * 80
    assert compress(CODEC.encode("a" * 80))[:5].hex() == COMPRESSED_BYTES[:10]
    metadata = {"source": "loop", "step": 1, "parents": {}}
    assert CODEC.decode(bytes.fromhex(METADATA_BYTES)) == metadata
    ids = {"run_id": "r" * 36, "assistant_id": "a" * 36, "langgraph_request_id": "q" * 36}
    longer = metadata | ids | {"graph_id": "agent"}
    assert CODEC.metadata_row_of(CODEC.encode(longer))[:1] == b"\x12"
    assert CODEC.decode(CODEC.metadata_row_of(CODEC.encode(longer))) == longer


def test_the_preset_dictionary_never_changes() -> None:
    assert sha256(_WORDS).hexdigest() == (
        "1822d934b0a0050e89723415f708fb05bfcc6f4b533b098bad3576be99f87194"
    )
