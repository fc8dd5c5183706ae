"""Several writers at once, and what is left of it against a plain list of what they said."""

import asyncio
import random
from typing import Any

import pytest
from conftest import Database, Face
from minds import Wrist, day, minds

from langgraph_sessionmem import Fact, Source
from langgraph_sessionmem.errors import InvalidArgument

Spoken = tuple[str, int, int, str, str]
"""Attribute, value, month, thread, message."""


def script(seed: int) -> list[list[Spoken]]:
    chance = random.Random(seed)
    return [
        [
            (
                chance.choice("xy"),
                chance.randrange(3),
                chance.randrange(1, 4),
                who,
                f"{who}{number}",
            )
            for number in range(6)
        ]
        for who in "abc"
    ]


def plainly(spoken: list[Spoken], attribute: str, month: int) -> set[int]:
    """The values that may hold in a month, told in the order in which they were learnt."""
    past = [each for each in spoken if each[0] == attribute and each[2] <= month]
    latest = max((each[2] for each in past), default=0)
    claims: list[tuple[int, set[str]]] = []
    for _, value, since, who, _ in past:
        if since < latest:
            continue
        known = next((claim for claim in claims if claim[0] == value), None)
        if known is not None:
            known[1].add(who)
        else:
            claims = [*(claim for claim in claims if claim[1] != {who}), (value, {who})]
    return {value for value, _ in claims}


@pytest.mark.parametrize("seed", [1, 2])
async def test_what_several_writers_say_at_once_is_all_there_and_read_plainly(
    database: Database, store: Face, seed: int
) -> None:
    stores = [store, *(Face(database.open_store(), store.is_async) for _ in range(2))]
    scripts = script(seed)

    async def speak(writer: int) -> None:
        mine = minds(stores[writer], clock=Wrist())
        for attribute, value, month, who, message in scripts[writer]:
            source = Source(thread=who, messages=(message,))
            claim = Fact("user", attribute, value, valid_from=day(month))
            await mine("remember", claim, source=source)
            await mine("remember", claim, source=source)  # said twice, learnt once

    if store.is_async:
        await asyncio.gather(*map(speak, range(3)))
    else:
        await asyncio.gather(
            *(asyncio.to_thread(lambda one=one: asyncio.run(speak(one))) for one in range(3))
        )
    by_message = {each[4]: each for lines in scripts for each in lines}
    for attribute in "xy":
        item = await store("get", ("users", "u1", "fact"), f"user/{attribute}")
        statements: list[dict[str, Any]] = item.value["statements"]
        messages = [each["source"]["messages"][0] for each in statements]
        assert sorted(messages) == sorted(
            m for m, each in by_message.items() if each[0] == attribute
        )
        order = {who: [m for m in messages if m[0] == who] for who in "abc"}
        assert all(said == sorted(said) for said in order.values())
        spoken = [by_message[message] for message in messages]
        mine = minds(store)
        for month in (1, 2, 3):
            known = await mine("fact", "user", attribute, at=day(month, 2))
            claims = () if known is None else (known.memory, *known.alternatives)
            assert {claim.value for claim in claims} == plainly(spoken, attribute, month)
        open_ = {each.id for each in await mine("conflicts")}
        is_open = any(len(plainly(spoken, attribute, month)) > 1 for month in (1, 2, 3))
        assert (f"fact:user/{attribute}" in open_) == is_open


@pytest.mark.parametrize("seed", [3])
async def test_retracting_everything_leaves_nothing_that_holds_and_all_of_its_history(
    store: Face, seed: int
) -> None:
    mine = minds(store)
    said = [each for lines in script(seed) for each in lines if each[0] == "x"]
    for attribute, value, month, who, message in said:
        claim = Fact("user", attribute, value, valid_from=day(month))
        await mine("remember", claim, source=Source(thread=who, messages=(message,)))
    for value in range(3):
        await mine("retract", "fact:user/x", reason="wrong", value=value)
    assert await mine("fact", "user", "x") is None
    history = await mine("history", "user", "x")
    assert {each.status for each in history} == {"retracted"}
    assert sorted(each.value for each in history) == sorted(each[1] for each in said)
    with pytest.raises(InvalidArgument):
        await mine("retract", "fact:user/x", reason="wrong")
