"""LangGraph's own conformance suite, on every backend, in both faces."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import Database
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer
from langgraph.checkpoint.conformance.validate import validate

from langgraph_sessionmem import SessionSaver


class BlockingFace(SessionSaver):
    """The blocking methods under the names that the suite calls."""

    async def aput(self, *args: Any) -> Any:
        return self.put(*args)

    async def aput_writes(self, *args: Any, **keywords: Any) -> None:
        self.put_writes(*args, **keywords)

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, *args: Any, **keywords: Any) -> AsyncIterator[Any]:
        for found in self.list(*args, **keywords):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Any, **keywords: Any) -> None:
        self.prune(thread_ids, **keywords)


async def test_the_official_suite_passes(database: Database, face_name: str) -> None:
    kind = SessionSaver if face_name == "async" else BlockingFace

    async def open_saver() -> AsyncIterator[SessionSaver]:
        saver = kind.from_conn_string(database.url, **database.options)
        yield saver
        await saver.aclose()

    report = await validate(RegisteredCheckpointer("ours", open_saver))
    failures = [failure for result in report.results.values() for failure in result.failures or []]
    if failures:
        pytest.fail("\n\n".join(map(str, failures)))
    passed = {name for name, result in report.results.items() if result.passed}
    assert passed == {capability.value for capability in ALL_CAPABILITIES}
    assert report.conformance_level() == "FULL"
