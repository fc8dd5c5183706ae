"""Plots of what came out: growth turn by turn, bytes, calls by list length, and all ratios."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import matplotlib as mpl
from matplotlib import pyplot as plt

from checkpointing.measuring import BYTES, CPU, CPU_SECONDS, WALL, Measure, Outcome
from checkpointing.report import Section
from checkpointing.savers import OURS

SMOOTHING = 20
"""Turns whose median is one point."""
COLORS = {"SessionSaver": "#0b6e4f", "reuse_objects": "#57b894", "compress": "#8a6fc2"}
MEMORY, PEER = "#9a9a9a", "#c8553d"
FEW = 12
"""Up to so many points get a mark each."""
TURN = Measure("turn", CPU)
Points: TypeAlias = list[tuple[float, float]]


class Panel(NamedTuple):
    """One picture: what is drawn over what."""

    title: str
    xlabel: str
    ylabel: str
    points: Callable[[Outcome], Points]
    log_x: bool = False


def write_plots(folder: Path, sections: Sequence[Section]) -> list[Path]:
    """PNG files, one a workload that has something to see, and one of all ratios."""
    mpl.use("Agg")
    written = []
    by_workload: dict[str, list[Section]] = {}
    for section in sections:
        by_workload.setdefault(section.workload, []).append(section)
    for workload, found in by_workload.items():
        grows = any(TURN in outcome.series for outcome in found[0].outcomes.values())
        if grows or workload == "W2":
            path = folder / f"{workload.lower().replace(' ', '-')}.png"
            written.append(_rows(path, found, GROWTH_PANELS if grows else CALL_PANELS))
    if any(_cpu_ratios(section) for section in sections):
        written.append(_ratios(folder / "ratios.png", sections))
    return written


def _rows(path: Path, sections: Sequence[Section], panels: Sequence[Panel]) -> Path:
    """A row of panels for each database, a line in each for each saver."""
    shape = (len(sections), len(panels))
    size = (4.6 * len(panels), 3.6 * len(sections))
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False)
    for row, section in zip(axes, sections, strict=True):
        for axis, panel in zip(row, panels, strict=True):
            for saver, outcome in section.outcomes.items():
                if points := panel.points(outcome):
                    color = COLORS.get(saver, PEER if saver == section.peer else MEMORY)
                    marker = "o" if len(points) < FEW else None
                    xs, ys = zip(*points, strict=True)
                    axis.plot(xs, ys, label=saver, color=color, marker=marker)
            axis.set(yscale="log", xlabel=panel.xlabel, ylabel=panel.ylabel)
            axis.set_title(f"{section.database}: {panel.title}")
            axis.grid(alpha=0.3)
            if panel.log_x:
                axis.set_xscale("log")
        row[0].legend()
    figure.suptitle(sections[0].title.partition(" — ")[0])
    return _saved(figure, path)


def _saved(figure: Any, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _of_turns(measure: Measure) -> Callable[[Outcome], Points]:
    return lambda outcome: list(_smooth(outcome.series.get(measure, [])))


def _of_bytes(outcome: Outcome) -> Points:
    return outcome.series.get(Measure("stored", BYTES), [])


def _of_calls(call: str) -> Callable[[Outcome], Points]:
    def points(outcome: Outcome) -> Points:
        return [
            (float(measure.what.split(", ")[1].split()[0]), value)
            for measure, value in outcome.values.items()
            if measure.unit == CPU and measure.what.startswith(f"{call}, ") and value
        ]

    return points


def _smooth(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    width = max(1, min(SMOOTHING, len(points) // 10))
    for start in range(0, len(points) - width + 1, width):
        part = points[start : start + width]
        yield part[-1][0], statistics.median(value for _, value in part)


def _cpu_ratios(section: Section) -> list[tuple[str, float]]:
    return [
        (f"{section.workload} {section.database}: {measure.what}", ratio)
        for measure in section.measures()
        if measure.unit in (CPU, CPU_SECONDS)
        and (ratio := section.ratio(measure, OURS)) is not None
    ]


def _ratios(path: Path, sections: Sequence[Section]) -> Path:
    found = [pair for section in sections for pair in _cpu_ratios(section)]
    names, ratios = zip(*reversed(found), strict=True)
    figure, axis = plt.subplots(figsize=(10, 1 + 0.22 * len(found)))
    axis.barh(names, ratios, color=[COLORS[OURS] if ratio <= 1 else PEER for ratio in ratios])
    axis.axvline(1, color="black", linewidth=1)
    axis.set(xscale="log", xlabel="CPU, ours ÷ peer (below 1 is better)")
    axis.tick_params(axis="y", labelsize=7)
    axis.margins(y=0.005)
    return _saved(figure, path)


GROWTH_PANELS = (
    Panel("CPU a turn", "turn", CPU, _of_turns(TURN)),
    Panel("wall a turn", "turn", WALL, _of_turns(Measure("turn", WALL))),
    Panel("stored", "turn", BYTES, _of_bytes),
)
CALL_PANELS = tuple(
    Panel(call, "messages", CPU, _of_calls(call), log_x=True)
    for call in ("put", "put_writes", "get_tuple", "list of 10")
)
