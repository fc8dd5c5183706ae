"""Checkpoints in an SQL database: `CheckpointRecords`, written once for both dialects."""

from langgraph_sessionmem.backends.sql_life import SqlLife
from langgraph_sessionmem.backends.sql_reading import SqlReading
from langgraph_sessionmem.backends.sql_saving import SqlSaving


class SqlCheckpoints(SqlSaving, SqlReading, SqlLife):
    """Checkpoints over a link."""
