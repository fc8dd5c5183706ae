"""Copying every thread of one saver into another, and comparing what arrived.

A thread's checkpoints are put oldest first, each with its pending writes, so an interrupted copy
has a beginning of the thread, and the next one goes on from there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from langgraph_sessionmem.checkpoint.copying import read_copy
from langgraph_sessionmem.checkpoint.deltas import delta_channels
from langgraph_sessionmem.checkpoint.saver import SessionSaver
from langgraph_sessionmem.errors import ConcurrentUpdate
from langgraph_sessionmem.rows import Outcome
from langgraph_sessionmem.running import run_now
from langgraph_sessionmem.transfer.catalog import Place, catalog_of
from langgraph_sessionmem.transfer.comparing import differences, same
from langgraph_sessionmem.transfer.faces import Async, Blocking, Face
from langgraph_sessionmem.transfer.pending import Placed, batches, in_order
from langgraph_sessionmem.transfer.problems import Problems, is_lost


class Step(NamedTuple):
    """How far a copy has come.

    Attributes:
        stage: what is being done with the thread.
        done: how many of its checkpoints that was done with.
        total: how many it has.
        threads: how many threads were finished before it.
    """

    thread_id: str
    stage: Literal["copying", "comparing"]
    done: int
    total: int
    threads: int


Progress: TypeAlias = Callable[[Step], None]


class Problem(NamedTuple):
    """Something that is not in the target as it is in the source.

    Attributes:
        checkpoint_ns, checkpoint_id: None where it is the thread as a whole.
        what: a part of the checkpoint, or what happened.
    """

    thread_id: str
    checkpoint_ns: str | None
    checkpoint_id: str | None
    what: str


@dataclass(slots=True)
class Report(Problems[Problem]):
    """What a copy did.

    Attributes:
        threads: how many the source has.
        complete: how many of them the target already had.
        checkpoints: how many were put.
        writes: how many pending writes were put.
        compared: how many checkpoints were read from both sides and compared.
    """

    threads: int = 0
    complete: int = 0
    checkpoints: int = 0
    writes: int = 0
    compared: int = 0


def copy_saver(
    source: BaseCheckpointSaver[Any],
    target: BaseCheckpointSaver[Any],
    *,
    thread_ids: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Copy threads from any LangGraph saver into any other, and compare them afterwards.

    Ids, parents, order, values, versions, metadata and pending writes stay what they are. A thread
    that the target has already is only compared; one of which it has a beginning is completed; one
    of which it has something else is left alone and reported. So a copy may be stopped and started
    again, and a second one brings what came to the source since.

    Args:
        source: is only read. Nobody should write to the threads that are being copied.
        target: its schema must be set up.
        thread_ids: only these; by default all.
        progress: called after each checkpoint.

    Returns:
        What was done, and everything that did not arrive as it left. A thread that can't be copied
        is such a problem and does not keep the others back.
    """
    faces = Blocking(source), Blocking(target), Blocking(_forgetful(target))
    return run_now(_copy(_Copier(*faces, progress), thread_ids))


async def acopy_saver(
    source: BaseCheckpointSaver[Any],
    target: BaseCheckpointSaver[Any],
    *,
    thread_ids: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """`copy_saver` without blocking the loop, for savers with an async face."""
    faces = Async(source), Async(target), Async(_forgetful(target))
    return await _copy(_Copier(*faces, progress), thread_ids)


async def _copy(copier: "_Copier", thread_ids: Iterable[str] | None) -> Report:
    if thread_ids is not None:
        for thread_id in thread_ids:
            await copier.copy(thread_id)
    else:
        async for thread_id in copier.catalog.threads():
            await copier.copy(thread_id)
    return copier.report


def _forgetful(saver: BaseCheckpointSaver[Any]) -> BaseCheckpointSaver[Any]:
    """The saver, reading all from its database again: what it remembers would prove nothing."""
    if not isinstance(saver, SessionSaver):
        return saver
    clone = copy(saver)
    clone._state = saver._state.forgotten()
    return clone


class _Loaded(NamedTuple):
    """A checkpoint of the source, its pending writes in order."""

    found: CheckpointTuple
    placed: list[Placed]


class _Copier:
    """Copies one thread after the other.

    Args:
        source: where they come from.
        target: where they go.
        arrived: the target, as it is read afterwards.
        progress: called after each checkpoint.
    """

    def __init__(
        self, source: Face, target: Face, arrived: Face, progress: Progress | None
    ) -> None:
        self._source, self._target, self._arrived = source, target, arrived
        self._progress = progress
        self.catalog, self._present = catalog_of(source), catalog_of(target)
        self.report = Report()

    async def copy(self, thread_id: str) -> None:
        """Copy what the target lacks of a thread, and compare all of it."""
        try:
            places = await self.catalog.places(thread_id)
            present = set(await self._present.places(thread_id))
            if self._may_copy(thread_id, places, present):
                went_on = {place.checkpoint_ns for place in present - set(places)}
                if not went_on and (present or not await self._copied_whole(thread_id)):
                    await self._put_missing(thread_id, places, present)
                await self._compare(thread_id, places, went_on=bool(went_on))
                for namespace in sorted({place.checkpoint_ns for place in places} - went_on):
                    await self._compare_latest(thread_id, namespace)
        except Exception as error:
            if is_lost(error):
                raise
            # Reported instead: one thread that can't be copied must not keep the others back.
            self.report.add(Problem(thread_id, None, None, f"{type(error).__name__}: {error}"))
        self.report.threads += 1

    def _may_copy(self, thread_id: str, places: Sequence[Place], present: set[Place]) -> bool:
        """Whether what the target has of the thread is a beginning of it, or all of it."""
        if not places:
            self.report.add(Problem(thread_id, None, None, "the source has no such thread"))
            return False
        first = _first_missing(places, present)
        self.report.complete += first == len(places)
        others = present - set(places[:first])
        if not others or first == len(places):
            return True
        what = (
            "the target has another thread of this id, or only a later part of this one; "
            "nothing was written"
        )
        self.report.add(Problem(thread_id, None, None, what))
        return False

    async def _copied_whole(self, thread_id: str) -> bool:
        """Whether the thread went over as it is stored, with its limits: from ours to ours."""
        source, target = self._source.saver, self._target.saver
        if not isinstance(source, SessionSaver) or not isinstance(target, SessionSaver):
            return False
        state = source._state
        if state.custom_serde or target._state.custom_serde:
            return False
        whole = await self._source.run(
            lambda records: read_copy(records, state, thread_id, thread_id)
        )
        if whole is None:
            return False
        saved = await self._target.run(lambda records: records.save_copy(whole))
        if saved.outcome is not Outcome.SAVED:
            raise ConcurrentUpdate("somebody began a thread of this id in the target just now")
        self.report.checkpoints += len(whole.rows)
        self.report.writes += len(whole.writes)
        return True

    async def _put_missing(
        self, thread_id: str, places: Sequence[Place], present: set[Place]
    ) -> None:
        first = _first_missing(places, present)
        for last in {place.checkpoint_ns: place for place in places[:first]}.values():
            await self._put_missing_writes(thread_id, last)
        for at, place in enumerate(places[first:], first + 1):
            loaded = await self._read(thread_id, place)
            found = loaded.found
            parent = found.parent_config
            config = place.config(thread_id)
            del config["configurable"]["checkpoint_id"]
            if parent is not None:
                config["configurable"]["checkpoint_id"] = parent["configurable"]["checkpoint_id"]
            checkpoint = found.checkpoint
            # All versions count as new: a saver that keeps values by version then misses none.
            versions = dict(checkpoint["channel_versions"])
            await self._target.call("put", config, checkpoint, found.metadata, versions)
            self.report.checkpoints += 1
            await self._put_writes(thread_id, place, loaded)
            self._tell(thread_id, "copying", at, len(places))

    async def _put_missing_writes(self, thread_id: str, place: Place) -> None:
        """Put what came to a checkpoint since, or what a copy that was stopped didn't put."""
        found = await self._arrived.call("get_tuple", place.config(thread_id))
        loaded = await self._read(thread_id, place)
        there = Counter(write[:2] for write in found.pending_writes or ())
        own = Counter(write[:2] for write, _ in loaded.placed)
        if there < own:
            await self._put_writes(thread_id, place, loaded)

    async def _put_writes(self, thread_id: str, place: Place, loaded: _Loaded) -> None:
        config = place.config(thread_id)
        for task_id, task_path, writes in batches(loaded.placed):
            await self._target.call("put_writes", config, writes, task_id, task_path)
        self.report.writes += len(loaded.placed)

    async def _compare(self, thread_id: str, places: Sequence[Place], *, went_on: bool) -> None:
        deltas: dict[Place, list[str]] = {}
        parents: set[Place] = set()
        for at, place in enumerate(places, 1):
            found = await self._arrived.call("get_tuple", place.config(thread_id))
            loaded = await self._read(thread_id, place)
            for what in differences(loaded.found, found, went_on=went_on):
                self.report.add(Problem(thread_id, *place, what))
            deltas[place] = sorted(delta_channels([loaded.found.metadata]))
            if loaded.found.parent_config is not None:
                parents.add(_place(loaded.found.parent_config))
            self.report.compared += 1
            self._tell(thread_id, "comparing", at, len(places))
        for place, channels in deltas.items():
            if channels and place not in parents:
                await self._compare_deltas(thread_id, place, channels)

    async def _compare_deltas(self, thread_id: str, place: Place, channels: Sequence[str]) -> None:
        """Whether what has no value is rebuilt from the same, at the end of a branch."""
        wanted = {"config": place.config(thread_id), "channels": channels}
        before = await self._source.call("get_delta_channel_history", **wanted)
        after = await self._arrived.call("get_delta_channel_history", **wanted)
        for channel in channels:
            if not same(dict(before[channel]), dict(after[channel])):
                what = f"the DeltaChannel {channel!r} is rebuilt from other writes"
                self.report.add(Problem(thread_id, *place, what))

    async def _compare_latest(self, thread_id: str, namespace: str) -> None:
        latest = {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}}
        ids = [
            found and found.config["configurable"]["checkpoint_id"]
            for found in (
                await self._source.call("get_tuple", latest),
                await self._arrived.call("get_tuple", latest),
            )
        ]
        if ids[0] != ids[1]:
            what = f"the latest checkpoint is {ids[1]}, in the source {ids[0]}"
            self.report.add(Problem(thread_id, namespace, ids[0], what))

    async def _read(self, thread_id: str, place: Place) -> _Loaded:
        found: CheckpointTuple | None = await self._source.call(
            "get_tuple", place.config(thread_id)
        )
        if found is None:
            raise LookupError(f"the source lists {place.checkpoint_id!r}, and can't read it")
        if not found.pending_writes:
            return _Loaded(found, [])
        placed = in_order(found.pending_writes, await self.catalog.paths(thread_id, place))
        writes = [write for write, _ in placed]
        return _Loaded(found._replace(pending_writes=writes), placed)

    def _tell(
        self, thread_id: str, stage: Literal["copying", "comparing"], done: int, total: int
    ) -> None:
        if self._progress is not None:
            self._progress(Step(thread_id, stage, done, total, self.report.threads))


def _place(config: RunnableConfig) -> Place:
    configurable = config["configurable"]
    return Place(configurable.get("checkpoint_ns", ""), configurable["checkpoint_id"])


def _first_missing(places: Sequence[Place], present: set[Place]) -> int:
    return next((at for at, place in enumerate(places) if place not in present), len(places))
