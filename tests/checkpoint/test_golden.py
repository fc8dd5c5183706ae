"""Golden bytes: what one release writes, every later one reads, and writes the same.

`docs/format.md` explains the forms. A line here never changes; a new form gets a new line.
"""

from datetime import date
from typing import Any

import pytest
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
from langgraph_sessionmem.checkpoint.head import Head, pack_head, unpack_head
from langgraph_sessionmem.checkpoint.runs import Layout, Tip
from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.records import Run

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
    "a date": (
        date(2026, 1, 2),
        "03c7150193a86461746574696d65a46461746593cd07ea0102",
    ),
    "a list of messages": (
        [HumanMessage("hi"), {"a": 1}],
        "0892c40e020081a7636f6e74656e74a26869c4050181a16101",
    ),
}

HEAD = Head(
    v=4,
    ts="2026-01-02T03:04:05+00:00",
    channel_versions={"messages": "2.b", "order": "2.b", "gone": "1.a"},
    versions_seen={"node": {"messages": "1.a"}},
    updated_channels=["messages"],
    entries={
        "messages": Layout((Run(5, 0, 2), Run(9, 0, 1)), Tip(9, 1)),
        "order": b"\x01\xa14",
        "file": 77,
    },
)
HEAD_BYTES = (
    "019804b9323032362d30312d30325430333a30343a30352b30303a303092a3322e62a3312e6183a86d65737361676573"
    "00a56f7264657200a4676f6e650181a46e6f646581a86d657373616765730191a86d6573736167657383a86d65737361"
    "676573980901050002090001a56f72646572c40301a134a466696c654dc0"
)


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
    if isinstance(value, BaseMessage):
        assert found.model_dump() == value.model_dump()


def test_a_head_is_written_and_read_as_it_always_was() -> None:
    assert pack_head(HEAD, CODEC).hex() == HEAD_BYTES
    assert unpack_head(bytes.fromhex(HEAD_BYTES), CODEC) == HEAD
