"""Which checkpoints a rule keeps."""

from datetime import UTC, datetime

import pytest

from langgraph_sessionmem.checkpoint.head import Head
from langgraph_sessionmem.checkpoint.keeping import Rule, keep, latest_of_each, other_runs
from langgraph_sessionmem.checkpoint.whole import Name, Step, WholeThread
from langgraph_sessionmem.rows import ANCHOR_ORDER, CheckpointRow, Limits, OrderKey, ThreadRow

THREAD = ThreadRow("t", 1, 0, 0, None, 0, 0, None, 0, Limits(), False, False)


class Thread:
    """A thread in the making."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.metadata: dict[Name, dict[str, object]] = {}

    def put(
        self,
        checkpoint_id: str,
        namespace: str = "",
        *,
        parents: dict[str, str] | None = None,
        run_id: str | None = None,
        ts: str = "2026-01-01T00:00:00+00:00",
        is_anchor: bool = False,
    ) -> None:
        order = ANCHOR_ORDER if is_anchor else OrderKey(checkpoint_id, 0)
        row = CheckpointRow(
            "t", 1, namespace, checkpoint_id, None, order, b"", b"", False, len(self.steps), None
        )
        self.steps.append(Step(row, Head(4, ts, {}, {}, None, {})))
        self.metadata[namespace, checkpoint_id] = {"parents": parents or {}, "run_id": run_id}

    def read(self) -> WholeThread:
        steps = sorted(self.steps, key=lambda step: step.row.order, reverse=True)
        anchors = [step for step in steps if step.row.order == ANCHOR_ORDER]
        return WholeThread(
            THREAD, [step for step in steps if step not in anchors], anchors, self.metadata
        )

    def kept(self, last: int = 1, since: float | None = None) -> set[str]:
        return {"/".join(filter(None, name)) for name in keep(self.read(), Rule(last, since))}


def test_each_namespace_keeps_its_latest() -> None:
    thread = Thread()
    for number in range(4):
        for namespace in ("", "child", "call:1"):
            thread.put(f"{number}", namespace)
    assert thread.kept() == {"3", "child/3", "call:1/3"}
    assert thread.kept(2) == {"2", "3", "child/2", "child/3", "call:1/2", "call:1/3"}
    assert len(thread.kept(100)) == 12
    assert latest_of_each(thread.read()) == {("", "3"), ("child", "3"), ("call:1", "3")}


def test_a_call_of_a_subgraph_goes_with_the_checkpoint_it_started_from() -> None:
    thread = Thread()
    for number in range(3):
        thread.put(f"{number}")
        above = {"": f"{number}"}
        thread.put("x", f"call:{number}", parents=above)
        above[f"call:{number}"] = "x"
        thread.put("x", f"call:{number}|deeper:{number}", parents=above)
    thread.put("x", "early:1", parents={"": "not stored yet"})
    assert thread.kept() == {"2", "call:2/x", "call:2|deeper:2/x", "early:1/x"}


def test_a_call_goes_where_only_an_anchor_is_left_of_what_it_started_from() -> None:
    thread = Thread()
    thread.put("1", is_anchor=True)
    thread.put("2")
    thread.put("x", "call:1", parents={"": "1", "call:1": "x"})
    assert thread.kept() == {"2"}


def test_a_subgraph_that_keeps_its_state_has_it_at_each_kept_checkpoint() -> None:
    thread = Thread()
    for number in range(6):
        thread.put(f"{number}0")
        for step in range(1, 5):
            thread.put(f"{number}{step}", "child", parents={"": f"{number}0"})
    assert thread.kept() == {"50", "child/54"}
    assert thread.kept(3) == {
        *("30", "40", "50"),
        *("child/52", "child/53", "child/54"),
        *("child/24", "child/34"),
    }


def test_what_was_put_since_then_stays_too() -> None:
    thread = Thread()
    for day, ts in enumerate(["2026-01-01T00:00:00", "2026-01-02T02:00:00+02:00", "2026-01-03"]):
        thread.put(f"{day}", ts=ts)
    for day, kept in ((1, 3), (2, 2), (3, 1), (4, 1)):
        since = datetime(2026, 1, day, tzinfo=UTC).timestamp()
        assert len(thread.kept(since=since)) == kept
    assert thread.kept(2, since) == {"1", "2"}


@pytest.mark.parametrize("ts", ["", "yesterday", None, 5])
def test_a_time_that_is_none_is_young(ts: str) -> None:
    thread = Thread()
    thread.put("1", ts=ts)
    thread.put("2")
    assert thread.kept(since=2e9) == {"1", "2"}


def test_other_runs_stay() -> None:
    thread = Thread()
    for number, run_id in enumerate(["a", "b", None, "a"]):
        thread.put(f"{number}", run_id=run_id)
    assert other_runs(thread.read(), {"a"}) == {("", "1"), ("", "2")}
