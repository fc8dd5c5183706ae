"""What is stored grows with what is said: each element once, whoever goes on with the thread."""

import asyncio
from typing import Any

import pytest
from conftest import Database, Face
from elements import elements_of
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from threads import Thread, place, values_of

from langgraph_sessionmem.checkpoint.channels import INLINE_BYTES
from langgraph_sessionmem.checkpoint.getting import by_place
from langgraph_sessionmem.checkpoint.runs import MOST_RUNS


def elements(database: Database, saver: Face, thread_id: str = "t") -> int:
    """How many elements a thread's logs hold, whether or not they are sealed into blocks."""
    return len(by_place(elements_of(saver.target, thread_id)))


def say(n: int) -> list[Any]:
    return [HumanMessage(f"question {n} " * 20, id=f"h{n}"), AIMessage(f"{n} " * 50, id=f"a{n}")]


async def test_each_message_of_a_growing_chat_is_stored_once(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    for n in range(40):
        messages = (await thread.load() or {"messages": []})["messages"]
        await thread.put({"messages": messages + say(n)})
    assert elements(database, saver) == 80
    assert (await values_of(saver, place()))["messages"] == [m for n in range(40) for m in say(n)]


async def test_savers_that_take_turns_store_nothing_again(saver: Face, database: Database) -> None:
    faces = [saver, Face(database.open_saver(), saver.is_async)]
    for n in range(20):
        thread = Thread(faces[n % 2])
        messages = (await thread.load() or {"messages": []})["messages"]
        await thread.put({"messages": [*messages, say(n)[0]]})
        await thread.put({"messages": messages + say(n)})
    assert elements(database, saver) == 40
    assert len((await values_of(saver, place()))["messages"]) == 40


async def test_a_fork_stores_what_is_new_in_it(saver: Face, database: Database) -> None:
    thread = Thread(saver)
    for n in range(10):
        await thread.put({"messages": [m for i in range(n + 1) for m in say(i)]})
        if n == 4:
            old = thread.config
    assert elements(database, saver) == 20
    for branch in range(3):
        await thread.load(old)
        for n in range(3):
            more = HumanMessage(f"branch {branch} turn {n} " * 10, id=f"{branch}.{n}")
            await thread.put({"messages": [*thread.values["messages"], more]})
    assert elements(database, saver) == 20 + 9
    found = await values_of(saver, place())
    assert [message.id for message in found["messages"][9:]] == ["a4", "2.0", "2.1", "2.2"]


async def test_edits_and_removals_store_what_they_change(saver: Face, database: Database) -> None:
    thread = Thread(saver)
    messages = [m for n in range(10) for m in say(n)]
    await thread.put({"messages": messages})
    edited = [*messages]
    edited[3] = AIMessage("edited " * 20, id="a1")
    await thread.put({"messages": edited})
    del edited[6:9]
    await thread.put({"messages": edited})
    await thread.put({"messages": edited[-4:]})
    assert elements(database, saver) == 21
    await thread.put({"messages": messages})
    found = await values_of(saver, place())
    assert found["messages"] == messages


async def test_a_list_of_many_runs_is_written_anew_once(saver: Face, database: Database) -> None:
    thread = Thread(saver)
    texts = [f"text {i} " * 5 for i in range(4 * MOST_RUNS)]
    await thread.put({"list": texts})
    await thread.put({"list": texts[::2]})
    found = elements(database, saver)
    assert found == 6 * MOST_RUNS
    await thread.put({"list": [*texts[::2], "more"]})
    assert elements(database, saver) == found + 1
    assert await values_of(saver, place()) == {"list": [*texts[::2], "more"]}


async def test_a_large_value_that_stays_the_same_is_stored_once(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    big, plain = b"\x07" * 100_000, {"text": "x" * 5_000}
    for n in range(10):
        await thread.put({"n": n, "big": big, "plain": plain} if n % 3 == 0 else {"n": n})
    assert elements(database, saver) == 2
    other = Thread(Face(database.open_saver(), saver.is_async))
    await other.load()
    await other.put({"big": bytes(big), "plain": dict(plain)})
    assert elements(database, saver) == 2
    assert await values_of(saver, place()) == {"n": 9, "big": big, "plain": plain}


@pytest.mark.parametrize("size", range(INLINE_BYTES - 6, INLINE_BYTES + 4))
async def test_values_around_the_inline_limit_come_back(database: Database, size: int) -> None:
    saver = Face(database.open_saver(), False)
    thread = Thread(saver)
    values = {"text": "x" * size, "bytes": b"x" * size, "list": ["x" * size], "one": [1] * size}
    await thread.put(values)
    assert await thread.load() == values
    longer = {"text": "x" * size + "y", "list": ["x" * size, "y"], "one": [1] * (size + 1)}
    await thread.put(longer)
    assert await thread.load() == values | longer
    await thread.put({"list": [], "one": [2], "text": ""})
    assert await thread.load() == {"text": "", "bytes": b"x" * size, "list": [], "one": [2]}


async def test_the_input_of_a_run_needs_no_element_of_its_own(
    saver: Face, database: Database
) -> None:
    thread = Thread(saver)
    for size, count in ((1_500, 0), (3_000, 1)):
        given = {"messages": [["user", "q" * size]]}
        config = await thread.put({"__start__": given, "text": "t"})
        assert await values_of(saver, config) == {"__start__": given, "text": "t"}
        assert elements(database, saver) == count


async def test_a_thread_goes_on_with_its_list_empty_in_between(saver: Face) -> None:
    thread = Thread(saver)
    texts = [f"text {i} " * 5 for i in range(10)]
    for value in (texts, [], texts[:5], texts[::-1], [texts[0]] * 5, texts + texts, []):
        await thread.put({"list": value})
        assert await thread.load() == {"list": value}


async def test_bytes_stored_grow_with_the_text_and_not_with_its_square(
    saver: Face, database: Database
) -> None:
    def answer(state: MessagesState) -> Any:
        return {"messages": [AIMessage("a" * 1_000)]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    compiled = graph.compile(checkpointer=saver.target)
    config: Any = {"configurable": {"thread_id": "t"}}

    async def talk(turns: int) -> None:
        for _ in range(turns):
            question = {"messages": [HumanMessage("q" * 1_000)]}
            if saver.is_async:
                await compiled.ainvoke(question, config)
            else:
                await asyncio.to_thread(compiled.invoke, question, config)

    await talk(25)
    early = elements(database, saver)
    await talk(25)
    assert elements(database, saver) == 2 * early
    found = await values_of(saver, place())
    assert len(found["messages"]) == 100


async def test_a_large_chat_begun_at_once_and_read_whole(database: Database) -> None:
    saver = Face(database.open_saver(), False)
    texts = [f"{n:0200}" for n in range(1_700)]
    thread = Thread(saver)
    await thread.put({"list": texts})
    await thread.put({"list": [*texts, "last"]})
    assert elements(database, saver) == 1_701
    assert await values_of(saver, place()) == {"list": [*texts, "last"]}


async def test_values_of_twenty_megabytes_come_back(database: Database) -> None:
    saver = Face(database.open_saver(), False)
    text = "0123456789abcde\x00" * (20 * 1024 * 1024 // 16)
    thread = Thread(saver)
    config = await thread.put({"text": text, "list": ["small", b"\x00\xff" * 1_000_000]})
    await thread.write([("text", text)])
    await thread.put({"list": [*thread.values["list"], "x" * 200]})
    other = Face(database.open_saver(), False)
    found = await other("get_tuple", config)
    assert found.pending_writes == [("task", "text", text)]
    assert found.checkpoint["channel_values"]["text"] == text
    assert (await values_of(other, place()))["list"] == thread.values["list"]
    assert elements(database, saver) == 4
