"""The benchmark of checkpointers runs, checks what it did, and says all it found."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

FOLDER = Path(__file__).parent.parent / "benchmarks"
SAVER = "SessionSaver"
PEER_MEASURES = {
    "W1": {"turn 3", "get_tuple after all turns", "all turns", "stored at turn 3"},
    "W2": {"put, 4 messages", "put_writes, 4 messages", "get_tuple, 4 messages"},
    "W3": {"turn 1", "all turns", "stored at turn 1"},
    "W4": {"put", "get_tuple", "list of 10", "list by a filter in a thread"},
    "W5": {"all turns", "turns", "a turn, median"},
    "W6": {"turn 2", "all turns", "stored at turn 2"},
    "W7 dicts": {"turn 2", "all turns", "stored at turn 2"},
    "W7 documents": {"turn 2", "all turns", "stored at turn 2"},
    "W7 unchanging": {"turn 2", "all turns", "stored at turn 2"},
}
OWN_MEASURES = {
    "get_tuple, 30 threads",
    "get_tuple, 60 threads",
    "put, 60 ÷ 30 threads, CPU",
    "sweeping 20 expired threads",
    "put during the sweep, longest",
}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Runs the command in its tiniest form; what it writes is in `tmp_path`."""
    monkeypatch.syspath_prepend(str(FOLDER))
    command = importlib.import_module("checkpointer")

    def run(*arguments: str) -> Result:
        given = ["--smoke", "--out", str(tmp_path), *arguments]
        return CliRunner().invoke(command.app, given, env={"COLUMNS": "160"})

    return run


def rows_of(section: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in section["rows"]}


def test_every_workload_ends_in_a_table_and_in_json(
    bench: Callable[..., Result], tmp_path: Path
) -> None:
    result = bench("-d", "sqlite", "--no-plots")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "results.json").read_text("utf-8"))
    sections = {section["workload"]: section for section in found["sections"]}
    assert set(sections) == {*PEER_MEASURES, "W8"}
    for workload, measures in PEER_MEASURES.items():
        rows, peer = rows_of(sections[workload]), sections[workload]["peer"]
        assert measures <= set(rows), workload
        for name, row in rows.items():
            assert row["median"][SAVER] is not None, (workload, name)
            assert {SAVER, "InMemorySaver"} <= set(row["median"]), (workload, name)
            if peer:
                assert row["ratio"][SAVER] > 0, (workload, name)
    assert set(rows_of(sections["W8"])) >= OWN_MEASURES
    for section in sections.values():
        table = result.output.partition(section["title"])[2].partition("\n\n\n")[0]
        lines = [line.strip() for line in table.splitlines()]
        for row in section["rows"]:
            label = row["what"], row["unit"]
            assert any(line.startswith(label[0]) and label[1] in line for line in lines), label
    assert not list(tmp_path.glob("*.png"))


def test_growth_and_ratios_are_plotted(bench: Callable[..., Result], tmp_path: Path) -> None:
    result = bench("-d", "sqlite", "-w", "W7 unchanging")
    assert result.exit_code == 0, result.output
    for name in ("w7-unchanging.png", "ratios.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert name in result.output


def test_a_database_that_does_not_answer_is_left_out_with_a_sentence(
    bench: Callable[..., Result], tmp_path: Path
) -> None:
    result = bench("-d", "redis", "--redis-url", "redis://127.0.0.1:1/0", "-w", "W2")
    assert result.exit_code == 0, result.output
    assert "redis://127.0.0.1:1/0 does not answer" in result.output
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize("arguments", [("-w", "W77"), ("-d", "oracle")])
def test_an_unknown_name_is_refused_with_those_that_are_known(
    bench: Callable[..., Result], arguments: tuple[str, str]
) -> None:
    result = bench(*arguments)
    assert result.exit_code == 2
    assert arguments[1] in result.output
    assert ("W1" if arguments[0] == "-w" else "sqlite") in result.output
