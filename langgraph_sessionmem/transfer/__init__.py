"""Moving in and out: every thread of one LangGraph saver into another."""

from langgraph_sessionmem.transfer.copying import (
    Problem,
    Progress,
    Report,
    Step,
    acopy_saver,
    copy_saver,
)
from langgraph_sessionmem.transfer.official import open_saver

__all__ = ["Problem", "Progress", "Report", "Step", "acopy_saver", "copy_saver", "open_saver"]
