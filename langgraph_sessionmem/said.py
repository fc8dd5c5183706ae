"""What a message says, as text that is safe to show to a model (pure).

Everything said by users, models and tools is data: `&`, `<` and `>` are escaped where it is shown,
so that no text can close its tag or open another one.
"""

import json
import re
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

_PLACEHOLDERS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "file": "file",
    "input_file": "file",
    "document": "document",
    "media": "media",
}


def escape(text: str) -> str:
    """Text that can't be taken for a tag."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def attribute(text: str) -> str:
    """Text that can't leave the attribute it stands in."""
    return escape(text).replace('"', "&quot;")


def plain_text(message: BaseMessage) -> str:
    """What a message says, as text: blocks without text by name, calls with their arguments.

    Reasoning is left out: it isn't said to anybody.
    """
    content = message.content
    parts = [content] if isinstance(content, str) else [_block_text(block) for block in content]
    if isinstance(message, AIMessage):
        parts += [
            f"{call['name']}({json.dumps(call['args'], ensure_ascii=False, default=str)})"
            for call in message.tool_calls
        ]
    return "\n".join(part for part in parts if part)


def _block_text(block: str | dict[Any, Any]) -> str:
    if isinstance(block, str):
        return block
    kind = block.get("type")
    if kind in _PLACEHOLDERS:
        return f"[{_PLACEHOLDERS[kind]}]"
    if kind == "tool_result":
        inner = block.get("content")
        return inner if isinstance(inner, str) else "\n".join(map(_block_text, inner or []))
    text = block.get("text")
    return text if isinstance(text, str) else ""


def speaker(message: BaseMessage) -> str:
    """Who said it: user, assistant, tool or system, and the name where there is one."""
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    return f"{role} {message.name}" if message.name else role


def said_at(message: BaseMessage) -> str:
    """When it was said, if the message has `additional_kwargs["timestamp"]`; else an empty text."""
    when = message.additional_kwargs.get("timestamp")
    return when if isinstance(when, str) else ""


def clip_text(text: str, keep: int) -> str:
    """At most about `keep` characters of a text, from its beginning and its end."""
    if len(text) <= keep:
        return text
    tail = keep // 4
    left_out = len(text) - keep
    end = text[len(text) - tail :] if tail else ""
    return f"{text[: keep - tail]}\n[... {left_out} characters left out ...]\n{end}"


def normal(text: str) -> str:
    """Text for comparing quotations: one case, one kind of space."""
    return " ".join(text.casefold().split())


def figures(value: str) -> list[str]:
    """What must not be made up: quoted parts, and words with a digit in them."""
    quoted = re.findall(
        '["\u201c\u201e\u00ab]([^"\u201d\u201c\u00bb]+)["\u201d\u201c\u00bb]', value
    )
    words = [word.strip(".,;:!?()[]\"'") for word in value.split()]
    return [normal(part) for part in [*quoted, *(w for w in words if re.search(r"\d", w))]]
