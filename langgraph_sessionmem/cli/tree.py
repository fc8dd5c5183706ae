"""A thread as a tree: the checkpoints of each namespace, the oldest first, with their branches.

A line of descent stays flat however long it is; only where it forks does it go a level deeper.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.text import Text
from rich.tree import Tree

from langgraph_sessionmem.checkpoint.inspecting import CheckpointView, Inspection
from langgraph_sessionmem.cli.console import plain
from langgraph_sessionmem.cli.units import ago, ahead, size_text


def thread_tree(found: Inspection, limit: int) -> Tree:
    """The thread as a tree.

    Args:
        found: the thread.
        limit: of each namespace only the last so many checkpoints.
    """
    row = found.thread
    deadline = ahead(None if row.expires_at is None else row.expires_at - found.now)
    facts = [
        f"{row.checkpoints:,} checkpoints",
        size_text(row.size),
        f"updated {ago(found.now - row.updated_at)}",
        "never expires" if row.expires_at is None else f"expires {deadline}",
        *(["waits for an answer or a task"] if row.waiting else []),
    ]
    tree = Tree(Text.assemble(plain(row.thread_id, "bold"), "  ", (" · ".join(facts), "dim")))
    namespaces: dict[str, list[CheckpointView]] = defaultdict(list)
    for view in found.checkpoints:
        namespaces[view.checkpoint_ns].append(view)
    for namespace, views in sorted(namespaces.items()):
        root = tree if not namespace else tree.add(plain(f"subgraph {namespace}", "cyan"))
        if len(views) > limit:
            root.add(Text(f"… {len(views) - limit:,} earlier checkpoints", style="dim"))
        _add(root, views[-limit:], found.now)
    return tree


def _add(root: Tree, views: Sequence[CheckpointView], now: float) -> None:
    there = {view.checkpoint_id for view in views}
    children: Mapping[str | None, list[CheckpointView]] = defaultdict(list)
    for view in views:
        children[view.parent_id if view.parent_id in there else None].append(view)
    waiting = [(root, view) for view in reversed(children[None])]
    while waiting:  # not by recursion: a thread may be longer than the stack is deep
        place, view = waiting.pop()
        below = children[view.checkpoint_id]
        place.add(_line(view, now, ends=not below))
        places = [place] * len(below)
        if len(below) > 1:
            label = plain(f"branch of {view.checkpoint_id}", "yellow")
            places = [place.add(label) for _ in below]
        waiting += reversed(list(zip(places, below, strict=True)))


def _line(view: CheckpointView, now: float, *, ends: bool) -> Text:
    line = plain(view.checkpoint_id, "bold green" if view.is_latest else "")
    step = "" if view.step is None else f"{view.step:>3}"
    line.append_text(plain(f"  {step} {view.source or '':<6}", "cyan"))
    line.append(f" {size_text(view.size):>8}")
    age = _age(view.ts, now)
    line.append(f"  {age}" if age else "", style="dim")
    following = [*view.next, *([f"{view.sends} sends"] if view.sends else [])]
    if following:
        line.append_text(plain(f"  → {', '.join(following)}", "magenta"))
    for task in view.tasks if ends else ():  # those of others went into their children
        line.append_text(plain(f"  ✎ {', '.join(dict.fromkeys(task.channels))}", "yellow"))
    if view.is_anchor:
        line.append("  cut down by pruning", style="dim")
    if view.is_latest:
        line.append("  latest", style="green")
    return line


def _age(ts: str, now: float) -> str:
    try:
        return ago(now - datetime.fromisoformat(ts).timestamp())
    except ValueError:  # it was put by something else than LangGraph
        return ""
