"""What stays when a thread is cut. Pure."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple

from langgraph_sessionmem.checkpoint.whole import Name, Step, WholeThread
from langgraph_sessionmem.rows import OrderKey


class Rule(NamedTuple):
    """Which checkpoints stay.

    Attributes:
        last: how many of each namespace, the latest ones.
        since: those that were put from then on stay as well, in seconds since the epoch. A
            checkpoint was put at its `ts`, which the machine that made it wrote.
    """

    last: int = 1
    since: float | None = None


def keep(whole: WholeThread, rule: Rule) -> set[Name]:
    """The checkpoints that a rule keeps.

    A subgraph's call (its namespace has a task's id after a colon) goes with the checkpoint of the
    graph above that it started from. A subgraph with `checkpointer=True` keeps its latest, and what
    it had come to at each kept checkpoint of the graph above.
    """
    stored = {step.name for step in whole.steps}
    kept: set[Name] = set()
    # A graph above has a shorter namespace.
    for namespace, steps in sorted(_by_namespace(whole).items(), key=lambda item: len(item[0])):
        call = ":" in namespace
        if call:
            steps = [
                step
                for step in steps
                # One that isn't stored may be on its way: a run saves in the background.
                if all(name in kept or name not in stored for name in whole.parents(step).items())
            ]
        chosen = steps[: rule.last] + [step for step in steps if _is_young(step, rule)]
        if not call:
            chosen += _come_to(whole, steps, kept)
        kept.update(step.name for step in chosen)
    return kept


def latest_of_each(whole: WholeThread) -> set[Name]:
    """The latest checkpoint of every namespace."""
    return {steps[0].name for steps in _by_namespace(whole).values()}


def other_runs(whole: WholeThread, run_ids: Collection[str]) -> set[Name]:
    """The checkpoints that are of none of these runs."""
    return {
        step.name
        for step in whole.checkpoints
        if str(whole.metadata[step.name].get("run_id")) not in run_ids
    }


def _come_to(whole: WholeThread, steps: list[Step], kept: set[Name]) -> list[Step]:
    """Of a subgraph's checkpoints the last one before each kept checkpoint of a graph above."""
    orders = {step.name: step.row.order for step in whole.steps}
    above = {namespace for step in steps for namespace in whole.parents(step)}
    found = []
    for namespace in above:
        borders = [
            step
            for step in whole.checkpoints
            if step.row.checkpoint_ns == namespace and step.name in kept
        ]
        left = iter(steps)
        step = next(left, None)
        # Before the latest border it is the subgraph's own latest that counts.
        for border in borders[1:]:
            while step is not None and not _ran_before(whole, step, border, orders):
                step = next(left, None)
            if step is not None:
                found.append(step)
    return found


def _ran_before(whole: WholeThread, step: Step, border: Step, orders: dict[Name, OrderKey]) -> bool:
    namespace = border.row.checkpoint_ns
    parent_id = whole.parents(step).get(namespace)
    order = orders.get((namespace, parent_id)) if parent_id is not None else None
    if order is None:
        return step.row.checkpoint_id < border.row.checkpoint_id
    return order < border.row.order


def _by_namespace(whole: WholeThread) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in whole.checkpoints:
        found.setdefault(step.row.checkpoint_ns, []).append(step)
    return found


def _is_young(step: Step, rule: Rule) -> bool:
    if rule.since is None:
        return False
    try:
        put_at = datetime.fromisoformat(step.head.ts)
    except (TypeError, ValueError):
        return True
    if put_at.tzinfo is None:
        put_at = put_at.replace(tzinfo=UTC)
    return put_at.timestamp() >= rule.since
