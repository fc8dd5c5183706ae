"""What a model would see: which of the thread's messages a view shows, and at what cost (pure)."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from langgraph_sessionmem.tokens import count_messages

LEDGER_ID = "sessionmem-session"
"""The id of the message in a view that has the ledger."""
RECALLED_ID = "sessionmem-recalled"
"""The id of the message in a view that has the recalled turns."""
_RECALLED_LINE = re.compile(r"^#(\d+) ", re.MULTILINE)
"""Further lines of a recalled turn are indented, so this is where one begins."""


class Shown(NamedTuple):
    """The ids of the messages that a view shows.

    Attributes:
        kept: those that stand in it as messages.
        recalled: those that were out of the window and came back in the recalled block.
    """

    kept: frozenset[str]
    recalled: frozenset[str]


def shown(view: Sequence[BaseMessage], messages: Sequence[BaseMessage]) -> Shown:
    """What a view shows of the thread's messages, which have an id each."""
    ids = [str(message.id) for message in messages]
    blocks = [message.text for message in view if message.id == RECALLED_ID]
    positions = [int(at) for block in blocks for at in _RECALLED_LINE.findall(block)]
    kept = frozenset(ids) & {message.id for message in view}
    return Shown(frozenset(kept), frozenset(ids[at] for at in positions))


def newest(messages: Sequence[BaseMessage], max_tokens: int) -> list[BaseMessage]:
    """The newest messages that fit the budget together; what one does without a compactor."""
    start, room = len(messages), max_tokens
    while start and (cost := count_messages([messages[start - 1]])) <= room:
        start, room = start - 1, room - cost
    return list(messages[start:])
