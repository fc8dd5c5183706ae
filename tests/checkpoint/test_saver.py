"""What `put`, `get_tuple` and `put_writes` give back, on every backend in both faces."""

import asyncio
import math
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from conftest import Database, Face
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, SCHEDULED
from langgraph.types import Interrupt, Send
from threads import Thread, new_checkpoint, next_id, place, remains, stored, values_of

from langgraph_sessionmem.errors import InvalidArgument, SessionMemoryError, ValueNotStorable

CALL = {"name": "find", "args": {"order": 7}, "id": "c1", "type": "tool_call"}
MESSAGES = [
    SystemMessage("be kind", id="s"),
    HumanMessage([{"type": "text", "text": "hi"}], id="h", name="Ann"),
    AIMessage("", id="a", tool_calls=[CALL], response_metadata={"model": "m"}),
    ToolMessage("7", tool_call_id="c1", id="t", artifact={"rows": [1, 2]}),
]
HOSTILE = [
    "x\x00y",
    "\U0001f600",
    math.inf,
    -0.0,
    2**63,
    -(2**63),
    2**70,
    "x\ud800",
    {"\udfff": ["\ud800", -(2**64)]},
    "",
    b"",
    b"\x00\xff",
    None,
    [],
    {},
]
MARKERS = [
    {"__interrupt__": True, "value": 1},
    {"__send__": "node", "arg": 1},
    {"__bytes__": "AAAA"},
    {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
    {"__pydantic__": ["os", "system"], "$type": "builtins.eval", "": None},
    {"type": "human", "content": "x"},
]


async def test_a_checkpoint_comes_back_as_it_was_put(saver: Face) -> None:
    values = {"messages": MESSAGES, "step": 3, "profile": {"name": "Ann"}, "sum": "x" * 500}
    versions = dict.fromkeys(values, "00000000000000000000000000000001.5")
    checkpoint = new_checkpoint(next_id(), values, versions)
    metadata: Any = {"source": "input", "step": -1, "parents": {}, "run_id": "r1"}
    config = await saver("put", place(more=1), checkpoint, metadata, versions)
    found = await saver("get_tuple", config)
    assert found.config == config == place("t", "", checkpoint["id"])
    assert found.checkpoint == checkpoint
    assert found.metadata == metadata | {"more": 1}
    assert found.parent_config is None
    assert found.pending_writes == []
    assert await saver("get_tuple", place()) == found
    assert await saver("list", place()) == [found]


async def test_channels_of_other_nodes_stay_though_they_are_not_stored_again(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"a": "A" * 200, "b": 1, "messages": MESSAGES})
    await thread.put({"b": 2})
    await thread.put({"messages": [*MESSAGES, HumanMessage("more", id="m")]})
    found = await values_of(saver, place())
    assert found == {"a": "A" * 200, "b": 2, "messages": thread.values["messages"]}


async def test_any_value_comes_back_exactly(saver: Face) -> None:
    thread = Thread(saver)
    values = {f"c{i}": value for i, value in enumerate(HOSTILE + MARKERS)}
    await thread.put({**values, "list": HOSTILE + MARKERS, "nan": math.nan})
    found = await thread.load()
    assert found is not None
    assert math.isnan(found.pop("nan"))
    assert found.pop("list") == HOSTILE + MARKERS
    assert found == values
    assert math.copysign(1, found["c3"]) == -1


async def test_python_types_come_back_as_themselves(saver: Face) -> None:
    values = {
        "tuple in a list": [(1, 2), [1, 2]],
        "set": {1, 2},
        "date": date(2026, 1, 2),
        "time": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "delta": timedelta(days=1, microseconds=1),
        "uuid": uuid.UUID(int=7),
        "decimal": Decimal("1.10"),
        "send": [Send("node", {"x": 1})],
        "interrupt": Interrupt("why?", id="i"),
        "keys": {1: "a", "b": {2: "c"}},
    }
    theirs = InMemorySaver().serde
    thread = Thread(saver)
    await thread.put(values)
    found = await thread.load()
    assert found == {
        name: theirs.loads_typed(theirs.dumps_typed(value)) for name, value in values.items()
    }


async def test_a_channel_without_a_value_is_absent(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"a": 1, "gone": "G" * 200, "none": None})
    thread.values.pop("gone")
    thread.versions["gone"] = saver.target.get_next_version(thread.versions["gone"], None)
    await thread.put({"a": 2})
    assert await values_of(saver, place()) == {"a": 2, "none": None}


async def test_a_retried_put_is_the_same_put(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"messages": MESSAGES[:2]})
    parent = thread.config
    versions = {"messages": "5", "big": "5"}
    values = {"messages": MESSAGES, "big": "B" * 300}
    call = (parent, new_checkpoint(next_id(), values, versions), {"step": 1}, versions)
    first = await saver("put", *call)
    before = await saver("get_tuple", first)
    assert await saver("put", *call) == first
    assert await saver("get_tuple", first) == before
    assert len(await saver("list", place())) == 2


async def test_what_is_changed_after_the_call_is_not_stored(database: Database) -> None:
    saver = database.open_saver()
    values = {"messages": [HumanMessage("first", id="h")], "plain": {"a": [1]}}
    versions = {"messages": "1", "plain": "1"}
    checkpoint, metadata = new_checkpoint(next_id(), values, versions), {"tags": ["x"]}
    storing = asyncio.create_task(saver.aput(place(), checkpoint, metadata, versions))
    await asyncio.sleep(0)
    values["messages"][0].content = "changed"
    values["messages"].append(HumanMessage("more"))
    values["plain"]["a"].append(2)
    metadata["tags"].append("y")
    config = await storing
    write = [("plain", values["plain"])]
    writing = asyncio.create_task(saver.aput_writes(config, write, "task"))
    await asyncio.sleep(0)
    values["plain"]["a"].append(3)
    await writing
    found = await saver.aget_tuple(config)
    assert found.checkpoint["channel_values"] == {
        "messages": [HumanMessage("first", id="h")],
        "plain": {"a": [1]},
    }
    assert found.metadata["tags"] == ["x"]
    assert found.pending_writes == [("task", "plain", {"a": [1, 2]})]


async def test_a_message_changed_in_place_is_stored_with_the_next_version(saver: Face) -> None:
    thread = Thread(saver)
    messages = [HumanMessage("one", id="1"), AIMessage("two", id="2"), HumanMessage("3", id="3")]
    await thread.put({"messages": messages})
    old = thread.config
    messages[1].additional_kwargs["note"] = "changed"
    await thread.put({"messages": messages})
    assert (await values_of(saver, place()))["messages"] == messages
    assert (await values_of(saver, old))["messages"][1] == AIMessage("two", id="2")


async def test_what_is_given_out_is_the_callers_own(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"messages": list(MESSAGES), "d": {"x": [1]}})
    first = await values_of(saver, place())
    first["messages"][0].content = "spoilt"
    first["messages"].clear()
    first["d"]["x"].append(2)
    assert await values_of(saver, place()) == {"messages": MESSAGES, "d": {"x": [1]}}


async def test_metadata_holds_the_scalars_of_the_config_and_no_more(saver: Face) -> None:
    config: Any = place(user_id="u\x00", n=1, session_ttl=5, __secret="s", many=[1])
    config["metadata"] = {"step": "hidden", "extra": True, "none": None}
    metadata = {"source": "loop", "step": 4, "nested": {"text": "a\x00b"}, "n": 2}
    saved = await saver("put", config, new_checkpoint(next_id(), {}, {}), metadata, {})
    found = await saver("get_tuple", saved)
    assert found.metadata == {**metadata, "user_id": "u\x00", "extra": True}


@pytest.mark.parametrize("thread_id", [7, uuid.UUID(int=7), "1.0"])
async def test_thread_ids_need_not_be_text(saver: Face, thread_id: Any) -> None:
    config = {"configurable": {"thread_id": thread_id}}
    saved = await saver("put", config, new_checkpoint(next_id(), {"a": 1}, {"a": 1}), {}, {"a": 1})
    assert saved["configurable"]["checkpoint_ns"] == ""
    assert await values_of(saver, config) == {"a": 1}
    assert len(await saver("list", config)) == 1
    assert await saver("set_ttl", thread_id, None)
    await saver("delete_thread", thread_id)
    assert await values_of(saver, config) is None


async def test_versions_go_on_as_they_began(saver: Face) -> None:
    next_version = saver.target.get_next_version
    assert next_version(3, None) == 4
    assert next_version(1.5, None) == 2.5
    first = next_version(None, None)
    versions = [first]
    for _ in range(12):
        versions.append(next_version(versions[-1], None))
    assert versions == sorted(versions)
    assert next_version(first, None) != next_version(first, None)
    theirs = InMemorySaver()
    assert theirs.get_next_version(first, None) > first
    last = theirs.get_next_version(versions[-1], None)
    assert next_version(last, None) > last


# Pending writes


async def test_writes_are_in_the_order_of_their_task_paths(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"a": 1})
    await thread.write([("a", "B"), ("b", "C")], "1", "~b")
    await thread.write([("a", "A")], "2", "~a")
    await thread.write([("c", "D")], "0", "~b")
    found = await saver("get_tuple", place())
    expected = [("2", "a", "A"), ("0", "c", "D"), ("1", "a", "B"), ("1", "b", "C")]
    assert found.pending_writes == expected
    [listed] = await saver("list", place())
    assert listed.pending_writes == expected


async def test_regular_writes_stay_and_special_ones_are_replaced_each_for_itself(
    saver: Face,
) -> None:
    thread = Thread(saver)
    await thread.put({"a": 1})
    await thread.write([(INTERRUPT, "first"), ("ch", 1), (RESUME, "r1"), ("d", None)])
    await thread.write([(INTERRUPT, "second"), ("ch", 2), (ERROR, "e"), (SCHEDULED, "s"), ("x", 0)])
    found = await saver("get_tuple", place())
    written = {channel: value for _, channel, value in found.pending_writes}
    assert written == {
        **{INTERRUPT: "second", "ch": 1, RESUME: "r1", "d": None},
        **{ERROR: "e", SCHEDULED: "s", "x": 0},
    }
    assert set(WRITES_IDX_MAP) == {ERROR, SCHEDULED, INTERRUPT, RESUME}


async def test_writes_may_come_before_their_checkpoint_and_are_not_hidden_by_it(
    saver: Face,
) -> None:
    thread = Thread(saver)
    await thread.put({"a": 1})
    coming = next_id()
    await saver("put_writes", place("t", "", coming), [("a", 5), (INTERRUPT, "i")], "task", "~p")
    assert await saver("get_tuple", place("t", "", coming)) is None
    assert len(await saver("list", place())) == 1
    await thread.put({"a": 2}, checkpoint_id=coming)
    found = await saver("get_tuple", place())
    assert found.pending_writes == [("task", INTERRUPT, "i"), ("task", "a", 5)]


async def test_the_first_checkpoint_keeps_the_writes_that_came_before_it(
    saver: Face, database: Database
) -> None:
    coming = next_id()
    await saver("put_writes", place("t", "", coming), [("a", 5)], "task")
    assert await saver("get_tuple", place()) is None
    assert await saver("list", None) == []
    assert await saver("threads") == []
    thread = Thread(saver)
    await thread.put({"a": 1}, checkpoint_id=coming)
    found = await saver("get_tuple", place())
    assert found.pending_writes == [("task", "a", 5)]
    database.advance(timedelta(minutes=11))
    await saver("sweep")
    assert (await saver("get_tuple", place())).pending_writes == found.pending_writes
    assert stored(database, saver.target).get("early_writes", 0) == 0


async def test_repeated_writes_are_stored_once(saver: Face, database: Database) -> None:
    thread = Thread(saver)
    await thread.put({"a": 1})
    await thread.write([("a", 1), ("a", 2)])
    once = stored(database, saver.target)
    await thread.write([("a", 1), ("a", 2)])
    assert stored(database, saver.target) == once
    found = await saver("get_tuple", place())
    assert found.pending_writes == [("task", "a", 1), ("task", "a", 2)]


# Bad input


async def test_bad_input_is_an_error_before_anything_is_written(
    saver: Face, database: Database
) -> None:
    checkpoint = new_checkpoint(next_id(), {"a": object()}, {"a": "1"})
    with pytest.raises(ValueNotStorable, match=r"^a: .*object"):
        await saver("put", place(), checkpoint, {}, {"a": "1"})
    listed = new_checkpoint(next_id(), {"a": [1, object()]}, {"a": "1"})
    with pytest.raises(ValueNotStorable, match=r"^a"):
        await saver("put", place(), listed, {}, {"a": "1"})
    good = new_checkpoint(next_id(), {"a": 1}, {"a": "1"})
    with pytest.raises(ValueNotStorable, match="metadata"):
        await saver("put", place(), good, {"x": object()}, {"a": "1"})
    for config in ({"configurable": {}}, {"configurable": {"thread_id": None}}, {}, place("")):
        with pytest.raises(InvalidArgument, match="thread"):
            await saver("put", config, good, {}, {"a": "1"})
        with pytest.raises(InvalidArgument, match="thread"):
            await saver("get_tuple", config)
    with pytest.raises(InvalidArgument, match="checkpoint_id"):
        await saver("put_writes", place(), [("a", 1)], "task")
    with pytest.raises(ValueNotStorable, match=r"^a"):
        await saver("put_writes", place("t", "", "1"), [("b", 1), ("a", object())], "task")
    with pytest.raises(InvalidArgument, match="surrogate"):
        await saver("put", place("\ud800"), good, {}, {"a": "1"})
    for bad in (-1, "soon", float("nan"), True):
        with pytest.raises(InvalidArgument, match=r"session_ttl|positive"):
            await saver("put", place(session_ttl=bad), good, {}, {"a": "1"})
    with pytest.raises(InvalidArgument, match="limit"):
        await saver("list", None, limit="5")
    with pytest.raises(InvalidArgument, match="filter"):
        await saver("list", None, filter=["step"])
    for nobody in (None, ""):
        with pytest.raises(InvalidArgument, match="thread"):
            await saver("delete_thread", nobody)
    assert await saver("list", None) == []
    assert remains(database, saver.target) == {}


async def test_the_previous_checkpoint_stays_usable_after_a_value_that_cannot_be_stored(
    saver: Face,
) -> None:
    thread = Thread(saver)
    await thread.put({"a": [1]})
    with pytest.raises(SessionMemoryError):
        await thread.put({"a": [1, object()]})
    assert await thread.load() == {"a": [1]}
    await thread.put({"a": [1, 2]})
    assert await values_of(saver, place()) == {"a": [1, 2]}


async def test_setup_may_be_awaited_or_not_and_be_called_again(saver: Face) -> None:
    saver.target.setup()
    await saver.target.setup()
    await saver.target.asetup()
    assert await saver("get_tuple", place()) is None
