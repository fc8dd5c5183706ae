"""The dense leg: the vectors of a scope as one matrix, kept until the scope changes."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from langgraph_sessionmem.bounded import Remembered
from langgraph_sessionmem.item_records import CandidateRow, ItemRecords, Scope, VectorRow
from langgraph_sessionmem.store.ranking import Scored

CACHE_BYTES: Final = 256 * 1024 * 1024
_DTYPE: Final = "<f4"
_PAGE: Final = 64


class Matrix(NamedTuple):
    """All vectors of a scope.

    Attributes:
        stamp: of the scope when they were read.
        item_ids: `(items,)`, each once, ascending.
        starts: `(items,)`: the first of each item's rows.
        rows: `(vectors, dims)`, each of length 1, item by item.
    """

    stamp: int
    item_ids: npt.NDArray[np.int64]
    starts: npt.NDArray[np.intp]
    rows: npt.NDArray[np.float32]

    def similarities(self, query: bytes) -> npt.NDArray[np.float32]:
        """`(items,)`: how near each item is to a query: the cosine of its nearest vector, -1…1."""
        # Not `@`: BLAS would start threads for it, which on a busy machine wait for each other.
        asked = np.frombuffer(query, dtype=_DTYPE)
        products: npt.NDArray[np.float32] = np.einsum("ij,j->i", self.rows, asked)
        if len(self.starts) < len(products):
            products = np.maximum.reduceat(products, self.starts)
        return products


Matrices: TypeAlias = Remembered[tuple[Scope, int], Matrix]
"""By scope and the bytes of a vector: vectors of another length come from another model."""


class Near(NamedTuple):
    """How near the items of a scope are to a query, expired ones among them.

    Attributes:
        item_ids: `(items,)`, each once, ascending.
        similarities: `(items,)`, -1…1.
        order: `(items,)`, the places of the items, the nearest first.
    """

    item_ids: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]
    order: npt.NDArray[np.intp]

    def in_order(self) -> npt.NDArray[np.int64]:
        """`(items,)`: the ids, the nearest first."""
        return self.item_ids[self.order]

    def of(self, item_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """`(n,)`: the similarity of each of some items, NaN of one without a vector."""
        if not len(self.item_ids):
            return np.full(len(item_ids), np.nan)
        places = np.searchsorted(self.item_ids, item_ids).clip(max=len(self.item_ids) - 1)
        there = self.item_ids[places] == item_ids
        return np.where(there, self.similarities[places].astype(np.float64), np.nan)

    def scored(self, rows: Sequence[CandidateRow]) -> list[Scored]:
        """Those of some items that have a vector, and how near they are."""
        found = self.of(np.array([row.item_id for row in rows], dtype=np.int64)).tolist()
        return [
            Scored(row, score) for row, score in zip(rows, found, strict=True) if score == score
        ]


class Dense(NamedTuple):
    """What the dense leg says.

    Attributes:
        scored: items that are near, and those that were asked about.
        lowest: the similarity of the farthest living item.
    """

    scored: list[Scored]
    lowest: float


async def nearness(
    records: ItemRecords, matrices: Matrices, scope: Scope, stamp: int, query: bytes
) -> Near:
    """How near all items of a scope are to a query."""
    matrix = matrices.get((scope, len(query)))
    if matrix is None or matrix.stamp != stamp:
        matrix = _matrix(stamp, await records.scan_vectors(scope), len(query))
        matrices.put((scope, len(query)), matrix, matrix.rows.nbytes + 1_000)
    similarities = matrix.similarities(query)
    return Near(matrix.item_ids, similarities, np.argsort(-similarities))


async def first_living(
    records: ItemRecords,
    in_order: npt.NDArray[np.int64],
    most: int,
    rows: dict[int, CandidateRow],
) -> list[CandidateRow]:
    """The first items that are there and have not expired; `rows` learns what is read."""
    found: list[CandidateRow] = []
    start = 0
    while start < len(in_order) and len(found) < most:
        page = in_order[start : start + max(most - len(found), _PAGE if start else 1)].tolist()
        missing = [item_id for item_id in page if item_id not in rows]
        if missing:
            rows.update((row.item_id, row) for row in await records.read_candidates(missing))
        found += (rows[item_id] for item_id in page if item_id in rows)
        start += len(page)
    return found[:most]


def _matrix(stamp: int, vectors: Sequence[VectorRow], size: int) -> Matrix:
    usable = sorted((row for row in vectors if len(row.vector) == size), key=attrgetter("item_id"))
    joined = b"".join(row.vector for row in usable)
    item_ids, starts = np.unique(
        np.array([row.item_id for row in usable], dtype=np.int64), return_index=True
    )
    rows = np.frombuffer(joined, dtype=_DTYPE).reshape(len(usable), size // 4)
    return Matrix(stamp, item_ids, starts, rows)
