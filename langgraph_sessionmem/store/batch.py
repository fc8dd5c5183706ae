"""A batch between LangGraph and the database: checked, put in order, ready to be written."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langgraph.store.base import Op, PutOp, SearchOp

from langgraph_sessionmem.item_records import ItemKey, ItemPut
from langgraph_sessionmem.store import filters, values
from langgraph_sessionmem.store.embedding import digest
from langgraph_sessionmem.store.ops import check_ops
from langgraph_sessionmem.store.text import asks, embedded_texts_of, texts_of, tokens
from langgraph_sessionmem.store.writes import Expectations

_POSITIONS: Final = 1 << 32


class Put(NamedTuple):
    """A put that is ready but for its vectors, and the texts that they are of."""

    item: ItemPut
    texts: Sequence[str]


class Work(NamedTuple):
    """A checked batch: what to answer, and what is left to write of puts that follow each other."""

    ops: Sequence[Op]
    puts: Sequence[Put]
    drops: Sequence[ItemKey]

    @property
    def texts(self) -> list[str]:
        """What needs a vector, each text once."""
        return list(dict.fromkeys(text for put in self.puts for text in put.texts))

    @property
    def keys(self) -> list[ItemKey]:
        """The items whose present vectors may do."""
        return [(put.item.namespace, put.item.key) for put in self.puts if put.texts]

    @property
    def queries(self) -> list[str]:
        """What is asked for in words, each once."""
        asked = [op.query for op in self.ops if isinstance(op, SearchOp)]
        return list(dict.fromkeys(query for query in asked if query and not query.isspace()))


def plan(ops: Iterable[Op], fields: Sequence[str], *, embeds: bool) -> Work:
    """Check a batch as a whole; of several puts of one key the last is left.

    Args:
        ops: iterated once.
        fields: the paths that a put without an `index` of its own is found by.
        embeds: whether texts get vectors.

    Raises:
        InvalidNamespaceError, InvalidArgument: an op can't be used.
        ValueNotStorable: a value is no JSON.
    """
    checked = check_ops(ops)
    puts: dict[ItemKey, Put] = {}
    drops: dict[ItemKey, None] = {}
    for op in checked:
        if not isinstance(op, PutOp):
            continue
        key = (op.namespace, op.key)
        puts.pop(key, None)
        drops.pop(key, None)
        if op.value is None:
            drops[key] = None
        else:
            puts[key] = _prepare(op, op.value, fields, embeds)
    return Work(checked, list(puts.values()), list(drops))


def with_vectors(puts: Sequence[Put], vectors: Mapping[bytes, bytes]) -> list[ItemPut]:
    """The puts with the vectors of their texts, taken from `vectors` by digest."""
    return [
        item._replace(vectors=[(digest(text), vectors[digest(text)]) for text in texts])
        for item, texts in puts
    ]


def with_expectations(puts: Sequence[ItemPut], expected: Expectations) -> list[ItemPut]:
    """The puts with what they expect of their items."""
    return [put._replace(expected=expected.get((put.namespace, put.key))) for put in puts]


def _prepare(op: PutOp, given: Mapping[str, Any], fields: Sequence[str], embeds: bool) -> Put:
    encoded = values.encode(given)
    value = values.decode(encoded)  # plain: an enum is now the text it equals
    paths = fields if op.index is None else op.index or ()
    text = "\n".join(texts_of(value, paths))
    counts = Counter(tokens(text))
    position = _position(value) if counts else None
    item = ItemPut(
        op.namespace,
        op.key,
        encoded,
        op.ttl,
        counts,
        position,
        None if position is None else _session(value),
        position is not None and asks(text),
        (),
        filters.terms_of(value),
        None if op.index is None else list(op.index or ()),
    )
    return Put(item, embedded_texts_of(value, paths) if embeds else ())


def _position(value: Mapping[str, Any]) -> int | None:
    position = value.get("position")
    if isinstance(position, int) and not isinstance(position, bool) and 0 <= position < _POSITIONS:
        return position
    return None


def _session(value: Mapping[str, Any]) -> str | None:
    session = value.get("session")
    if isinstance(session, str | int) and not isinstance(session, bool):
        # A lone surrogate may stand in a value, but in no column.
        return f"{session}".encode("utf-8", "backslashreplace").decode()
    return None
