"""Compaction: what a model sees of a long conversation, and where the rest is."""

from langgraph_sessionmem.compaction.compactor import Compactor
from langgraph_sessionmem.compaction.engine import TurnStatus
from langgraph_sessionmem.compaction.ledger import Entry, Ledger
from langgraph_sessionmem.compaction.record import CompactedState

__all__ = ["CompactedState", "Compactor", "Entry", "Ledger", "TurnStatus"]
