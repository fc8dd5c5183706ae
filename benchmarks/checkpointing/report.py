"""What came out, as tables, JSON and plots."""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkpointing.measuring import BYTES, RATE, UNITS, Measure, Outcome, Scale
from checkpointing.savers import MEMORY, OURS

WIDTH = 120
MISSING = "-"
NOISE = 1.1
"""Up to here, a ratio above 1.0 can be noise."""
PACKAGES = (
    "langgraph-sessionmem",
    "langgraph",
    "langgraph-checkpoint",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-plainredis",
    "langchain-core",
    "psycopg",
    "redis",
)


@dataclass
class Section:
    """One workload on one database.

    Attributes:
        title: of the table.
        outcomes: by saver, medians over all runs, ours first.
        runs: by saver, each run.
        peer: the name of the saver to compare with.
    """

    workload: str
    title: str
    database: str
    outcomes: dict[str, Outcome]
    runs: dict[str, list[Outcome]]
    peer: str | None

    def measures(self) -> list[Measure]:
        """All that was measured, by unit in the order of `UNITS`, else as it came."""
        found = dict.fromkeys(key for outcome in self.outcomes.values() for key in outcome.values)
        return sorted(found, key=lambda measure: UNITS.index(measure.unit))

    def ratio(self, measure: Measure, saver: str = OURS) -> float | None:
        """What `saver` costs by what the peer costs (for rates the other way round)."""
        if self.peer is None or self.peer not in self.outcomes:
            return None
        mine = self.outcomes[saver].values.get(measure)
        theirs = self.outcomes[self.peer].values.get(measure)
        if mine is None or theirs is None or not mine or not theirs:
            return None
        return theirs / mine if measure.unit == RATE else mine / theirs


def console_for_tables() -> Console:
    """Where results go; what is piped is as wide as the widest table."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def print_section(console: Console, section: Section) -> None:
    """One table: a line a measure, a column a saver, the ratio at the end."""
    table = Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for saver in section.outcomes:
        table.add_column(saver, justify="right")
    if section.peer:
        table.add_column("ours ÷ peer", justify="right")
    last_unit = None
    for measure in section.measures():
        if last_unit not in (None, measure.unit):
            table.add_section()
        last_unit = measure.unit
        cells = [
            _amount(outcome.values.get(measure), measure.unit)
            for outcome in section.outcomes.values()
        ]
        ratio = [_ratio_text(section.ratio(measure))] if section.peer else []
        table.add_row(measure.what, measure.unit, *cells, *ratio)
    console.print(Text(section.title, style="bold"), soft_wrap=True)
    console.print(table)
    for note in dict.fromkeys(n for outcome in section.outcomes.values() for n in outcome.notes):
        console.print(note)


def print_losses(console: Console, sections: Iterable[Section]) -> None:
    """Where ours costs more than the peer."""
    losses = [
        (ratio, section, measure)
        for section in sections
        for measure in section.measures()
        if (ratio := section.ratio(measure)) is not None and ratio > 1
    ]
    if not losses:
        console.print("Nothing measured here costs more than the peer.")
        return
    console.print(f"Above 1.0 of the peer (up to {NOISE} can be noise), the worst first:")
    for ratio, section, measure in sorted(losses, key=lambda loss: -loss[0]):
        where = f"{section.workload} {section.database}: {measure.what}, {measure.unit}"
        console.print(Text(f"  {ratio:5.2f}  {where}", style="red" if ratio > NOISE else "yellow"))


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return MISSING
    if unit == BYTES:
        return _size(value)
    return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"


def _size(value: float) -> str:
    for unit in ("B", "KB", "MB"):
        if value < 1_000:
            return f"{value:.3g} {unit}"
        value /= 1_000
    return f"{value:.3g} GB"


def _ratio_text(ratio: float | None) -> Text:
    if ratio is None:
        return Text(MISSING)
    style = "green" if ratio <= 1 else "yellow" if ratio <= NOISE else "red"
    return Text(f"{ratio:.2f}" if ratio >= 0.01 else f"{ratio:.4f}", style=style)


def machine() -> dict[str, Any]:
    """What it ran on, without names."""
    load = os.getloadavg() if hasattr(os, "getloadavg") else None
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "load_at_start": load,
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write_json(
    path: Path,
    sections: Sequence[Section],
    scale: Scale,
    about: Mapping[str, Any],
    notes: Sequence[str],
) -> None:
    """Everything, each run included."""
    document = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": about,
        "scale": scale._asdict(),
        "notes": notes,
        "sections": [_section_json(section) for section in sections],
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _section_json(section: Section) -> dict[str, Any]:
    return {
        "workload": section.workload,
        "title": section.title,
        "database": section.database,
        "peer": section.peer,
        "rows": [
            {
                "what": measure.what,
                "unit": measure.unit,
                "median": {
                    saver: outcome.values.get(measure)
                    for saver, outcome in section.outcomes.items()
                },
                "runs": {
                    saver: [outcome.values.get(measure) for outcome in outcomes]
                    for saver, outcomes in section.runs.items()
                },
                "ratio": {
                    saver: section.ratio(measure)
                    for saver in section.outcomes
                    if saver not in (section.peer, MEMORY)
                },
            }
            for measure in section.measures()
        ],
        "series": {
            saver: {
                f"{measure.what}, {measure.unit}": points
                for measure, points in outcome.series.items()
            }
            for saver, outcome in section.outcomes.items()
        },
        "notes": [note for outcome in section.outcomes.values() for note in outcome.notes],
    }
