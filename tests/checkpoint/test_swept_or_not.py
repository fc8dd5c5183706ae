"""A state machine: two databases live through the same, and only one of them is ever swept.

Every call gives the same on both, whatever has expired, was cut down, deleted or begun anew.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import hypothesis
import psycopg.sql
import pytest
from conftest import BACKENDS, Database
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from langgraph.checkpoint.serde.types import INTERRUPT
from threads import new_checkpoint, next_id, place

from langgraph_sessionmem import TTL, SessionSaver
from langgraph_sessionmem.errors import SessionMemoryError
from langgraph_sessionmem.rows import ThreadRow

THREADS, NAMESPACES = ("t", "u"), ("", "sub")
MINUTE = timedelta(minutes=1)
PHASES = [phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.explain]
LIMITS = {
    "idle": TTL(idle=30 * MINUTE, interrupted=60 * MINUTE),
    "read": TTL(idle=30 * MINUTE, interrupted=60 * MINUTE, refresh_on_read=True),
    "age": TTL(idle=30 * MINUTE, max_age=70 * MINUTE),
    "keep": TTL(idle=30 * MINUTE, interrupted=60 * MINUTE, strategy="keep_latest"),
    "pin": None,
}
threads = st.sampled_from(THREADS)
namespaces = st.sampled_from(NAMESPACES)
limits = st.sampled_from(sorted(LIMITS))


@contextlib.contextmanager
def twin_of(database: Database) -> Iterator[dict[str, Any]]:
    """Where a second, empty database of the same kind is; gone afterwards."""
    if database.name == "sqlite":
        yield {"source": ":memory:"}
    elif database.name == "postgres":
        schema = database.options["schema"] + "_twin"
        yield {"source": database.url, "schema": schema}
        connection = database.servers.postgres_connection(database.url)
        name = psycopg.sql.Identifier(schema)
        connection.execute(psycopg.sql.SQL("drop schema if exists {} cascade").format(name))
    else:
        # The fixture cleans by its prefix, so what begins with it goes too.
        yield {"source": database.url, "prefix": database.options["prefix"] + "twin:"}


def seen(value: Any) -> Any:
    """What is the same for both databases: no sizes, generations and exact times."""
    if isinstance(value, ThreadRow):
        ends = None if value.expires_at is None else value.expires_at - value.updated_at
        return (
            value.thread_id,
            value.checkpoints,
            value.owner,
            value.sticky,
            value.waiting,
            value.limits,
            ends is not None and round(ends / 60),
        )
    return [seen(each) for each in value] if type(value) is list else value


class Twins(RuleBasedStateMachine):
    """The swept saver and the other one."""

    database: Database
    where: dict[str, Any]
    is_async = False
    on_expired = "restart"
    examples = itertools.count()
    places = Bundle("places")

    def __init__(self) -> None:
        super().__init__()
        options: dict[str, Any] = {"ttl": LIMITS["idle"], "on_expired": self.on_expired}
        self.savers = [
            self.database.open_saver(**options),
            self.database.adopt(SessionSaver(**self.where, **options)),
        ]
        self.loop = asyncio.Runner()
        self.example = next(Twins.examples)
        self.versions = itertools.count(1)

    def teardown(self) -> None:
        for saver in self.savers:
            if self.is_async:
                self.loop.run(saver.aclose())
            saver.close()
        self.loop.close()

    def name(self, thread: str) -> str:
        return f"{self.example}/{thread}"

    def call(self, saver: Any, method: str, *arguments: Any, **keywords: Any) -> Any:
        async def collect() -> Any:
            result = getattr(saver, f"a{method}")(*arguments, **keywords)
            return [each async for each in result] if method == "list" else await result

        try:
            if self.is_async:
                return self.loop.run(collect())
            result = getattr(saver, method)(*arguments, **keywords)
            return list(result) if method == "list" else result
        except SessionMemoryError as error:
            return type(error), str(error)

    def both(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        swept, unswept = (self.call(saver, method, *arguments, **keywords) for saver in self.savers)
        assert seen(swept) == seen(unswept), (method, arguments, keywords)
        return swept

    def put(self, config: Any, changed: dict[str, Any], metadata: dict[str, Any]) -> Any:
        version = f"{next(self.versions):05}"
        versions = dict.fromkeys(changed, version)
        checkpoint = new_checkpoint(next_id(), changed, versions)
        saved = self.both("put", config, checkpoint, {"step": 1, **metadata}, versions)
        return saved if isinstance(saved, dict) else multiple()

    @rule(minutes=st.sampled_from([5, 15, 31, 61]))
    def let_time_pass(self, minutes: int) -> None:
        self.database.advance(minutes * MINUTE)
        swept = self.call(self.savers[0], "sweep")
        assert isinstance(swept, int)

    @rule(
        target=places,
        thread=threads,
        namespace=namespaces,
        run=st.sampled_from(["r1", "r2"]),
        limit=st.none() | limits,
        pending=st.booleans(),
    )
    def begin(self, thread: str, namespace: str, run: str, limit: Any, pending: bool) -> Any:
        config = place(self.name(thread), namespace)
        config["configurable"] |= {"user_id": run}
        if limit is not None:
            config["configurable"]["session_ttl"] = LIMITS[limit]
        work = {"branch:to:node": None} if pending else {}
        return self.put(config, {"list": ["a" * 100], **work}, {"run_id": f"{run}/{self.example}"})

    @rule(
        target=places,
        config=places,
        more=st.sampled_from(["b" * 100, "c"]),
        run=st.sampled_from(["r1", "r2"]),
        pending=st.booleans(),
    )
    def go_on(self, config: Any, more: str, run: str, pending: bool) -> Any:
        work = {"branch:to:node": None} if pending else {}
        values = {"list": ["a" * 100, more], **work}
        return self.put(config, values, {"run_id": f"{run}/{self.example}"})

    @rule(config=places, task=st.sampled_from("ab"), channel=st.sampled_from(["n", INTERRUPT]))
    def write(self, config: Any, task: str, channel: str) -> None:
        self.both("put_writes", config, [(channel, task)], task)

    @rule(thread=threads, limit=limits)
    def set_ttl(self, thread: str, limit: str) -> None:
        self.both("set_ttl", self.name(thread), LIMITS[limit])

    @rule()
    def apply_ttl(self) -> None:
        self.both("apply_ttl", prefix=f"{self.example}/")

    @rule(config=places)
    def look(self, config: Any) -> None:
        self.both("get_tuple", config)

    @rule(thread=threads, limit=st.none() | st.integers(1, 2), before=st.none() | places)
    def list_some(self, thread: str, limit: Any, before: Any) -> None:
        config = {"configurable": {"thread_id": self.name(thread)}}
        self.both("list", config, limit=limit, before=before)

    @rule()
    def look_around(self) -> None:
        self.both("threads", prefix=f"{self.example}/")
        # New limits may have ended a thread at once.
        due = self.call(self.savers[0], "sweep", dry_run=True)
        assert self.call(self.savers[0], "sweep") == due

    @rule(thread=threads, keep=st.sampled_from([None, 1, 2]))
    def prune(self, thread: str, keep: Any) -> None:
        self.both("prune", [self.name(thread)], keep_last=keep)

    @rule(thread=threads)
    def copy(self, thread: str) -> None:
        self.both("copy_thread", self.name(thread), self.name("copy"))

    @rule(run=st.sampled_from(["r1", "r2"]))
    def delete_runs(self, run: str) -> None:
        self.both("delete_for_runs", [f"{run}/{self.example}"])

    @rule(thread=st.sampled_from([*THREADS, "copy"]))
    def delete(self, thread: str) -> None:
        self.both("delete_thread", self.name(thread))

    @invariant()
    def everything_agrees(self) -> None:
        for thread in (*THREADS, "copy"):
            self.both("thread", self.name(thread))

    @invariant()
    def what_can_be_read_agrees(self) -> None:
        if self.on_expired == "raise":
            return  # reading is a sign of life for some, so it is only done by rules elsewhere
        for thread in (*THREADS, "copy"):
            row = self.call(self.savers[0], "thread", self.name(thread))
            if row is None or not row.limits.refresh_on_read:
                for namespace in NAMESPACES:
                    self.both("get_tuple", place(self.name(thread), namespace))
                self.both("list", {"configurable": {"thread_id": self.name(thread)}})


def run(database: Database, face_name: str, on_expired: str, examples: int, steps: int) -> None:
    class Machine(Twins):
        pass

    with twin_of(database) as where:
        Machine.database, Machine.where = database, where
        Machine.is_async, Machine.on_expired = face_name == "async", on_expired
        settings = hypothesis.settings(
            max_examples=examples, stateful_step_count=steps, phases=PHASES
        )
        run_state_machine_as_test(Machine, settings=settings)


# On a cluster the same scripts run, and each sweep makes 256 calls.
@pytest.mark.parametrize("backend_name", [name for name in BACKENDS if name != "cluster"])
@pytest.mark.parametrize(("face_name", "on_expired"), [("blocking", "restart"), ("async", "raise")])
def test_no_answer_depends_on_the_sweeper(
    database: Database, face_name: str, on_expired: str
) -> None:
    run(database, face_name, on_expired, 3, 15)


@pytest.mark.slow
@pytest.mark.parametrize("on_expired", ["restart", "raise"])
def test_no_answer_of_a_long_use_depends_on_the_sweeper(
    database: Database, face_name: str, on_expired: str
) -> None:
    run(database, face_name, on_expired, 300, 50)
