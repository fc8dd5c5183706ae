"""The dense leg: the vectors of a scope as one matrix, kept until the scope changes."""

from collections.abc import Sequence
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
        item_ids: `(items,)`, each once.
        owners: `(vectors,)`: whose vector each row is, as an index into `item_ids`.
        rows: `(vectors, dims)`, each of length 1.
    """

    stamp: int
    item_ids: npt.NDArray[np.int64]
    owners: npt.NDArray[np.intp]
    rows: npt.NDArray[np.float32]

    def similarities(self, query: bytes) -> npt.NDArray[np.float32]:
        """`(items,)`: how near each item is to a query: the cosine of its nearest vector, -1…1."""
        nearest = np.full(len(self.item_ids), -1.0, dtype=np.float32)
        np.maximum.at(nearest, self.owners, self.rows @ np.frombuffer(query, dtype=_DTYPE))
        return nearest


Matrices: TypeAlias = Remembered[tuple[Scope, int], Matrix]
"""By scope and the bytes of a vector: vectors of another length come from another model."""


class Dense(NamedTuple):
    """What the dense leg says.

    Attributes:
        scored: the nearest living items, and those that were asked about.
        lowest: the similarity of the farthest living item.
        is_whole: no item with a vector is left out.
    """

    scored: list[Scored]
    lowest: float
    is_whole: bool


async def dense_leg(
    records: ItemRecords,
    matrices: Matrices,
    scope: Scope,
    stamp: int,
    query: bytes,
    known: Sequence[CandidateRow],
    most: int,
) -> Dense:
    """The items of a scope that are nearest to a query, at most so many, and all of `known`."""
    matrix = matrices.get((scope, len(query)))
    if matrix is None or matrix.stamp != stamp:
        matrix = _matrix(stamp, await records.scan_vectors(scope), len(query))
        matrices.put((scope, len(query)), matrix, matrix.rows.nbytes + 1_000)
    similarities = matrix.similarities(query)
    order = np.argsort(-similarities, kind="stable")
    rows = {row.item_id: row for row in known}
    in_order = matrix.item_ids[order].tolist()
    nearest = await _living(records, in_order, most, rows)
    farthest = await _living(records, in_order[::-1], 1, rows)
    similarity = dict(zip(in_order, similarities[order].tolist(), strict=True))
    chosen = {row.item_id: row for row in (*nearest, *known) if row.item_id in similarity}
    return Dense(
        [Scored(row, similarity[item_id]) for item_id, row in chosen.items()],
        min((similarity[row.item_id] for row in farthest), default=0.0),
        len(nearest) < most,
    )


async def _living(
    records: ItemRecords,
    in_order: Sequence[int],
    most: int,
    rows: dict[int, CandidateRow],
) -> list[CandidateRow]:
    """The first items that are there and have not expired; `rows` learns what is read."""
    found: list[CandidateRow] = []
    start = 0
    while start < len(in_order) and len(found) < most:
        page = in_order[start : start + max(most - len(found), _PAGE)]
        missing = [item_id for item_id in page if item_id not in rows]
        if missing:
            rows.update((row.item_id, row) for row in await records.read_candidates(missing))
        found += (rows[item_id] for item_id in page if item_id in rows)
        start += len(page)
    return found[:most]


def _matrix(stamp: int, vectors: Sequence[VectorRow], size: int) -> Matrix:
    usable = [row for row in vectors if len(row.vector) == size]
    joined = b"".join(row.vector for row in usable)
    item_ids, owners = np.unique(
        np.array([row.item_id for row in usable], dtype=np.int64), return_inverse=True
    )
    rows = np.frombuffer(joined, dtype=_DTYPE).reshape(len(usable), size // 4)
    return Matrix(stamp, item_ids, owners.reshape(-1), rows)
