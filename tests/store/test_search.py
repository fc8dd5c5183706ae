"""What a search finds: by filter, by words, and both; in which order, and in which pages."""

import itertools
from enum import StrEnum
from typing import Any

import pytest
from conftest import Database, Face
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import PutOp

from langgraph_sessionmem import LongTermStore
from langgraph_sessionmem.store import filters

NS = ("users", "u1")


async def put_texts(store: Face, *texts: str, namespace: tuple[str, ...] = NS) -> None:
    ops = [PutOp(namespace, f"{n:03}", {"text": text}) for n, text in enumerate(texts)]
    await store("batch", ops)


async def put_turns(store: Face, *texts: str, namespace: tuple[str, ...] = NS) -> None:
    """Turns of one thread, stored out of order."""
    ops = [
        PutOp(namespace, f"{n:03}", {"text": text, "position": n}, ["text"])
        for n, text in enumerate(texts)
    ]
    await store("batch", ops[::2])
    await store("batch", ops[1::2])


async def found(store: Face, query: str, *, namespace: tuple[str, ...] = NS, **asked: Any) -> Any:
    return [int(item.key) for item in await store("search", namespace, query=query, **asked)]


async def test_filters_reach_through_all_pages(store: Face) -> None:
    await store("batch", [PutOp(NS, f"{n}", {"n": n}, index=False) for n in range(450)])
    asked = {"n": {"$in": [3, 7, 440]}}
    assert [item.value["n"] for item in await store("search", NS, filter=asked)] == [440, 7, 3]
    odd = {"$not": {"n": {"$lt": 100}}}
    pages = [await store("search", NS, filter=odd, limit=60, offset=at) for at in range(0, 400, 60)]
    assert [item.value["n"] for item in itertools.chain(*pages)] == list(reversed(range(100, 450)))


async def test_a_filter_of_several_scalars_finds_what_has_all_of_them(store: Face) -> None:
    values = [{"a": a, "b": b, "d": {"b": b}} for a in (1, True, "1", 1.5) for b in ("x", "y")]
    await store("batch", [PutOp(NS, f"{n}", value) for n, value in enumerate(values)])
    for value in values:
        asked = {"a": value["a"], "b": value["b"], "d.b": value["b"]}
        assert [item.value for item in await store("search", NS, filter=asked)] == [value]
        assert await store("search", ("users", "u2"), filter=asked) == []


class Colour(StrEnum):
    RED = "red"


async def test_an_enum_is_found_as_the_text_it_equals(store: Face) -> None:
    await store("put", NS, "k", {"colour": Colour.RED})
    for wanted in ("red", Colour.RED):
        assert len(await store("search", NS, filter={"colour": wanted})) == 1
    assert len(await store("search", NS, query="red")) == 1


async def test_a_whole_page_may_be_a_query(store: Face) -> None:
    await put_texts(store, "tea", "rum")
    page = " ".join(f"word{n}" for n in range(1_000))
    assert await found(store, f"{page} tea {page}") == [0]


async def test_an_overwritten_value_is_not_found_by_what_it_was(store: Face) -> None:
    await store("put", NS, "k", {"colour": "red", "text": "tea"})
    await store("put", NS, "k", {"colour": "blue", "text": "rum"})
    assert await store("search", NS, filter={"colour": "red"}) == []
    assert await store("search", NS, query="tea") == []
    assert len(await store("search", NS, filter={"colour": "blue"}, query="rum")) == 1


@pytest.mark.parametrize("key", ["a') OR 1=1 --", '"', "т", "naïve", "with space", "a-1", "\x00"])
async def test_a_filter_key_may_be_any_text(store: Face, key: str) -> None:
    await store("put", NS, "has", {key: "v'\";--"})
    await store("put", NS, "not", {"other": 1})
    results = await store("search", NS, filter={key: "v'\";--"})
    assert [item.key for item in results] == ["has"]


FIELDS = st.sampled_from(["a", "b", "a.b"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2**53 + 1, "", "x", "1"])
VALUES = st.lists(
    st.dictionaries(
        FIELDS, SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(FIELDS, SCALARS)
    ),
    max_size=8,
)
CONDITIONS = SCALARS | st.one_of(
    st.dictionaries(st.sampled_from(["$eq", "$ne"]), SCALARS, min_size=1),
    st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=2), min_size=1),
    st.dictionaries(st.just("$exists"), st.booleans(), min_size=1),
)
PATHS = st.sampled_from(["a", "b", "a.b", r"a\.b", "a.a", "a.0"])
FILTERS = st.recursive(
    st.dictionaries(PATHS, CONDITIONS, max_size=3),
    lambda part: st.dictionaries(
        st.sampled_from(["$and", "$or"]), st.lists(part, min_size=1, max_size=2), max_size=1
    ),
    max_leaves=4,
)


@given(VALUES, FILTERS)
def test_the_database_agrees_with_the_filter(
    values: list[dict[str, Any]], asked: dict[str, Any]
) -> None:
    with LongTermStore() as store:
        store.batch([PutOp(NS, f"{n}", value) for n, value in enumerate(values)])
        results = store.search(NS, filter=asked, limit=100)
    expected = [n for n, value in enumerate(values) if filters.matches(asked, value)]
    assert sorted(int(item.key) for item in results) == expected


async def test_a_query_finds_by_words_best_first_with_scores(store: Face) -> None:
    await put_texts(store, "I love green tea", "my dog is brown", "tea and more tea, always tea")
    items = await store("search", NS, query="Which teas do I love?")
    assert [item.key for item in items] == ["000", "002"]
    assert items[0].score > items[1].score > 0


async def test_without_a_query_there_are_no_scores(store: Face) -> None:
    await put_texts(store, "tea", "dog")
    for query in (None, "", "  "):
        items = await store("search", NS, query=query)
        assert [(item.key, item.score) for item in items] == [("001", None), ("000", None)]


async def test_a_query_that_fits_nothing_finds_nothing(store: Face) -> None:
    await put_texts(store, "tea", "dog")
    assert await store("search", NS, query="airplane") == []
    assert await store("search", NS, query="?!") == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("She went hiking in the mountains", "Did she go on a hike?"),
        ("Мы купили красные яблоки", "Какие яблоки вы купили?"),
        ("我在北京的一家公司工作", "你在哪里工作?"),
        ("東京に住んでいます", "東京"),
        ("Café Olé", "cafe ole"),
        ("Her order number is A-1042.", "a-1042"),
        ("who am I", "Who am I?"),
    ],
)
async def test_a_query_is_understood_in_its_script(store: Face, text: str, query: str) -> None:
    await put_texts(store, "nothing of the kind", text, "ничего похожего", "毫无关系")
    assert (await found(store, query))[0] == 1


async def test_nothing_outside_the_prefix_changes_a_score(store: Face) -> None:
    await put_texts(store, "tea cup", "tea pot", "rum")
    before = await store("search", NS, query="tea pot")
    await put_texts(store, *["tea pot"] * 20, namespace=("users", "u10"))
    await put_texts(store, *["pot"] * 20, namespace=("users",))
    await put_turns(store, *["pot"] * 20, namespace=("other",))
    assert await store("search", NS, query="tea pot") == before
    assert [one.score for one in await store("search", NS, query="tea pot")] == [
        one.score for one in before
    ]


async def test_a_prefix_searches_all_namespaces_below_it(store: Face) -> None:
    await put_texts(store, "tea", namespace=("u", "1"))
    await put_texts(store, "tea", namespace=("u", "2"))
    await put_texts(store, "tea", namespace=("v",))
    items = await store("search", ("u",), query="tea")
    assert {item.namespace for item in items} == {("u", "1"), ("u", "2")}
    assert len(await store("search", (), query="tea")) == 3


async def test_pages_of_a_query_are_disjoint_and_cover_everything(store: Face) -> None:
    await put_texts(store, *["tea " + "cup " * (n % 4) for n in range(150)])
    whole = await found(store, "tea cup", limit=1_000)
    pages = [await found(store, "tea cup", limit=40, offset=at) for at in (0, 40, 80, 120)]
    assert list(itertools.chain(*pages)) == whole
    assert sorted(whole) == list(range(150))


async def test_a_filter_and_a_query_hold_together(store: Face) -> None:
    ops = [PutOp(NS, f"{n:03}", {"text": "tea", "n": n}) for n in range(300)]
    await store("batch", ops)
    asked = {"n": {"$lt": 5}}
    assert sorted(await found(store, "tea", filter=asked)) == [0, 1, 2, 3, 4]
    assert await found(store, "rum", filter=asked) == []


async def test_only_what_the_index_names_is_found_by_words(store: Face) -> None:
    value = {"title": "Tea", "secret": "cipher", "parts": [{"t": "green"}, {"t": "black"}]}
    await store("put", NS, "some", value, index=["title", "parts[*].t"])
    await store("put", NS, "none", value, index=False)
    await store("put", NS, "empty", value, index=[])
    for query in ("tea", "green", "black"):
        assert [item.key for item in await store("search", NS, query=query)] == ["some"]
    assert await store("search", NS, query="cipher") == []
    assert len(await store("search", NS, filter={"title": "Tea"})) == 3
    await store("put", NS, "all", value)
    await store("put", NS, "dollar", value, index=["$"])
    items = await store("search", NS, query="cipher")
    assert {item.key for item in items} == {"all", "dollar"}


async def test_the_name_of_a_field_finds_it_too(store: Face) -> None:
    await store("put", NS, "k", {"db_port": 6432, "favouriteColour": "blue"})
    for query in ("what is the db port", "favourite colour?", "6432"):
        assert len(await store("search", NS, query=query)) == 1


async def test_index_false_takes_an_item_out_of_the_search(store: Face) -> None:
    await store("put", NS, "k", {"text": "tea"})
    await store("put", NS, "k", {"text": "tea"}, index=False)
    assert await store("search", NS, query="tea") == []


async def test_the_fields_of_the_store_are_what_is_found(database: Database) -> None:
    store = database.open_store(index={"fields": ["text"]})
    store.put(NS, "k", {"text": "tea", "secret": "cipher"})
    assert store.search(NS, query="cipher") == []
    assert len(store.search(NS, query="tea")) == 1


async def test_a_deleted_item_is_not_found_when_its_key_comes_back(store: Face) -> None:
    await store("put", NS, "k", {"text": "tea"})
    await store("delete", NS, "k")
    await store("put", NS, "k", {"text": "rum"}, index=False)
    assert await store("search", NS, query="tea rum") == []


TALK = [
    "Ann: Hello Bob, good to see you!",
    "Bob: How was your holiday?",
    "Ann: We stayed near the sea.",
    "Bob: Which city did you like most?",
    "Ann: Porto, the food there is great.",
    "Bob: I have to go now.",
    "Ann: See you soon!",
    "Bob: Bye.",
]


async def test_an_answer_is_found_by_the_words_of_its_question(store: Face) -> None:
    await put_turns(store, *TALK)
    assert set((await found(store, "What city did Ann like?"))[:2]) == {3, 4}
    assert (await found(store, "holiday"))[0] in (1, 2)


async def test_neighbours_come_from_the_same_thread_only(store: Face) -> None:
    await put_turns(store, *TALK, namespace=("t", "1"))
    await put_turns(store, *["so it goes"] * 8, namespace=("t", "2"))
    items = await store("search", ("t",), query="Porto food", limit=100)
    assert {item.namespace for item in items} == {("t", "1")}
    assert items[0].key == "004"


async def test_a_session_keeps_neighbours_apart(store: Face) -> None:
    talk = [("mon", "tea"), ("mon", "fine"), ("tue", "well"), ("tue", "ok"), ("tue", "so")]
    for position, (session, text) in enumerate(talk):
        value = {"text": text, "position": position, "session": session}
        await store("put", NS, f"{position:03}", value, index=["text"])
    assert await found(store, "tea") == [0, 1]


async def test_a_turn_without_a_text_is_nobodys_neighbour(store: Face) -> None:
    await store("put", NS, "000", {"text": "tea", "position": 0})
    await store("put", NS, "001", {"text": "rum", "position": 1}, index=False)
    assert await found(store, "tea") == [0]


@pytest.mark.parametrize("position", [True, -1, 1.0, "1", None, 2**70])
async def test_a_position_that_is_no_place_makes_no_turn(store: Face, position: Any) -> None:
    await store("put", NS, "000", {"text": "tea", "position": 0})
    await store("put", NS, "001", {"text": "rum", "position": position})
    assert await found(store, "tea") == [0]


async def test_many_items_with_a_common_word_are_ordered_by_the_rare_one(store: Face) -> None:
    await put_texts(store, *["common word " + ("rare " if n == 700 else "") for n in range(1_200)])
    assert (await found(store, "common rare"))[0] == 700
