"""What a thread's logs hold, as it is stored."""

from typing import Any

from langgraph_sessionmem.rows import Element, Run


def elements_of(saver: Any, thread_id: str = "t") -> list[Element]:
    """Every element and block of a thread, in order."""

    async def find(records: Any) -> list[Element]:
        thread = await records.read_thread(thread_id)
        places = await records.read_places(thread_id, thread.generation)
        every = [Run(log, position, position + 1) for log, position, _ in places]
        return sorted(await records.read_elements(thread_id, thread.generation, every))

    found: list[Element] = saver.backend.run(find)
    return found
