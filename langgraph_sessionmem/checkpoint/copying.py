"""Copying a thread whole: every checkpoint in its place, with its writes and elements."""

from dataclasses import dataclass

from langgraph_sessionmem.backends.base import Records
from langgraph_sessionmem.checkpoint.channels import runs_to_read
from langgraph_sessionmem.checkpoint.configs import read_thread_id
from langgraph_sessionmem.checkpoint.getting import by_place
from langgraph_sessionmem.checkpoint.pruning import cut_idle
from langgraph_sessionmem.checkpoint.remembered import SaverState
from langgraph_sessionmem.checkpoint.runs import places_of
from langgraph_sessionmem.checkpoint.whole import WholeThread, read_whole
from langgraph_sessionmem.errors import ConcurrentUpdate, InvalidArgument, ThreadDamaged
from langgraph_sessionmem.rows import Outcome, ThreadCopy

_ATTEMPTS = 10


@dataclass(slots=True)
class CopyPlan:
    """A copy to be made.

    Attributes:
        is_sent: it was sent to the database once already, whose reply may have been lost.
    """

    source: str
    target: str
    is_sent: bool = False


def plan_copy(source_thread_id: object, target_thread_id: object) -> CopyPlan:
    """What `copy_thread` was asked for.

    Raises:
        InvalidArgument: an id names no thread, or both name the same.
    """
    source, target = read_thread_id(source_thread_id), read_thread_id(target_thread_id)
    if source == target:
        raise InvalidArgument(f"Thread {source!r} can't be copied onto itself: give another id.")
    return CopyPlan(source, target)


async def copy_thread(records: Records, state: SaverState, plan: CopyPlan) -> None:
    """Store a thread again under another id; nothing happens if there is no such thread.

    Raises:
        InvalidArgument: there is a thread under the target's id.
        ConcurrentUpdate: other writers were faster, time and again.
        ThreadDamaged: the database lost a part of the source.
    """
    copy = await read_copy(records, state, plan.source, plan.target)
    if copy is None:
        return
    is_again, plan.is_sent = plan.is_sent, True
    saved = await records.save_copy(copy)
    if saved.outcome is not Outcome.CONFLICT:
        return
    if is_again and await _is_stored(records, state, copy):
        return
    raise InvalidArgument(
        f"Thread {plan.target!r} exists already: delete it first, or copy {plan.source!r} to an id "
        "that is free."
    )


async def read_copy(
    records: Records, state: SaverState, source: str, target: str
) -> ThreadCopy | None:
    """All of `source` at one moment, to be stored as `target`; None if there is no such thread.

    Raises:
        ConcurrentUpdate: other writers were faster, time and again.
        ThreadDamaged: the database lost a part of it.
    """
    await cut_idle(records, state, source)
    for _ in range(_ATTEMPTS):
        whole = await read_whole(records, state, source)
        if whole is None:
            return None
        copy = await _read_copy(records, whole, target)
        thread = await records.read_thread(source)
        read = (whole.thread.generation, whole.thread.seq)
        if thread is None or (thread.generation, thread.seq) != read:
            continue
        if copy is None:
            raise ThreadDamaged(source, "elements of its checkpoints are gone")
        return copy
    raise ConcurrentUpdate(
        f"Thread {source!r} was saved to during each of {_ATTEMPTS} attempts to copy it; try again "
        "when it is quieter."
    )


async def _read_copy(records: Records, whole: WholeThread, target: str) -> ThreadCopy | None:
    """All that is to be stored; `None` if an element is missing."""
    thread, steps = whole.thread, whole.steps
    key = (thread.thread_id, thread.generation)
    writes = await records.read_writes(*key, [step.name for step in steps])
    runs = runs_to_read([step.head for step in steps])
    elements = await records.read_elements(*key, runs) if runs else []
    if not by_place(elements).keys() >= set(places_of(runs)):
        return None
    run_ids = [whole.metadata[step.name].get("run_id") for step in steps]
    return ThreadCopy(
        target,
        thread.limits,
        thread.sticky,
        thread.waiting,
        thread.owner,
        thread.seq,
        [step.row._replace(thread_id=target) for step in steps],
        [str(run_id) if run_id else None for run_id in run_ids],
        writes,
        elements,
    )


async def _is_stored(records: Records, state: SaverState, copy: ThreadCopy) -> bool:
    """Whether the target is what the copy would make of it."""
    whole = await read_whole(records, state, copy.thread_id)
    if whole is None:
        return False
    found = [step.row._replace(generation=0) for step in whole.steps]
    return found == [row._replace(generation=0) for row in copy.rows]
