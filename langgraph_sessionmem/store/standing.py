"""What the parts of the store stand on: its database, and its model."""

from collections.abc import Sequence

from langgraph.store.base import TTLConfig

from langgraph_sessionmem.backends.base import Backend
from langgraph_sessionmem.backends.opened import Opened
from langgraph_sessionmem.background import Recurring
from langgraph_sessionmem.store.answering import Habits, Vectors
from langgraph_sessionmem.store.batch import Work
from langgraph_sessionmem.store.embedding import Embedder, digest


class Standing(Opened):
    """A store as its parts see it.

    Models are asked outside, between two operations: what they take is never taken from the
    database's time.

    Attributes:
        backend: the open database.
        ttl_config: LangGraph's mapping, as it was given.
    """

    backend: Backend
    ttl_config: TTLConfig | None
    _embedder: Embedder | None
    _fields: Sequence[str]
    _habits: Habits
    _sweeper: Recurring | None

    def _embed(self, work: Work) -> Vectors:
        embedder = self._embedder
        if embedder is None:
            return Vectors({}, {})
        known: dict[bytes, bytes] = {}
        if work.keys:
            rows = self.backend.run(lambda records: records.read_vectors(work.keys))
            known = embedder.usable(rows)
        new = embedder.embed([text for text in work.texts if digest(text) not in known])
        suited = filter(embedder.suits, work.queries)
        return Vectors(known | new, {query: embedder.embed_query(query) for query in suited})

    async def _aembed(self, work: Work) -> Vectors:
        embedder = self._embedder
        if embedder is None:
            return Vectors({}, {})
        known: dict[bytes, bytes] = {}
        if work.keys:
            rows = await self.backend.arun(lambda records: records.read_vectors(work.keys))
            known = embedder.usable(rows)
        new = await embedder.aembed([text for text in work.texts if digest(text) not in known])
        suited = filter(embedder.suits, work.queries)
        queries = {query: await embedder.aembed_query(query) for query in suited}
        return Vectors(known | new, queries)
