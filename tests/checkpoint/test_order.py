"""Which checkpoint is the latest, and what comes before it: by order key, though clocks go back."""

from typing import Any

from conftest import Face
from threads import Thread, place, values_of


async def ids(saver: Face, config: Any, **narrowed: Any) -> list[str]:
    found = await saver("list", config, **narrowed)
    return [each.config["configurable"]["checkpoint_id"] for each in found]


async def test_a_child_comes_after_its_parent_though_the_clock_went_back(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"n": 1}, checkpoint_id="1f000")
    await thread.put({"n": 2}, checkpoint_id="1e000")
    await thread.put({"n": 3}, checkpoint_id="1d000")
    assert await values_of(saver, place()) == {"n": 3}
    assert await ids(saver, place()) == ["1d000", "1e000", "1f000"]
    before = place("t", "", "1e000")
    assert await ids(saver, place(), before=before) == ["1f000"]
    await thread.put({"n": 4}, checkpoint_id="2f000")
    assert await ids(saver, place(), limit=2) == ["2f000", "1d000"]


async def test_a_checkpoint_put_again_does_not_become_the_latest(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"n": 1}, checkpoint_id="1")
    first = thread.config
    await thread.put({"n": 2}, checkpoint_id="2")
    again = Thread(saver)
    await again.put({"n": 1}, checkpoint_id="1")
    assert await ids(saver, place()) == ["2", "1"]
    assert await values_of(saver, first) == {"n": 1}


async def test_a_fork_below_a_clock_that_ran_ahead_is_the_latest(saver: Face) -> None:
    thread = Thread(saver)
    await thread.put({"n": 1}, checkpoint_id="1")
    first = thread.config
    await thread.put({"n": 2}, checkpoint_id="9")
    await thread.load(first)
    await thread.put({"n": 3}, checkpoint_id="3")
    assert await values_of(saver, place()) == {"n": 3}
    assert await ids(saver, place()) == ["3", "9", "1"]
    assert (await saver("get_tuple", place())).parent_config == first


async def test_a_copy_made_from_the_newest_to_the_oldest_has_the_order_of_its_source(
    saver: Face,
) -> None:
    thread = Thread(saver)
    for n in range(1, 5):
        await thread.put({"n": n, "list": list(range(40 * n))}, checkpoint_id=f"{n}")
    await thread.load(place("t", "", "2"))
    await thread.put({"n": 5}, checkpoint_id="5")
    source = await saver("list", place())
    for found in source:
        configurable = {"thread_id": "copy", "checkpoint_ns": ""}
        if found.parent_config:
            configurable["checkpoint_id"] = found.parent_config["configurable"]["checkpoint_id"]
        checkpoint = found.checkpoint
        await saver(
            "put",
            {"configurable": configurable},
            checkpoint,
            found.metadata,
            checkpoint["channel_versions"],
        )
    copy = await saver("list", place("copy"))
    assert [found.checkpoint for found in copy] == [found.checkpoint for found in source]
    assert await values_of(saver, place("copy")) == source[0].checkpoint["channel_values"]


async def test_before_in_another_namespace_goes_by_the_checkpoint_of_the_graph_above(
    saver: Face,
) -> None:
    above = Thread(saver)
    below = Thread(saver, namespace="sub")
    calls = []
    for n in range(3):
        # The clock of the subgraph's machine is behind, and its parent's `put` commits late.
        await above.put({"n": n}, checkpoint_id=f"2{n}")
        calls.append(above.config)
        parents = {"parents": {"": f"2{n}"}}
        await below.put({"m": n}, checkpoint_id=f"1{n}", metadata=parents)
    assert await ids(saver, place("t", "sub")) == ["12", "11", "10"]
    for n in range(3):
        border = {"configurable": {"checkpoint_id": f"2{n}"}}
        expected = [f"1{i}" for i in reversed(range(n))]
        assert await ids(saver, place("t", "sub"), before=border) == expected
        assert await ids(saver, place("t", "sub"), before=border, limit=1) == expected[:1]


async def test_namespaces_of_a_thread_are_apart(saver: Face) -> None:
    await Thread(saver).put({"n": 0}, checkpoint_id="5")
    await Thread(saver, namespace="a").put({"n": 1}, checkpoint_id="5")
    await Thread(saver, namespace="a|b:c").put({"n": 2}, checkpoint_id="4")
    for namespace, n in {"": 0, "a": 1, "a|b:c": 2}.items():
        assert await values_of(saver, place("t", namespace)) == {"n": n}
        assert await values_of(saver, place("t", namespace, "5" if n < 2 else "4")) == {"n": n}
        assert len(await ids(saver, place("t", namespace))) == 1
    assert await values_of(saver, place("t", "b")) is None
    anywhere = {"configurable": {"thread_id": "t"}}
    assert sorted(await ids(saver, anywhere)) == ["4", "5", "5"]
