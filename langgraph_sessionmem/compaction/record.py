"""What the compaction node commits: the ledger, and how far the window has moved (pure).

The state's channel holds plain JSON of a size that doesn't grow with the thread:

    {"format": 1, "ledger": {...}, "archive": "<label>",
     "evicted": mark, "masked": mark, "read": mark, "held": mark, "digest": "<hex>",
     "pending": [ids], "firings": n, "failures": n, "retry_at": n}

A *mark* says "up to here" by message id: the heads of the last few atoms, so that it survives that
the newest of them is deleted. A mark whose ids are all unknown means the beginning: nothing is ever
sliced by a number. `digest` is a hash over id and content of every turn up to `held`; an edited,
deleted or forked turn changes it, and then what is held is asked of the store again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NotRequired

from langgraph.graph.message import MessagesState

from langgraph_sessionmem.compaction.ledger import FORMAT, Ledger
from langgraph_sessionmem.compaction.transcript import Atom
from langgraph_sessionmem.errors import InvalidArgument

_ANCHORS = 4


def keep_newest(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any] | None:
    """The channel's reducer: the last write of a step stands (two nodes may commit at once)."""
    return new if new is not None else old


class CompactedState(MessagesState):
    """Messages, and the channel in which a `Compactor` keeps its ledger and its marks."""

    sessionmem: NotRequired[Annotated[dict[str, Any] | None, keep_newest]]


@dataclass(frozen=True, slots=True)
class Record:
    """The channel's content, resolved against the atoms of the state it came with.

    Attributes:
        ledger: the ledger.
        archive: the archive's label in which turns up to `held` are; empty if none are.
        evicted: atoms before this index are out of the window.
        masked: tool results before this index are masked.
        read: atoms before this index were read by the summarizer.
        held: atoms before this index are held, unless `intact` is false.
        intact: whether the turns up to `held` are those the archive gave back.
        pending: ids of turns that were written but not given back yet.
        firings: how often the node had something to evict.
        failures: how often in a row the summarizer failed.
        retry_at: the firing at which a failing summarizer is asked again.
    """

    ledger: Ledger = field(default_factory=Ledger)
    archive: str = ""
    evicted: int = 0
    masked: int = 0
    read: int = 0
    held: int = 0
    intact: bool = True
    pending: tuple[str, ...] = ()
    firings: int = 0
    failures: int = 0
    retry_at: int = 0

    @classmethod
    def load(cls, channel: Any, atoms: Sequence[Atom]) -> "Record":
        """Read the channel's value.

        Raises:
            InvalidArgument: it isn't one that this package wrote.
        """
        if not channel:
            return cls()
        if not isinstance(channel, Mapping) or channel.get("format") != FORMAT:
            raise InvalidArgument(
                f"The compaction channel holds {str(channel)[:80]!r}, which is not in format "
                f"{FORMAT}; give the compactor a channel of its own (state_key=...)."
            )
        places = {atom.head.id: index for index, atom in enumerate(atoms)}
        marks = {
            name: _resolve(channel.get(name), places)
            for name in ("evicted", "masked", "read", "held")
        }
        return cls(
            ledger=Ledger.of({"channel": channel}, "channel"),
            archive=str(channel.get("archive", "")),
            intact=channel.get("digest", "") == digest(atoms[: marks["held"]]),
            pending=tuple(channel.get("pending", ())),
            firings=int(channel.get("firings", 0)),
            failures=int(channel.get("failures", 0)),
            retry_at=int(channel.get("retry_at", 0)),
            **marks,
        )

    def changed(self, **fields: Any) -> "Record":
        """The record with other fields."""
        return replace(self, **fields)

    def dump(self, atoms: Sequence[Atom]) -> dict[str, Any]:
        """The channel's value, plain JSON."""
        return {
            "format": FORMAT,
            "ledger": self.ledger.dump(),
            "archive": self.archive,
            "evicted": _mark(self.evicted, atoms),
            "masked": _mark(self.masked, atoms),
            "read": _mark(self.read, atoms),
            "held": _mark(self.held, atoms),
            "digest": digest(atoms[: self.held]),
            "pending": list(self.pending),
            "firings": self.firings,
            "failures": self.failures,
            "retry_at": self.retry_at,
        }


def digest(atoms: Sequence[Atom]) -> str:
    """A hash over id and content of every turn, in order; empty for none."""
    if not atoms:
        return ""
    hashed = hashlib.blake2b(digest_size=16)
    for atom in atoms:
        for turn in atom.turns:
            hashed.update(f"{len(turn.id)}:{turn.id}{turn.hash}".encode(errors="surrogatepass"))
    return hashed.hexdigest()


def _mark(upto: int, atoms: Sequence[Atom]) -> list[str]:
    return [atom.head.id for atom in atoms[max(upto - _ANCHORS, 0) : upto]]


def _resolve(mark: Any, places: Mapping[str, int]) -> int:
    known = [places[name] for name in mark or () if name in places]
    return max(known) + 1 if known else 0
