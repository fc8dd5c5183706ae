"""Old elements of long lists are sealed into blocks, and nobody who reads can tell."""

import random
from typing import Any

import pytest
from conftest import Database, Face
from elements import elements_of
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from threads import Thread, place, values_of

from langgraph_sessionmem.checkpoint import runs
from langgraph_sessionmem.checkpoint.compression import BLOCK, seal, unseal
from langgraph_sessionmem.checkpoint.getting import by_place
from langgraph_sessionmem.checkpoint.runs import Layout, Tip, chunks_to_seal, places_of
from langgraph_sessionmem.errors import CorruptData
from langgraph_sessionmem.rows import Element


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four elements to a block, so that short lists have many."""
    monkeypatch.setattr(runs, "SEALED", 4)


def blocks_of(saver: Any, thread_id: str = "t") -> list[Element]:
    """The sealed blocks of a thread."""
    return [found for found in elements_of(saver, thread_id) if found.body[:1] == BLOCK]


def element(kind: str, number: int) -> Any:
    text = f"what element {number} says, and says again, " * 3
    made: dict[str, Any] = {
        "message": AIMessage(text, id=str(number)) if number % 2 else HumanMessage(text),
        "dict": {"n": number, "text": text, "deep": {"list": [None, 1.5, number]}},
        "document": Document(text, metadata={"source": number}),
        "text": text,
    }
    return made[kind]


@pytest.mark.parametrize("kind", ["message", "dict"])
async def test_a_long_list_is_sealed_as_it_grows_and_reads_the_same(
    saver: Face, database: Database, kind: str
) -> None:
    thread, configs, elements = Thread(saver), [], []
    for step in range(14):
        elements = [*elements, *(element(kind, 16 * step + i) for i in range(16))]
        configs.append(await thread.put({"list": elements}))
    blocks = blocks_of(saver.target)
    assert sorted(block.position for block in blocks) == [63, 127]
    assert sum(len(block.body) for block in blocks) < 64 * len(str(elements[0]))
    other = Face(database.open_saver(), saver.is_async)
    for reader in (saver, other):
        for step in (0, 3, 4, 8, 13):
            expected = {"list": elements[: 16 * (step + 1)]}
            assert await values_of(reader, configs[step]) == expected
    found = await other("list", place())
    assert [len(each.checkpoint["channel_values"]["list"]) for each in found] == [
        16 * (14 - step) for step in range(14)
    ]


async def test_a_long_list_that_is_put_at_once_is_sealed_too(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    elements = [element("dict", i) for i in range(300)]
    await thread.put({"list": elements})
    await thread.put({"list": [*elements, {"last": "one"}]})
    assert sorted(block.position for block in blocks_of(saver.target)) == [63, 127, 191]
    other = Face(database.open_saver(), saver.is_async)
    assert await values_of(other, place()) == {"list": [*elements, {"last": "one"}]}


@pytest.mark.usefixtures("small_blocks")
async def test_what_the_list_does_not_name_or_compression_does_not_help_is_not_sealed(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    elements = [element("text", i) for i in range(6)]
    await thread.put({"list": elements})
    await thread.put({"list": elements[:1] + elements[2:]})
    for number in range(6, 20):
        elements.append(element("text", number))
        await thread.put({"list": elements[:1] + elements[2:]})
    first_sealed = min(unseal(block.body)[0] for block in blocks_of(saver.target))
    assert first_sealed == 4
    other = Thread(saver, "noise")
    noise = random.Random(1)
    await other.put({"list": [noise.randbytes(200) for _ in range(20)]})
    assert blocks_of(saver.target, "noise") == []


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", [1, 2])
async def test_any_history_with_forks_and_time_travel_reads_like_a_plain_list(
    saver: Face, database: Database, seed: int
) -> None:
    choose = random.Random(seed)
    faces = [saver, Face(database.open_saver(reuse_objects=True, compress=100), saver.is_async)]
    model: list[tuple[Any, list[Any]]] = []
    number = 0
    for _ in range(25):
        face = choose.choice(faces)
        thread = Thread(face)
        if model:
            config, expected = choose.choice(model[-3:] if choose.random() < 0.7 else model)
            assert await thread.load(config) == {"list": expected}
        elements = list(thread.values.get("list", []))
        for _ in range(choose.choice([1, 1, 2])):
            action = choose.choice(["append", "append", "append", "edit", "remove", "move"])
            if action == "append" or not elements:
                count = choose.choice([1, 2, 5, 11])
                kinds = choose.choices(["message", "dict", "text"], k=count)
                elements += [element(kind, number + i) for i, kind in enumerate(kinds)]
                number += count
            elif action == "edit":
                elements[choose.randrange(len(elements))] = element("dict", number)
                number += 1
            elif action == "remove":
                del elements[choose.randrange(len(elements))]
            else:
                elements.insert(0, elements.pop(choose.randrange(len(elements))))
        model.append((await thread.put({"list": elements}), list(elements)))
    assert blocks_of(saver.target)
    fresh = Face(database.open_saver(), saver.is_async)
    for reader in (choose.choice(faces), fresh):
        for config, expected in model:
            assert await values_of(reader, config) == {"list": expected}
    listed = {
        found.config["configurable"]["checkpoint_id"]: found.checkpoint["channel_values"]["list"]
        for found in await fresh("list", place())
    }
    assert listed == {
        config["configurable"]["checkpoint_id"]: expected for config, expected in model
    }


@pytest.mark.usefixtures("small_blocks")
async def test_a_fork_below_sealed_elements_goes_on_in_a_log_of_its_own(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    elements = [element("text", i) for i in range(6)]
    early = await thread.put({"list": elements})
    for number in range(6, 30):
        elements.append(element("text", number))
        await thread.put({"list": elements})
    assert blocks_of(saver.target)
    other = Thread(Face(database.open_saver(), saver.is_async))
    assert await other.load(early) == {"list": elements[:6]}
    forked = await other.put({"list": [*elements[:6], element("text", 99)]})
    assert await values_of(saver, forked) == {"list": [*elements[:6], element("text", 99)]}
    latest = Face(database.open_saver(), saver.is_async)
    assert await values_of(latest, thread.config) == {"list": elements}


async def test_what_a_serializer_of_the_users_own_wrote_stays_by_itself(saver: Face) -> None:
    class Marked:
        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            return "own", repr(value).encode()

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return data[1].decode()

    saver.target._state = saver.target._state._replace(custom_serde=True)
    saver.target._state.codec._serde = Marked()
    thread = Thread(saver)
    await thread.put({"list": [f"{i} " * 40 for i in range(200)]})
    assert blocks_of(saver.target) == []


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 80)), max_size=120, unique=True),
    st.integers(0, 100),
    st.integers(0, 3),
)
def test_only_stretches_that_a_list_names_whole_may_be_sealed(
    places: list[tuple[int, int]], start: int, before_log: int
) -> None:
    end = max([position + 1 for log, position in places if log == 1] + [start])
    layout = Layout(runs.runs_of(places), Tip(1, end))
    before = Layout((), Tip(before_log, start)) if before_log else None
    named = places_of(layout.runs)
    for chunk, indexes in chunks_to_seal(layout, before):
        assert chunk.log == 1
        assert chunk.end - chunk.start == runs.SEALED
        assert chunk.start % runs.SEALED == 0
        # The last complete stretch stays as it is, so a reader of the end has no block to open.
        assert chunk.end <= end - runs.SEALED
        assert [named[index] for index in indexes] == places_of([chunk])


def test_a_block_that_is_damaged_or_moved_is_refused() -> None:
    block = seal(8, [b"\x01\xc0", b"\x01\xc3"])
    assert by_place([Element(5, 9, block)]) == {(5, 8): b"\x01\xc0", (5, 9): b"\x01\xc3"}
    for bad in (block[:-1], block[:12], block[:1], block + b"x", block[:13] + b"\x00" * 9):
        with pytest.raises(CorruptData):
            by_place([Element(5, 9, bad)])
    with pytest.raises(CorruptData, match="holds 2 elements from 8"):
        by_place([Element(5, 10, block)])
