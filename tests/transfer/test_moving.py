"""Threads of LangGraph's own savers come in, and go out again, as they are."""

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import BACKENDS, Database, Face, Servers
from conversations import THREADS, config_of, fill, gone_on, make_graph, said, told
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from threads import new_checkpoint, place

from langgraph_sessionmem import TTL, SessionSaver
from langgraph_sessionmem.transfer import Report, Step, acopy_saver, copy_saver


@contextlib.asynccontextmanager
async def official_sqlite(folder: Path, name: str, is_async: bool) -> AsyncIterator[Face]:
    path = str(folder / f"{name}.db")
    if is_async:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            yield Face(saver, is_async)
    else:
        with SqliteSaver.from_conn_string(path) as blocking:
            yield Face(blocking, is_async)


@contextlib.asynccontextmanager
async def official_postgres(servers: Servers, name: str, is_async: bool) -> AsyncIterator[Face]:
    url, schema = servers.postgres_url(), f"official_{name}"
    connection = servers.postgres_connection(url)
    connection.execute(f"create schema {schema}")
    separator = "&" if "?" in url else "?"
    own_url = f"{url}{separator}options=-csearch_path%3D{schema}"
    try:
        if is_async:
            async with AsyncPostgresSaver.from_conn_string(own_url) as saver:
                await saver.setup()
                yield Face(saver, is_async)
        else:
            with PostgresSaver.from_conn_string(own_url) as blocking:
                blocking.setup()
                yield Face(blocking, is_async)
    finally:
        connection.execute(f"drop schema {schema} cascade")


async def copied(source: Face, target: Face, **more: Any) -> Report:
    copy = acopy_saver if source.is_async else copy_saver
    report: Any = copy(source.target, target.target, **more)
    return await report if source.is_async else report


@pytest.mark.parametrize(
    ("backend_name", "face_name"),
    [
        (name, face)
        for name, face in (
            ("sqlite", "blocking"),
            ("sqlite", "async"),
            ("postgres", "async"),
            ("valkey", "blocking"),
            ("cluster", "async"),
        )
        if name in BACKENDS
    ],
)
async def test_a_thread_comes_in_and_goes_out_again_as_it_was(
    database: Database, face_name: str, tmp_path: Path
) -> None:
    is_async = face_name == "async"
    ours = Face(database.open_saver(), is_async)
    async with (
        official_sqlite(tmp_path, "before", is_async) as before,
        official_sqlite(tmp_path, "after", is_async) as after,
    ):
        await fill(before)
        history = await told(before)
        came = await copied(before, ours)
        assert (came.ok, came.threads, came.complete) == (True, len(THREADS), 0), came.problems
        assert came.compared == came.checkpoints > 30
        assert came.writes > 60
        assert await told(ours) == history
        went = await copied(ours, after)
        assert (went.ok, went.checkpoints) == (True, came.checkpoints), went.problems
        assert await told(after) == history
        ends = await gone_on(before)
        assert await gone_on(ours) == ends
        assert await gone_on(after) == ends


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_the_official_postgres_saver_gives_and_takes_as_well(
    database: Database, face_name: str, servers: Servers
) -> None:
    is_async = face_name == "async"
    ours = Face(database.open_saver(), is_async)
    async with (
        official_postgres(servers, "before", is_async) as before,
        official_postgres(servers, "after", is_async) as after,
    ):
        await fill(before)
        history = await told(before)
        came = await copied(before, ours)
        assert came.ok, came.problems
        assert await told(ours) == history
        went = await copied(ours, after)
        assert went.ok, went.problems
        assert await told(after) == history
        ends = await gone_on(before)
        assert await gone_on(ours) == ends
        assert await gone_on(after) == ends


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_saver_whose_threads_nobody_can_name_is_listed_through(
    saver: Face,
) -> None:
    memory = Face(InMemorySaver(), saver.is_async)
    await fill(memory)
    report = await copied(memory, saver)
    assert report.ok, report.problems
    assert await told(saver) == await told(memory)
    assert await gone_on(saver) == await gone_on(memory)


class StoppedSaver(SessionSaver):
    """Is stopped before its last call but so many."""

    calls = 0
    stop_at = -1

    def count(self) -> None:
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        self.calls += 1

    def put(self, *arguments: Any) -> Any:
        self.count()
        return super().put(*arguments)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.count()
        super().put_writes(config, writes, task_id, task_path)

    async def aput(self, *arguments: Any) -> Any:
        self.count()
        return await super().aput(*arguments)

    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        self.count()
        await super().aput_writes(config, writes, task_id, task_path)


async def test_a_copy_may_be_stopped_anywhere_and_goes_on_from_there(
    tmp_path: Path, face_name: str
) -> None:
    is_async = face_name == "async"
    async with official_sqlite(tmp_path, "source", is_async) as source:
        await fill(source)
        with StoppedSaver(tmp_path / "whole.db") as whole:
            await copied(source, Face(whole, is_async))
        for stop_at in (1, whole.calls // 2, whole.calls - 1):
            with StoppedSaver(tmp_path / f"{stop_at}.db") as saver:
                saver.stop_at = stop_at
                target = Face(saver, is_async)
                with pytest.raises(KeyboardInterrupt):
                    await copied(source, target)
                saver.stop_at = -1
                second, third = await copied(source, target), await copied(source, target)
                assert second.ok, second.problems
                assert (third.complete, third.checkpoints, third.writes) == (len(THREADS), 0, 0)
                assert saver.calls <= whole.calls + 20
                assert await told(target) == await told(source)


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_what_came_to_the_source_since_is_copied_too(saver: Face, tmp_path: Path) -> None:
    async with official_sqlite(tmp_path, "source", saver.is_async) as source:
        await fill(source)
        first = await copied(source, saver)
        graph = Face(make_graph(source.target), saver.is_async)
        await graph("invoke", said("later"), config_of("answered"))
        second = await copied(source, saver, thread_ids=["answered"])
        assert second.ok, second.problems
        assert (second.threads, second.complete) == (1, 0)
        assert 0 < second.checkpoints < first.checkpoints
        assert await told(saver) == await told(source)
        await gone_on(source)
        third = await copied(source, saver)
        assert third.ok, third.problems
        assert await told(saver) == await told(source)


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_thread_that_went_on_here_is_complete_and_stays_as_it_is(
    saver: Face, tmp_path: Path
) -> None:
    async with official_sqlite(tmp_path, "source", saver.is_async) as source:
        await fill(source)
        await copied(source, saver)
        await gone_on(saver)
        history = await told(saver)
        report = await copied(source, saver)
        assert report.ok, report.problems
        assert (report.complete, report.checkpoints) == (len(THREADS), 0)
        assert await told(saver) == history


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_another_thread_of_the_same_id_is_left_alone_and_reported(
    saver: Face, tmp_path: Path
) -> None:
    async with official_sqlite(tmp_path, "source", saver.is_async) as source:
        await fill(source)
        await fill(saver)
        history = await told(saver)
        report = await copied(source, saver)
        assert (report.checkpoints, report.compared) == (0, 0)
        assert [problem.thread_id for problem in report.problems] == sorted(THREADS)
        assert all("nothing was written" in problem.what for problem in report.problems)
        assert await told(saver) == history


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_value_that_is_another_in_the_target_is_reported_with_its_place(
    saver: Face, tmp_path: Path
) -> None:
    async with official_sqlite(tmp_path, "source", saver.is_async) as source:
        await fill(source)
        await copied(source, saver)
        found = await saver("get_tuple", config_of("asked"))
        config = dict(found.config["configurable"])
        config["checkpoint_id"] = found.parent_config["configurable"]["checkpoint_id"]
        found.checkpoint["channel_values"]["turns"] = 77
        versions = found.checkpoint["channel_versions"]
        metadata = {**found.metadata, "step": 88}
        await saver("put", {"configurable": config}, found.checkpoint, metadata, versions)
        report = await copied(source, saver)
        assert not report.ok
        assert {problem.what for problem in report.problems} == {
            "channel_values.turns",
            "metadata.step",
        }
        place = found.config["configurable"]["checkpoint_id"]
        assert {problem.checkpoint_id for problem in report.problems} == {place}


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_thread_that_can_not_be_put_keeps_no_other_back(
    saver: Face, tmp_path: Path
) -> None:
    async with official_sqlite(tmp_path, "target", saver.is_async) as target:
        await fill(saver)
        config = {"configurable": {"thread_id": "an odd one", "checkpoint_ns": ""}}
        checkpoint: Any = {
            "v": 4,
            "id": "1",
            "ts": "",
            "channel_values": {},
            "channel_versions": {},
            "versions_seen": {},
        }
        # SQLite's official saver keeps metadata as JSON, which has no bytes.
        await saver("put", config, checkpoint, {"source": "loop", "raw": b"\x00"}, {})
        report = await copied(saver, target)
        assert [problem.thread_id for problem in report.problems] == ["an odd one"]
        assert report.threads == len(THREADS) + 1
        assert await told(target) == await told(saver)


@pytest.mark.parametrize("backend_name", ["sqlite", "valkey"])
async def test_a_pruned_thread_goes_on_in_the_official_saver(saver: Face, tmp_path: Path) -> None:
    async with official_sqlite(tmp_path, "target", saver.is_async) as target:
        await fill(saver)
        await saver("prune", THREADS)
        report = await copied(saver, target)
        assert report.ok, report.problems
        graphs = [Face(make_graph(each.target), saver.is_async) for each in (saver, target)]
        for thread_id in THREADS:
            here, there = [await graph("get_state", config_of(thread_id)) for graph in graphs]
            assert here == there
            assert here.values["kept"]
        assert await gone_on(target) == await gone_on(saver)


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_branches_that_the_official_saver_would_mix_are_reported(
    saver: Face, tmp_path: Path
) -> None:
    counted: Any = {"source": "loop", "counters_since_delta_snapshot": {"delta": (1, 1)}}

    async def put(checkpoint_id: str, parent_id: str | None) -> Any:
        checkpoint = new_checkpoint(checkpoint_id, {}, {"delta": checkpoint_id})
        return await saver("put", place("t", "", parent_id), checkpoint, counted, {})

    parent = await put("1", None)
    for child, write in (("2", "one"), ("3", "other")):
        await saver("put_writes", parent, [("delta", write)], f"task of {child}")
        await put(child, "1")
    async with official_sqlite(tmp_path, "target", saver.is_async) as target:
        report = await copied(saver, target)
        rebuilt = [
            [write[2] for write in history["delta"]["writes"]]
            for history in [
                await each("get_delta_channel_history", config=place("t"), channels=["delta"])
                for each in (saver, target)
            ]
        ]
        assert rebuilt == [["other"], ["one", "other"]]
        assert {(each.checkpoint_id, each.what) for each in report.problems} == {
            (child, "the DeltaChannel 'delta' is rebuilt from other writes") for child in "23"
        }


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_what_an_idle_thread_hides_stays_behind(
    database: Database, face_name: str, tmp_path: Path
) -> None:
    ttl = TTL(interrupted=timedelta(minutes=5), idle=timedelta(minutes=5), strategy="keep_latest")
    source = Face(database.open_saver(ttl=ttl), face_name == "async")
    await fill(source)
    database.advance(timedelta(minutes=6))
    async with official_sqlite(tmp_path, "target", source.is_async) as target:
        report = await copied(source, target)
        assert report.ok, report.problems
        for thread_id in THREADS:
            config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
            latest = [await each("get_tuple", config) for each in (source, target)]
            assert latest[0].checkpoint == latest[1].checkpoint
            assert len(await target("list", config)) <= 2  # with what it is rebuilt from


@pytest.mark.parametrize("backend_name", ["postgres", "cluster"])
async def test_threads_move_between_two_databases_of_ours_with_their_limits(
    database: Database, face_name: str, tmp_path: Path
) -> None:
    source = Face(database.open_saver(ttl={"default_ttl": 90}), face_name == "async")
    await fill(source)
    with SessionSaver(tmp_path / "target.db") as opened:
        target = Face(opened, source.is_async)
        report = await copied(source, target)
        assert report.ok, report.problems
        assert await told(target) == await told(source)
        rows = {row.thread_id: row for row in await target("threads")}
        for row in await source("threads"):
            assert rows[row.thread_id].limits == row.limits
            assert rows[row.thread_id].waiting == row.waiting
        assert await gone_on(target) == await gone_on(source)


class LostSaver(InMemorySaver):
    def put(self, *_: Any) -> Any:
        raise psycopg.OperationalError("the server closed the connection")


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_progress_is_told_and_a_thread_that_is_not_there_is_a_problem(saver: Face) -> None:
    memory = Face(InMemorySaver(), saver.is_async)
    await fill(memory)
    steps: list[Step] = []
    report = await copied(memory, saver, thread_ids=["nobody", "asked"], progress=steps.append)
    assert [problem.what for problem in report.problems] == ["the source has no such thread"]
    assert {(step.thread_id, step.threads) for step in steps} == {("asked", 1)}
    assert [(step.stage, step.done) for step in steps] == [
        (stage, done + 1) for stage in ("copying", "comparing") for done in range(report.compared)
    ]


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_lost_database_stops_the_copy(saver: Face) -> None:
    await fill(saver)
    lost = Face(LostSaver(), saver.is_async)
    with pytest.raises(psycopg.OperationalError):
        await copied(saver, lost)
