"""Memory for LangGraph agents: checkpoints with a TTL, long-term memory, and compaction.

Each name is loaded when it is first asked for, so nobody pays for what they don't use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph_sessionmem.checkpoint.saver import SessionSaver
    from langgraph_sessionmem.compaction.compactor import Compactor
    from langgraph_sessionmem.compaction.ledger import Ledger
    from langgraph_sessionmem.compaction.record import CompactedState
    from langgraph_sessionmem.errors import SessionMemoryError
    from langgraph_sessionmem.expiry import TTL
    from langgraph_sessionmem.memories.kinds import (
        Background,
        Conversation,
        Event,
        Fact,
        Memory,
        Reflection,
        Skill,
        Source,
    )
    from langgraph_sessionmem.memories.memories import Memories
    from langgraph_sessionmem.store.store import LongTermStore
    from langgraph_sessionmem.store.writes import ABSENT, ItemWrite

__version__ = "0.1.0"

__all__ = [
    "ABSENT",
    "TTL",
    "Background",
    "CompactedState",
    "Compactor",
    "Conversation",
    "Event",
    "Fact",
    "ItemWrite",
    "Ledger",
    "LongTermStore",
    "Memories",
    "Memory",
    "Reflection",
    "SessionMemoryError",
    "SessionSaver",
    "Skill",
    "Source",
]

_ROOMS = {
    "Source": "memories.kinds",
    "Skill": "memories.kinds",
    "Reflection": "memories.kinds",
    "Memories": "memories.memories",
    "Memory": "memories.kinds",
    "Fact": "memories.kinds",
    "Event": "memories.kinds",
    "Conversation": "memories.kinds",
    "Background": "memories.kinds",
    "ABSENT": "store.writes",
    "TTL": "expiry",
    "CompactedState": "compaction.record",
    "Compactor": "compaction.compactor",
    "ItemWrite": "store.writes",
    "Ledger": "compaction.ledger",
    "LongTermStore": "store.store",
    "SessionMemoryError": "errors",
    "SessionSaver": "checkpoint.saver",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
