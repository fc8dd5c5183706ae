"""What `CheckpointRecords` promises of branches, sealed blocks and cuts, on every backend."""

import asyncio
from datetime import timedelta

import pytest
from conftest import Database
from primitives import (
    MINUTE,
    Records,
    ancestors,
    chain,
    elements,
    new_save,
    new_write,
    on,
    open_records,
    read,
    row_of,
    sealed,
)

from langgraph_sessionmem.backends.opening import open_backend
from langgraph_sessionmem.rows import (
    Block,
    Element,
    ElementPlace,
    Limits,
    Outcome,
    Prune,
    Run,
    Saved,
    Wanted,
    WriteRow,
)

pytestmark = pytest.mark.parametrize("face_name", ["async"])
"""The face whose calls can overlap; what both faces share is tested in `test_records.py`."""


@pytest.fixture
def records(database: Database, face_name: str) -> Records:
    return open_records(database, is_async=face_name == "async")


# The number of a save, and elder siblings


async def test_saves_are_counted_and_a_checkpoint_keeps_its_number(records: Records) -> None:
    await chain(records, "c1", "c2")
    await records.put("c1", checkpoint_ns="sub")
    await records.put("c1", head=b"again")
    await records.put("c3", "c2")
    assert [(await row_of(records, name)).seq for name in ("c1", "c2", "c3")] == [1, 2, 5]
    assert (await records("read_thread", "t")).seq == 5


async def test_a_write_tells_the_save_before_it(records: Records) -> None:
    await records.put("c1")
    await records.write("c1", [new_write("c1", 0, b"first", task_id="a")])
    await records.put("c2", "c1")
    rows = [new_write("c1", 0, b"kept out", task_id="a"), new_write("c1", -1, b"x", task_id="a")]
    await records.write("c1", rows)
    _, writes = await records("read_checkpoint", "t", "", "c1")
    assert {(write.idx, write.body, write.seq) for write in writes} == {
        (0, b"first", 1),
        (-1, b"x", 2),
    }
    await records.put("c3", "c2")
    await records.write("c1", [new_write("c1", -1, b"y", task_id="a")])
    _, writes = await records("read_checkpoint", "t", "", "c1")
    assert {write.idx: write.seq for write in writes} == {0: 1, -1: 3}


async def test_a_fork_knows_its_latest_elder_sibling(records: Records) -> None:
    await chain(records, "c1", "c2", "c3")
    await records.put("d2", "c1")
    await records.put("e2", "c1")
    await records.put("e2", "c1")
    await records.put("f3", "c2")
    elders = {name: (await row_of(records, name)).elder for name in ("c1", "c2", "d2", "e2", "f3")}
    assert elders == {"c1": None, "c2": None, "d2": 2, "e2": 4, "f3": 3}


async def test_siblings_in_other_namespaces_are_none(records: Records) -> None:
    await chain(records, "c1", "c2")
    await chain(records, "c1", "d2", checkpoint_ns="sub")
    row, _ = await records("read_checkpoint", "t", "sub", "d2")
    assert row.elder is None


# Ancestors


async def test_ancestors_come_from_the_checkpoint_to_the_root(records: Records) -> None:
    await chain(records, "c1", "c2", "c3")
    await records.put("d2", "c1")
    assert await ancestors(records, "c3") == ["c3", "c2", "c1"]
    assert await ancestors(records, None) == ["d2", "c1"]
    assert await ancestors(records, "c3", 1) == ["c3", "c2"]
    assert await ancestors(records, "c3", 0) == ["c3"]
    assert await ancestors(records, "c9") == []
    await records.put("x1", "missing")
    assert await ancestors(records, "x1") == ["x1"]
    assert await ancestors(records, "x1", 5) == ["x1"]


async def test_ancestors_stay_in_their_namespace_and_thread(records: Records) -> None:
    await chain(records, "c1", "c2")
    await records.put("c3", "c2", checkpoint_ns="sub")
    await records.put("c3", "c2", thread_id="u")
    found = await records("read_ancestors", "t", "sub", "c3", 10)
    assert [row.checkpoint_ns for row in found] == ["sub"]
    found = await records("read_ancestors", "u", "", None, 10)
    assert [row.thread_id for row in found] == ["u"]


async def test_an_expired_thread_has_no_ancestors(records: Records, database: Database) -> None:
    await chain(records, "c1", "c2", limits=Limits(MINUTE))
    database.advance(timedelta(minutes=2))
    assert await ancestors(records, "c2") == []


# A save that must find its parent, or go on from the latest


async def test_a_save_that_builds_on_its_parent_needs_it(records: Records) -> None:
    generation = await chain(records, "c1", "c2")
    late = {"elements": elements(5, [b"x"]), "builds_on_parent": True}
    refused = Saved(Outcome.PARENT_GONE, 0)
    assert await records.put("c3", "missing", generation=generation, **late) == refused
    assert await records.put("c3", "missing", **late) == refused
    assert await records.put("c3", "missing", thread_id="new", **late) == refused
    assert await records("read_thread", "new") is None
    assert await read(records, generation, Run(5, 0, 9)) == []
    assert (await records("read_thread", "t")).seq == 2
    assert (await records.put("c3", "c2", **late)).outcome is Outcome.SAVED


async def test_a_save_that_may_not_fork_needs_the_latest_as_parent(records: Records) -> None:
    first = {"may_fork": False, "begins": True}
    assert (await records.put("c1", **first)).outcome is Outcome.SAVED
    assert (await records.put("c1", **first)).outcome is Outcome.SAVED
    refused = Saved(Outcome.CONFLICT, 0)
    assert await records.put("d1", **first) == refused
    assert (await records.put("c2", "c1", may_fork=False)).outcome is Outcome.SAVED
    added = elements(5, [b"x"])
    assert await records.put("d2", "c1", may_fork=False, elements=added) == refused
    assert (await records.put("c2", "c1", may_fork=False)).outcome is Outcome.SAVED
    assert await records.put("d3", "missing", may_fork=False) == refused
    other = {"may_fork": False, "checkpoint_ns": "sub"}
    assert (await records.put("c1", None, **other)).outcome is Outcome.SAVED
    assert list(await records.orders(namespace="")) == ["c2", "c1"]


async def test_of_many_saves_at_once_that_may_not_fork_one_wins(
    records: Records, database: Database
) -> None:
    await records.put("c0")
    latest, wins = "c0", 0
    others = [open_records(database, is_async=True) for _ in range(6)]
    for turn in range(8):
        names = [f"c{turn + 1}{letter}" for letter in "abcdef"]
        saves = [
            each.put(name, latest, may_fork=False, elements=elements(turn, [name.encode()]))
            for each, name in zip(others, names, strict=True)
        ]
        outcomes = [saved.outcome for saved in await asyncio.gather(*saves)]
        assert sorted(outcomes, key=str) == [*[Outcome.CONFLICT] * 5, Outcome.SAVED]
        latest, wins = names[outcomes.index(Outcome.SAVED)], wins + 1
    assert len(await records.orders()) == wins + 1


async def test_of_a_cut_and_a_save_that_builds_on_what_it_cuts_one_wins(
    records: Records, database: Database
) -> None:
    other = open_records(database, is_async=True)
    for turn in range(8):
        thread_id = f"t{turn}"
        here = {"thread_id": thread_id}
        await records.put("c1", elements=elements(5, [b"a"]), **here)
        generation = (await records.put("c2", None, **here)).generation
        plan = Prune(thread_id, generation, 2, [("", "c1")], [Run(5, 0, 1)])
        late = new_save("c3", "c1", builds_on_parent=True, generation=generation, **here)
        cut, saved = await asyncio.gather(
            other("save_pruned", plan), records("save_checkpoint", late)
        )
        found = await records("read_elements", thread_id, generation, [Run(5, 0, 1)])
        assert (cut, saved.outcome) in [(True, Outcome.PARENT_GONE), (False, Outcome.SAVED)]
        assert bool(found) is not cut


async def test_writes_and_a_deletion_at_once_leave_nothing_behind(
    records: Records, database: Database
) -> None:
    others = [open_records(database, is_async=True) for _ in range(4)]
    for turn in range(6):
        here = {"thread_id": f"t{turn}"}
        generation = (await records.put("c1", **here)).generation
        writes = [
            each.write(
                "c1", [new_write("c1", 0, b"w", task_id=f"{turn}")], generation=generation, **here
            )
            for each in others
        ]
        *saved, _ = await asyncio.gather(*writes, records("drop_thread", f"t{turn}"))
        assert {each.outcome for each in saved} <= {Outcome.SAVED, Outcome.DELETED}
        assert await records("read_writes", f"t{turn}", generation, [("", "c1")]) == []
        assert await records("read_thread", f"t{turn}") is None


# Sealed blocks


async def test_a_block_takes_the_place_of_what_it_seals(records: Records) -> None:
    generation = await sealed(records)
    block = Element(5, 3, b"block")
    assert await read(records, generation, Run(5, 0, 6)) == [block, *elements(5, [b"e", b"f"], 4)]
    places = await records("read_places", "t", generation)
    assert sorted(places) == [
        ElementPlace(5, 3, 5),
        ElementPlace(5, 4, 1),
        ElementPlace(5, 5, 1),
    ]


@pytest.mark.parametrize("run", [Run(5, 0, 1), Run(5, 1, 3), Run(5, 3, 4), Run(5, 0, 4)])
async def test_a_part_of_a_block_is_read_as_the_whole_block(records: Records, run: Run) -> None:
    generation = await sealed(records)
    assert await read(records, generation, run) == [Element(5, 3, b"block")]


async def test_runs_that_share_a_block_give_it_once(records: Records) -> None:
    generation = await sealed(records)
    runs = [Run(5, 0, 2), Run(5, 1, 5), Run(5, 3, 4)]
    assert await read(records, generation, *runs) == [
        Element(5, 3, b"block"),
        *elements(5, [b"e"], 4),
    ]


async def test_places_within_a_block_are_taken(records: Records) -> None:
    generation = await sealed(records)
    refused = Saved(Outcome.LOG_TAKEN, 0)
    for position in range(3):
        assert await records.put("c3", "c2", elements=[Element(5, position, b"a")]) == refused
    assert await records.put("c3", "c2", elements=[Element(5, 3, b"d")]) == refused
    added = [*elements(6, [b"new"]), Element(5, 1, b"b")]
    assert await records.put("c3", "c2", elements=added) == refused
    assert await read(records, generation, Run(6, 0, 9)) == []
    assert (await records.put("c3", "c2", elements=elements(5, [b"f"], 5))).outcome is Outcome.SAVED
    saved = await records.put("c4", "c3", elements=elements(5, [b"f", b"g"], 5))
    assert saved.outcome is Outcome.SAVED


async def test_a_log_may_be_sealed_by_the_save_that_fills_it_and_sealed_again(
    records: Records,
) -> None:
    save = new_save("c1", elements=elements(5, [b"a", b"b", b"c"]), blocks=[Block(5, 0, 1, b"ab")])
    saved = await records("save_checkpoint", save)
    assert saved.outcome is Outcome.SAVED
    expected = [Element(5, 1, b"ab"), Element(5, 2, b"c")]
    assert await read(records, saved.generation, Run(5, 0, 3)) == expected
    again = [Block(5, 0, 1, b"ab"), Block(5, 2, 2, b"sealed c")]
    assert (await records.put("c2", "c1", blocks=again)).outcome is Outcome.SAVED
    expected = [Element(5, 1, b"ab"), Element(5, 2, b"sealed c")]
    assert await read(records, saved.generation, Run(5, 0, 3)) == expected


async def test_a_refused_save_seals_nothing(records: Records) -> None:
    saved = await records.put("c1", elements=elements(5, [b"a", b"b"]))
    blocks = [Block(5, 0, 1, b"block")]
    late = await records.put("c2", "c1", elements=elements(5, [b"x"]), blocks=blocks)
    assert late.outcome is Outcome.LOG_TAKEN
    late = await records.put("c2", "missing", builds_on_parent=True, blocks=blocks)
    assert late.outcome is Outcome.PARENT_GONE
    assert await read(records, saved.generation, Run(5, 0, 2)) == elements(5, [b"a", b"b"])


# What only one database can show


@on("postgres")
async def test_a_save_that_waits_for_its_thread_sees_what_happened_meanwhile(
    records: Records, database: Database
) -> None:
    await chain(records, "c1", "c2")
    await records.put("d2", "c1")
    schema = database.options["schema"]
    holder = database.servers.postgres_connection(database.url)
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query ~ %s"
    cases = {"builds_on_parent": Outcome.PARENT_GONE, "may_fork": Outcome.CONFLICT}
    for option, expected in cases.items():
        with holder.transaction():
            holder.execute(f'update "{schema}".sessionmem_threads set token = 1'.encode())
            save = records.put("e3", "d2", **{option: option == "builds_on_parent"})
            task = asyncio.ensure_future(save)
            while holder.execute(waiting, [schema]).fetchone() == (0,):  # noqa: ASYNC110 - the server knows
                await asyncio.sleep(0)
            change = "delete from" if option == "builds_on_parent" else "update"
            rest = "" if option == "builds_on_parent" else "set order_id = 'z', order_n = 1"
            target = "d2" if option == "builds_on_parent" else "c2"
            holder.execute(
                f'{change} "{schema}".sessionmem_checkpoints {rest} '
                f"where checkpoint_id = '{target}'".encode()
            )
        assert await task == Saved(expected, 0)
        await records.put("d2", "c1")


@on("postgres")
async def test_without_functions_in_the_server_every_answer_is_the_same(
    records: Records, database: Database
) -> None:
    async def story(here: Records, thread_id: str) -> list[object]:
        save = new_save("c1", thread_id=thread_id, begins=True, elements=elements(5, [b"a", b"b"]))
        saved = await here("save_checkpoint", save)
        written = await here.write("c1", [new_write("c1", 0, b"w")], thread_id=thread_id)
        taken = save._replace(elements=elements(5, [b"other"]))
        row, writes = await here("read_checkpoint", thread_id, "", None)
        found = await here("read_elements", thread_id, saved.generation, [Run(5, 0, 2)])
        return [
            (saved.outcome, written == saved, row._replace(thread_id="", generation=0), writes),
            (await here("save_checkpoint", taken), sorted(found)),
        ]

    async def functions() -> list[str]:
        rows = connection.execute(
            "select p.oid::regprocedure::text from pg_proc p join pg_namespace n "
            "on n.oid = p.pronamespace where n.nspname = %s order by 1",
            [database.options["schema"]],
        )
        return [name for (name,) in rows.fetchall()]

    expected = await story(records, "with")
    connection = database.servers.postgres_connection(database.url)
    made = await functions()
    for name in made:
        connection.execute(f"drop function {name}".encode())
    backend = open_backend(database.url, setup=False, **database.options)
    plain = database.adopt(Records(backend, records.is_async))
    assert await story(plain, "without") == expected
    assert await functions() == []
    assert await story(open_records(database, is_async=records.is_async), "again") == expected
    assert await functions() == made
    assert len(made) > 0


async def test_contents_of_several_threads_come_in_their_order(records: Records) -> None:
    row = WriteRow("", "c1", "task", 0, "~path", "channel", b"write", 1)
    first = await records.put("c1", elements=elements(5, [b"a", b"b", b"c"]))
    other = await records.put("c1", thread_id="u", elements=elements(5, [b"x"]))
    await records.write("c1", [row], thread_id="u")
    runs, names = [Run(5, 0, 2), Run(5, 1, 3)], [("", "c1"), ("", "none such")]
    asked = [
        Wanted("u", other.generation, runs, names),
        Wanted("t", first.generation, runs, names),
        Wanted("t", first.generation, [Run(5, 0, 0)], []),
        Wanted("none such", 7, runs, names),
    ]
    found = await records("read_contents", asked)
    assert [sorted(each.elements) for each in found] == [
        elements(5, [b"x"]),
        elements(5, [b"a", b"b", b"c"]),
        [],
        [],
    ]
    assert [each.writes for each in found] == [[row], [], [], []]
    assert await records("read_contents", []) == []
