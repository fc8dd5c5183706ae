"""What the parts of the SQL records share: a link, marks, and the steps that delete threads."""

import os
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from langgraph_sessionmem.backends.sql import Link, Params, SqlRow, Step, text_in
from langgraph_sessionmem.records import CheckpointRecords

_DROPS = (
    "drop_locked_checkpoints",
    "drop_locked_elements",
    "drop_locked_writes",
    "drop_locked_early_writes",
    "drop_locked_runs",
    "drop_locked_threads",
)

MARKS = ("forget_marks", "save_expiry", "save_age")
"""What is noted of threads that are over before they are deleted, by the sweeper or a late save."""


class SqlScripts(CheckpointRecords):
    """Scripts over a link.

    Args:
        link: where the queries run.
        mark_key: the database's own key, so that a tombstone names nobody.
    """

    def __init__(self, link: Link, mark_key: bytes) -> None:
        self._link, self._mark_key = link, mark_key

    async def _rows(
        self, query: str, params: Params, rows: Sequence[Params] | None = None
    ) -> list[SqlRow]:
        """The rows of a script of one step."""
        [found] = await self._link.execute([Step(query, params, rows)])
        return found

    def _mark(self, thread_id: str) -> bytes:
        """What stands for a thread after it is gone."""
        return _mark(thread_id, self._mark_key)


@lru_cache(1_024)
def _mark(thread_id: str, key: bytes) -> bytes:
    return blake2b(thread_id.encode(), key=key, digest_size=16).digest()


def new_token() -> int:
    """A number no other script has; by it a script knows the threads that it holds."""
    return int.from_bytes(os.urandom(8)) >> 1 | 1


def drop_locked(thread_ids: Sequence[str], token: int) -> list[Step]:
    """Delete those of the threads that the script holds; the last step gives a row for each."""
    rows: list[Params] = [{"thread_id": text_in(thread_id)} for thread_id in thread_ids]
    return [Step(name, {"token": token}, rows) for name in _DROPS]
