"""Memories for tests: of either face, by a clock of their own."""

from datetime import UTC, datetime, timedelta
from typing import Any

from conftest import Face

from langgraph_sessionmem import Memories

U1 = ("users", "u1")
START = datetime(2026, 6, 1, 12, tzinfo=UTC)


def day(month: int, day_: int = 1, year: int = 2026) -> datetime:
    return datetime(year, month, day_, tzinfo=UTC)


class Wrist:
    """A clock that goes a second each time it is looked at, and further when it is told to."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def minds(store: Face, namespace: tuple[str, ...] = U1, **keywords: Any) -> Face:
    """The memories of a user, in the store's face."""
    keywords.setdefault("clock", Wrist())
    return Face(Memories(store.target, namespace, **keywords), store.is_async)
