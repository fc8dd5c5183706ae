"""`threads`, `show`, `diff` and `du` say what a database holds, on every backend."""

import json
import operator
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest
from conftest import Database, Face
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from threads import Thread
from typer.testing import CliRunner, Result

from langgraph_sessionmem.cli import app


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[str], operator.add]


def answer(state: State) -> Any:
    return {"messages": [AIMessage("Good. " * 20, id=f"a{len(state['messages'])}")]}


def ask(state: State) -> Any:
    return {"log": [interrupt("Really?")]}


def run(database: Database, *arguments: str, code: int = 0) -> Result:
    options = [part for name, value in database.options.items() for part in (f"--{name}", value)]
    where = ["--database", database.url, *options]
    result = CliRunner().invoke(app, [*arguments, *where], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def facts(database: Database, *arguments: str) -> Any:
    return json.loads(run(database, *arguments, "--json").stdout)


@pytest.fixture
def graph(database: Database) -> Any:
    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_node("ask", ask)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", "ask")
    builder.add_edge("ask", END)
    compiled = builder.compile(checkpointer=database.open_saver())
    for thread_id, said in (("long", "Tell me everything. " * 40), ("short", "Hi.")):
        compiled.invoke({"messages": [HumanMessage(said, id="u1")]}, config(thread_id))
    return compiled


def config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


@pytest.mark.parametrize("backend_name", ["sqlite", "postgres", "valkey"])
def test_threads_are_listed_with_what_matters(graph: Any, database: Database) -> None:
    told = run(database, "threads", "--order", "size").stdout
    assert told.index("long") < told.index("short")
    assert "never" in told
    assert "waits" in told
    found = facts(database, "threads", "--limit", "1", "--order", "thread_id")
    assert [row["thread_id"] for row in found["threads"]] == ["long"]
    assert found["more"] is True
    assert found["threads"][0]["checkpoints"] == 3
    assert found["threads"][0]["size"] > 0
    assert facts(database, "threads", "--starting-with", "sh")["threads"][0]["thread_id"] == "short"


def test_a_threads_tree_shows_branches_next_nodes_and_what_is_pending(
    graph: Any, database: Database
) -> None:
    history = list(graph.get_state_history(config("short")))
    graph.update_state(history[1].config, {"log": ["another way"]})
    told = run(database, "show", "short").stdout
    for state in history:
        assert state.config["configurable"]["checkpoint_id"] in told
    assert told.count("branch of") == 2
    assert "→ answer" in told
    assert "✎ __interrupt__" in told
    views = facts(database, "show", "short")["checkpoints"]
    assert [view["next"] for view in views[:3]] == [["__start__"], ["answer"], ["ask"]]
    assert views[2]["tasks"][0]["channels"] == ["__interrupt__"]
    assert [view["is_latest"] for view in views] == [False, False, False, True]


@pytest.mark.parametrize("backend_name", ["sqlite"])
def test_of_a_long_thread_the_last_checkpoints_are_shown(graph: Any, database: Database) -> None:
    told = run(database, "show", "short", "--limit", "1").stdout
    assert "… 2 earlier checkpoints" in told
    assert len(told.splitlines()) == 3


@pytest.mark.parametrize("backend_name", ["sqlite"])
def test_a_diff_names_messages_that_came_went_and_changed(graph: Any, database: Database) -> None:
    before = graph.get_state(config("short")).config["configurable"]["checkpoint_id"]
    graph.update_state(
        config("short"),
        {
            "messages": [
                HumanMessage("Hello.", id="u1"),
                RemoveMessage("a1"),
                HumanMessage("More.", id="u2"),
            ]
        },
    )
    after = graph.get_state(config("short")).config["configurable"]["checkpoint_id"]
    [messages] = [
        each
        for each in facts(database, "diff", f"short:{before}", after)["channels"]
        if each["channel"] == "messages"
    ]
    assert [(part["kind"], part["at"]) for part in messages["parts"]] == [
        ("removed", "a1"),
        ("changed", "u1"),
        ("added", "u2"),
    ]
    assert messages["parts"][1]["before"] == "human: Hi."
    told = run(database, "diff", f"short:{before}", f"short:{after}").stdout
    assert "~ [u1] human: Hi. → human: Hello." in told
    step = facts(database, "diff", f"short:{after}")
    assert step["a"]["checkpoint_id"] == before


@pytest.mark.parametrize("backend_name", ["sqlite"])
def test_a_checkpoint_is_the_same_as_itself(graph: Any, database: Database) -> None:
    latest = graph.get_state(config("long")).config["configurable"]["checkpoint_id"]
    assert "The values are the same." in run(database, "diff", f"long:{latest}", latest).stdout


def test_du_finds_the_largest_thread_and_its_largest_channel(
    graph: Any, database: Database
) -> None:
    found = facts(database, "du")
    assert found["total"]["threads"] == 2
    assert found["total"]["checkpoints"] == 6
    assert [thread["thread_id"] for thread in found["threads"]] == ["long", "short"]
    one = facts(database, "du", "long")
    assert one["channels"]["messages"]["size"] > 800
    assert one["elements"] == sum(each["size"] for each in one["channels"].values())
    assert one["unnamed"] == 0
    told = run(database, "du", "long").stdout
    assert "messages" in told
    assert "KB" in told


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_an_expired_thread_is_not_there(database: Database) -> None:
    saver = database.open_saver(ttl=timedelta(minutes=5))
    saver.backend.offset_seconds = -3_600  # the command goes by the database's own clock
    await Thread(Face(saver, is_async=False), "old").put({"a": 1})
    assert saver.thread("old") is not None
    assert "There is no thread 'old'" in run(database, "show", "old", code=2).stderr
    assert facts(database, "threads") == {"threads": [], "more": False}
    assert facts(database, "du")["total"]["expired"] == 1


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_what_could_steer_a_terminal_is_escaped(database: Database) -> None:
    thread_id = "\x1b[31m[red]evil[/red]\nline"
    thread = Thread(Face(database.open_saver(), is_async=False), thread_id, "\x1b[2J")
    await thread.put({"\x1b[0m": ["a"], "text": "\x1b[5mblink \ud800"})
    await thread.write([("\x07", "ring")])
    checkpoint = thread.config["configurable"]["checkpoint_id"]
    for arguments in (
        ["threads"],
        ["show", thread_id],
        ["du", thread_id],
        ["diff", f"{thread_id}:{checkpoint}"],
        ["diff", f"{thread_id}:{checkpoint}", "--json"],
        ["verify"],
    ):
        told = run(database, *arguments).stdout
        assert "\x1b" not in told
        assert "\x07" not in told
    assert "\\x1b[31m[red]evil[/red]\\nline" in run(database, "threads").stdout


@pytest.mark.parametrize("backend_name", ["sqlite"])
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["show", "nobody"], "There is no thread 'nobody'"),
        (["du", "nobody"], "There is no thread 'nobody'"),
        (["diff", "short"], "give THREAD:CHECKPOINT"),
        (["diff", "short:9"], "it has no such checkpoint"),
        (["diff", "short:1"], "3 checkpoints begin with it"),
        (["threads", "--schema", "x"], "sqlite has no such option"),
    ],
)
def test_what_is_not_there_is_an_error_of_one_sentence(
    graph: Any, database: Database, arguments: list[str], named: str
) -> None:
    assert named in " ".join(run(database, *arguments, code=2).stderr.split())


@pytest.mark.parametrize("command", ["threads", "du", "verify", "sweep"])
def test_a_file_that_is_not_there_is_not_made(command: str, tmp_path: Any) -> None:
    path = tmp_path / "absent.db"
    result = CliRunner().invoke(app, [command, "--database", str(path)])
    assert result.exit_code == 2
    assert "there is no file" in result.stderr
    assert not path.exists()
