"""All rows of an SQL database: checkpoints and items over one link."""

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.backends.sql_checkpoints import SqlCheckpoints
from langgraph_sessionmem.backends.sql_items import SqlItems


class SqlRecords(SqlCheckpoints, SqlItems, Records):
    """What an operation is given on SQLite and PostgreSQL."""
