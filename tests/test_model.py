"""A state machine: whatever is done to a saver, it answers as `InMemorySaver` does.

Checkpoint ids only grow here: where clocks go back ours is right by order key, and LangGraph's own
is not (`checkpoint/test_order.py`).
"""

import asyncio
import copy
import itertools
from typing import Any

import hypothesis
import pytest
from conftest import Database
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from threads import new_checkpoint, next_id, place

from langgraph_sessionmem.errors import ThreadDeleted

NAMESPACES = ("", "sub:1")
THREADS = ("t", "u")
CHANNELS = ("messages", "list", "value")

texts = st.sampled_from(["", "a", "b" * 40, "long " * 40])
small = st.none() | st.booleans() | st.integers(-2, 2) | texts
values = st.recursive(
    small | st.binary(max_size=3) | st.sampled_from([1.0, b"x" * 200]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)
ids = st.sampled_from(["1", "2", "3"])
messages = st.one_of(
    st.builds(HumanMessage, texts, id=ids),
    st.builds(AIMessage, texts, id=ids, additional_kwargs=st.dictionaries(ids, values, max_size=1)),
    st.builds(ToolMessage, texts, tool_call_id=ids, artifact=values),
)


def exact(value: Any) -> Any:
    """Something that is equal only for values that are equal down to their types."""
    if isinstance(value, BaseMessage):
        return type(value), exact(value.__dict__)
    if isinstance(value, dict):
        return dict, {repr(key): exact(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [exact(inner) for inner in value]
    return type(value), value


class Branch:
    """A checkpoint as a run holds it: live values that LangGraph's channels go on changing."""

    def __init__(self, config: Any, values: dict[str, Any], versions: dict[str, Any]) -> None:
        self.config, self.values, self.versions = config, values, versions


class Savers(RuleBasedStateMachine):
    """Ours, a second one on the same database, and LangGraph's own."""

    database: Database
    is_async = False
    examples = itertools.count()
    branches = Bundle("branches")

    def __init__(self) -> None:
        super().__init__()
        self.ours = [self.database.open_saver(), self.database.open_saver()]
        self.theirs = InMemorySaver()
        self.loop = asyncio.Runner()
        self.example = next(Savers.examples)
        self.turn = 0
        self.threads: set[str] = set()
        self.lives = dict.fromkeys(THREADS, 0)

    def teardown(self) -> None:
        for thread_id in self.threads:
            self.call("delete_thread", thread_id)
        for saver in self.ours:
            self.close(saver)
        self.loop.close()

    def close(self, saver: Any) -> None:
        if self.is_async:
            self.loop.run(saver.aclose())
        saver.close()

    def name(self, thread: str) -> str:
        """A thread id of this example's own."""
        return f"{thread} {self.example}.{self.lives[thread]}"

    def call(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        self.turn += 1
        saver = self.ours[self.turn // 3 % 2]

        async def collect() -> Any:
            result = getattr(saver, f"a{method}")(*arguments, **keywords)
            return [each async for each in result] if method == "list" else await result

        if self.is_async:
            return self.loop.run(collect())
        result = getattr(saver, method)(*arguments, **keywords)
        return list(result) if method == "list" else result

    def both(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """What both gave; each gets arguments of its own."""
        ours = self.call(method, *copy.deepcopy(arguments), **keywords)
        theirs = getattr(self.theirs, method)(*copy.deepcopy(arguments), **keywords)
        theirs = list(theirs) if method == "list" else theirs
        assert exact(ours) == exact(theirs), (method, arguments, keywords)
        return ours

    def is_deleted(self, branch: Branch) -> bool:
        return branch.config["configurable"]["thread_id"] not in self.threads

    def put(self, branch: Branch, values: dict[str, Any], changed: list[str]) -> Any:
        versions = {
            channel: self.theirs.get_next_version(branch.versions.get(channel), None)
            for channel in changed
        }
        all_versions = branch.versions | versions
        # As in LangGraph: no value without a version. Those of other branches may have changed.
        held = {name: values[name] for name in all_versions.keys() & values.keys()}
        checkpoint = new_checkpoint(next_id(), held, all_versions)
        metadata = {"source": "loop", "step": len(changed), "parents": {}}
        if self.is_deleted(branch):
            with pytest.raises(ThreadDeleted):
                self.call("put", branch.config, checkpoint, metadata, versions)
            return multiple()
        config = self.both("put", branch.config, checkpoint, metadata, versions)
        return Branch(config, values, all_versions)

    @initialize(target=branches)
    def begin_the_first(self) -> Any:
        return self.begin("t", "")

    @rule(target=branches, thread=st.sampled_from(THREADS), namespace=st.sampled_from(NAMESPACES))
    def begin(self, thread: str, namespace: str) -> Any:
        self.threads.add(self.name(thread))
        root = Branch(place(self.name(thread), namespace), {"messages": [], "list": [1]}, {})
        return self.put(root, root.values, ["messages", "list"])

    @rule(
        target=branches,
        branch=branches,
        more=st.lists(messages, max_size=3),
        value=st.none() | values,
    )
    def append(self, branch: Branch, more: list[Any], value: Any) -> Any:
        values = {**branch.values, "messages": [*branch.values["messages"], *more], "value": value}
        # Changed in place, so the branch that goes on from here sees it too, without a new version.
        values["list"].append(value)
        return self.put(branch, values, ["messages", "list", "value"])

    @rule(target=branches, branch=branches, data=st.data())
    def edit(self, branch: Branch, data: st.DataObject) -> Any:
        """Replace, remove, insert and change in place."""
        found = list(branch.values["messages"])
        for kind in data.draw(st.lists(st.sampled_from(["replace", "remove", "insert", "mutate"]))):
            if kind == "insert":
                found.insert(data.draw(st.integers(0, len(found))), data.draw(messages))
            elif found:
                index = data.draw(st.integers(0, len(found) - 1))
                if kind == "replace":
                    found[index] = data.draw(messages)
                elif kind == "remove":
                    del found[index]
                else:
                    found[index].additional_kwargs["changed"] = data.draw(values)
        return self.put(branch, {**branch.values, "messages": found}, ["messages"])

    @rule(target=branches, branch=branches, channels=st.sets(st.sampled_from(CHANNELS)))
    def clear(self, branch: Branch, channels: set[str]) -> Any:
        """Channels that have no value any more, and lists that become something else."""
        values = dict(branch.values)
        if "list" in channels:
            values["list"] = []
        if "messages" in channels:
            values["messages"] = values["messages"][-1:]
        if "value" in channels:
            values.pop("value", None)
        return self.put(branch, values, sorted(channels))

    @rule(
        branch=branches,
        task=st.sampled_from(["a", "b"]),
        path=st.sampled_from(["", "~x", "~w"]),
        writes=st.lists(
            st.tuples(st.sampled_from(["value", "list", INTERRUPT, RESUME, ERROR]), values),
            max_size=3,
        ),
    )
    def write(self, branch: Branch, task: str, path: str, writes: list[Any]) -> None:
        if not self.is_deleted(branch):
            self.both("put_writes", branch.config, writes, task, path)

    @rule(target=branches, branch=branches)
    def load(self, branch: Branch) -> Any:
        """Go back to a checkpoint, as a fork does: what follows grows from what was stored."""
        found = self.both("get_tuple", branch.config)
        if found is None:
            return multiple()
        checkpoint = found.checkpoint
        stored = {"messages": [], "list": [], **checkpoint["channel_values"]}
        return Branch(found.config, stored, dict(checkpoint["channel_versions"]))

    @rule(thread=st.sampled_from(THREADS), others=st.booleans())
    def restart(self, thread: str, others: bool) -> None:
        """A process that ends forgets all that its saver remembered."""
        index = int(others)
        self.close(self.ours[index])
        self.ours[index] = self.database.open_saver()

    @rule(
        thread=st.sampled_from(THREADS),
        namespace=st.sampled_from([None, *NAMESPACES]),
        before=st.none() | branches,
        limit=st.none() | st.integers(0, 3),
        step=st.none() | st.integers(0, 3),
    )
    def list_some(self, thread: str, namespace: Any, before: Any, limit: Any, step: Any) -> None:
        config: Any = {"configurable": {"thread_id": self.name(thread)}}
        keywords = {
            "filter": None if step is None else {"step": step},
            "before": before and before.config,
        }
        if namespace is not None:
            config["configurable"]["checkpoint_ns"] = namespace
            self.both("list", config, limit=limit, **keywords)
            return
        # Across namespaces `InMemorySaver` goes one by one, ours by age.
        found = [self.call("list", config, **keywords), list(self.theirs.list(config, **keywords))]
        ours, theirs = (
            sorted(each, key=lambda one: sorted(one.config["configurable"].items()))
            for each in found
        )
        assert ours == theirs

    @rule(thread=st.sampled_from(THREADS))
    def delete(self, thread: str) -> None:
        self.both("delete_thread", self.name(thread))
        self.threads.discard(self.name(thread))
        # What goes on with it is refused; what begins again does so under another name.
        self.lives[thread] += 1

    @invariant()
    def everything_agrees(self) -> None:
        for thread in self.threads:
            for namespace in NAMESPACES:
                latest = self.both("get_tuple", place(thread, namespace))
                listed = self.both("list", place(thread, namespace))
                assert listed[:1] == ([latest] if latest else [])


def run(database: Database, face_name: str, max_examples: int, steps: int) -> None:
    class Machine(Savers):
        pass

    Machine.database, Machine.is_async = database, face_name == "async"
    settings = hypothesis.settings(max_examples=max_examples, stateful_step_count=steps)
    run_state_machine_as_test(Machine, settings=settings)


def test_any_use_gives_the_answers_of_the_saver_in_memory(
    database: Database, face_name: str
) -> None:
    run(database, face_name, 8, 12)


@pytest.mark.slow
def test_any_long_use_gives_the_answers_of_the_saver_in_memory(
    database: Database, face_name: str
) -> None:
    run(database, face_name, 300, 40)
