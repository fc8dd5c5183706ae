"""Items of LangGraph's own stores come in, and go out again, as they are."""

import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, Database, Face, Servers
from langgraph.store.base import BaseStore, InvalidNamespaceError, PutOp, SearchItem
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.aio import AsyncSqliteStore
from typer.testing import CliRunner, Result

from langgraph_sessionmem import LongTermStore
from langgraph_sessionmem.cli import app
from langgraph_sessionmem.transfer import ItemProblem, ItemReport, acopy_store, copy_store

NS = ("users", "u1")
ODD = ("users", "naïve %_*? [x]", "Я")
TTL_MINUTES = 90


@contextlib.asynccontextmanager
async def official_store(
    kind: str, servers: Servers, folder: Path, name: str, is_async: bool
) -> AsyncIterator[Face]:
    async with contextlib.AsyncExitStack() as stack:
        opened: Any
        if kind == "memory":
            opened = InMemoryStore()
        elif kind == "sqlite":
            path = str(folder / f"{name}.db")
            if is_async:
                opened = await stack.enter_async_context(AsyncSqliteStore.from_conn_string(path))
            else:
                opened = stack.enter_context(SqliteStore.from_conn_string(path))
        else:
            url, schema = servers.postgres_url(), f"official_store_{name}"
            connection = servers.postgres_connection(url)
            connection.execute(f"create schema {schema}")
            stack.callback(connection.execute, f"drop schema {schema} cascade")
            own = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"
            if is_async:
                opened = await stack.enter_async_context(AsyncPostgresStore.from_conn_string(own))
                await opened.setup()
            else:
                opened = stack.enter_context(PostgresStore.from_conn_string(own))
                opened.setup()
        yield Face(opened, is_async)


def items_of(store: BaseStore) -> list[PutOp]:
    ttl = TTL_MINUTES if store.supports_ttl else None
    return [
        *(PutOp((*NS, f"n{n % 3}"), f"{n}", {"n": n, "text": "green tea"}) for n in range(210)),
        PutOp(
            NS, "short-lived", {"n": 1.5, "deep": {"l": [1, None, True, {}], "big": 2**60}}, ttl=ttl
        ),
        PutOp(NS, "", {"key": "is empty"}),
        PutOp(ODD, "with 'quotes' \"and\" %s", {"ключ": "значение", "": ""}),
        PutOp(("users-2",), "k", {"beside": "users"}),
    ]


async def copied(source: Face, target: Face, **more: Any) -> ItemReport:
    copy = acopy_store if source.is_async else copy_store
    report: Any = copy(source.target, target.target, **more)
    return await report if source.is_async else report


async def held(store: Face) -> dict[tuple[tuple[str, ...], str], Any]:
    found: list[SearchItem] = await store("search", (), limit=10_000)
    return {(item.namespace, item.key): item.value for item in found}


def summary(report: ItemReport) -> tuple[bool, int, int, int]:
    return report.ok, report.items, report.complete, report.copied


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_items_come_in_and_go_out_again_as_they_were(
    kind: str, database: Database, face_name: str, servers: Servers, tmp_path: Path
) -> None:
    is_async = face_name == "async"
    ours = Face(database.open_store(), is_async)
    opened = (official_store(kind, servers, tmp_path, name, is_async) for name in ("a", "b"))
    before, after = opened
    async with before as source, after as target:
        ops = items_of(source.target)
        await source("batch", ops)
        there = await held(source)
        assert there == {(op.namespace, op.key): op.value for op in ops}
        assert summary(await copied(source, ours)) == (True, len(ops), 0, len(ops))
        assert await held(ours) == there
        assert summary(await copied(source, ours)) == (True, len(ops), len(ops), 0)
        assert summary(await copied(ours, target, prefix=("users",))) == (
            True,
            len(ops) - 1,
            0,
            len(ops) - 1,
        )
        there.pop((("users-2",), "k"))
        assert await held(target) == there
        again = await copied(ours, target, prefix=("users",))
        assert (again.complete, again.copied) == (len(ops) - 1, 0)


async def test_items_come_into_every_database(store: Face) -> None:
    source = Face(InMemoryStore(), store.is_async)
    ops = items_of(source.target)
    await source("batch", ops)
    assert summary(await copied(source, store)) == (True, len(ops), 0, len(ops))
    assert await held(store) == await held(source)
    assert len(await store("search", NS, query="green tea", limit=1_000)) == 210


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_times_are_kept_and_a_time_to_live_begins_anew(
    kind: str,
    database: Database,
    face_name: str,
    clock: Clock,
    servers: Servers,
    tmp_path: Path,
) -> None:
    is_async = face_name == "async"
    ours = Face(database.open_store(), is_async)
    async with official_store(kind, servers, tmp_path, "timed", is_async) as source:
        await source("put", NS, "k", {"n": 1}, ttl=TTL_MINUTES)
        await source("put", NS, "for ever", {"n": 1})
        put = await source("get", NS, "k")
        clock.advance(days=3)
        assert (await copied(source, ours)).ok
        came = await ours("get", NS, "k", refresh_ttl=False)
        times = [put.created_at, put.updated_at]
        aware = [time if time.tzinfo else time.replace(tzinfo=UTC) for time in times]
        assert [came.created_at, came.updated_at] == aware
        clock.advance(minutes=TTL_MINUTES - 1)
        assert await ours("get", NS, "k", refresh_ttl=False) is not None
        clock.advance(minutes=2)
        assert await ours("get", NS, "k") is None
        assert await ours("get", NS, "for ever") is not None


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_what_has_expired_stays_behind(
    kind: str, database: Database, face_name: str, servers: Servers, tmp_path: Path
) -> None:
    is_async = face_name == "async"
    ours = Face(database.open_store(), is_async)
    async with official_store(kind, servers, tmp_path, "expired", is_async) as source:
        await source("batch", [PutOp(NS, "k", {"n": 1}, ttl=-5), PutOp(NS, "l", {"n": 2})])
        assert (await copied(source, ours)).items == 1
    assert list(await held(ours)) == [(NS, "l")]


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_second_copy_brings_what_changed_and_spares_what_was_changed_here(
    store: Face, clock: Clock
) -> None:
    source = Face(InMemoryStore(), store.is_async)
    for key in ("same", "changed there", "changed here"):
        await source("put", NS, key, {"n": 1})
    assert (await copied(source, store)).copied == 3
    await source("put", NS, "changed there", {"n": 2})
    await source("put", NS, "new", {"n": 1})
    clock.advance(minutes=1)
    await store("put", NS, "changed here", {"n": 3})
    report = await copied(source, store)
    assert (report.complete, report.copied) == (1, 2)
    assert report.problems == [ItemProblem(NS, "changed here", "changed in the target since")]
    values = {key: value["n"] for (_, key), value in (await held(store)).items()}
    assert values == {"same": 1, "changed there": 2, "changed here": 3, "new": 1}


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_an_item_that_cannot_be_copied_is_reported_and_keeps_no_other_back(
    store: Face,
) -> None:
    source = Face(InMemoryStore(), store.is_async)
    bad: list[Any] = [
        PutOp(NS, "a time", {"at": datetime(2026, 1, 1, tzinfo=UTC)}),
        PutOp(NS, "not a number", {"n": float("nan")}),
        PutOp(("a.b",), "dotted", {"n": 1}),
        PutOp(NS, "a tuple", {"t": (1, 2)}),
    ]
    await source("batch", [*bad, *(PutOp(NS, f"{n}", {"n": n}) for n in range(20))])
    report = await copied(source, store)
    assert (report.items, report.problem_count) == (24, 4)
    assert {problem.key for problem in report.problems} == {op.key for op in bad}
    assert ItemProblem(NS, "a tuple", "value") in report.problems
    assert {(NS, f"{n}") for n in range(20)} <= set(await held(store))


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_histories_come_along_between_two_of_ours(database: Database, store: Face) -> None:
    for n in range(4):
        await store("put", NS, "k", {"n": n}, index=False)
    other = Face(LongTermStore(), store.is_async)
    assert (await copied(store, other)).ok
    assert await other("history", NS, "k") == await store("history", NS, "k")
    assert await other("search", NS, query="0 1 2 3") == []
    other.target.close()


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_time_to_live_that_the_target_cannot_keep_is_reported(store: Face) -> None:
    await store("put", NS, "k", {"n": 1}, ttl=5)
    target = Face(InMemoryStore(), store.is_async)
    for _ in range(2):
        report = await copied(store, target)
        assert report.problems == [ItemProblem(NS, "k", "ttl_minutes: the target keeps none")]
    assert list(await held(target)) == [(NS, "k")]


def test_the_progress_is_told_page_by_page_and_a_bad_prefix_is_refused() -> None:
    source, seen = InMemoryStore(), []
    source.batch([PutOp(NS, f"{n}", {"n": n}) for n in range(401)])
    with LongTermStore() as target:
        copy_store(source, target, progress=lambda report: seen.append(report.items))
        assert seen == [200, 400, 401]
        with pytest.raises(InvalidNamespaceError):
            copy_store(source, target, prefix=("a.b",))


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_the_command_moves_a_store_in_and_out(tmp_path: Path) -> None:
    first, ours, last = (tmp_path / name for name in ("first.db", "ours.db", "last.db"))
    with SqliteStore.from_conn_string(str(first)) as store:
        store.setup()
        store.put(NS, "k", {"n": 1})
        store.put(("others",), "k", {"n": 2})
    come = ("import", "--store", "--from", f"langgraph+sqlite:///{first}", "--to", str(ours))
    assert "2 items, 0 of them complete before: 2 were copied." in run(*come).stdout
    told = json.loads(run(*come, "--json").stdout)
    assert (told["ok"], told["items"], told["complete_before"]) == (True, 2, 2)
    go = ("export", "--store", "-d", str(ours), "--to", f"langgraph+sqlite:///{last}")
    assert "Everything arrived" in run(*go, "--namespace", "users.u1").stdout
    with SqliteStore.from_conn_string(str(last)) as store:
        assert [item.value for item in store.search(())] == [{"n": 1}]
    with LongTermStore(ours) as own:
        own.put(NS, "k", {"n": 5})
    assert "changed in the target since" in run(*come, code=1).stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--store", "--thread", "t"), "a store has no threads"),
        (("--store", "--types", "m"), "values are JSON"),
        (("--namespace", "a"), "add --store"),
        (("--store",), "there is no file"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    missing = f"langgraph+sqlite:///{tmp_path / 'missing.db'}"
    result = CliRunner().invoke(
        app, ["import", "--from", missing, "--to", str(tmp_path / "o.db"), *options]
    )
    assert result.exit_code != 0
    assert said in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []
