"""The store against a dictionary: any sequence of calls gives the same answers."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from langgraph.store.base import GetOp, Item, PutOp, SearchOp

from langgraph_sessionmem import LongTermStore
from langgraph_sessionmem.store import filters

NAMESPACES = st.sampled_from([("a",), ("a", "b"), ("ab",), ("A",), ("a", "b", "c")])
PREFIXES = st.sampled_from([(), ("a",), ("a", "b"), ("ab",), ("b",)])
KEYS = st.sampled_from(["k", "K", "\x00"])
VALUES = st.fixed_dictionaries(
    {"text": st.sampled_from(["tea", "rum", "tea rum"])},
    optional={"n": st.sampled_from([0, 1, True, None])},
)
# The database's own clock runs on meanwhile, so no deadline falls on a whole minute.
TTLS = st.sampled_from([None, None, 1.5, 3.5])
FILTERS = st.sampled_from([None, {"n": 1}, {"n": None}, {"n": {"$ne": 1}}, {"text": "tea"}])
PUTS = st.builds(PutOp, NAMESPACES, KEYS, VALUES | st.none(), st.none(), TTLS)
READS = st.builds(GetOp, NAMESPACES, KEYS, st.booleans()) | st.builds(
    SearchOp,
    PREFIXES,
    FILTERS,
    st.integers(0, 4),
    st.integers(0, 2),
    st.none(),
    st.booleans(),
)


@dataclass
class Kept:
    """What the model knows of an item."""

    value: dict[str, Any]
    written: int
    minutes: float | None
    expires: float | None


class StoreMachine(RuleBasedStateMachine):
    """Calls on a store in memory and on a dictionary, side by side."""

    @initialize()
    def open(self) -> None:
        self.store = LongTermStore()
        self.kept: dict[tuple[tuple[str, ...], str], Kept] = {}
        self.now = 0.0
        self.written = 0

    def teardown(self) -> None:
        self.store.close()

    @rule(ops=st.lists(PUTS | READS, max_size=5))
    def batch(self, ops: list[Any]) -> None:
        results = self.store.batch(ops)
        # Reads are of the state before the batch, so nothing they renew shows in it.
        expected = [self.answer(op) for op in ops]
        assert [self.seen(result) for result in results] == expected
        self.renew(ops, results)
        last = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        final = [op for op in ops if isinstance(op, PutOp) and last[op.namespace, op.key] is op]
        for op in final:
            self.write(op)

    @rule(minutes=st.sampled_from([1, 2, 5]))
    def wait(self, minutes: int) -> None:
        self.now += minutes
        self.store.backend.offset_seconds += 60 * minutes

    @rule()
    def sweep(self) -> None:
        gone = [key for key in self.kept if not self.alive(key)]
        assert self.store.sweep() == len(gone)
        for key in gone:
            del self.kept[key]

    @rule(prefix=PREFIXES.filter(bool))
    def erase(self, prefix: tuple[str, ...]) -> None:
        under = [key for key in self.kept if key[0][: len(prefix)] == prefix]
        assert self.store.erase(prefix) == sum(map(self.alive, under))
        for key in under:
            del self.kept[key]

    @rule(prefix=PREFIXES, word=st.sampled_from(["tea", "rum"]))
    def query(self, prefix: tuple[str, ...], word: str) -> None:
        found = self.store.search(prefix, query=word, limit=100, refresh_ttl=False)
        expected = {
            key for key in self.under(prefix) if word in self.kept[key].value["text"].split()
        }
        assert {(item.namespace, item.key) for item in found} == expected

    @invariant()
    def namespaces_are_those_of_living_items(self) -> None:
        living = {namespace for namespace, _ in self.under(())}
        assert self.store.list_namespaces(limit=100) == sorted(living)

    def alive(self, key: tuple[tuple[str, ...], str]) -> bool:
        expires = self.kept[key].expires
        return expires is None or expires > self.now

    def under(self, prefix: tuple[str, ...]) -> list[tuple[tuple[str, ...], str]]:
        """Living items, the latest first."""
        keys = [key for key in self.kept if key[0][: len(prefix)] == prefix and self.alive(key)]
        return sorted(keys, key=lambda key: -self.kept[key].written)

    def answer(self, op: Any) -> Any:
        if isinstance(op, PutOp):
            return None
        if isinstance(op, GetOp):
            key = (op.namespace, op.key)
            return self.row(key) if key in self.kept and self.alive(key) else None
        rows = [self.row(key) for key in self.under(op.namespace_prefix)]
        matching = [row for row in rows if filters.matches(op.filter or {}, row[2])]
        return matching[op.offset : op.offset + op.limit]

    def row(self, key: tuple[tuple[str, ...], str]) -> tuple[Any, ...]:
        return (*key, self.kept[key].value)

    def seen(self, result: Any) -> Any:
        if isinstance(result, Item):
            return (result.namespace, result.key, result.value)
        return result and [self.seen(item) for item in result] if result != [] else []

    def renew(self, ops: list[Any], results: list[Any]) -> None:
        for op, result in zip(ops, results, strict=True):
            items = result if isinstance(result, list) else [result] if result else []
            for item in items if getattr(op, "refresh_ttl", False) else []:
                kept = self.kept[item.namespace, item.key]
                kept.expires = None if kept.minutes is None else self.now + kept.minutes

    def write(self, op: PutOp) -> None:
        key = (op.namespace, op.key)
        if op.value is None:
            self.kept.pop(key, None)
            return
        self.written += 1
        expires = None if op.ttl is None else self.now + op.ttl
        self.kept[key] = Kept(dict(op.value), self.written, op.ttl, expires)


TestStoreMachine = StoreMachine.TestCase
