"""How long a `search` and a `put` take among many items, in ten namespaces of one store.

The items are sentences of words as frequent as in prose; a query is three words of one of them.
`put` stands beside the official store of the same database, in the same run.
"""

import random
import secrets
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.store.base import BaseStore, PutOp
from langgraph.store.sqlite import SqliteStore

from langgraph_sessionmem import LongTermStore

NAMESPACES = 10
DIMS = 384
CALLS = 100
_AT_ONCE = 2_000
_VOCABULARY = 20_000
_WORDS = 25


class Corpus:
    """Sentences drawn from a vocabulary as it is used in prose, and a vector for each."""

    def __init__(self, items: int) -> None:
        chance = random.Random(0)
        letters = "etaoinshrdlcumwfgypbvk"
        words = [
            "".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(_VOCABULARY)
        ]
        weights = [1 / rank for rank in range(1, _VOCABULARY + 1)]
        drawn = chance.choices(words, weights, k=items * _WORDS)
        self.texts = [
            " ".join(drawn[start : start + _WORDS]) for start in range(0, len(drawn), _WORDS)
        ]

    def query(self, place: int) -> str:
        """Three words of a text."""
        return " ".join(sorted(set(self.texts[place].split()), key=len)[-3:])


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Vectors that cost next to nothing to make: the model's time is not what is measured."""
    found = []
    for text in texts:
        chance = random.Random(text)
        found.append([chance.random() - 0.5 for _ in range(DIMS)])
    return found


class Place(NamedTuple):
    """A database, ours on it by words and with vectors, and the official store of it."""

    name: str
    words: LongTermStore
    hybrid: LongTermStore
    official: BaseStore | None


def print_speed(items: int, urls: Sequence[str | None]) -> None:
    """A line for each database."""
    corpus = Corpus(items)
    heads = (
        "search by words, p50 ms",
        "hybrid, p50 ms",
        "the first after a change, ms",
        "put, p50 ms",
        "official put",
        "÷",
    )
    print(f"{items:,} items in {NAMESPACES} namespaces, {CALLS} calls each\n")
    print("| | " + " | ".join(heads) + " |\n" + "|---" * (len(heads) + 1) + "|")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = [stack.enter_context(_sqlite(folder))]
        places += [stack.enter_context(_server(url)) for url in urls if url]
        for place in places:
            cells = _measure(place, corpus)
            print(f"| {place.name} | " + " | ".join(cells) + " |", flush=True)


def _measure(place: Place, corpus: Corpus) -> list[str]:
    chance = random.Random(1)
    for store in filter(None, place[1:]):
        _fill(store, corpus)
    asked = [chance.randrange(len(corpus.texts)) for _ in range(CALLS)]

    def search(store: LongTermStore) -> Callable[[int], object]:
        return lambda at: store.search(
            _namespace(asked[at]), query=corpus.query(asked[at]), limit=10
        )

    def put(store: BaseStore) -> Callable[[int], object]:
        return lambda at: store.put(
            _namespace(at), f"new-{at}", {"text": corpus.texts[at]}, index=["text"]
        )

    words = _median_ms(search(place.words))
    for namespace in range(NAMESPACES):  # the vectors of a namespace are read once
        place.hybrid.search(_namespace(namespace), query=corpus.query(namespace), limit=10)
    hybrid = _median_ms(search(place.hybrid))
    place.hybrid.put(_namespace(asked[0]), "changed", {"text": "changed"}, index=["text"])
    first = 1e3 * _timed(lambda: search(place.hybrid)(0))
    ours, official = [], []
    for at in range(CALLS):
        ours.append(1e3 * _timed(lambda at=at: put(place.words)(at)))
        if place.official is not None:
            official.append(1e3 * _timed(lambda at=at: put(place.official)(at)))
    mine, theirs = statistics.median(ours), statistics.median(official) if official else None
    beside = ["-", "-"] if theirs is None else [f"{theirs:.2f}", f"{mine / theirs:.2f}"]
    return [f"{words:.1f}", f"{hybrid:.1f}", f"{first:.0f}", f"{mine:.2f}", *beside]


def _fill(store: BaseStore, corpus: Corpus) -> None:
    for start in range(0, len(corpus.texts), _AT_ONCE):
        texts = corpus.texts[start : start + _AT_ONCE]
        store.batch(
            PutOp(_namespace(place), str(place), {"text": text}, ["text"])
            for place, text in enumerate(texts, start)
        )
        done = f"{start + len(texts):,} of {len(corpus.texts):,} items stored"
        print(f"\r{done}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _namespace(place: int) -> tuple[str, ...]:
    return ("users", f"u{place % NAMESPACES}", "notes")


def _median_ms(call: Callable[[int], object]) -> float:
    return 1e3 * statistics.median(_timed(lambda at=at: call(at)) for at in range(CALLS))


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@contextmanager
def _sqlite(folder: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        connection = sqlite3.connect(folder / "official.db", isolation_level=None)
        official = SqliteStore(connection)
        official.setup()
        stack.callback(connection.close)
        yield Place(
            "SQLite",
            stack.enter_context(LongTermStore(folder / "words.db")),
            stack.enter_context(LongTermStore(folder / "hybrid.db", index=_index())),
            official,
        )


@contextmanager
def _server(url: str) -> Iterator[Place]:
    """A server's databases, under names of their own that are gone afterwards."""
    with ExitStack() as stack:
        mark = f"speed_{secrets.token_hex(4)}"
        option = "schema" if url.startswith("postgres") else "prefix"
        stores = [
            stack.enter_context(LongTermStore(url, index=index, **{option: f"{mark}_{name}"}))
            for name, index in (("words", None), ("hybrid", _index()))
        ]
        official = stack.enter_context(_official(url)) if option == "schema" else None
        try:
            yield Place(url.partition(":")[0], *stores, official)
        finally:
            for store in stores:
                store.erase(("users",))


@contextmanager
def _official(url: str) -> Iterator[BaseStore]:
    from langgraph.store.postgres import PostgresStore  # noqa: PLC0415 - only where it is measured

    with PostgresStore.from_conn_string(url) as store:
        store.setup()
        yield store


def _index() -> Any:
    return {"embed": embed, "dims": DIMS, "fields": ["text"]}
