"""The compaction engine: what the node commits, and the view a model is called with.

State messages are never rewritten. The commit moves the marks and the ledger; the view is a
function of (messages, ledger, store) and is the same after a provider error, an interrupt or a
crash. Everything is written once, as `async def` over a store link and a model link.

    system messages | ledger block | kept turns | recalled turns | user's message | what followed
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, convert_to_messages

from langgraph_sessionmem.asking import ModelLink
from langgraph_sessionmem.compaction.blocks import (
    bridge,
    bridged,
    is_ours,
    recalled_block,
    session_block,
)
from langgraph_sessionmem.compaction.extract import extract
from langgraph_sessionmem.compaction.gate import Archive, key_of
from langgraph_sessionmem.compaction.planner import Budget, Plan, Planner
from langgraph_sessionmem.compaction.recall import recall
from langgraph_sessionmem.compaction.record import Record
from langgraph_sessionmem.compaction.transcript import Atom, Transcript, Turn, read_transcript
from langgraph_sessionmem.errors import ArchiveFailed
from langgraph_sessionmem.said import plain_text
from langgraph_sessionmem.store_links import StoreLink, thread_label
from langgraph_sessionmem.tokens import CountTokens

LEDGER_SHARE = 0.2
"""The most of the budget that the ledger may take."""
COMMIT_AT = 0.8
"""The share of the window's limit at which the node makes room; the rest is slack for a slow store
and for messages that come before the node runs again."""
WRITE_AHEAD = 0.25
"""The node archives in parts of this share of the budget, well before a turn has to leave."""
_LONGEST_PAUSE = 16
"""A failing summarizer is asked again after at most so many firings."""


class TurnStatus(NamedTuple):
    """Where one turn of a thread is.

    Attributes:
        id: the message's id.
        position: its index in the thread.
        role: the message's type.
        slid_out: it isn't in the view's window any more.
        held: the archive gives it back as it was said.
    """

    id: str
    position: int
    role: str
    slid_out: bool
    held: bool


@dataclass(slots=True)
class Moment:
    """A thread as one call finds it.

    Attributes:
        transcript: its messages.
        record: its ledger and marks.
        given: the messages as they came.
        archive: where its turns are kept; None without a store or a thread id.
    """

    transcript: Transcript
    record: Record
    given: list[BaseMessage]
    archive: Archive | None

    @property
    def atoms(self) -> list[Atom]:
        """The transcript's atoms."""
        return self.transcript.atoms

    def proven(self) -> int:
        """Atoms before this index are held, by what the record proves without asking the store."""
        label = self.archive.namespace[-1] if self.archive else ""
        return self.record.held if self.record.intact and self.record.archive == label else 0


@dataclass(frozen=True, slots=True)
class Engine:
    """Plans, archives, reads and recalls.

    Attributes:
        budget: what a view may cost.
        namespace: the archive's namespace, without the thread's label.
        count: counts tokens of a message list.
        summarizer_tokens: the size of a request to the summarizer.
        clock: the time, aware.
    """

    budget: Budget
    namespace: tuple[str, ...]
    count: CountTokens
    summarizer_tokens: int
    clock: Callable[[], datetime]

    def moment(
        self, messages: Sequence[Any], channel: Any, store: StoreLink | None, thread_id: str | None
    ) -> Moment:
        """The thread as messages, channel and store have it.

        Raises:
            InvalidArgument: the channel holds something else than a record.
        """
        given = convert_to_messages(list(messages))
        transcript = read_transcript(given)
        record = Record.load(channel, transcript.atoms)
        label = thread_label(thread_id) if thread_id is not None else record.archive
        archive = Archive(store, (*self.namespace, label)) if store and label else None
        return Moment(transcript, record, given, archive)

    async def commit(
        self, moment: Moment, store: StoreLink | None, model: ModelLink | None
    ) -> dict[str, Any] | None:
        """Move ledger and marks; the channel's new value, or None if nothing is to be done.

        Raises:
            BudgetExceeded: what must be in the view doesn't fit; nothing was written.
        """
        old, proven = moment.record, moment.proven()
        planner = self._planner(moment)
        plan = planner.plan(trigger=COMMIT_AT)
        record = old.changed(ledger=old.ledger.without_expired(self.clock()))
        settled = min(moment.transcript.live, default=0)
        written_ahead = planner.cost(min(proven, settled), settled)
        moves = (plan.cut, plan.masked) != (old.evicted, max(old.masked, old.evicted))
        behind = proven < max(plan.cut, plan.masked) or old.read < plan.cut
        if store and (moves or behind or written_ahead > self.budget.total * WRITE_AHEAD):
            if moment.archive is None:  # no thread id: a label of its own, kept in the channel
                label = f"a_{os.urandom(8).hex()}"
                moment.archive = Archive(store, (*self.namespace, label))
            record = record.changed(archive=moment.archive.namespace[-1])
            upto = max(plan.cut, plan.masked, settled)
            record = await self._hold(moment, moment.archive, upto, record)
            if moves or record.read < plan.cut:
                record = await self._move(moment, plan, record, model)
        return None if record == old else record.dump(moment.atoms)

    async def _move(
        self, moment: Moment, plan: Plan, record: Record, model: ModelLink | None
    ) -> Record:
        """The record after reading what the plan wants out, as far as it is held."""
        record = record.changed(firings=record.firings + 1)
        due = min(plan.cut, record.held)
        if model is None:
            record = record.changed(read=max(record.read, due))
        elif record.read < due and record.firings >= record.retry_at:
            record = await self._read(moment.atoms[record.read : due], record, model)
        return record.changed(
            evicted=max(record.evicted, min(due, record.read)),
            masked=max(record.masked, min(plan.masked, record.held)),
        )

    async def _hold(self, moment: Moment, archive: Archive, upto: int, record: Record) -> Record:
        """Archive the atoms before `upto`, and move `held` over those that came back."""
        proven = moment.proven()
        atoms = moment.atoms[proven:upto]
        turns = [turn for atom in atoms for turn in atom.turns]
        doubtful = moment.record.held > proven
        written = [turn for turn in turns if doubtful or turn.id in record.pending]
        keys = await archive.look(written)
        missing = [turn for turn in turns if key_of(turn) not in keys]
        keys |= await archive.save(missing)
        read = record.read
        if doubtful and moment.record.archive == archive.namespace[-1]:
            # Edited since it was read: it is read again, and what follows it.
            names = {turn.id for turn in missing}
            edited = (
                at
                for at, atom in enumerate(atoms, proven)
                if any(turn.id in names for turn in atom.turns)
            )
            read = min(read, next(edited, read))
        held = proven
        for atom in atoms:
            if not all(key_of(turn) in keys for turn in atom.turns):
                break
            held += 1
        pending = tuple(turn.id for turn in turns if key_of(turn) not in keys)
        return record.changed(held=held, intact=True, pending=pending, read=read)

    async def _read(self, atoms: Sequence[Atom], record: Record, model: ModelLink) -> Record:
        """Have the summarizer read the atoms; if it fails, it is asked again some firings later."""
        extraction = await extract(
            model,
            record.ledger,
            atoms,
            max_tokens=self.summarizer_tokens,
            count=self.count,
            recorded_at=self.clock().isoformat(timespec="seconds"),
            accept_empty=record.failures > 0,
        )
        if extraction.read:
            return record.changed(
                ledger=extraction.ledger, read=record.read + extraction.read, failures=0, retry_at=0
            )
        failures = record.failures + 1
        pause = min(2 ** (failures - 1), _LONGEST_PAUSE)
        return record.changed(failures=failures, retry_at=record.firings + pause)

    async def view(self, moment: Moment) -> list[BaseMessage]:
        """The messages to call the model with.

        Raises:
            BudgetExceeded: what must be in the view doesn't fit; nothing was written.
            ArchiveFailed: turns must leave the window and the store doesn't hold them.
        """
        if self._is_view(moment):
            return moment.given
        planner = self._planner(moment)
        plan = planner.plan()
        proven = moment.proven()
        unproven = [index for index in (*plan.out, *plan.changed) if index >= proven]
        if unproven:
            held = await self._held(moment, unproven)
            failure = moment.archive.failure if moment.archive else None
            try:
                plan = planner.plan(
                    held=lambda index: index < proven or index in held,
                    recalls=moment.archive is not None and failure is None,
                )
            except ArchiveFailed as error:
                raise error from failure
        block = await self._recalled(moment, plan)
        systems = [turn.message for turn in moment.transcript.systems]
        return [*systems, *bridged([*plan.before, *block, *plan.after])]

    def _is_view(self, moment: Moment) -> bool:
        """Whether the messages are a view already, with the same ledger: it stays as it is."""
        given, lines = moment.given, self._ledger_lines(moment.record)
        if not any(map(is_ours, given)) or self.count(given) > self.budget.total:
            return False
        said = [turn.message for turn in moment.transcript.systems]
        said += [message for atom in moment.atoms for message in atom.messages()]
        return (
            not moment.record.evicted
            and (not lines or session_block(lines) in given)
            and [message for message in said if not is_ours(message)]
            == [message for message in given if not is_ours(message)]
        )

    async def _held(self, moment: Moment, indices: Sequence[int]) -> set[int]:
        """Those of the atoms that the archive holds, after trying to archive them."""
        if moment.archive is None:
            return set()
        turns = [turn for index in indices for turn in moment.atoms[index].turns]
        keys = await moment.archive.look(turns)
        keys |= await moment.archive.save([turn for turn in turns if key_of(turn) not in keys])
        return {
            index
            for index in indices
            if all(key_of(turn) in keys for turn in moment.atoms[index].turns)
        }

    async def _recalled(self, moment: Moment, plan: Plan) -> list[BaseMessage]:
        """The block of recalled turns, if there is any."""
        out = self._unseen(moment, plan)
        current = moment.transcript.current
        if moment.archive is None or not out or current is None:
            return []
        query = plain_text(moment.atoms[current].head.message)
        edges = self.count([bridge(session_block([]))]) * 2
        room = self.budget.total - plan.tokens - edges
        lines = await recall(moment.archive, query, out, room, self.count)
        return [recalled_block(lines)] if lines else []

    def _unseen(self, moment: Moment, plan: Plan) -> list[Turn]:
        """The turns of which the view shows nothing, in their order."""
        gone = [turn for index in plan.out for turn in moment.atoms[index].turns]
        masked = [turn for index in plan.changed for turn in moment.atoms[index].results]
        return sorted([*gone, *masked], key=lambda turn: turn.position)

    async def status(self, moment: Moment) -> list[TurnStatus]:
        """Where each turn after the leading system messages is; writes nothing."""
        turns = [turn for atom in moment.atoms for turn in atom.turns]
        keys = await moment.archive.look(turns) if moment.archive else set()
        out = {turn.id for turn in self._unseen(moment, self._planner(moment).plan())}
        return [
            TurnStatus(
                turn.id, turn.position, turn.message.type, turn.id in out, key_of(turn) in keys
            )
            for turn in sorted(turns, key=lambda turn: turn.position)
        ]

    def _planner(self, moment: Moment) -> Planner:
        record = moment.record
        lines = self._ledger_lines(record)
        return Planner(
            moment.transcript, self.budget, lines, self.count, record.evicted, record.masked
        )

    def _ledger_lines(self, record: Record) -> list[str]:
        most = int(self.budget.total * LEDGER_SHARE)
        return record.ledger.lines(lambda kept: self.count([session_block(kept)]) <= most)
