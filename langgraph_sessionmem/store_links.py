"""A LangGraph store as code that is written once calls it, and the names of places in it."""

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import quote

from langgraph.store.base import BaseStore, Op, Result

from langgraph_sessionmem.errors import InvalidArgument


class StoreLink(Protocol):
    """A store, whichever way it is called."""

    async def batch(self, ops: Sequence[Op]) -> list[Result]:
        """The store's results, in the order of the operations."""
        ...


class BlockingStore:
    """A store called from blocking code; never suspends."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def batch(self, ops: Sequence[Op]) -> list[Result]:
        """The results of `BaseStore.batch`."""
        return self._store.batch(ops)


class AsyncStore:
    """A store called on an event loop."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def batch(self, ops: Sequence[Op]) -> list[Result]:
        """The results of `BaseStore.abatch`."""
        return await self._store.abatch(ops)


def encoded(name: str) -> str:
    """Any text as letters, digits, `_`, `-`, `~` and `%`; different texts stay different."""
    return quote(name, safe="", errors="surrogatepass").replace(".", "%2E")


def thread_label(thread_id: str) -> str:
    """The namespace label of a thread."""
    return f"t_{encoded(thread_id)}"


def checked_namespace(namespace: Sequence[str]) -> tuple[str, ...]:
    """A namespace prefix that every store takes.

    Raises:
        InvalidArgument: it is a plain text, empty, or has a label that isn't allowed.
    """
    if isinstance(namespace, str) or not namespace:
        raise InvalidArgument(
            f"namespace must be a tuple of labels such as ('sessionmem', 'archive'), "
            f"not {namespace!r}."
        )
    for label in namespace:
        if not isinstance(label, str) or not label or "." in label or "\0" in label:
            raise InvalidArgument(
                f"The namespace {tuple(namespace)!r} has the label {label!r}; a label is a text "
                "that isn't empty and has neither a dot nor NUL."
            )
    if namespace[0] == "langgraph":
        raise InvalidArgument("The root label 'langgraph' is LangGraph's own; take another.")
    return tuple(namespace)
