"""Vectors beside words: what is embedded, how often, and what it changes."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import Database
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp

from langgraph_sessionmem import LongTermStore
from langgraph_sessionmem.errors import InvalidArgument

NS = ("users", "u1")
TOPICS = {"drink": "tea coffee rum beverage", "pet": "dog cat puppy animal", "place": "porto city"}


class Topics(Embeddings):
    """One direction a topic: texts about the same are near, whatever their words."""

    def __init__(self) -> None:
        self.documents: list[str] = []
        self.queries: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents += texts
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        words = re.findall(r"\w+", text.lower())
        counts = [sum(word in topic.split() for word in words) for topic in TOPICS.values()]
        return [*map(float, counts), 0.01]


@pytest.fixture
def model() -> Topics:
    return Topics()


@pytest.fixture
def store(database: Database, model: Topics) -> Any:
    return database.open_store(index={"embed": model, "dims": 4, "fields": ["text", "notes[*]"]})


def keys(store: LongTermStore, query: str, **asked: Any) -> list[str]:
    return [item.key for item in store.search(NS, query=query, **asked)]


def test_a_paraphrase_without_a_common_word_is_found(store: LongTermStore) -> None:
    store.put(NS, "dog", {"text": "I have a dog"})
    store.put(NS, "tea", {"text": "I like tea"})
    items = store.search(NS, query="Which animal?")
    assert [item.key for item in items] == ["dog", "tea"]
    assert items[0].score > items[1].score >= 0


def test_words_lead_and_vectors_follow(store: LongTermStore) -> None:
    store.put(NS, "puppy", {"text": "my puppy sleeps"})
    store.put(NS, "rex", {"text": "rex sleeps"})
    store.put(NS, "tea", {"text": "tea time"})
    assert keys(store, "rex puppy animal")[0] == "puppy"
    assert keys(store, "rex")[0] == "rex"


def test_only_the_named_fields_reach_the_model(store: LongTermStore, model: Topics) -> None:
    store.put(NS, "k", {"text": "tea", "notes": ["dog", "city"], "secret": "cipher"})
    store.put(NS, "own", {"text": "rum", "title": "cat"}, index=["title"])
    store.put(NS, "none", {"text": "coffee"}, index=False)
    assert model.documents == ["tea", "dog", "city", "cat"]


def test_an_unchanged_text_is_not_embedded_again(store: LongTermStore, model: Topics) -> None:
    store.put(NS, "k", {"text": "tea", "n": 1})
    store.put(NS, "k", {"text": "tea", "n": 2})
    assert model.documents == ["tea"]
    store.put(NS, "k", {"text": "rum", "n": 3})
    assert model.documents == ["tea", "rum"]
    assert keys(store, "beverage") == ["k"]


def test_equal_texts_of_a_batch_are_embedded_once(store: LongTermStore, model: Topics) -> None:
    store.batch([PutOp(NS, f"{n}", {"text": "tea", "notes": ["tea"]}) for n in range(3)])
    assert model.documents == ["tea"]
    assert sorted(keys(store, "beverage")) == ["0", "1", "2"]


async def test_async_callers_get_the_same(store: LongTermStore, model: Topics) -> None:
    await store.aput(NS, "dog", {"text": "I have a dog"})
    await store.aput(NS, "dog", {"text": "I have a dog"})
    found = await store.asearch(NS, query="animal")
    assert [item.key for item in found] == ["dog"]
    assert model.documents == ["I have a dog"]
    assert model.queries == ["animal"]


def test_a_question_is_embedded_as_a_query(store: LongTermStore, model: Topics) -> None:
    store.search(NS, query="animal")
    store.search(NS, query=" ")
    store.search(NS)
    assert (model.documents, model.queries) == ([], ["animal"])


def test_vectors_go_with_their_text(store: LongTermStore) -> None:
    store.put(NS, "k", {"notes": ["dog", "tea"]})
    store.put(NS, "k", {"notes": ["dog"]})
    store.put(NS, "other", {"text": "porto"})
    rum, other = store.search(NS, query="coffee")
    assert (rum.score, other.score) == pytest.approx((0.3, 0.3), abs=0.01)
    store.put(NS, "k", {"notes": ["dog"]}, index=False)
    assert keys(store, "animal") == ["other"]
    store.delete(NS, "other")
    store.put(NS, "other", {"text": "porto"}, index=False)
    assert keys(store, "city") == []


def test_an_item_of_many_vectors_hides_no_other(store: LongTermStore) -> None:
    store.put(NS, "many", {"notes": [f"dog {n}" for n in range(10)]})
    store.put(NS, "one", {"text": "cat"})
    store.put(NS, "two", {"text": "puppy"})
    assert len(keys(store, "animal", limit=2)) == 2
    assert sorted(keys(store, "animal", limit=3)) == ["many", "one", "two"]


def test_pages_and_filters_hold_with_vectors(store: LongTermStore) -> None:
    ops = [PutOp(NS, f"{n}", {"text": "dog " * (n % 3), "n": n}) for n in range(30)]
    store.batch(ops)
    whole = keys(store, "dog animal", limit=100)
    pages = [keys(store, "dog animal", limit=7, offset=at) for at in range(0, 35, 7)]
    assert [key for page in pages for key in page] == whole
    assert keys(store, "animal", filter={"n": 4}) == ["4"]


def test_nothing_is_embedded_for_a_batch_that_is_refused(
    store: LongTermStore, model: Topics
) -> None:
    with pytest.raises(InvalidArgument):
        store.batch([PutOp(NS, "k", {"text": "tea"}), PutOp(NS, "bad", {"x": object()})])
    assert model.documents == []


class Broken(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise ConnectionError("the model is away")

    def embed_query(self, text: str) -> list[float]:
        raise ConnectionError("the model is away")


async def test_a_failing_model_writes_nothing(database: Database) -> None:
    store = database.open_store(index={"embed": Broken(), "dims": 4})
    with pytest.raises(ConnectionError):
        store.put(NS, "k", {"text": "tea"})
    with pytest.raises(ConnectionError):
        await store.aput(NS, "k", {"text": "tea"})
    assert store.get(NS, "k") is None


@pytest.mark.parametrize(
    "vector",
    [[1.0, 2.0], [float("nan"), 1.0, 1.0], [float("inf"), 0.0, 0.0], [[1.0, 1.0, 1.0]], []],
)
def test_a_vector_that_cannot_be_used_is_refused(database: Database, vector: Any) -> None:
    def embed(texts: Sequence[str]) -> list[Any]:
        return [vector for _ in texts]

    store = database.open_store(index={"embed": embed, "dims": 3})
    with pytest.raises(InvalidArgument, match="3 finite numbers"):
        store.put(NS, "k", {"text": "tea"})
    assert store.get(NS, "k") is None


def test_a_model_that_drops_a_text_is_refused(database: Database) -> None:
    store = database.open_store(index={"embed": lambda texts: [], "dims": 3})
    with pytest.raises(InvalidArgument, match="0 vectors for 1 texts"):
        store.put(NS, "k", {"text": "tea"})


async def test_an_async_function_serves_async_callers(database: Database) -> None:
    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return Topics().embed_documents(list(texts))

    store = database.open_store(index={"embed": embed, "dims": 4})
    await store.aput(NS, "dog", {"text": "dog"})
    assert [item.key for item in await store.asearch(NS, query="animal")] == ["dog"]


def test_vectors_of_another_length_are_made_anew(database: Database, model: Topics) -> None:
    other = database.open_store(index={"embed": lambda texts: [[1.0] for _ in texts], "dims": 1})
    other.put(NS, "dog", {"text": "dog"})
    other.put(NS, "cat", {"text": "cat"})
    store = database.open_store(index={"embed": model, "dims": 4, "fields": ["text"]})
    store.put(NS, "dog", {"text": "dog"})
    assert model.documents == ["dog"]
    assert keys(store, "animal") == ["dog"]


def test_all_zeros_are_near_nothing(database: Database) -> None:
    store = database.open_store(index={"embed": lambda texts: [[0.0] for _ in texts], "dims": 1})
    store.put(NS, "k", {"text": "tea"})
    assert keys(store, "tea") == ["k"]
