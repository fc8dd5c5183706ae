"""The archive of raw turns, and the proof that it holds them.

A turn goes `pending -> written -> held`. *Held* means that a read by key gave back the turn: the
same id, the same content, in this thread's namespace, and the content is hashed again from what
came back. An acknowledged write proves nothing.

One namespace a thread, `(*namespace, "t_" + encoded thread id)`; one item a turn and content, under
`<encoded message id>.<content hash>`, so an edited turn never overwrites what was said before, and
writing twice changes nothing. An item:

    {"text": what is searched, "role": ..., "position": int, "id": ..., "hash": ..., "thread": ...,
     "message": the message as `message_to_dict` gives it}
"""

import json
import logging
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict
from langgraph.store.base import GetOp, Item, Op, PutOp, Result

from langgraph_sessionmem.compaction.transcript import Turn, content_hash
from langgraph_sessionmem.said import plain_text, said_at, speaker
from langgraph_sessionmem.store_links import StoreLink, encoded

_BATCH = 500
log = logging.getLogger(__name__)


def searched_text(message: BaseMessage) -> str:
    """What recall finds a turn by: when, who, what; tool calls with their arguments."""
    head = " ".join(part for part in (said_at(message), speaker(message)) if part)
    return f"{head}: {plain_text(message)}"


class Archive:
    """A thread's archive in a store.

    Args:
        link: the store.
        namespace: the thread's namespace, exact; its last label names the thread.
    """

    def __init__(self, link: StoreLink, namespace: tuple[str, ...]) -> None:
        self.link, self.namespace = link, namespace
        self.failure: Exception | None = None

    async def save(self, turns: Sequence[Turn]) -> set[str]:
        """Write turns and read them back; what failed is in `failure`.

        Returns:
            The keys of those that are held.
        """
        held: set[str] = set()
        for start in range(0, len(turns), _BATCH):
            part = turns[start : start + _BATCH]
            written = part if await self._write(part) else await self._write_halves(part)
            held |= await self.look(written)
        return held

    async def _write_halves(self, turns: Sequence[Turn]) -> list[Turn]:
        """Those that the store takes after it refused all of them at once.

        A single turn that it can't take holds back only itself; a store that takes neither half is
        down and is asked no further.
        """
        written: list[Turn] = []
        while len(turns) > 1:
            halves = turns[: len(turns) // 2], turns[len(turns) // 2 :]
            refused = []
            for half in halves:
                if await self._write(half):
                    written += half
                else:
                    refused.append(half)
            if len(refused) != 1:
                break
            turns = refused[0]
        return written

    async def _write(self, turns: Sequence[Turn]) -> bool:
        puts = [
            PutOp(self.namespace, key_of(turn), self._value(turn), index=["text"]) for turn in turns
        ]
        return await self.tried(puts) is not None

    async def look(self, turns: Sequence[Turn]) -> set[str]:
        """The keys of those turns that the store gives back as they are."""
        held: set[str] = set()
        for start in range(0, len(turns), _BATCH):
            part = turns[start : start + _BATCH]
            gets = [GetOp(self.namespace, key_of(turn), refresh_ttl=False) for turn in part]
            found = await self.tried(gets) or []
            held |= {
                key_of(turn)
                for turn, item in zip(part, found, strict=False)
                if self.is_same(turn, item)
            }
        return held

    async def tried(self, ops: Sequence[Op]) -> list[Result] | None:
        """The store's results, or None when it failed; the error is kept in `failure`."""
        try:
            return await self.link.batch(ops)
        except Exception as error:  # noqa: BLE001 - a store may raise anything; nothing is held then
            log.warning("The archive %s can't be used: %r", self.namespace, error)
            self.failure = error
            return None

    def _value(self, turn: Turn) -> dict[str, Any]:
        return {
            "text": searched_text(turn.message),
            "role": turn.message.type,
            "position": turn.position,
            "id": turn.id,
            "hash": turn.hash,
            "thread": self.namespace[-1],
            "message": _plain(message_to_dict(turn.message)),
        }

    def is_same(self, turn: Turn, item: Any) -> bool:
        """Whether what the store gave back is this very turn."""
        if not isinstance(item, Item) or tuple(item.namespace) != self.namespace:
            return False
        value = item.value
        told = (item.key, value.get("id"), value.get("hash"), value.get("thread"))
        if told != (key_of(turn), turn.id, turn.hash, self.namespace[-1]):
            return False
        message = value.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("data"), dict):
            return False
        return content_hash(str(message.get("type")), message["data"]) == turn.hash


def key_of(turn: Turn) -> str:
    """The item's key: which message, and which content of it."""
    return f"{encoded(turn.id)}.{turn.hash}"


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """The message as plain JSON; what JSON has no word for becomes text."""
    plain: dict[str, Any] = json.loads(json.dumps(message, default=str), parse_constant=str)
    return plain
