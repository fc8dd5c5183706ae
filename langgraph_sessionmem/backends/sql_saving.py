"""Checkpoints, writes and limits into an SQL database, written once for both dialects."""

from typing import NamedTuple

from typing_extensions import override

from langgraph_sessionmem.backends.sql import Params, Refused, Step, text_in
from langgraph_sessionmem.backends.sql_rows import limits_in, text_or_none, writes_in
from langgraph_sessionmem.backends.sql_scripts import MARKS, SqlScripts, drop_locked, new_token
from langgraph_sessionmem.rows import CheckpointSave, Limits, Outcome, Saved, WritesSave

_ATTEMPTS = 5
"""Of a save whose thread is deleted or begun by others, time and again."""


class _State(NamedTuple):
    """What a save meets.

    Attributes:
        thread: the generation, None if there is no thread of the id.
        saves: 0: so far only writes are known.
        ended: past its greatest age; 2: for more than an hour.
        idle: past its idle limit.
        tombstone: a thread of the id was deleted a while ago.
        aged: one was swept that was past its greatest age.
        stored: the checkpoint that was asked about is stored.
    """

    thread: int | None
    saves: int | None
    ended: int
    idle: int
    keep_latest: int | None
    tombstone: int
    aged: int
    stored: int

    @property
    def gone(self) -> bool:
        """There is no thread, or what there is only waits for the sweeper."""
        return self.thread is None or self.ended == 2 or bool(self.idle and not self.keep_latest)

    def refuses(self, generation: int) -> Outcome | None:
        """What a save that belongs to a life of the thread is told."""
        if self.ended == 1:
            return Outcome.EXPIRED
        if not self.gone and self.thread == generation:
            return None
        # A thread that has only writes may be what this very run wrote after its rows were swept.
        if not self.gone and self.saves:
            return Outcome.DELETED
        if self.aged:
            return Outcome.EXPIRED
        return Outcome.DELETED if self.tombstone else Outcome.GONE


class SqlSaving(SqlScripts):
    """The part of `CheckpointRecords` that stores."""

    @override
    async def save_checkpoint(self, save: CheckpointSave) -> Saved:
        clears = False
        for _ in range(_ATTEMPTS):
            column = None
            steps = self._save_steps(save, clears=clears)
            try:
                found = await self._link.execute([*steps, *self._content_steps(save, steps[-1])])
            except Refused as refused:
                column = refused.column
            else:
                if saved := found[len(steps) - 1]:
                    return Saved(Outcome.SAVED, saved[0][0])
            state = await self._state(save.thread_id, save.checkpoint_ns, save.parent_id)
            outcome = _refusal(save, state, column)
            if outcome is not None:
                return Saved(outcome, 0)
            clears = state.thread is not None and (state.gone or bool(state.ended))
        return Saved(Outcome.GONE, 0)

    @override
    async def save_writes(self, save: WritesSave) -> Saved:
        generation = save.generation
        for _ in range(_ATTEMPTS):
            if generation is None:
                generation = await self._generation_for_writes(save)
            if generation is not None:
                _, held, *_ = await self._link.execute(self._writes_steps(save, generation))
                if held:
                    return Saved(Outcome.SAVED, generation)
                state = await self._state(save.thread_id, save.checkpoint_ns, save.checkpoint_id)
                outcome = state.refuses(generation)
                if state.ended == 1 or (
                    save.generation is not None and outcome in (Outcome.EXPIRED, Outcome.DELETED)
                ):
                    return Saved(outcome or Outcome.EXPIRED, 0)
                generation = None
        return Saved(Outcome.DELETED, 0)

    @override
    async def save_limits(self, thread_id: str, limits: Limits, *, own: bool) -> bool:
        thread = {"thread_id": text_in(thread_id), "sticky": int(own)}
        return bool(await self._rows("save_limits", {**thread, **limits_in(limits)}))

    @override
    async def touch_thread(self, thread_id: str, generation: int) -> None:
        params: Params = {"thread_id": text_in(thread_id), "generation": generation}
        await self._rows("touch_thread", params)

    def _save_steps(self, save: CheckpointSave, *, clears: bool) -> list[Step]:
        """A checkpoint without its elements; the last step gives a row if the thread accepts it."""
        params = {
            "thread_id": text_in(save.thread_id),
            "token": new_token(),
            "checkpoint_ns": text_in(save.checkpoint_ns),
            "checkpoint_id": text_in(save.checkpoint_id),
            "parent_id": text_or_none(save.parent_id),
            "generation": save.generation,
            "owner": text_or_none(save.owner),
            "sticky": int(save.sticky),
            "pending": int(save.pending),
            "begins": int(save.begins),
            "head": save.head,
            "metadata": save.metadata,
            "mark": self._mark(save.thread_id),
            "builds_on_parent": int(save.builds_on_parent),
            "may_fork": int(save.may_fork),
            **limits_in(save.limits),
        }
        steps = [Step("take_thread", params), Step("save_checkpoint", params)]
        if save.generation is None:
            steps.insert(0, Step("make_thread", params))
        return [*self._clear_steps(save.thread_id), *steps] if clears else steps

    def _content_steps(self, save: CheckpointSave, checkpoint: Step) -> list[Step]:
        """What comes with the checkpoint of a step."""
        params, steps = checkpoint.params, []
        if save.elements:
            # In order, or the first would seem to lie in a block that ends with the last.
            rows = [element._asdict() for element in sorted(save.elements) if element.body]
            if rows:
                steps.append(Step("save_elements", params, rows))
        if save.blocks:
            blocks = [
                {
                    "block_log": block.log,
                    "first": block.first,
                    "last": block.last,
                    "block_body": block.body,
                }
                for block in save.blocks
            ]
            steps += [Step(name, params, blocks) for name in ("cut_sealed", "save_blocks")]
        if save.run_id is not None:
            steps.append(Step("save_runs", params, [{"run_id": text_in(save.run_id)}]))
        if _tidies_up(checkpoint):
            steps.append(Step("forget_early", params))
        return steps

    async def _generation_for_writes(self, save: WritesSave) -> int | None:
        """The life that writes of unknown life belong to; None: ask again, it was just made."""
        state = await self._state(save.thread_id, save.checkpoint_ns, save.checkpoint_id)
        if not state.gone and (state.stored or not state.ended):
            return state.thread
        # Only now is the thread made: an insert that gives way burns an identity value each time.
        thread = {"thread_id": text_in(save.thread_id)}
        clears = self._clear_steps(save.thread_id)
        await self._link.execute([*clears, Step("make_thread", thread)])
        return None

    def _clear_steps(self, thread_id: str) -> list[Step]:
        """Delete a thread that is over, as the sweeper would."""
        thread, token = {"thread_id": text_in(thread_id)}, new_token()
        marked = {**thread, "mark": self._mark(thread_id)}
        return [
            Step("lock_expired", {**thread, "token": token, "shells": 0}),
            *(Step(name, {"token": token}, [marked]) for name in MARKS),
            *drop_locked([thread_id], token),
        ]

    def _writes_steps(self, save: WritesSave, generation: int) -> list[Step]:
        """The script of a task's writes; its second step gives a row if the thread accepts them."""
        params = {
            "thread_id": text_in(save.thread_id),
            "generation": generation,
            "checkpoint_ns": text_in(save.checkpoint_ns),
            "checkpoint_id": text_in(save.checkpoint_id),
            "interrupts": int(save.interrupts),
        }
        # The update comes before the shared lock: two tasks that held it would wait for each other.
        steps = [Step("renew_thread", params), Step("hold_thread", params)]
        if save.writes:
            steps.append(Step("save_writes", params, writes_in(save.writes)))
        # Asked even where it is known to have been stored: it may have been cut since.
        return [*steps, Step("save_early_writes", params)]

    async def _state(self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None) -> _State:
        params: Params = {
            "thread_id": text_in(thread_id),
            "mark": self._mark(thread_id),
            "checkpoint_ns": text_in(checkpoint_ns),
            "checkpoint_id": text_or_none(checkpoint_id),
        }
        [row] = await self._rows("read_state", params)
        return _State(*row)


def _tidies_up(checkpoint: Step) -> bool:
    """Whether this is one of the saves, about every 64th, that do; `functions.sql` says it too."""
    token = checkpoint.params["token"]
    return isinstance(token, int) and token % 128 == 1


def _refusal(save: CheckpointSave, state: _State, column: str | None) -> Outcome | None:
    """Why a save was refused, by the rules in their order; None: it would be accepted now."""
    gone = state.gone or bool(save.begins and state.ended)
    if save.generation is not None:
        outcome = state.refuses(save.generation)
        if outcome is not None:
            return Outcome.GONE if save.begins and outcome is Outcome.EXPIRED else outcome
    elif not save.begins and (state.ended == 1 or (state.aged and (gone or not state.saves))):
        return Outcome.EXPIRED
    if save.parent_id is not None and (gone or not state.stored):
        if state.tombstone and save.generation is None:
            return Outcome.DELETED
        if save.builds_on_parent:
            return Outcome.PARENT_GONE
    if state.idle and not gone:
        return Outcome.CUT_FIRST
    return _REFUSED.get(column or "")


_REFUSED = {
    "head": Outcome.PARENT_GONE,  # an anchor is no checkpoint that could be replaced
    "metadata": Outcome.CONFLICT,
    "body": Outcome.LOG_TAKEN,
}
