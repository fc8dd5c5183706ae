"""Moving in and out: every thread of one LangGraph saver, or item of a store, into another."""

from langgraph_sessionmem.transfer.copying import (
    Problem,
    Progress,
    Report,
    Step,
    acopy_saver,
    copy_saver,
)
from langgraph_sessionmem.transfer.copying_items import (
    ItemProblem,
    ItemProgress,
    ItemReport,
    acopy_store,
    copy_store,
)
from langgraph_sessionmem.transfer.official import open_saver, open_store

__all__ = [
    "ItemProblem",
    "ItemProgress",
    "ItemReport",
    "Problem",
    "Progress",
    "Report",
    "Step",
    "acopy_saver",
    "acopy_store",
    "copy_saver",
    "copy_store",
    "open_saver",
    "open_store",
]
