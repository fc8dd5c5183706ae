"""Typed memories as a user has them, on every database and in both faces."""

import asyncio
import itertools
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from conftest import Clock, Database, Face
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.store.memory import InMemoryStore
from minds import START, U1, Wrist, day, minds

from langgraph_sessionmem import (
    Background,
    Conversation,
    Event,
    Fact,
    Memories,
    Memory,
    Reflection,
    Skill,
    Source,
)
from langgraph_sessionmem.errors import InvalidArgument, VersionConflict

T1 = Source(thread="t1", messages=("m1",), by="user")
T2 = Source(thread="t2", messages=("m2",), by="user")


def told(versions: list[Any]) -> list[tuple[Any, str]]:
    return [(known.value, known.status) for known in versions]


async def test_a_fact_that_changes_three_times_keeps_its_history(store: Face) -> None:
    mine = minds(store)
    for month, city in ((1, "Oslo"), (2, "Bern"), (3, "Rome"), (4, "Lima")):
        await mine("remember", Fact("user", "city", city, valid_from=day(month)))
    assert (await mine("fact", "user", "city")).value == "Lima"
    history = await mine("history", "user", "city")
    assert told(history) == [
        ("Lima", "current"),
        ("Rome", "past"),
        ("Bern", "past"),
        ("Oslo", "past"),
    ]
    assert [known.version for known in history] == [4, 3, 2, 1]
    for later, former in itertools.pairwise(history):
        assert former.valid_to == later.valid_from
    assert (await mine("fact", "user", "city", at=day(3, 15))).value == "Rome"
    assert await mine("fact", "user", "city", at=day(12, 1, 2025)) is None


async def test_what_was_true_earlier_and_arrives_late_becomes_history(store: Face) -> None:
    mine = minds(store)
    await mine("remember", Fact("user", "city", "Rome", valid_from=day(3)))
    late = await mine("remember", Fact("user", "city", "Oslo", valid_from=day(1)))
    assert (late.value, late.status) == ("Oslo", "past")
    assert (await mine("fact", "user", "city")).value == "Rome"
    assert (await mine("fact", "user", "city", at=day(2))).value == "Oslo"


async def test_both_times_can_be_asked_for(store: Face) -> None:
    mine = minds(store)
    first = await mine("remember", Fact("user", "city", "Rome", valid_from=day(1)))
    second = await mine("remember", Fact("user", "city", "Oslo", valid_from=day(2)))
    known_then = second.recorded_at - timedelta(milliseconds=1)
    assert (await mine("fact", "user", "city", at=day(3))).value == "Oslo"
    assert (await mine("fact", "user", "city", at=day(3), known_at=known_then)).value == "Rome"
    before = first.recorded_at - timedelta(milliseconds=1)
    assert await mine("fact", "user", "city", at=day(3), known_at=before) is None
    assert told(await mine("as_of", day(3), known_at=known_then)) == [("Rome", "current")]


async def test_the_same_value_again_only_adds_its_source(store: Face) -> None:
    mine = minds(store)
    await mine("remember", Fact("user", "pet", "cat"), source=T1)
    await mine("remember", Fact("user", "pet", "cat"), source=T2)
    [known] = await mine("history", "user", "pet")
    assert known.sources == (T1, T2)


async def test_a_message_that_is_read_again_changes_nothing(store: Face) -> None:
    mine = minds(store)
    for _ in range(2):
        await mine("remember", Fact("user", "pet", "cat"), source=T1)
        await mine("remember", Fact("user", "pet", "dog"), source=T2)
    known = await mine("fact", "user", "pet")
    assert (known.value, known.revision) == ("dog", 2)


async def test_two_sources_about_one_time_stay_open_until_resolved(store: Face) -> None:
    mine = minds(store)
    await mine("remember", Fact("db", "port", 5432, valid_from=day(1)), source=T1)
    await mine("remember", Fact("db", "port", 6432, valid_from=day(1)), source=T2)
    known = await mine("fact", "db", "port")
    assert (known.value, [each.value for each in known.alternatives]) == (5432, [6432])
    [conflict] = await mine("conflicts")
    assert conflict.id == "fact:db/port"
    assert [claim.value for claim in conflict.claims] == [5432, 6432]
    with pytest.raises(InvalidArgument, match="no claim 7000 to choose: 5432, 6432"):
        await mine("resolve", conflict, 7000)
    chosen = await mine("resolve", conflict, 6432, reason="asked the admin")
    assert (chosen.value, chosen.alternatives) == (6432, ())
    assert await mine("conflicts") == []
    assert told(await mine("history", "db", "port")) == [(6432, "current"), (5432, "overruled")]
    with pytest.raises(InvalidArgument, match="no conflict is open"):
        await mine("resolve", "fact:db/port", 6432)


async def test_one_source_about_one_time_corrects_itself(store: Face) -> None:
    mine = minds(store)
    await mine("remember", Fact("db", "port", 5432, valid_from=day(1)), source=T1)
    again = Source(thread="t1", messages=("m9",), by="user")
    await mine("remember", Fact("db", "port", 6432, valid_from=day(1)), source=again)
    assert await mine("conflicts") == []
    assert told(await mine("history", "db", "port")) == [(6432, "current"), (5432, "corrected")]


@pytest.mark.parametrize(("policy", "value"), [("latest", 1), ("confidence", 2)])
async def test_a_policy_settles_conflicts_at_once(store: Face, policy: str, value: int) -> None:
    mine = minds(store, conflicts=policy)
    for number, confidence in ((0, 0.5), (2, 0.9), (1, 0.7)):
        source = Source(thread=f"t{number}", messages=("m",))
        fact = Fact("db", "replicas", number, valid_from=day(1), confidence=confidence)
        await mine("remember", fact, source=source)
    known = await mine("fact", "db", "replicas")
    assert (known.value, known.alternatives) == (value, ())
    assert await mine("conflicts") == []


async def test_what_was_never_true_is_retracted_with_a_reason(store: Face) -> None:
    mine = minds(store)
    await mine("remember", Fact("user", "city", "Oslo", valid_from=day(1)))
    await mine("remember", Fact("user", "city", "Rome", valid_from=day(2)), source=T1)
    back = await mine("retract", "fact:user/city", reason="it was a joke")
    assert (back.value, back.valid_to) == ("Oslo", None)
    lost = (await mine("history", "user", "city"))[0]
    assert (lost.value, lost.status, lost.reason) == ("Rome", "retracted", "it was a joke")
    # The same message once more doesn't bring it back; somebody who says it anew does.
    await mine("remember", Fact("user", "city", "Rome", valid_from=day(2)), source=T1)
    assert (await mine("fact", "user", "city")).value == "Oslo"
    await mine("remember", Fact("user", "city", "Rome", valid_from=day(2)), source=T2)
    assert (await mine("fact", "user", "city")).value == "Rome"
    with pytest.raises(InvalidArgument, match="was never said to be Lima"):
        await mine("retract", "fact:user/city", reason="wrong", value="Lima")
    with pytest.raises(InvalidArgument, match="reason is empty"):
        await mine("retract", "fact:user/city", reason=" ")


async def test_what_ends_leaves_nothing_in_its_place(store: Face) -> None:
    mine = minds(store)
    await mine("remember", Fact("user", "employer", "Acme", valid_from=day(1)))
    await mine("end", "fact:user/employer", at=day(3), reason="left")
    assert await mine("fact", "user", "employer") is None
    assert (await mine("fact", "user", "employer", at=day(2))).value == "Acme"
    with pytest.raises(InvalidArgument, match="no value before"):
        await mine("end", "fact:user/employer", at=day(4))
    await mine("remember", Fact("user", "employer", "Byte", valid_from=day(5)))
    assert [known.value for known in await mine("history", "user", "employer")] == ["Byte", "Acme"]


async def test_a_writer_who_expects_another_revision_is_told(store: Face) -> None:
    mine = minds(store)
    first = await mine("remember", Fact("user", "city", "Oslo"), expected=0)
    await mine("remember", Fact("user", "city", "Rome"), expected=first.revision)
    with pytest.raises(VersionConflict) as refused:
        await mine("remember", Fact("user", "city", "Lima"), expected=first.revision)
    error = refused.value
    assert (error.memory_id, error.expected, error.found) == ("fact:user/city", 1, 2)
    assert (await mine("fact", "user", "city")).value == "Rome"


async def test_writers_of_one_slot_at_the_same_time_lose_nothing(
    database: Database, store: Face
) -> None:
    stores = [store, *(Face(database.open_store(), store.is_async) for _ in range(2))]

    async def write(number: int) -> None:
        mine = minds(stores[number % 3], clock=Wrist(START + timedelta(hours=number)))
        await mine("remember", Fact("user", "city", f"c{number}", valid_from=day(1, 1 + number)))

    def blocking(number: int) -> None:
        asyncio.run(write(number))

    async with asyncio.TaskGroup() as group:
        for number in range(9):
            if store.is_async:
                group.create_task(write(number))
            else:
                group.create_task(asyncio.to_thread(blocking, number))
    history = await minds(store)("history", "user", "city")
    assert [known.value for known in history] == [f"c{number}" for number in reversed(range(9))]


async def test_users_with_the_same_facts_never_meet(store: Face) -> None:
    one, other = minds(store, ("users", "u1")), minds(store, ("users", "u11"))
    await one("remember", Fact("user", "pet", "cat"))
    await other("remember", Fact("user", "pet", "dog"))
    assert [known.value for known in (await one("recall", "pet")).memories] == ["cat"]
    assert told(await other("current")) == [("dog", "current")]
    assert await one("forget_everything") == {"fact": 1}
    assert await one("current") == []
    assert (await other("fact", "user", "pet")).value == "dog"


async def test_names_of_attributes_are_levelled_and_subjects_are_exact(store: Face) -> None:
    mine = minds(store)
    await mine("remember", Fact("Rose", "DB  port", 1))
    assert (await mine("fact", "Rose", "db_port")).value == 1
    assert await mine("fact", "rose", "db_port") is None
    hostile = ["a/b", "a%2Fb", "a%b", "a:b", "a", "\u0410", "\x00", "a\nb"]
    for number, subject in enumerate(hostile):
        await mine("remember", Fact(subject, "x/y", number))
    for number, subject in enumerate(hostile):
        assert (await mine("fact", subject, "x/y")).value == number
        assert (await mine("get", Fact(subject, "x/y", 0))).value == number


async def test_values_are_any_json_and_compare_as_json(store: Face) -> None:
    mine = minds(store)
    for value in (1, True, None, [1, {"a": 2.5}], {"k": ["ü"]}, "1", ""):
        known = await mine("remember", Fact("user", "thing", value))
        assert (await mine("fact", "user", "thing")).value == value == known.value
        assert type((await mine("fact", "user", "thing")).value) is type(value)
    assert len(await mine("history", "user", "thing")) == 7
    await mine("remember", Fact("user", "n", 1))
    await mine("remember", Fact("user", "n", 1.0))
    assert len(await mine("history", "user", "n")) == 1


async def test_events_are_a_timeline_and_never_change(store: Face) -> None:
    mine = minds(store)
    moved = Event("moved to Oslo", at=day(3, 4))
    for event in (moved, Event("got a dog", at=day(1, 2)), moved):
        await mine("remember", event)
    await mine("remember", Event("holiday", at=day(2), valid_to=day(3, 2)))
    year = await mine("timeline", day(1), day(12))
    assert [known.value for known in year] == ["got a dog", "holiday", "moved to Oslo"]
    march = await mine("timeline", day(3), day(4))
    assert [known.value for known in march] == ["holiday", "moved to Oslo"]
    with pytest.raises(InvalidArgument, match="never changes"):
        await mine("remember", Event("moved to Rome", at=day(3, 4), id=moved.id))
    await mine("retract", moved, reason="stayed")
    assert [known.value for known in await mine("timeline", day(3, 3), day(4))] == []
    with pytest.raises(InvalidArgument, match="must be before"):
        await mine("timeline", day(3), day(3))


async def test_turns_are_kept_word_for_word_once(store: Face) -> None:
    mine = minds(store)
    messages = [
        SystemMessage("be nice", id="s"),
        HumanMessage("I keep bees", id="a", additional_kwargs={"timestamp": "2026-03-02T10:00Z"}),
        AIMessage("How many?", id="b"),
        ToolMessage("12", tool_call_id="c1", id="c", name="count"),
    ]
    first = await mine("remember_turns", messages, thread="t/1")
    assert [(known.memory.position, known.memory.by) for known in first] == [
        (0, "user"),
        (1, "assistant"),
        (2, "tool count"),
    ]
    assert first[0].valid_from == datetime.fromisoformat("2026-03-02T10:00Z")
    later = [*messages[2:], HumanMessage("Twelve hives", id="d")]
    again = await mine("remember_turns", later, thread="t/1")
    assert [known.memory.position for known in again] == [1, 2, 3]
    edited = await mine("remember_turns", [HumanMessage("I keep goats", id="a")], thread="t/1")
    assert edited[0].id != first[0].id
    assert len(await mine("current", types=Conversation)) == 5
    other = await mine("remember_turns", [HumanMessage("I keep bees", id="a")], thread="t/2")
    assert other[0].id != first[0].id


async def test_a_reflection_rests_on_evidence_and_fades(store: Face) -> None:
    wrist = Wrist()
    mine = minds(store, clock=wrist)
    ids = [(await mine("remember", Event(f"run {n}", at=day(n)))).id for n in (1, 2, 3)]
    known = await mine("remember", Reflection("likes running", ids[:2]))
    assert known.weight == pytest.approx(1, abs=1e-4)
    wrist.now += timedelta(days=90)
    assert (await mine("get", known)).weight == pytest.approx(0.5, abs=1e-4)
    await mine("confirm", known, source=T1)
    assert (await mine("get", known)).weight == pytest.approx(1, abs=1e-4)
    wrist.now += timedelta(days=180)
    await mine("confirm", known, source=T1)  # the same message is no new sight of it
    assert (await mine("get", known)).weight == pytest.approx(0.25, abs=1e-4)
    more = await mine("remember", Reflection("likes running", ids[2:]))
    assert (more.memory.evidence, more.version) == (tuple(ids), 2)
    await mine("retract", ids[0], reason="walked")
    await mine("forget", ids[1])
    assert await mine("get", known) is not None
    await mine("forget", ids[2])
    assert await mine("get", known) is None
    assert (await mine("recall", "running")).memories == ()
    with pytest.raises(InvalidArgument, match="nothing is remembered as 'event:no'"):
        await mine("remember", Reflection("x", ["event:no"]))
    with pytest.raises(ValueError, match="evidence"):
        Reflection("x", [])


async def test_a_skill_counts_its_outcomes_version_by_version(store: Face) -> None:
    mine = minds(store)
    await mine("remember", Skill("Deploy app", when="releasing", steps=("test", "push")))
    await mine("outcome", "skill:deploy_app", True)
    failed = await mine("outcome", "skill:deploy_app", False, note="disk full")
    assert (failed.worked, failed.failed, failed.note) == (1, 1, "disk full")
    new = await mine("remember", Skill("deploy app", when="releasing", steps=("clean", "push")))
    assert (new.version, new.worked, new.failed) == (2, 0, 0)
    await mine("outcome", new, True, version=1)
    assert [(each.version, each.worked) for each in await mine("history", new.id)] == [
        (2, 0),
        (1, 2),
    ]
    assert (await mine("skill", "deploy-app")).memory.steps == ("clean", "push")
    with pytest.raises(InvalidArgument, match="has versions 1 to 2"):
        await mine("outcome", new, True, version=3)


class Allergy(Memory):
    type = "allergy"
    identity = ("substance",)

    substance: str
    severity: str = "mild"

    def line(self) -> str:
        return f"allergic to {self.substance} ({self.severity})"


class Preference(Fact):
    strength: int = 1


async def test_own_types_and_own_fields_are_kept_like_the_six(store: Face) -> None:
    wrist = Wrist()
    plain = minds(store, clock=wrist)
    await plain("remember", Fact("user", "tea", "green"))
    mine = minds(store, types=[Allergy, Preference], clock=wrist)
    await mine("remember", Allergy(substance="nuts"))
    await mine("remember", Allergy(substance="nuts", severity="severe"))
    known = await mine("get", "allergy:nuts")
    assert (known.memory, known.version) == (
        Allergy(substance="nuts", severity="severe", valid_from=known.valid_from),
        2,
    )
    assert (await mine("fact", "user", "tea")).memory.strength == 1
    await mine("remember", Preference("user", "coffee", "black", strength=5))
    assert (await mine("fact", "user", "coffee")).memory.strength == 5
    assert [each.id for each in (await mine("recall", "nuts")).memories] == ["allergy:nuts"]
    # Who doesn't know a type, or a field, reads the rest.
    assert [each.id for each in await plain("current")] == ["fact:user/coffee", "fact:user/tea"]
    with pytest.raises(InvalidArgument, match="Allergy is no type that is known here"):
        await plain("remember", Allergy(substance="nuts"))


async def test_memories_are_items_of_the_store_and_leave_others_alone(store: Face) -> None:
    mine = minds(store)
    await store("put", (*U1, "fact"), "note", {"text": "not ours", "kind": "x"})
    await mine("remember", Fact("user", "pet", "cat", tags=("home",), consent="kept"))
    item = await store("get", (*U1, "fact"), "user/pet")
    assert item.value["text"] == "user pet: cat"
    assert item.value["current"] == {"value": "cat"}
    assert [each.id for each in await mine("current")] == ["fact:user/pet"]
    assert (await mine("recall", "not ours")).memories == ()
    await store("put", (*U1, "fact"), "user/car", {"text": "not ours"})
    with pytest.raises(InvalidArgument, match="is no memory, but has the place of"):
        await mine("remember", Fact("user", "car", "red"))
    assert await store("history", (*U1, "fact"), "user/pet") != []


async def test_an_export_holds_all_that_was_said_and_can_be_read_back(
    store: Face, database: Database
) -> None:
    mine = minds(store)
    await mine("remember", Fact("user", "city", "Oslo", valid_from=day(1)), source=T1)
    await mine("remember", Fact("user", "city", "Rome", valid_from=day(2)), source=T2)
    await mine("remember", Background("name", "Ann"))
    before = [await mine("history", "user", "city"), await mine("current")]
    lines = await mine("export")
    assert [json.loads(line)["namespace"][:2] for line in lines] == [[*U1], [*U1]]
    assert await mine("forget_everything") == {"background": 1, "fact": 1}
    assert await mine("history", "user", "city") == []
    assert await store("import_", lines) == 2
    after = [await mine("history", "user", "city"), await mine("current")]
    assert before == after


async def test_forgetting_deletes_what_was_said(store: Face) -> None:
    mine = minds(store)
    known = await mine("remember", Fact("user", "city", "Oslo"))
    await mine("remember", Fact("user", "pet", "cat"))
    assert await mine("forget", known, "fact:user/nothing") == 1
    assert await mine("history", known) == []
    assert await store("get", (*U1, "fact"), "user/city") is None
    with pytest.raises(InvalidArgument, match="forget_everything"):
        await mine("forget")


async def test_memories_of_a_type_live_as_long_as_is_said(store: Face, clock: Clock) -> None:
    mine = minds(store, ttl={Conversation: timedelta(hours=1), "event": timedelta(days=2)})
    await mine("remember_turns", [HumanMessage("hello", id="a")], thread="t")
    await mine("remember", Event("met", at=day(1)))
    await mine("remember", Fact("user", "pet", "cat"))
    clock.advance(hours=2)
    assert [each.memory.type for each in await mine("current")] == ["fact", "event"]
    clock.advance(days=3)
    assert [each.memory.type for each in await mine("current")] == ["fact"]


async def test_a_clock_that_lags_behind_loses_no_order(store: Face) -> None:
    ahead = minds(store, clock=lambda: START)
    behind = minds(store, clock=lambda: START - timedelta(hours=1))
    await ahead("remember", Fact("user", "city", "Oslo"))
    await behind("remember", Fact("user", "city", "Rome"))
    assert [known.value for known in await ahead("history", "user", "city")] == ["Rome", "Oslo"]


async def test_an_unknown_memory_is_an_error_that_names_it(store: Face) -> None:
    mine = minds(store)
    assert await mine("fact", "user", "city") is None
    assert await mine("history", "fact:user/city") == []
    for call in ("confirm", "end"):
        with pytest.raises(InvalidArgument, match="Nothing is remembered as 'fact:user/city'"):
            await mine(call, "fact:user/city")
    for wrong in ("city", "fact:", "fax:user/city", ""):
        with pytest.raises(InvalidArgument, match="is no id of a memory"):
            await mine("get", wrong)


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_bad_arguments_are_refused_before_anything_is_written(store: Face) -> None:
    mine = minds(store)
    wrong: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
        ("remember", ("text",), {}, "is no memory"),
        ("remember", (Fact(" ", "b", 1),), {}, "subject is empty"),
        ("recall", ("x",), {"limit": 0}, "limit=0"),
        ("recall", ("x",), {"max_tokens": -1}, "max_tokens=-1"),
        ("recall", (7,), {}, "query=7"),
        ("recall", ("x",), {"types": ["fax"]}, "'fax' is unknown"),
        ("recall", ("x",), {"types": []}, "types is empty"),
        ("as_of", (datetime(2026, 1, 1),), {}, "time zone"),
        ("history", (Fact("a", "b", 1), "c"), {}, "give a subject's name"),
        (
            "remember",
            (Fact("a", "b", 1, valid_from=day(2), valid_to=day(1)),),
            {},
            "is not after valid_from",
        ),
    ]
    for method, arguments, keywords, message in wrong:
        with pytest.raises(InvalidArgument, match=message):
            await mine(method, *arguments, **keywords)
    assert await mine("current") == []
    with pytest.raises(InvalidArgument, match="InMemoryStore can't keep memories"):
        Memories(InMemoryStore(), U1)
    with pytest.raises(InvalidArgument, match="conflicts='newest'"):
        minds(store, conflicts="newest")
    with pytest.raises(InvalidArgument, match="label"):
        minds(store, ("users", "a.b"))
    with pytest.raises(InvalidArgument, match="above 0"):
        minds(store, ttl={"fact": timedelta(0)})
