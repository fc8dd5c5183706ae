"""A run that ends in one process goes on in another: after an interrupt, and after SIGKILL."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, Database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork, and no SIGKILL")

RUNS = """
import json, operator, os, signal, sys
from typing import Annotated
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from langgraph_sessionmem import SessionSaver
import langgraph_sessionmem.backends.postgres, langgraph_sessionmem.backends.redis

class State(TypedDict):
    done: Annotated[list, operator.add]
    answer: str

def builder(folder):
    def effect(name):
        with open(f"{folder}/effects", "a") as file:
            file.write(f"{name}\\n")
    def step(name):
        def run(state):
            effect(name)
            return {"done": [name + " " * 100]}
        return run
    def ask(state):
        effect("ask")
        answer = interrupt("go on?")
        effect("answered")
        return {"answer": answer, "done": ["ask"]}
    def fan(state):
        return [Send("sent", {"done": [f"s{n}"]}) for n in range(3)]
    def sent(state):
        effect(state["done"][0])
        return {"done": state["done"]}
    graph = StateGraph(State)
    for name in ("first", "left", "right", "last"):
        graph.add_node(name, step(name))
    graph.add_node("sent", sent)
    graph.add_node("ask", ask)
    graph.add_edge(START, "first")
    for name in ("left", "right"):
        graph.add_edge("first", name)
    graph.add_conditional_edges("left", fan, ["sent"])
    graph.add_edge("right", "last")
    graph.add_edge("last", "ask")
    graph.add_edge("ask", END)
    return graph

class Killing(SessionSaver):
    calls = 0
    def _at(self, moment, call):
        Killing.calls += 1
        here = Killing.calls == kill_at
        if here and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = call()
        if here:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    def put(self, *arguments):
        return self._at(moment, lambda: SessionSaver.put(self, *arguments))
    def put_writes(self, config, writes, task_id, task_path=""):
        def call():
            SessionSaver.put_writes(self, config, writes, task_id, task_path)
            with open(f"{folder}/held", "a") as file:
                for name in [name for c, v in writes if c == "done" for name in v]:
                    file.write(f"{name.strip()}\\n")
        return self._at(moment, call)

def in_child(work):
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]

def run(given, cls=SessionSaver):
    with cls.from_conn_string(url, **options) as saver:
        graph = builder(folder).compile(checkpointer=saver)
        config = {"configurable": {"thread_id": thread}}
        graph.invoke(given, config, durability="sync")
        if cls is Killing:
            os._exit(7)  # there are not so many calls

def finish():
    with SessionSaver.from_conn_string(url, **options) as saver:
        graph = builder(folder).compile(checkpointer=saver)
        config = {"configurable": {"thread_id": thread}}
        if not graph.get_state(config).created_at:
            graph.invoke({"done": []}, config)
        elif not any(task.interrupts for task in graph.get_state(config).tasks):
            graph.invoke(None, config)
        assert [i.value for i in graph.get_state(config).interrupts] == ["go on?"]

def answer():
    with SessionSaver.from_conn_string(url, **options) as saver:
        graph = builder(folder).compile(checkpointer=saver)
        config = {"configurable": {"thread_id": thread}}
        result = graph.invoke(Command(resume="yes"), config)
        assert graph.get_state(config).next == ()
        with open(f"{folder}/result", "w") as file:
            json.dump([result["answer"], [each.strip() for each in result["done"]]], file)

url, options, root, points = json.loads(sys.argv[1])
for moment in ("before", "after"):
    for kill_at in points:
        thread = f"{moment} {kill_at}"
        folder = f"{root}/{moment}{kill_at}"
        os.mkdir(folder)
        for name in ("effects", "held"):
            open(f"{folder}/{name}", "w").close()
        status = in_child(lambda: run({"done": []}, Killing))
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 7, status
            print("all", flush=True)
        else:
            assert os.WTERMSIG(status) == signal.SIGKILL
        assert in_child(finish) == 0
        assert in_child(answer) == 0
"""


def run(database: Database, folder: Path, points: list[int]) -> str:
    arguments = json.dumps([database.url, database.options, str(folder), points])
    result = subprocess.run(
        [sys.executable, "-c", RUNS, arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def lines(path: Path) -> list[str]:
    return path.read_text().split()


@pytest.mark.parametrize(
    ("backend_name", "points"),
    [
        ("sqlite", [4, 99]),
        ("postgres", [6]),
        *[
            pytest.param(name, [*range(1, 24)], marks=pytest.mark.slow)
            for name in ("sqlite", "postgres", "valkey")
            if name in BACKENDS
        ],
    ],
)
def test_a_run_killed_at_any_call_goes_on_and_no_finished_task_runs_again(
    database: Database, tmp_path: Path, points: list[int]
) -> None:
    folder_of_all = tmp_path / "runs"
    folder_of_all.mkdir()
    said = run(database, folder_of_all, points)
    assert ("all" in said) == (max(points) > 20)
    tasks = {"first", "left", "right", "last", "s0", "s1", "s2"}
    folders = sorted(folder_of_all.iterdir())
    assert len(folders) == 2 * len(points)
    for folder in folders:
        answer, done = json.loads((folder / "result").read_text())
        assert answer == "yes"
        assert Counter(done) == dict.fromkeys(tasks | {"ask"}, 1)
        effects: Any = Counter(lines(folder / "effects"))
        assert effects.keys() == tasks | {"ask", "answered"}
        assert effects["answered"] == 1
        for task in tasks:
            # What was acknowledged before the kill never ran again; the others may have, once.
            assert effects[task] <= 2
            if task in lines(folder / "held"):
                assert effects[task] == 1
        assert sum(effects[task] - 1 for task in tasks) <= 4
