"""Which atoms stay in the window, and how they fit the budget (pure).

The means, in this order: old tool results are masked, the oldest atoms are left out, what alone is
too large is clipped, and if that isn't enough a typed error is raised. Pinned are the leading
system messages, the user's current message and the newest exchange (pending calls, or results the
model has yet to read). Only what the archive is proven to hold may be masked or left out.

The cut is a fold over the atoms: each time the window outgrows its limit it shrinks to a much lower
target. So it depends on the messages alone, moves in big steps, and between two steps the beginning
of the view stays the same, byte for byte.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage, ToolMessage

from langgraph_sessionmem.compaction.blocks import (
    bridge,
    bridged,
    clipped,
    is_ours,
    masked,
    session_block,
    with_mark,
)
from langgraph_sessionmem.compaction.transcript import Transcript
from langgraph_sessionmem.errors import ArchiveFailed, BudgetExceeded
from langgraph_sessionmem.tokens import CountTokens

TARGET_SHARE = 0.5
"""How far the window shrinks when it outgrew its limit, as a share of the limit."""
FREE_SHARE = 0.25
"""The share of the room for recall that turns held back can't take: they would crowd the answer out
that an older turn has."""
MASKED_SHARE = 0.8
"""If masking brings the window below this share of the limit, no turn has to leave."""
LARGE_SHARE = 0.5
"""A single message above this share of the budget is too large and is clipped to it."""
SMALLEST_CLIP = 24
"""Tokens below which a clipped message says nothing any more."""
SMALLEST_QUESTION = 64
"""The same for the user's current message."""
_SHRINKING = (1.0, 0.7, 0.4, 0.0)
"""Shares of the limit tried in turn: a counter need not add up as its parts do."""
_MASK_GAIN = 24
"""Tokens that masking a result must save to be worth it."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a view may cost, in tokens.

    Attributes:
        total: the whole view; room for tools and the answer is already taken off.
        recall: the part kept free for recalled turns once anything was left out; less in
            proportion if system messages and what else is pinned take a lot.
    """

    total: int
    recall: int


@dataclass(slots=True)
class _Draft:
    """A cut and a mask with what is shown in any case, clipped as far as it takes."""

    cut: int
    mask: int
    ledger: Sequence[str]
    pinned: dict[int, list[BaseMessage]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A window that fits.

    Attributes:
        cut: atoms before this index are out of the window, except those pinned or not held.
        masked: tool results in atoms before this index are masked.
        out: the indices that are not shown, ascending.
        changed: the indices of atoms that are shown with a masked result.
        before: the view without system messages up to the user's current message.
        after: from the user's current message on.
        tokens: the cost of systems, `before` and `after` together, with bridges.
    """

    cut: int
    masked: int
    out: list[int]
    changed: list[int]
    before: list[BaseMessage]
    after: list[BaseMessage]
    tokens: int


class Planner:
    """Plans for one transcript at one moment.

    Args:
        transcript: the thread.
        budget: what the view may cost.
        ledger: the ledger's lines, escaped; may be empty.
        count: counts tokens of a message list.
        cut: the atoms before this index are already out of the window.
        masked: the results before this index are already masked.
    """

    def __init__(
        self,
        transcript: Transcript,
        budget: Budget,
        ledger: Sequence[str],
        count: CountTokens,
        cut: int = 0,
        masked: int = 0,
    ) -> None:
        self._atoms, self._current = transcript.atoms, transcript.current
        self._budget, self._ledger, self._count = budget, ledger, count
        self._cut, self._masked = cut, max(masked, cut)
        self._systems = [turn.message for turn in transcript.systems]
        self._pinned = set(transcript.live)
        if self._current is not None:
            self._pinned.add(self._current)
        self._shown: dict[tuple[int, bool], tuple[list[BaseMessage], int]] = {}

    def plan(
        self,
        *,
        trigger: float = 1.0,
        held: Callable[[int], bool] = lambda index: True,
        recalls: bool = False,
    ) -> Plan:
        """A window within the budget.

        Args:
            trigger: the share of the window's limit at which it starts to shrink.
            held: whether the archive holds the atom with this index.
            recalls: the archive can be searched, so turns that it doesn't hold must leave room for
                those that it does; else they may fill the budget.

        Raises:
            BudgetExceeded: what is pinned doesn't fit, even clipped.
            ArchiveFailed: it would fit, but without turns that the archive doesn't hold.
        """
        draft, plan = self._fitting(trigger)
        if all(held(index) for index in [*plan.out, *plan.changed]):
            return plan
        whole, plan = plan.tokens, self._lay_out(draft, held)
        free = self._recall(self._base()) * FREE_SHARE if recalls and plan.out else 0
        if plan.tokens > max(self._budget.total - free, whole):
            raise ArchiveFailed(
                f"The view needs {plan.tokens} tokens of {self._budget.total} because turns can't "
                "leave it: the store doesn't give them back. Nothing was dropped. Compile the "
                "graph with store=..., give the run a thread_id, and see that the store returns "
                "what it was given."
            )
        return plan

    def cost(self, start: int, stop: int) -> int:
        """Tokens of the atoms from `start` up to `stop`, as the window shows them."""
        return sum(self._cost(index, index < self._masked) for index in range(start, stop))

    def _fitting(self, trigger: float) -> tuple[_Draft, Plan]:
        """A window that fits if the archive holds everything."""
        draft = self._draft(self._cut, self._masked)
        plan = self._lay_out(draft)
        if trigger == 1 and not plan.out and plan.tokens <= self._budget.total:
            return draft, plan  # nothing left so far, and nothing has to
        least = 0
        for share in _SHRINKING:
            draft = self._draft(*self._fold(trigger * share))
            plan = self._lay_out(draft)
            for shorten in (self._clip_exchange, self._drop_ledger, self._clip_question):
                if plan.tokens > self._budget.total and not share:
                    shorten(draft, plan.tokens - self._budget.total)
                    plan = self._lay_out(draft)
            if plan.tokens <= self._budget.total:
                return draft, plan
            least = plan.tokens
        raise BudgetExceeded(
            least,
            self._budget.total,
            "system messages, the user's message and the newest exchange",
        )

    def _draft(self, cut: int, mask: int) -> _Draft:
        pinned = {index: self._show(index, False)[0] for index in self._pinned}
        return _Draft(cut, mask, self._ledger, pinned)

    def _fold(self, trigger: float) -> tuple[int, int]:
        """The cut and the mask after the window shrank as often as it outgrew its limit."""
        cut, mask, window = self._cut, self._masked, 0
        base = self._base()
        limit = base - self._recall(base)
        for index in range(cut, len(self._atoms)):
            if index in self._pinned:
                continue
            window += self._cost(index, index < mask)
            # All of the budget may be used until the first turn goes: nothing needs recalling yet.
            if window <= (limit if cut else base) * trigger:
                continue
            for old in range(mask, index + 1):
                if window > limit * TARGET_SHARE * trigger and self._saved(old):
                    window -= self._saved(old)
                    mask = old + 1
            if window <= (limit if cut else base) * trigger * MASKED_SHARE:
                continue
            while cut < index and window > limit * TARGET_SHARE * trigger:
                if cut not in self._pinned:
                    window -= self._cost(cut, cut < mask)
                cut += 1
            if window > limit * trigger:  # this one alone is too much
                window, cut = 0, index + 1
            mask = max(mask, cut)
        return cut, mask

    def _base(self) -> int:
        """Tokens that what is shown in any case leaves, before anything is clipped to fit."""
        head = session_block(self._ledger)
        pinned = sum(self._cost(index, False) for index in self._pinned)
        fixed = pinned + self._count([*self._systems, head, bridge(head), bridge(head)])
        return max(self._budget.total - fixed, 0)

    def _recall(self, base: int) -> float:
        """The part of it kept free for recalled turns; a long system prompt is at both's cost."""
        return self._budget.recall * base / self._budget.total

    def _show(self, index: int, mask: bool) -> tuple[list[BaseMessage], int]:
        """The atom's messages, each clipped if it alone is too large, and their cost."""
        known = self._shown.get((index, mask))
        if known is None:
            messages = self._atoms[index].messages()
            if mask:
                messages = [self._mask(message) for message in messages]
            if index != self._current:
                large = int(self._budget.total * LARGE_SHARE)
                messages = [clipped(message, large, self._count_one) for message in messages]
            cost = self._count(messages)
            if self._atoms[index].kind == "note":
                cost += 2 * self._count_one(bridge(messages[0]))
            known = self._shown[index, mask] = messages, cost
        return known

    def _cost(self, index: int, mask: bool) -> int:
        return self._show(index, mask)[1]

    def _saved(self, index: int) -> int:
        if index in self._pinned or not self._atoms[index].results:
            return 0
        return self._cost(index, False) - self._cost(index, True)

    def _mask(self, message: BaseMessage) -> BaseMessage:
        if not isinstance(message, ToolMessage) or is_ours(message) or with_mark(message, "masked"):
            return message
        short = masked(message)
        worth_it = self._count_one(message) - self._count_one(short) >= _MASK_GAIN
        return short if worth_it else message

    def _count_one(self, message: BaseMessage) -> int:
        return self._count([message])

    def _lay_out(self, draft: _Draft, held: Callable[[int], bool] = lambda index: True) -> Plan:
        out: list[int] = []
        changed: list[int] = []
        before: list[BaseMessage] = []
        after: list[BaseMessage] = []
        middle = len(self._atoms) if self._current is None else self._current
        for index in range(len(self._atoms)):
            if index in self._pinned:
                messages = draft.pinned[index]
            elif index < draft.cut and held(index):
                out.append(index)
                continue
            else:
                mask = index < draft.mask and bool(self._saved(index)) and held(index)
                messages = self._show(index, mask)[0]
                changed += [index] if mask else []
            (before if index < middle else after).extend(messages)
        first = next(iter([*before, *after]), None)
        if draft.ledger or out or (first is not None and first.type != "human"):
            before.insert(0, session_block(draft.ledger))
        tokens = self._count([*self._systems, *bridged([*before, *after])])
        return Plan(draft.cut, draft.mask, out, changed, before, after, tokens)

    def _clip_exchange(self, draft: _Draft, excess: int) -> None:
        """Shorten the newest exchange so that its longest messages share what room there is."""
        live = [index for index in draft.pinned if index != self._current]
        costs = [self._count_one(message) for index in live for message in draft.pinned[index]]
        share = max(_level(costs, sum(costs) - excess), SMALLEST_CLIP)
        for index in live:
            draft.pinned[index] = [
                clipped(message, share, self._count_one) for message in draft.pinned[index]
            ]

    def _drop_ledger(self, draft: _Draft, excess: int) -> None:
        draft.ledger = []

    def _clip_question(self, draft: _Draft, excess: int) -> None:
        if self._current is not None:
            (question,) = draft.pinned[self._current]
            room = max(self._count_one(question) - excess, SMALLEST_QUESTION)
            draft.pinned[self._current] = [clipped(question, room, self._count_one)]


def _level(costs: Sequence[int], room: int) -> int:
    """The largest share such that the costs, each cut to it, sum to at most `room`."""
    low, high = 0, max(costs, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(cost, middle) for cost in costs) <= room:
            low = middle
        else:
            high = middle - 1
    return low
