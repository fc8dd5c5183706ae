"""A value that was changed early in a session, asked for after it slid out of the window.

The story: a team's conventions are known from earlier sessions; the first three messages change
three of them, 22 work steps follow. The store gives back what was written only some steps later.
"""

import random
from typing import Any

import pytest
from faulty import FaultyStore
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.store.base import GetOp, Op, PutOp, SearchOp
from transcripts import assert_valid, runtime

from langgraph_sessionmem.compaction import Compactor
from langgraph_sessionmem.running import run_now
from langgraph_sessionmem.store_links import BlockingStore

BUDGET = 1_000
CHANGES = {
    "database port": "6432",
    "test command": "make check",
    "reviewer": "Olga",
}
PROBES = (2, 5, 9, 13, 17, 20, 22, 24)


class Lagging:
    """A fault: what is written at one step is seen a random number of steps later."""

    def __init__(self, seed: int) -> None:
        self.rng, self.step = random.Random(seed), 0
        self.seen_from: dict[str, int] = {}

    def __call__(self, op: Op, result: Any) -> Any:
        if isinstance(op, PutOp):
            lag = min(int(self.rng.paretovariate(0.9) * 2), 14)
            self.seen_from.setdefault(op.key, self.step + lag)
        elif isinstance(op, GetOp):
            return result if self.seen_from.get(op.key, 0) <= self.step else None
        elif isinstance(op, SearchOp):
            return [hit for hit in result if self.seen_from[hit.key] <= self.step]
        return result


@pytest.mark.parametrize("seed", range(7))
def test_a_changed_value_is_in_the_view_whenever_it_is_asked_for(seed: int) -> None:
    lagging = Lagging(seed)
    store, compactor = FaultyStore(lagging), Compactor(max_tokens=BUDGET)
    messages: list[Any] = []
    channel: Any = None
    engine, link = compactor._engine, BlockingStore(store)
    slid_out = 0
    for step in range(25):
        lagging.step = step
        changed = list(CHANGES.items())[step : step + 1]
        said = f"From now on, our {changed[0][0]} is {changed[0][1]}." if changed else work(step)
        messages.append(HumanMessage(said, id=f"h{step}"))
        moment = engine.moment(messages, channel, link, "thread")
        channel = run_now(engine.commit(moment, link, None)) or channel
        messages.append(AIMessage(f"Understood, step {step} is done.", id=f"a{step}"))
        if step in PROBES:
            for name, value in CHANGES.items():
                question = HumanMessage(f"Which {name} do we use?", id="question")
                asked = [*messages, question]
                view = compactor.view({"messages": asked, "sessionmem": channel}, runtime(store))
                assert_valid(view, asked, BUDGET)
                assert f"{name} is {value}." in "\n".join(m.text for m in view)
                slid_out += f"our {name}" not in "\n".join(m.text for m in view if m.id in IDS)
    assert slid_out >= 1


IDS = {f"h{step}" for step in range(3)}


def work(step: int) -> str:
    return f"Step {step}: rename the module number {step}, then run everything and tell me."
