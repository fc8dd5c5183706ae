import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langgraph_sessionmem import LongTermStore, SessionSaver, __version__
from langgraph_sessionmem.cli import app
from langgraph_sessionmem.cli.agent import BUDGET, Agent, newest_only
from langgraph_sessionmem.cli.scripted import LOOKS, OPENING, SMALL_TALK, UNKNOWN, agent_script

LINES = [*(line for line, _ in (*OPENING, *SMALL_TALK)), *(look.question for look in LOOKS)]


def demo(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["demo", *arguments], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def told() -> str:
    return demo()


def test_the_demo_keeps_every_promise_it_prints(told: str) -> None:
    assert told.count("✓") == 7
    assert "✗" not in told


def test_the_demo_says_what_is_scripted_and_that_the_clock_was_moved(told: str) -> None:
    assert "Scripted: what customers say, and both models." in told
    assert "the database's clock was moved" in told


def test_every_line_of_the_demo_fits_a_hundred_columns(told: str) -> None:
    assert max(map(len, told.splitlines())) <= 100


def test_the_demo_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the demo opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    demo()


def test_the_temporary_database_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    demo()
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_kept_can_be_used_again(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    assert demo("--database", str(path)).count("✓") == 7
    assert demo("--database", str(path)).count("✓") == 7
    with SessionSaver(path) as saver:
        assert len(saver.threads()) == 6


def test_the_model_of_the_demo_does_not_know_what_it_is_not_shown() -> None:
    answers = newest_only(LINES)
    assert [answers[look.question] for look in LOOKS] == [UNKNOWN] * len(LOOKS)


def test_what_the_agent_answers_stands_in_its_request() -> None:
    with SessionSaver() as saver, LongTermStore() as store:
        agent = Agent(saver, store)
        steps = [agent.say(line, "thread", "user") for line in LINES]
    assert all(step.tokens <= BUDGET for step in steps)
    for step in steps[-len(LOOKS) :]:
        assert agent_script(step.request).text == step.answer != UNKNOWN
        assert step.places


def test_a_thread_without_a_past_has_no_answers() -> None:
    with SessionSaver() as saver, LongTermStore() as store:
        agent = Agent(saver, store)
        assert {agent.say(look.question, "t", "u").answer for look in LOOKS} == {UNKNOWN}


def test_the_command_is_installed_under_its_name() -> None:
    run = [sys.executable, "-c", "from langgraph_sessionmem.cli import main; main()", "--version"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == (
        f"{__version__}\n"
    )


@pytest.mark.parametrize("command", ["demo", "replay"])
def test_help_names_every_command(command: str) -> None:
    every = CliRunner().invoke(app, ["--help"])
    assert every.exit_code == 0
    assert command in every.stdout
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
