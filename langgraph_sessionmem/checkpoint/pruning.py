"""Cutting a thread: all of it is read, what stays is chosen, one save drops the rest.

Nothing goes that something kept is built on. An element goes when no kept checkpoint names it. A
checkpoint from whose writes a kept child's delta channels are rebuilt stays as an anchor, cut down
to the values they begin with and the writes since. A thread that was saved to meanwhile is read
again.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeAlias

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.anchors import find_needs, make_anchor
from langgraph_sessionmem.checkpoint.channels import runs_to_read
from langgraph_sessionmem.checkpoint.configs import read_name, read_thread_id
from langgraph_sessionmem.checkpoint.head import Head
from langgraph_sessionmem.checkpoint.keeping import Rule, keep, latest_of_each, other_runs
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.whole import Name, WholeThread, by_checkpoint, read_whole
from langgraph_sessionmem.errors import ConcurrentUpdate, InvalidArgument
from langgraph_sessionmem.rows import Anchor, ElementPlace, Prune, Run

_ATTEMPTS = 10
_STRATEGIES = ("keep_latest", "delete", "delete_all")
"""The last is what LangGraph's server calls the second."""

Choice: TypeAlias = Callable[[WholeThread], set[Name]]
"""The checkpoints of a thread that stay."""


class Cut(NamedTuple):
    """What `prune` does to a thread.

    Attributes:
        deletes: the whole thread goes.
        last: how many checkpoints of each namespace stay.
        older_than: in seconds; younger ones stay as well.
    """

    deletes: bool
    last: int
    older_than: float | None


def plan_prune(
    thread_ids: Iterable[str],
    strategy: str,
    keep_last: int | None,
    older_than: timedelta | None,
) -> tuple[list[str], Cut]:
    """The threads that `prune` was given, and what to do to each.

    Raises:
        InvalidArgument: an argument can't be used, or two of them contradict each other.
    """
    names = _read_ids("thread_ids", thread_ids)
    if strategy not in _STRATEGIES:
        raise InvalidArgument(
            f"strategy={strategy!r}: give 'keep_latest' or 'delete'. keep_last= and older_than= "
            "go with 'keep_latest'."
        )
    if keep_last is not None and (
        isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 1
    ):
        raise InvalidArgument(
            f"keep_last={keep_last!r}: give a whole number of at least 1, or None."
        )
    if older_than is not None and (
        not isinstance(older_than, timedelta) or older_than < timedelta(0)
    ):
        raise InvalidArgument(f"older_than={older_than!r}: give a timedelta, or None.")
    deletes = strategy != "keep_latest"
    if deletes and (keep_last is not None or older_than is not None):
        raise InvalidArgument(
            f"strategy={strategy!r} deletes whole threads, so keep_last={keep_last!r} and "
            f"older_than={older_than!r} mean nothing: leave them out, or give 'keep_latest'."
        )
    seconds = None if older_than is None else older_than.total_seconds()
    return [read_thread_id(name) for name in names], Cut(deletes, keep_last or 1, seconds)


async def prune_thread(records: Records, state: SaverState, thread_id: str, cut: Cut) -> None:
    """Cut a thread; nothing happens if there is none.

    Raises:
        ConcurrentUpdate: other writers were faster, time and again.
    """
    if cut.deletes:
        await records.drop_thread(thread_id)
        return
    await cut_idle(records, state, thread_id)
    since = None if cut.older_than is None else await records.read_clock() - cut.older_than
    await _cut_to(records, state, thread_id, lambda whole: keep(whole, Rule(cut.last, since)))


async def cut_idle(records: Records, state: SaverState, thread_id: str) -> bool:
    """Cut an idle thread that keeps its latest down to what is still visible of it, and wake it.

    Returns:
        False: it is not idle, or there is no such thread.

    Raises:
        ConcurrentUpdate: other writers were faster, time and again.
    """
    for _ in range(_ATTEMPTS):
        thread = await records.read_thread(thread_id)
        if thread is None or not thread.is_idle:
            return False
        whole = await read_whole(records, state, thread_id)
        # Asked again of the row whose `seq` the cut goes by: somebody may have gone on with it.
        if whole is None or not whole.thread.is_idle:
            return False
        if await _cut(records, state, whole, latest_of_each(whole), wakes=True):
            return True
    raise _too_busy(thread_id)


def read_run_ids(run_ids: Iterable[str]) -> list[str]:
    """The runs that `delete_for_runs` was given.

    Raises:
        InvalidArgument: `run_ids` is one id.
    """
    return sorted({read_name("run_ids", run_id) for run_id in _read_ids("run_ids", run_ids)})


async def delete_runs(
    records: Records, state: SaverState, thread_id: str, run_ids: Collection[str]
) -> None:
    """Cut a thread down to the checkpoints of other runs.

    Raises:
        ConcurrentUpdate: other writers were faster, time and again.
    """
    await cut_idle(records, state, thread_id)
    await _cut_to(records, state, thread_id, lambda whole: other_runs(whole, run_ids))


async def _cut_to(records: Records, state: SaverState, thread_id: str, choose: Choice) -> None:
    for _ in range(_ATTEMPTS):
        whole = await read_whole(records, state, thread_id)
        if whole is None or await _cut(records, state, whole, choose(whole)):
            return
    raise _too_busy(thread_id)


async def _cut(
    records: Records,
    state: SaverState,
    whole: WholeThread,
    kept: set[Name],
    *,
    wakes: bool = False,
) -> bool:
    """Cut a thread down to `kept`; False if it was saved to since it was read."""
    thread = whole.thread
    if not kept:
        return await records.drop_thread(thread.thread_id, seq=thread.seq)
    if len(kept) == len(whole.checkpoints) and not wakes:
        return True
    anchors = await _anchors(records, state, whole, kept)
    staying = kept | anchors.keys()
    heads = [step.head for step in whole.checkpoints if step.name in kept]
    heads += [head for head, _ in anchors.values()]
    places = await records.read_places(thread.thread_id, thread.generation)
    gone = {step.name for step in whole.steps} - staying
    prune = Prune(
        thread.thread_id,
        thread.generation,
        thread.seq,
        checkpoints=sorted(gone),
        elements=unnamed(places, runs_to_read(heads)),
        anchors=[anchor for _, anchor in anchors.values()],
        roots=[
            step.name
            for step in whole.checkpoints
            if step.name in kept and (step.row.checkpoint_ns, step.row.parent_id) in gone
        ],
        wakes=wakes,
    )
    return await records.save_pruned(prune)


async def _anchors(
    records: Records, state: SaverState, whole: WholeThread, kept: set[Name]
) -> dict[Name, tuple[Head, Anchor]]:
    """The anchors that `kept` needs."""
    needs = find_needs(whole, kept)
    names = sorted({name for need in needs for name in need.names})
    if not names:
        return {}
    thread = whole.thread
    found = await records.read_writes(thread.thread_id, thread.generation, names)
    writes = by_checkpoint(found)
    anchors = {}
    for need in needs:
        name = need.parent.name
        anchor = make_anchor(state.codec, need, whole.metadata[name], writes)
        if anchor is not None:
            anchors[name] = anchor
    return anchors


def unnamed(places: Iterable[ElementPlace], named: Sequence[Run]) -> list[Run]:
    """The stretches of logs that hold what is stored and nothing that is named.

    A stored place stands for all positions since the one before it in its log: it may be a sealed
    block of them, and positions that are gone can't be named.

    Args:
        places: all that is stored.
        named: in each log ascending, apart from each other.
    """
    wanted: dict[int, list[Run]] = {}
    for run in named:
        wanted.setdefault(run.log, []).append(run)
    found: list[Run] = []
    previous = Run(-1, 0, 0)
    for log, position, _ in sorted(places):
        start = previous.end if previous.log == log else 0
        previous = Run(log, start, position + 1)
        runs = wanted.get(log, [])
        while runs and runs[0].end <= start:
            runs.pop(0)
        if runs and runs[0].start <= position:
            continue
        if found and found[-1].log == log and found[-1].end == start:
            found[-1] = found[-1]._replace(end=position + 1)
        else:
            found.append(previous)
    return found


def _read_ids(name: str, given: Iterable[str]) -> list[str]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{name}={given!r}: give a sequence of ids, [{given!r}].")
    return list(dict.fromkeys(given))


def _too_busy(thread_id: str) -> ConcurrentUpdate:
    return ConcurrentUpdate(
        f"Thread {thread_id!r} was saved to during each of {_ATTEMPTS} attempts to cut it; try "
        "again when it is quieter."
    )
