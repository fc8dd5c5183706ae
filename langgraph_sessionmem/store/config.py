"""What the arguments of a store mean."""

from collections.abc import Mapping, Sequence

from langgraph.store.base import IndexConfig, TTLConfig

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.store.embedding import Embedder
from langgraph_sessionmem.store.local_embedding import DIMS, LocalEmbeddings
from langgraph_sessionmem.store.ops import check_minutes, check_paths
from langgraph_sessionmem.store.text import WHOLE_VALUE


def read_index(index: IndexConfig | None) -> tuple[Embedder | None, Sequence[str]]:
    """The embedder, if one is configured, and the paths that items are found by.

    Raises:
        InvalidArgument: a key is unknown, or its value can't be used.
    """
    if index is None:
        return None, (WHOLE_VALUE,)
    if not isinstance(index, Mapping) or not set(index) <= {"embed", "dims", "fields"}:
        raise InvalidArgument(f'index={index!r}: give {{"embed": …, "dims": …, "fields": […]}}.')
    fields = index.get("fields")
    if fields is None:
        fields = [WHOLE_VALUE]
    check_paths('index["fields"]', fields)
    if "embed" not in index:
        return None, tuple(fields)
    if index["embed"] == "local":
        return Embedder(LocalEmbeddings(), index.get("dims", DIMS)), tuple(fields)
    return Embedder(index["embed"], index.get("dims")), tuple(fields)


def read_ttl_config(ttl: TTLConfig | None) -> TTLConfig | None:
    """The mapping as LangGraph reads it, checked.

    Raises:
        InvalidArgument: a key is unknown, or its value can't be used.
    """
    if ttl is None:
        return None
    known = set(TTLConfig.__annotations__)
    if not isinstance(ttl, Mapping) or not set(ttl) <= known:
        raise InvalidArgument(f"ttl={ttl!r}: give a mapping of {', '.join(sorted(known))}.")
    for name in ("default_ttl", "sweep_interval_minutes"):
        check_minutes(f'ttl["{name}"]', ttl.get(name))
    for name in ("refresh_on_read", "omit_expired"):
        if not isinstance(ttl.get(name, True), bool):
            raise InvalidArgument(f'ttl["{name}"] = {ttl.get(name)!r}: give True or False.')
    return ttl


def read_history(history: object) -> int | None:
    """How many former values of an item are kept.

    Raises:
        InvalidArgument: it is neither None nor a whole number, 0 or more.
    """
    if history is None:
        return None
    if not isinstance(history, int) or isinstance(history, bool) or history < 0:
        raise InvalidArgument(f"history={history!r}: give a whole number, 0 or more, or None.")
    return history
