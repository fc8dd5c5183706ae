"""The long-term store: items by namespace and key, found by filters and by what they say."""

from langgraph_sessionmem.store.store import LongTermStore

__all__ = ["LongTermStore"]
