"""Going on from where a branch ended."""

from typing import Any

import pytest
from conftest import Face
from delta_graphs import Chat
from threads import Thread, place

ONE_FACE = pytest.mark.parametrize("face_name", ["async"])


async def test_the_head_of_a_branch_is_its_latest_checkpoint(saver: Face) -> None:
    thread = Thread(saver)
    configs = [await thread.put({"n": number}) for number in range(3)]
    thread.config = configs[0]
    fork = [await thread.put({"n": number}) for number in range(3, 5)]
    assert await saver("branch_head", configs[1]) == configs[2]
    assert await saver("branch_head", configs[2]) == configs[2]
    assert await saver("branch_head", fork[0]) == fork[1]
    assert await saver("branch_head", configs[0]) == fork[1]
    assert await saver("branch_head", place()) == fork[1]


@ONE_FACE
async def test_there_is_no_branch_where_there_is_no_checkpoint(saver: Face) -> None:
    await Thread(saver).put({"n": 1})
    for config in (place("none such"), place("t", "none such"), place("t", "", "none such")):
        assert await saver("branch_head", config) is None


async def test_a_graph_goes_on_in_a_branch_instead_of_forking_again(saver: Face) -> None:
    chat = Chat(saver.target, "t", saver.is_async)
    await chat.say()
    base: Any = (await chat.history())[0].config
    await chat.say()
    await chat.say(base)
    await chat.say(await saver("branch_head", base))
    said = [each for each in (await chat.values())["plain"] if each.startswith("in")]
    assert said == ["in 1", "in 3", "in 4"]
