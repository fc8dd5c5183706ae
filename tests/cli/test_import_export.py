"""`sessionmem import` and `export`: in from LangGraph's own savers, and out again."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Servers
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from typer.testing import CliRunner, Result

from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.cli import app


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def talk(saver: Any, thread_id: str, text: str) -> list[str]:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [f"{len(state['messages'])} so far"]})
    builder.add_edge(START, "answer")
    given: Any = {"messages": [HumanMessage(text)]}
    config: Any = {"configurable": {"thread_id": thread_id}}
    end = builder.compile(checkpointer=saver).invoke(given, config)
    return [message.text for message in end["messages"]]


@pytest.fixture
def official(tmp_path: Path) -> str:
    path = tmp_path / "official.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for thread_id in ("one", "two"):
            talk(saver, thread_id, "hello")
    return f"langgraph+sqlite:///{path}"


def test_threads_come_in_go_on_and_go_out(official: str, tmp_path: Path) -> None:
    ours, back = tmp_path / "ours.db", tmp_path / "back.db"
    told = run("import", "--from", official, "--to", str(ours)).stdout
    assert "2 threads, 0 of them complete before: 6 checkpoints" in told
    assert "Everything arrived as it left." in told
    again = json.loads(run("import", "--from", official, "--to", str(ours), "--json").stdout)
    assert (again["ok"], again["complete_before"], again["checkpoints"]) == (True, 2, 0)
    with SessionSaver(ours) as saver:
        assert talk(saver, "one", "more") == ["hello", "1 so far", "more", "3 so far"]
    target = f"langgraph+sqlite:///{back}"
    only = json.loads(
        run("export", "-d", str(ours), "--to", target, "--thread", "one", "--json").stdout
    )
    assert (only["threads"], only["checkpoints"]) == (1, 6)
    with SqliteSaver.from_conn_string(str(back)) as saver:
        assert talk(saver, "one", "last")[4:] == ["last", "5 so far"]
        assert talk(saver, "two", "new") == ["new", "1 so far"]


def test_the_official_postgres_saver_is_named_by_its_url(tmp_path: Path, servers: Servers) -> None:
    url, first, second = servers.postgres_url(), tmp_path / "first.db", tmp_path / "second.db"
    connection = servers.postgres_connection(url)
    connection.execute("create schema official_by_url")
    with SessionSaver(first) as saver:
        talk(saver, "one", "hello")
    own = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Dofficial_by_url"
    official = f"langgraph+{own}"
    try:
        run("export", "-d", str(first), "--to", official)
        run("import", "--from", official, "--to", str(second))
    finally:
        connection.execute("drop schema official_by_url cascade")
    with SessionSaver(second) as saver:
        assert talk(saver, "one", "more") == ["hello", "1 so far", "more", "3 so far"]


def test_what_did_not_arrive_is_shown_and_the_exit_code_says_so(
    official: str, tmp_path: Path
) -> None:
    ours = tmp_path / "ours.db"
    with SessionSaver(ours) as saver:
        talk(saver, "two", "somebody else's")
    result = run("import", "--from", official, "--to", str(ours), code=1)
    assert "1 differences" in result.stdout
    assert "the target has another thread of this id" in " ".join(result.stdout.split())
    found = json.loads(
        run("import", "--from", official, "--to", str(ours), "--json", code=1).stdout
    )
    assert [problem["thread_id"] for problem in found["problems"]] == ["two"]


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("langgraph+sqlite:///absent.db", "there is no file absent.db"),
        ("langgraph+mysql://x", "Unknown scheme 'langgraph+mysql'"),
        ("absent.db", "there is no file absent.db"),
        ("nonsense", "is no connection string"),
    ],
)
def test_a_source_that_can_not_be_is_refused(source: str, named: str, tmp_path: Path) -> None:
    target = tmp_path / "ours.db"
    result = run("import", "--from", source, "--to", str(target), code=2)
    assert named in " ".join(result.stderr.split())
    assert not target.exists()


def test_a_server_that_does_not_answer_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    source = "langgraph+postgresql://127.0.0.1:1/absent?connect_timeout=2"
    result = run("import", "--from", source, "--to", str(tmp_path / "ours.db"), code=2)
    assert result.stderr.startswith("OperationalError: ")
    assert "Traceback" not in result.output


@pytest.mark.parametrize("database", ["sqlite", "postgres", "redis"])
def test_a_saver_that_is_not_installed_names_the_line_to_run(
    database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, f"langgraph.checkpoint.{database}", None)
    (tmp_path / "there.db").touch()
    url = f"langgraph+{database}:///{tmp_path}/there.db"
    result = run("import", "--from", url, "--to", str(tmp_path / "ours.db"), code=2)
    named = " ".join(result.stderr.split())
    assert f"Run: pip install langgraph-checkpoint-{database}" in named
