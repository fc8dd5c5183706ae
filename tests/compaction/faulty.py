"""A store with a fault between it and its caller."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

from langgraph.store.base import Op, PutOp, Result
from langgraph.store.memory import InMemoryStore

LOST = object()
"""What a fault returns for a put that is acknowledged and forgotten."""
Fault = Callable[[Op, Any], Any]


class FaultyStore(InMemoryStore):
    """An in-memory store of which the caller gets `fault(op, result)`; a put has no result."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        kept = [op for op in ops if not (isinstance(op, PutOp) and self.fault(op, None) is LOST)]
        results = dict(zip(map(id, kept), super().batch(kept), strict=True))
        return [
            None if isinstance(op, PutOp) else self.fault(op, copy.deepcopy(results.get(id(op))))
            for op in ops
        ]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self.batch(ops)
