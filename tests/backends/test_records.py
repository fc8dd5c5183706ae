"""What `CheckpointRecords` promises of checkpoints and writes, on every backend in both faces."""

import secrets
from datetime import timedelta

import pytest
from conftest import Database
from hypothesis import given, settings
from hypothesis import strategies as st
from primitives import MINUTE, Records, elements, new_save, new_write, open_records

from langgraph_sessionmem.rows import (
    CheckpointScan,
    Limits,
    OrderKey,
    Outcome,
    Run,
    Saved,
    ThreadScan,
)


@pytest.fixture
def records(database: Database, face_name: str) -> Records:
    return open_records(database, is_async=face_name == "async")


# Checkpoints


async def test_a_checkpoint_is_read_as_it_was_saved(records: Records) -> None:
    head, metadata = bytes(range(256)), b"\x00\xff"
    saved = await records.put("c1", head=head, metadata=metadata, run_id="run")
    assert saved.outcome is Outcome.SAVED
    assert saved.generation > 0
    row, writes = await records("read_checkpoint", "t", "", "c1")
    order = OrderKey("c1", 0)
    assert row == (
        *("t", saved.generation, "", "c1", None, order, head, metadata, False),
        1,
        None,
        False,
    )
    assert writes == []


async def test_what_is_not_stored_is_not_found(records: Records) -> None:
    await records.put("c1")
    assert await records("read_checkpoint", "t", "", "c2") is None
    assert await records("read_checkpoint", "t", "other", None) is None
    assert await records("read_checkpoint", "u", "", None) is None
    assert await records("scan_checkpoints", CheckpointScan("u")) == []
    assert await records("read_orders", "u", ["c1"]) == []
    assert await records("save_limits", "u", Limits(1.0), own=True) is False


async def test_a_stored_checkpoint_is_replaced_and_keeps_its_order(records: Records) -> None:
    await records.put("c2")
    await records.put("c1", "c2")
    await records.put("c1", "c2", head=b"new", metadata=b"newer")
    row = await records.latest()
    assert row is not None
    assert (row.head, row.metadata, row.parent_id) == (b"new", b"newer", "c2")
    assert row.order == OrderKey("c2", 1)
    assert len(await records.orders()) == 2


async def test_a_save_that_is_repeated_changes_nothing(records: Records) -> None:
    save = new_save("c1", elements=elements(5, [b"a", b"b"]))
    first = await records("save_checkpoint", save)
    assert await records("save_checkpoint", save) == first
    found = await records("read_elements", "t", first.generation, [Run(5, 0, 9)])
    assert sorted(found) == elements(5, [b"a", b"b"])
    [thread] = await records("scan_threads", ThreadScan())
    assert thread.checkpoints == 1


# Order keys


async def test_a_child_with_a_greater_id_gets_its_own_place(records: Records) -> None:
    await records.put("c1")
    await records.put("c2", "c1")
    assert (await records.orders())["c2"] == OrderKey("c2", 0)


async def test_children_come_after_their_parents_though_clocks_go_back(records: Records) -> None:
    await records.put("c5")
    await records.put("c4", "c5")
    await records.put("c3", "c4")
    row = await records.latest()
    assert row is not None
    assert (row.checkpoint_id, row.order) == ("c3", OrderKey("c5", 2))
    assert list(await records.orders()) == ["c3", "c4", "c5"]


async def test_a_fork_of_an_old_checkpoint_is_a_live_write_too(records: Records) -> None:
    await records.put("c1")
    await records.put("c9", "c1")
    await records.put("c5", "c1")
    assert (await records.orders())["c5"] == OrderKey("c9", 1)


async def test_a_checkpoint_whose_parent_is_not_stored_gets_its_own_place(records: Records) -> None:
    await records.put("c5")
    await records.put("c3", "c1")
    await records.put("c2", None)
    orders = await records.orders()
    assert (orders["c3"], orders["c2"]) == (OrderKey("c3", 0), OrderKey("c2", 0))


async def test_a_copy_from_the_newest_to_the_oldest_keeps_the_order(records: Records) -> None:
    chain = [("c4", "c3"), ("c3", "c2"), ("c2", "c1"), ("c1", None)]
    for checkpoint_id, parent_id in chain:
        await records.put(checkpoint_id, parent_id)
    assert await records.orders() == {name: OrderKey(name, 0) for name, _ in chain}


async def test_a_parent_named_by_a_stored_child_does_not_become_the_latest(
    records: Records,
) -> None:
    await records.put("c1")
    await records.put("c9", "c5")
    await records.put("c5", "c1")
    assert (await records.orders())["c5"] == OrderKey("c5", 0)


async def test_namespaces_have_orders_of_their_own(records: Records) -> None:
    await records.put("c5")
    await records.put("c3", "c5", checkpoint_ns="sub")
    await records.put("c2", "c3", checkpoint_ns="sub")
    assert await records.orders(namespace="") == {"c5": OrderKey("c5", 0)}
    assert (await records.orders(namespace="sub"))["c2"] == OrderKey("c3", 1)
    latest = await records.latest(namespace="sub")
    assert latest is not None
    assert latest.checkpoint_id == "c2"


def model_order(
    stored: dict[str, tuple[str | None, OrderKey]], name: str, parent: str | None
) -> OrderKey:
    latest = max((order for _, order in stored.values()), default=None)
    named = any(other == name for other, _ in stored.values())
    if latest is not None and parent in stored and name <= latest.id and not named:
        return OrderKey(latest.id, latest.n + 1)
    return OrderKey(name, 0)


names = st.sampled_from(["", "a", "a\x00", "a\x00b", "aa", "B", "é", "z\uffff", "z\U00010000", "z"])


@given(st.lists(st.tuples(names, st.none() | names), max_size=12))
@settings(max_examples=20)
async def test_any_sequence_of_saves_gives_the_orders_of_the_rule(
    records: Records, saves: list[tuple[str, str | None]]
) -> None:
    thread = secrets.token_hex(8)
    stored: dict[str, tuple[str | None, OrderKey]] = {}
    generation = None
    for name, parent in saves:
        if name in stored and stored[name][0] != parent:
            continue  # another parent for a stored checkpoint is no history
        order = stored[name][1] if name in stored else model_order(stored, name, parent)
        saved = await records.put(name, parent, thread_id=thread, generation=generation)
        assert saved.outcome is Outcome.SAVED
        generation = saved.generation
        stored[name] = parent, order
        expected = {name: order for name, (_, order) in stored.items()}
        found = await records.orders(thread)
        assert found == expected
        assert list(found) == sorted(expected, key=expected.__getitem__, reverse=True)
        latest = await records.latest(thread)
        assert latest is not None
        assert latest.order == max(expected.values())


# Elements


async def test_runs_are_read_once_and_what_is_gone_is_left_out(records: Records) -> None:
    saved = await records.put(
        "c1", elements=elements(5, [b"a", b"b", b"c"]) + elements(2**59, [b"x"])
    )
    runs = [Run(5, 1, 3), Run(5, 0, 2), Run(2**59, 0, 4), Run(7, 0, 2), Run(5, 2, 2)]
    found = await records("read_elements", "t", saved.generation, runs)
    assert sorted(found) == elements(5, [b"a", b"b", b"c"]) + elements(2**59, [b"x"])
    assert await records("read_elements", "t", saved.generation, []) == []
    assert await records("read_elements", "t", saved.generation + 1, runs) == []


async def test_a_log_grows_and_takes_the_same_bytes_again(records: Records) -> None:
    first = await records.put("c1", elements=elements(5, [b"a", b"b"]))
    again = await records.put("c2", "c1", elements=elements(5, [b"b", b"c"], start=1))
    assert again.outcome is Outcome.SAVED
    found = await records("read_elements", "t", first.generation, [Run(5, 0, 9)])
    assert sorted(found) == elements(5, [b"a", b"b", b"c"])


async def test_a_place_taken_by_other_bytes_refuses_the_whole_save(records: Records) -> None:
    first = await records.put("c1", elements=elements(5, [b"a", b"b"]), head=b"old")
    limits = Limits(idle_seconds=MINUTE)
    added = elements(6, [b"new"]) + elements(5, [b"B", b"c"], start=1)
    for name, parent in (("c2", "c1"), ("c1", None)):
        saved = await records.put(name, parent, elements=added, limits=limits)
        assert saved == Saved(Outcome.LOG_TAKEN, 0)
    row = await records.latest()
    assert row is not None
    assert (row.checkpoint_id, row.head) == ("c1", b"old")
    runs = [Run(5, 0, 9), Run(6, 0, 9)]
    found = await records("read_elements", "t", first.generation, runs)
    assert sorted(found) == elements(5, [b"a", b"b"])
    assert await records.expires_after() is None


async def test_a_thread_may_begin_with_thousands_of_elements(records: Records) -> None:
    bodies = [b"%d" % number for number in range(9_001)]
    saved = await records.put("c1", elements=elements(5, bodies))
    found = await records("read_elements", "t", saved.generation, [Run(5, 0, 10_000)])
    assert [element.body for element in sorted(found, key=lambda found: found.position)] == bodies


# Writes


async def test_regular_writes_stay_and_special_ones_are_replaced_each_for_itself(
    records: Records,
) -> None:
    await records.put("c1")
    rows = [new_write("c1", 0, b"first"), new_write("c1", -1, b"error"), new_write("c1", 1, b"x")]
    assert (await records.write("c1", rows)).outcome is Outcome.SAVED
    rows = [
        new_write("c1", 0, b"second"),
        new_write("c1", -1, b"other, longer"),
        new_write("c1", 2, b"y"),
    ]
    rows += [new_write("c1", -3, b""), new_write("c1", 0, b"of another task", task_id="0 9 task")]
    await records.write("c1", rows)
    await records.write("c1", rows)
    assert await records.writes("c1") == {
        ("task", 0): b"first",
        ("task", -1): b"other, longer",
        ("task", 1): b"x",
        ("task", 2): b"y",
        ("task", -3): b"",
        ("0 9 task", 0): b"of another task",
    }


async def test_many_large_writes_of_many_tasks_are_kept_apart(records: Records) -> None:
    saved = await records.put("c1")
    expected = {}
    for number in range(12):
        task, body = f"task {number}", bytes([number]) * (700 * number)
        rows = [new_write("c1", idx, body, task_id=task) for idx in (0, -2)]
        await records.write("c1", rows)
        expected |= {(task, idx): body for idx in (0, -2)}
    for number in (0, 5, 11):
        await records.write("c1", [new_write("c1", -2, b"!", task_id=f"task {number}")])
        expected[f"task {number}", -2] = b"!"
    assert await records.writes("c1") == expected
    rows = await records("read_writes", "t", saved.generation, [("", "c1"), ("", "c2")])
    assert {(row.task_id, row.idx): row.body for row in rows} == expected
    assert {(row.task_path, row.channel) for row in rows} == {("~path", "channel")}


async def test_writes_may_come_before_their_checkpoint(records: Records) -> None:
    early = await records.write("c1", [new_write("c1", 0, b"early")])
    assert early.outcome is Outcome.SAVED
    assert await records.latest() is None
    assert await records("scan_threads", ThreadScan()) == []
    saved = await records.put("c1", begins=True, generation=early.generation)
    assert saved == early
    assert await records.writes("c1") == {("task", 0): b"early"}


async def test_early_writes_are_unseen_in_a_thread_that_is_there(records: Records) -> None:
    saved = await records.put("c1")
    await records.write("c2", [new_write("c2", 0, b"early")])
    assert await records("read_checkpoint", "t", "", "c2") is None
    await records.put("c2", "c1")
    rows = await records("read_writes", "t", saved.generation, [("", "c2")])
    assert [row.body for row in rows] == [b"early"]


async def test_early_writes_are_swept_after_ten_minutes(
    records: Records, database: Database
) -> None:
    await records.put("c1")
    await records.write("c2", [new_write("c2", 0, b"stale")])
    database.advance(timedelta(minutes=9, seconds=58))
    await records.write("c3", [new_write("c3", 0, b"fresh")])
    await records("drop_expired", 10)
    database.advance(timedelta(seconds=2))
    assert await records("drop_expired", 10) == 0
    await records.put("c2", "c1")
    await records.put("c3", "c2")
    assert await records.writes("c2") == {}
    assert await records.writes("c3") == {("task", 0): b"fresh"}


async def test_early_writes_of_no_thread_are_swept_too(
    records: Records, database: Database
) -> None:
    await records.write("c1", [new_write("c1", 0, b"stale")])
    database.advance(timedelta(minutes=11))
    await records("drop_expired", 10)
    await records.put("c1", begins=True)
    assert await records.writes("c1") == {}
