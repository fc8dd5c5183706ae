"""Many conversations at once, on one event loop."""

import asyncio
import time

from langchain_core.messages import HumanMessage

from checkpointing.graphs import chat_graph, conversation
from checkpointing.growth import Job, thread_config
from checkpointing.measuring import (
    CPU_SECONDS,
    RATE,
    SERVER_CPU_SECONDS,
    WALL,
    Measure,
    Outcome,
    Steps,
    Stopwatch,
)


def at_once(job: Job) -> Steps[Outcome]:
    """W5: conversations that all go on at the same time; nobody else has a turn meanwhile."""
    yield
    return asyncio.run(_at_once(job))


async def _at_once(job: Job) -> Outcome:
    outcome, turns = Outcome(), job.scale.conversation_turns
    graph = chat_graph(said := conversation(turns))
    walls: list[float] = []
    with job.database.place() as place:
        async with job.contender.aopen(place) as saver:
            app = graph.compile(checkpointer=saver)
            assert await saver.aget_tuple(thread_config("none")) is None

            async def converse(name: str) -> int:
                for turn in range(turns):
                    started = time.perf_counter()
                    message = {"messages": [HumanMessage(said[turn].human)]}
                    state = await app.ainvoke(message, thread_config(name))
                    walls.append(time.perf_counter() - started)
                    job.step(f"turn {len(walls)} of {turns * job.scale.conversations}")
                return len(state["messages"])

            server_before, watch = job.database.server_seconds(), Stopwatch()
            with watch.lap():
                names = [f"conversation-{number}" for number in range(job.scale.conversations)]
                counts = await asyncio.gather(*map(converse, names))
            server_after = job.database.server_seconds()
            assert set(counts) == {2 * turns}, (job.contender.name, counts)
            for name in names:
                found = await saver.aget_tuple(thread_config(name))
                assert found is not None
                assert len(found.checkpoint["channel_values"]["messages"]) == 2 * turns
    walls.sort()
    outcome.values[Measure("all turns", CPU_SECONDS)] = watch.cpu
    if server_before is not None and server_after is not None:
        outcome.values[Measure("all turns", SERVER_CPU_SECONDS)] = server_after - server_before
    outcome.values[Measure("turns", RATE)] = len(walls) / watch.wall
    outcome.values[Measure("a turn, median", WALL)] = 1e3 * walls[len(walls) // 2]
    outcome.values[Measure("a turn, 99th of 100", WALL)] = 1e3 * walls[len(walls) * 99 // 100]
    return outcome
