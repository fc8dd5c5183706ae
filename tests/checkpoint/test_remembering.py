"""What a saver remembers: reads need no elements again, and never show what was not stored."""

from typing import Any

import pytest
from conftest import Database, Face
from langchain_core.messages import AIMessage, HumanMessage
from threads import Thread, place, values_of

from langgraph_sessionmem.checkpoint import remembered


@pytest.fixture(params=[False, True], ids=["", "reuse"])
def own(request: pytest.FixtureRequest, database: Database, face_name: str) -> Face:
    return Face(database.open_saver(reuse_objects=request.param), face_name == "async")


def reuses(saver: Face) -> bool:
    reuse: bool = saver.target._state.options.reuses_objects
    return reuse


class Counting:
    """Records that count how often each primitive is called."""

    def __init__(self, records: Any, counts: dict[str, int]) -> None:
        self._records, self._counts = records, counts

    def __getattr__(self, name: str) -> Any:
        self._counts[name] = self._counts.get(name, 0) + 1
        return getattr(self._records, name)


class CountingBackend:
    """A backend whose records count."""

    def __init__(self, backend: Any, counts: dict[str, int]) -> None:
        self._backend, self._counts = backend, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def run(self, call: Any) -> Any:
        return self._backend.run(lambda records: call(Counting(records, self._counts)))

    async def arun(self, call: Any) -> Any:
        return await self._backend.arun(lambda records: call(Counting(records, self._counts)))


def count_calls(saver: Face) -> dict[str, int]:
    """How often each primitive is called from now on."""
    counts: dict[str, int] = {}
    saver.target.backend = CountingBackend(saver.target.backend, counts)
    return counts


def messages(count: int) -> list[Any]:
    return [
        AIMessage(f"answer {n} " * 9, id=f"{n}", response_metadata={"n": [n]})
        if n % 2
        else HumanMessage(f"question {n} " * 9, id=f"{n}")
        for n in range(count)
    ]


VALUES = {"plain": {"text": "x" * 300}, "dicts": [{"n": n, "text": "y" * 60} for n in range(9)]}


async def test_what_was_just_put_or_read_is_read_without_its_elements(
    own: Face, database: Database
) -> None:
    thread = Thread(own)
    await thread.put({**VALUES, "messages": messages(40)})
    other = Face(database.open_saver(), own.is_async)
    expected = await values_of(other, place())
    counts = count_calls(own)
    assert await values_of(own, place()) == expected
    await thread.put({"messages": messages(42)})
    assert await values_of(own, place()) == expected | {"messages": messages(42)}
    assert counts == {"read_checkpoint": 2, "save_checkpoint": 1}
    await Thread(other).load()
    counts = count_calls(other)
    assert await values_of(other, place()) == expected | {"messages": messages(42)}
    assert counts == {"read_checkpoint": 1}


async def test_a_turn_needs_one_round_trip_for_each_call(own: Face) -> None:
    thread = Thread(own)
    await thread.put({"messages": messages(4)})
    counts = count_calls(own)
    for n in range(5, 8):
        await thread.load()
        await thread.write([("messages", messages(n)[-1:])])
        await thread.put({"messages": messages(n)})
    assert counts == {"read_checkpoint": 3, "save_writes": 3, "save_checkpoint": 3}


async def test_what_is_changed_after_it_was_put_or_read_never_shows(own: Face) -> None:
    thread = Thread(own)
    given = messages(70)
    dicts = [{"n": [n], "text": "y" * 60} for n in range(9)]
    await thread.put({"messages": given, "dicts": dicts, "plain": {"a": [1], "b": "x" * 200}})
    expected = {
        "messages": messages(70),
        "dicts": [{"n": [n], "text": "y" * 60} for n in range(9)],
        "plain": {"a": [1], "b": "x" * 200},
    }
    given[1].response_metadata["n"].append("changed")
    given[69].content = "changed"
    given.append("more")
    dicts[3]["n"][0] = "changed"
    for _ in range(2):
        found = await values_of(own, place())
        assert found == expected
        found["messages"][1].response_metadata["n"].append("changed")
        found["messages"][2].additional_kwargs["odd"] = object()
        found["messages"][3].content = object()
        found["messages"].reverse()
        found["dicts"][0]["n"] = (1,)
        found["dicts"].clear()
        found["plain"]["a"].append(2)


async def test_only_a_saver_that_reuses_objects_hands_out_the_same_ones(own: Face) -> None:
    thread = Thread(own)
    given = messages(40)
    await thread.put({"messages": given})
    one = (await values_of(own, place()))["messages"]
    two = (await values_of(own, place()))["messages"]
    assert one == two == given
    assert one is not two
    assert all((left is right) == reuses(own) for left, right in zip(one, two, strict=True))
    assert all((left is right) == reuses(own) for left, right in zip(one, given, strict=True))
    one[5].content = "changed"
    three = (await values_of(own, place()))["messages"]
    assert three == messages(40)
    assert [left is right for left, right in zip(two, three, strict=True)] == [
        reuses(own) and n != 5 for n in range(40)
    ]


async def test_what_others_did_to_a_thread_is_seen_at_once(own: Face, database: Database) -> None:
    thread = Thread(own)
    await thread.put({"messages": messages(40)})
    other = Thread(Face(database.open_saver(), own.is_async))
    await other.load()
    await other.put({"messages": messages(41)})
    assert (await values_of(own, place()))["messages"] == messages(41)
    await other.saver("delete_thread", "t")
    assert await values_of(own, place()) is None
    again = await Thread(other.saver).put({"messages": ["new" * 90]}, checkpoint_id="1")
    assert await values_of(own, again) == {"messages": ["new" * 90]}


async def test_another_life_of_a_thread_is_not_taken_for_the_first(
    own: Face, database: Database
) -> None:
    other = Face(database.open_saver(), own.is_async)
    config = await Thread(own).put({"list": ["first" * 50]}, checkpoint_id="1")
    await other("delete_thread", "t")
    assert await Thread(other).put({"list": ["second" * 50]}, checkpoint_id="1") == config
    assert await values_of(own, config) == {"list": ["second" * 50]}


async def test_what_is_remembered_is_bounded(
    own: Face, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    monkeypatch.setattr(remembered, "KNOWN_BYTES", 100_000)
    reuse = reuses(own)
    saver = Face(database.open_saver(reuse_objects=reuse), own.is_async)
    for n in range(30):
        await Thread(saver, f"t{n}").put({"messages": messages(40)})
    known = saver.target._state.known
    assert 0 < len(known._entries) < 20
    assert known._cost <= 100_000
    for n in range(30):
        assert await values_of(saver, place(f"t{n}")) == {"messages": messages(40)}


async def test_a_value_of_many_bytes_is_remembered_by_its_digest(
    own: Face,
) -> None:
    thread = Thread(own)
    big = {"text": "z" * 2_000_000}
    await thread.put({"big": big, "n": 0})
    counts = count_calls(own)
    await thread.put({"big": {"text": "z" * 2_000_000}, "n": 1})
    assert counts == {"save_checkpoint": 1}
    assert await values_of(own, place()) == {"big": big, "n": 1}
    assert counts["read_elements"] == 1
    assert max(map(len, own.target._state.known._entries)) < 1_000
