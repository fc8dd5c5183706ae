"""Lists as runs over logs: exact, and cheap, for every history of a list."""

from itertools import count, pairwise

from hypothesis import given
from hypothesis import strategies as st

from langgraph_sessionmem.checkpoint.runs import (
    MOST_RUNS,
    KnownList,
    Layout,
    Plan,
    Tip,
    places_of,
    plan_list,
    runs_of,
)

Logs = dict[tuple[int, int], bytes]

few = st.sampled_from([b"a", b"b", b"c", b"", b"\x00"])
lists = st.lists(few | st.binary(max_size=3), max_size=30)


class Writer:
    """One history of a list: stores what plans say and refuses to store a place twice.

    Args:
        logs: shared by all writers of a thread.
        make_log: likewise.
    """

    def __init__(self, logs: Logs, make_log: count) -> None:
        self.logs, self.make_log = logs, make_log
        self.known: KnownList | None = None

    def store(self, marks: list[bytes]) -> Plan:
        plan = plan_list(marks, self.known, lambda: next(self.make_log))
        for index, place in plan.added:
            assert place not in self.logs
            self.logs[place] = marks[index]
        self.known = KnownList(plan.layout, marks)
        assert [self.logs[place] for place in places_of(plan.layout.runs)] == marks
        assert len(plan.layout.runs) <= MOST_RUNS
        return plan


def new_writer() -> Writer:
    return Writer({}, count(1))


@given(st.lists(lists, min_size=1, max_size=8))
def test_any_history_of_a_list_is_read_back_exactly(history: list[list[bytes]]) -> None:
    writer = new_writer()
    for marks in history:
        writer.store(marks)


@given(st.lists(lists, min_size=1, max_size=10))
def test_a_list_that_only_grows_is_one_run(parts: list[list[bytes]]) -> None:
    writer, marks = new_writer(), []
    for part in parts:
        marks = marks + part
        plan = writer.store(marks)
        assert len(plan.added) == len(part)
        assert len(plan.layout.runs) == bool(marks)
    assert len(writer.logs) == len(marks)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=80, unique=True), st.data())
def test_an_edit_or_removal_adds_at_most_two_runs_and_stores_what_is_new(
    numbers: list[int], data: st.DataObject
) -> None:
    writer = new_writer()
    marks = [str(number).encode() for number in numbers]
    writer.store(marks)
    for step in range(10):
        before = writer.known
        assert before is not None
        if not marks:
            return
        index = data.draw(st.integers(0, len(marks) - 1))
        new = [f"new {step}".encode()] * data.draw(st.integers(0, 1))
        marks = marks[:index] + new + marks[index + 1 :]
        plan = writer.store(marks)
        assert len(plan.layout.runs) <= len(before.layout.runs) + 2
        assert len(plan.added) == len(new)


@given(lists, st.data())
def test_what_is_stored_is_not_stored_again_whatever_its_place(
    marks: list[bytes], data: st.DataObject
) -> None:
    writer = new_writer()
    writer.store(marks)
    shuffled = data.draw(st.permutations(marks))
    kept = shuffled[: data.draw(st.integers(0, len(shuffled)))]
    assert writer.store(kept).added == []


@given(lists, lists)
def test_the_same_list_again_changes_nothing(first: list[bytes], second: list[bytes]) -> None:
    writer = new_writer()
    writer.store(first)
    plan = writer.store(second)
    assert writer.store(list(second)) == Plan(plan.layout, [])


@given(st.integers(2, 5), st.integers(1, 3))
def test_a_list_of_too_many_runs_is_written_into_a_new_log_once(stride: int, more: int) -> None:
    writer = new_writer()
    marks = [str(i).encode() for i in range((MOST_RUNS + more) * stride)]
    writer.store(marks)
    kept = marks[::stride]
    plan = writer.store(kept)
    assert len(plan.layout.runs) == 1
    assert len(plan.added) == len(kept)
    assert len(writer.store([*kept, b"x"]).added) == 1


@given(lists, lists, lists)
def test_a_fork_takes_a_new_log_where_another_writer_was_first(
    shared: list[bytes], one: list[bytes], other: list[bytes]
) -> None:
    writer = new_writer()
    writer.store(shared)
    fork = Writer(writer.logs, writer.make_log)
    assert writer.known is not None
    layout = writer.known.layout
    writer.store(shared + one)
    fork.known = KnownList(
        Layout(layout.runs, Tip(next(writer.make_log), 0)), writer.known.marks[: len(shared)]
    )
    plan = fork.store(shared + other)
    assert len(plan.layout.runs) <= len(layout.runs) + 1
    assert len(plan.added) == len(other)
    assert len(fork.store(shared + other + one).added) == len(one)
    assert len(writer.store(shared + one + other).added) == len(other)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=20))
def test_runs_name_the_places_they_were_made_of(places: list[tuple[int, int]]) -> None:
    runs = runs_of(places)
    assert places_of(runs) == places
    assert all(run.start < run.end for run in runs)
    assert all((left.log, left.end) != (right.log, right.start) for left, right in pairwise(runs))
