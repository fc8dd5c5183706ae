"""What a message costs in tokens, without a tokenizer (pure).

The estimate errs on the high side: a view that was thought to fit must fit. It knows scripts (a Han
character is about a token, four Latin letters are), tool arguments, and a price for each kind of
block; the length of base64 never counts. Where the provider said what its answer cost, that is
used.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

CountTokens = Callable[[Sequence[BaseMessage]], int]

PER_MESSAGE = 6
"""Role, separators and rounding of one message, in tokens."""
PER_CALL = 14
"""Name, id and brackets around the arguments of one tool call, in tokens."""
BLOCK_PRICES: Mapping[str, int] = {
    "image": 765,
    "image_url": 765,
    "input_image": 765,
    "audio": 600,
    "input_audio": 600,
    "video": 2_000,
    "file": 1_500,
    "input_file": 1_500,
    "document": 1_500,
    "media": 1_500,
}
"""Tokens for one block that isn't text; what providers ask for a typical one of its kind."""

_DENSE = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef"
    "\U0001f000-\U0001faff\U00020000-\U0003ffff]"
)
"""Han, kana, Hangul, full-width forms and emoji: about one token each."""
_LETTERS_AND_SPACE = {code: None for code in range(128) if chr(code).isalpha() or code == 32}
_PAYLOADS = frozenset({"data", "base64", "file_data", "image_url", "url", "signature", "bytes"})


def text_tokens(text: str) -> int:
    """The estimated cost of plain text, never below a quarter of its characters."""
    if text.isascii():
        dense, others, ascii_text = 0, 0, text
    else:
        dense = len(_DENSE.findall(text))
        ascii_text = text.encode("ascii", "ignore").decode("ascii")
        others = len(text) - len(ascii_text) - dense
    # Figures and punctuation split into more tokens than words of the same length.
    crisp = len(ascii_text.translate(_LETTERS_AND_SPACE))
    return math.ceil(len(ascii_text) / 4 + crisp * 0.15 + others / 2 + dense)


def count_message(message: BaseMessage) -> int:
    """The estimated cost of one message as part of a request."""
    estimate = _estimate(message)
    if isinstance(message, AIMessage) and message.usage_metadata:
        details = message.usage_metadata.get("output_token_details") or {}
        # Reasoning is billed once and not sent again.
        told = message.usage_metadata["output_tokens"] - details.get("reasoning", 0) + PER_MESSAGE
        if estimate / 2 <= told <= estimate * 4:  # beyond that it counts something else
            return told
    return estimate


def count_messages(messages: Sequence[BaseMessage]) -> int:
    """The estimated cost of a message list; the sum of its messages."""
    return sum(map(count_message, messages))


def tool_tokens(tools: Sequence[Any]) -> int:
    """The estimated cost of the tools' schemas as part of a request."""
    schemas = (json.dumps(convert_to_openai_tool(tool), ensure_ascii=False) for tool in tools)
    return sum(map(text_tokens, schemas))


def _estimate(message: BaseMessage) -> int:
    tokens = PER_MESSAGE + text_tokens(message.name or "")
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    if isinstance(message.content, str):
        tokens += text_tokens(message.content)
    else:
        called = {call["id"] for call in calls}
        tokens += sum(_block_tokens(block, called) for block in message.content)
    for call in calls:
        arguments = json.dumps(call["args"], ensure_ascii=False, default=str)
        tokens += PER_CALL + text_tokens(f"{call['name']}{arguments}{call['id'] or ''}")
    if isinstance(message, ToolMessage):
        tokens += text_tokens(message.tool_call_id)
    return tokens


def _block_tokens(block: str | dict[Any, Any], called: set[str | None]) -> int:
    if isinstance(block, str):
        return text_tokens(block)
    kind = block.get("type", "")
    if kind in {"tool_use", "tool_call", "function_call"} and block.get("id") in called:
        return 0  # counted as the message's tool call
    text = sum(
        _value_tokens(key, value) for key, value in block.items() if key not in {"type", "id"}
    )
    return 2 + BLOCK_PRICES.get(kind, 0) + text


def _value_tokens(key: Any, value: Any) -> int:
    if isinstance(value, str):
        is_payload = key in _PAYLOADS or value.startswith("data:")
        return 0 if is_payload else text_tokens(value)
    if isinstance(value, Mapping):
        if value.get("type") in BLOCK_PRICES:
            return _block_tokens(dict(value), set())
        return sum(2 + _value_tokens(inner, each) for inner, each in value.items())
    if isinstance(value, list | tuple):
        return sum(_value_tokens(key, each) for each in value)
    return 0 if value is None else 2
