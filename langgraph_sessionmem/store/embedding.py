"""Embeddings of texts: computed once per changed text, compared exactly.

Vectors are stored at length 1, so that a similarity is one product.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from langgraph.store.base import ensure_embeddings

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.item_records import VectorRow

_DTYPE: Final = "<f4"


class Embedder:
    """Turns texts into vectors with the model that the user configured.

    Args:
        embed: as in LangGraph's `IndexConfig`: an `Embeddings`, a function, or a provider's name.
        dims: how many numbers a vector has.

    Raises:
        InvalidArgument: `dims` is no positive whole number.
    """

    def __init__(self, embed: Any, dims: Any) -> None:
        if not isinstance(dims, int) or isinstance(dims, bool) or dims < 1:
            raise InvalidArgument(f'index["dims"] = {dims!r}: give the length of a vector.')
        self._model, self._dims = ensure_embeddings(embed), dims

    def embed(self, texts: Sequence[str]) -> dict[bytes, bytes]:
        """The vector of each text, by its digest; the model is asked at most once."""
        if not texts:
            return {}
        return self._by_digest(texts, self._model.embed_documents(list(texts)))

    async def aembed(self, texts: Sequence[str]) -> dict[bytes, bytes]:
        """`embed` without blocking the loop."""
        if not texts:
            return {}
        return self._by_digest(texts, await self._model.aembed_documents(list(texts)))

    def suits(self, query: str) -> bool:
        """Whether the model says that it is good for a question; most say nothing, and are."""
        asked = getattr(self._model, "suits", None)
        return asked is None or bool(asked(query))

    def embed_query(self, query: str) -> bytes:
        """The vector of a question."""
        return self._stored(self._model.embed_query(query))

    async def aembed_query(self, query: str) -> bytes:
        """`embed_query` without blocking the loop."""
        return self._stored(await self._model.aembed_query(query))

    def usable(self, rows: Sequence[VectorRow]) -> dict[bytes, bytes]:
        """The vectors of `rows` that have the right length, by the digest of their text."""
        return {row.digest: row.vector for row in rows if len(row.vector) == 4 * self._dims}

    def _by_digest(self, texts: Sequence[str], vectors: Sequence[Any]) -> dict[bytes, bytes]:
        if len(vectors) != len(texts):
            raise InvalidArgument(
                f"The embedding function gave {len(vectors)} vectors for {len(texts)} texts."
            )
        return {
            digest(text): self._stored(vector) for text, vector in zip(texts, vectors, strict=True)
        }

    def _stored(self, vector: Any) -> bytes:
        numbers = np.asarray(vector, dtype=np.float64)
        if numbers.shape != (self._dims,) or not np.isfinite(numbers).all():
            raise InvalidArgument(
                f"The embedding function gave a vector of shape {numbers.shape}; "
                f'{self._dims} finite numbers are needed, as index["dims"] says.'
            )
        length = float(np.linalg.norm(numbers))
        return (numbers / length if length else numbers).astype(_DTYPE).tobytes()


def digest(text: str) -> bytes:
    """16 bytes that know a text again."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
