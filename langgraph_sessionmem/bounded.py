"""What is remembered of the database, up to a bound: forgetting costs a read, nothing else."""

from collections import OrderedDict
from threading import Lock  # noqa: TID251 - it guards a dict; no thread is started or waited for
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """The most recently used entries, up to `max_cost` in all; any thread may use it.

    Args:
        max_cost: the sum of costs that may be kept, in the unit of `put`.
    """

    def __init__(self, max_cost: int) -> None:
        self._max_cost, self._cost = max_cost, 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """The entry, which is now the most recently used; `None` if it is forgotten."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, cost: int) -> None:
        """Remember an entry, and forget the least recently used ones above `max_cost`."""
        with self._lock:
            found = self._entries.pop(key, None)
            self._entries[key] = (value, cost)
            self._cost += cost if found is None else cost - found[1]
            while self._cost > self._max_cost and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))

    def drop(self, key: K) -> None:
        """Forget an entry."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: K) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            self._cost -= found[1]
