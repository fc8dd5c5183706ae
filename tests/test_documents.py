"""What we tell people runs: the README's code, the notebooks; and every link leads somewhere."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/*.md"))]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))

DEMO = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/sessionmem demo"
TESTS = (
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m pytest"
)

EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=120, coalesce_streams=True).execute()
nbformat.write(notebook, sys.argv[2])
"""
"""A process of its own: the client's and the kernel's sockets and loops warn in ways not ours."""

MACHINE_PATH = re.compile(
    r"(?<![\w.:/])/(?:home|root|Users|tmp|var|private|usr|opt|mnt)/"
    r"|\b[A-Z]:\\+\w+\\|site-packages"
)
HERE = [str(place) for place in (ROOT, Path(tempfile.gettempdir()), Path(sys.prefix), Path.home())]


def fenced_blocks(document: Path) -> Iterator[tuple[str, int, list[str]]]:
    """Each code block of a document: its language, the index of its first line, its lines."""
    language, start = None, 0
    lines = document.read_text("utf-8").splitlines()
    for index, line in enumerate(lines):
        fence = re.match(r" *(```+|~~~+) *(\w*)", line)
        if fence is None:
            continue
        if language is None:
            language, start = fence[2], index + 1
        else:
            yield language, start, lines[start:index]
            language = None
    assert language is None, f"{document.name}: the block after line {start} isn't closed"


def prose(document: Path) -> str:
    """A document without its code."""
    lines = document.read_text("utf-8").splitlines()
    for _, start, block in fenced_blocks(document):
        lines[start : start + len(block)] = [""] * len(block)
    return "\n".join(lines)


def anchors(document: Path) -> set[str]:
    """The anchors that a code host gives to a document's headings."""
    found: Counter[str] = Counter()
    names = set(re.findall(r'<a (?:id|name)="([^"]+)"', prose(document)))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose(document), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        names.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return names


def links(text: str) -> list[str]:
    """The targets of a Markdown text's links that stay in the repository."""
    bare = re.sub(r"`[^`\n]*`", "", text)
    targets = re.findall(r"\]\(<?([^)\s>]+)", bare)
    targets += re.findall(r"^\[[^]]+\]: *(\S+)", bare, re.MULTILINE)
    targets += re.findall(r'(?:href|src)="([^"]+)"', bare)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def broken(links: list[str], document: Path) -> list[str]:
    """Those of a document's links that lead nowhere."""
    missing = []
    for link in links:
        path, _, anchor = unquote(link).partition("#")
        target = (document.parent / path).resolve() if path else document
        inside = target.is_relative_to(ROOT) and target.exists()
        if not inside or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            missing.append(link)
    return missing


def outline(notebook: Any) -> list[Any]:
    """What each cell gives: printed text as it is, of everything else the kind."""
    return [
        output.text if output.output_type == "stream" else sorted(output.get("data", output))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    ]


def texts(notebook: Any) -> Iterator[str]:
    """Everything in a notebook that is text: its cells, what they gave, and its metadata."""
    yield json.dumps(notebook.metadata)
    for cell in notebook.cells:
        yield cell.source
        for output in cell.get("outputs", []):
            data = {k: v for k, v in output.get("data", {}).items() if not k.startswith("image/")}
            yield json.dumps({**output, "data": data}, ensure_ascii=False)


def run_python(arguments: list[str], folder: Path) -> None:
    """Run Python in a process of its own, with `work` and `temporary` in `folder` to write to.

    Raises:
        AssertionError: it failed.
    """
    variables = ["TMPDIR", "TEMP", "TMP"]
    places = dict.fromkeys(variables, folder / "temporary") | {
        # Neither the developer's kernels and profiles nor a home that can't be written to.
        name: folder / name.lower()
        for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
    }
    for place in (folder / "work", *places.values()):
        place.mkdir(exist_ok=True)
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder / "work",
        env=os.environ | {name: str(place) for name, place in places.items()},
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=180,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def executed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook after a run, beside the folders that it ran in."""
    executed = tmp_path_factory.mktemp("notebook") / request.param.name
    run_python(["-c", EXECUTE, str(request.param), str(executed)], executed.parent)
    return executed


def test_the_readme_begins_with_the_two_commands_each_in_a_block_of_its_own() -> None:
    first_two = [(language, lines) for language, _, lines in fenced_blocks(README)][:2]
    assert first_two in ([("sh", [DEMO]), ("sh", [TESTS])], [("bash", [DEMO]), ("bash", [TESTS])])


def test_the_readmes_python_runs_from_top_to_bottom(tmp_path: Path) -> None:
    source = [""] * len(README.read_text("utf-8").splitlines())
    for language, start, lines in fenced_blocks(README):
        if language == "python":
            source[start : start + len(lines)] = lines  # a traceback names the README's line
    script = tmp_path / "README.py"
    script.write_text("\n".join(source), "utf-8")
    run_python(["-W", "error::DeprecationWarning:__main__", str(script)], tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_link_leads_to_something_in_the_repository(document: Path) -> None:
    assert broken(links(prose(document)), document) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_link_of_a_notebook_leads_to_something_in_the_repository(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert broken(links(text), path) == []


def test_the_notebooks_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:2]) for path in NOTEBOOKS]
    assert numbers == list(range(1, len(NOTEBOOKS) + 1))
    assert numbers


def test_a_notebook_runs_from_top_to_bottom_and_leaves_nothing_behind(executed: Path) -> None:
    folder = executed.parent
    assert [*(folder / "work").iterdir(), *(folder / "temporary").iterdir()] == []


def test_a_notebook_shows_what_a_run_gives(executed: Path) -> None:
    # If it doesn't: run it in a fresh kernel and save it.
    fresh, stored = (
        nbformat.read(path, as_version=4) for path in (executed, ROOT / "notebooks" / executed.name)
    )
    assert outline(fresh) == outline(stored)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_path_of_a_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(texts(notebook))
    assert MACHINE_PATH.search(text) is None
    assert [place for place in HERE if len(Path(place).parts) > 1 and place in text] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_asks_for_any_python_3(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.kernelspec == {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    assert notebook.metadata.language_info == {"name": "python"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Format](docs/format.md#words)", []),
        ("[Format](docs/format.md#no-such-heading)", ["docs/format.md#no-such-heading"]),
        ("[Gone](docs/gone.md)", ["docs/gone.md"]),
        ("[Outside](../outside.md)", ["../outside.md"]),
        ('<img src="no.png">', ["no.png"]),
        ("[Elsewhere](https://example.org/no.md) `[code](no.md)`", []),
    ],
)
def test_a_link_that_leads_nowhere_is_found(text: str, expected: list[str]) -> None:
    assert broken(links(text), README) == expected
