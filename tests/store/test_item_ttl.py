"""Expiry: in minutes since the last access, by the database's clock, and gone at once."""

import pytest
from conftest import Clock, Database, Face, until
from langgraph.store.base import PutOp

from langgraph_sessionmem.errors import InvalidArgument

NS = ("users", "u1")


async def test_an_item_is_gone_at_its_expiry_everywhere(store: Face, clock: Clock) -> None:
    await store("put", NS, "k", {"text": "tea", "n": 1}, ttl=30)
    clock.advance(minutes=29.9)
    assert len(await store("list_namespaces")) == 1
    clock.advance(minutes=0.2)
    assert await store("get", NS, "k") is None
    assert await store("search", NS) == []
    assert await store("search", NS, filter={"n": 1}) == []
    assert await store("search", NS, query="tea") == []
    assert await store("list_namespaces") == []


async def test_answers_are_the_same_before_and_after_a_sweep(store: Face, clock: Clock) -> None:
    for n in range(6):
        await store("put", NS, f"{n}", {"text": "tea " + "cup " * n}, ttl=None if n % 2 else 1)
    clock.advance(minutes=2)
    before = [(one.key, one.score) for one in await store("search", NS, query="tea cup")]
    assert await store("sweep") == 3
    assert await store("sweep") == 0
    after = [(one.key, one.score) for one in await store("search", NS, query="tea cup")]
    assert before == after
    assert sorted(key for key, _ in before) == ["1", "3", "5"]


@pytest.mark.parametrize("read", ["get", "search", "query", "filter"])
async def test_every_read_begins_the_time_anew(store: Face, clock: Clock, read: str) -> None:
    await store("put", NS, "k", {"text": "tea"}, ttl=10)
    for _ in range(3):
        clock.advance(minutes=8)
        if read == "get":
            assert await store("get", NS, "k") is not None
        else:
            asked = {"query": {"query": "tea"}, "filter": {"filter": {"text": "tea"}}}
            assert len(await store("search", NS, **asked.get(read, {}))) == 1
    clock.advance(minutes=11)
    assert await store("get", NS, "k") is None


async def test_a_read_that_asks_for_no_renewal_renews_nothing(store: Face, clock: Clock) -> None:
    await store("put", NS, "k", {"text": "tea"}, ttl=10)
    clock.advance(minutes=6)
    await store("get", NS, "k", refresh_ttl=False)
    await store("search", NS, refresh_ttl=False)
    clock.advance(minutes=6)
    assert await store("get", NS, "k") is None


async def test_only_what_a_search_returns_is_renewed(store: Face, clock: Clock) -> None:
    for key in "abc":
        await store("put", NS, key, {"text": "tea" if key == "a" else "rum"}, ttl=10)
    clock.advance(minutes=6)
    await store("search", NS, query="tea")
    clock.advance(minutes=6)
    assert [item.key for item in await store("search", NS)] == ["a"]


async def test_a_read_does_not_bring_an_expired_item_back(store: Face, clock: Clock) -> None:
    await store("put", NS, "k", {}, ttl=1)
    clock.advance(minutes=2)
    await store("get", NS, "k")
    await store("search", NS)
    clock.advance(minutes=-1.5)
    clock.advance(minutes=1)
    assert await store("get", NS, "k") is None


async def test_a_fraction_of_a_minute_is_a_fraction_of_a_minute(store: Face, clock: Clock) -> None:
    await store("put", NS, "k", {}, ttl=0.4)
    for _ in range(3):
        clock.advance(seconds=20)
        assert await store("get", NS, "k") is not None
    await store("sweep")
    assert await store("get", NS, "k", refresh_ttl=False) is not None
    clock.advance(seconds=25)
    assert await store("get", NS, "k") is None


async def test_a_put_replaces_the_time_to_live_as_well(store: Face, clock: Clock) -> None:
    await store("put", NS, "k", {}, ttl=1)
    await store("put", NS, "k", {})
    clock.advance(days=365)
    assert await store("get", NS, "k") is not None


async def test_an_item_put_after_its_expiry_is_a_new_one(store: Face, clock: Clock) -> None:
    await store("put", NS, "k", {"n": 1}, ttl=1)
    old = await store("get", NS, "k")
    clock.advance(minutes=5)
    await store("put", NS, "k", {"n": 2})
    new = await store("get", NS, "k")
    assert new.value == {"n": 2}
    assert new.created_at > old.created_at


async def test_sweeping_leaves_the_living_alone(store: Face, clock: Clock) -> None:
    await store("batch", [PutOp(NS, f"{n}", {"n": n}, False, 1) for n in range(1_500)])
    await store("put", NS, "stays", {"text": "tea"}, ttl=60)
    clock.advance(minutes=2)
    assert await store("sweep") == 1_500
    assert [item.key for item in await store("search", NS, query="tea")] == ["stays"]


async def test_the_default_holds_unless_a_put_says_otherwise(
    database: Database, clock: Clock
) -> None:
    store = database.open_store(ttl={"default_ttl": 10})
    store.put(NS, "default", {})
    store.put(NS, "own", {}, ttl=60)
    store.put(NS, "never", {}, ttl=None)
    store.batch([PutOp(NS, "raw", {})])  # as in LangGraph, only the methods know the default
    clock.advance(minutes=11)
    assert {item.key for item in store.search(NS)} == {"own", "never", "raw"}
    clock.advance(minutes=61)
    assert {item.key for item in await store.asearch(NS)} == {"never", "raw"}


async def test_renewal_by_reading_can_be_switched_off(database: Database, clock: Clock) -> None:
    store = database.open_store(ttl={"refresh_on_read": False})
    store.put(NS, "k", {}, ttl=10)
    clock.advance(minutes=6)
    store.get(NS, "k")
    store.get(NS, "k", refresh_ttl=True)
    clock.advance(minutes=6)
    store.get(NS, "k")
    clock.advance(minutes=6)
    assert store.get(NS, "k") is None


@pytest.mark.parametrize("backend_name", ["sqlite"])
@pytest.mark.parametrize("by_name", [False, True], ids=["by_option", "by_langgraphs_name"])
async def test_what_has_expired_is_deleted_in_the_background(
    database: Database, clock: Clock, by_name: bool
) -> None:
    often = {"sweep_interval_minutes": 1 / 60_000}
    store = database.open_store(ttl=None if by_name else often)
    if by_name:
        assert await store.start_ttl_sweeper(1 / 60_000)
    store.put(NS, "old", {}, ttl=1)
    store.put(NS, "new", {})
    clock.advance(minutes=2)
    look = store.backend._connection
    count = "select count(*) from sessionmem_items"
    await until(lambda: look.execute(count).fetchone() == (1,))
    assert await store.stop_ttl_sweeper()
    assert store.stop_ttl_sweeper()
    assert await store.sweep_ttl() == store.sweep_ttl() == 0


async def test_the_time_between_sweeps_must_be_one(database: Database) -> None:
    with pytest.raises(InvalidArgument, match="sweep_interval_minutes"):
        database.open_store().start_ttl_sweeper(0)
