"""Memories as they are read: the claim, and all that is known of it (pure)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast

from langgraph_sessionmem.memories.kinds import Memory, Reflection, Source
from langgraph_sessionmem.memories.slots import Claim, Policy, Standing, Version, standing
from langgraph_sessionmem.memories.statements import Dossier, Outcomes, Statement, read_memory

M = TypeVar("M", bound=Memory)
Status = Literal["current", "past", "future", "corrected", "overruled", "retracted"]
Kinds = Mapping[str, type[Memory]]
"""The types of memories by name."""


@dataclass(frozen=True, slots=True)
class Known(Generic[M]):
    """A memory, or a version of one, as it stands.

    Attributes:
        id: the memory's id, such as `fact:user/db_port`.
        memory: what is claimed; its `valid_from` and `valid_to` are those of this version.
        status: `current`, `past` or `future` by the time that was asked for; `corrected` by its own
            source, `overruled` in a conflict, or `retracted`.
        valid_from: since when it is true; `valid_to` until when, `None` is until further notice.
        recorded_at: when it was learnt first.
        sources: where it was learnt.
        revision: how much was said of this memory by then; `expected=` of a write takes it.
        version: which one in the order of time, counted from 1; 0 for one that doesn't hold.
        alternatives: what other sources claim about the same time, as long as that is open.
        reason: why it doesn't hold.
        weight: from 0 to 1; a reflection fades.
        worked: how often this version of a skill did; `failed`: how often it didn't.
        note: what was said about the last time it was used.
    """

    id: str
    memory: M
    status: Status
    valid_from: datetime
    valid_to: datetime | None
    recorded_at: datetime
    sources: tuple[Source, ...]
    revision: int
    version: int
    alternatives: tuple[M, ...] = ()
    reason: str = ""
    weight: float = 1.0
    worked: int = 0
    failed: int = 0
    note: str = ""

    @property
    def value(self) -> Any:
        """The value of a fact or a background; of other types, their text or `None`."""
        return getattr(self.memory, "value", getattr(self.memory, "text", None))

    @property
    def text(self) -> str:
        """How it reads; where sources contradict each other, all that they say."""
        lines = dict.fromkeys([self.memory.line(), *(each.line() for each in self.alternatives)])
        return " | or: ".join(lines)

    @property
    def confidence(self) -> float:
        """From 0 to 1."""
        return self.memory.confidence


class Conflict(NamedTuple):
    """Sources that contradict each other about one time.

    Attributes:
        id: the memory's id.
        since: the time it is about.
        claims: what they say, the first to be said first.
    """

    id: str
    since: datetime
    claims: tuple[Known[Memory], ...]


class Asking(NamedTuple):
    """What an answer depends on beside what was said.

    Attributes:
        kinds: the types of memories.
        policy: what settles conflicts.
        at: the time that is asked about.
        known_at: only what was learnt until then counts; `None` is everything.
    """

    kinds: Kinds
    policy: Policy
    at: datetime
    known_at: datetime | None = None


def held(dossier: Dossier, asking: Asking) -> Known[Memory] | None:
    """What a memory says about the time asked for; `None`: nothing."""
    stands = standing(dossier.statements, asking.policy, asking.known_at)
    version = stands.at(asking.at)
    return None if version is None else _known(dossier, asking, stands, version)


def all_versions(dossier: Dossier, asking: Asking) -> list[Known[Memory]]:
    """Every version of a memory, the latest first, and among them what doesn't hold."""
    stands = standing(dossier.statements, asking.policy, asking.known_at)
    found = [_known(dossier, asking, stands, version) for version in stands.versions]
    for claim, status, reason in stands.lost:
        if claim.content is not None:
            lost = _of_claim(dossier, asking, claim, cast("Status", status), reason)
            found.append(lost)
    return sorted(found, key=lambda each: (each.valid_from, each.recorded_at), reverse=True)


def conflicts_of(dossier: Dossier, asking: Asking) -> list[Conflict]:
    """What of a memory is open."""
    stands = standing(dossier.statements, asking.policy, asking.known_at)
    return [
        Conflict(
            dossier.id,
            version.valid_from,
            tuple(
                _of_claim(dossier, asking, claim, _status(version, asking.at), "")
                for claim in (version.claim, *version.rivals)
            ),
        )
        for version in stands.conflicts
    ]


def _known(dossier: Dossier, asking: Asking, stands: Standing, version: Version) -> Known[Memory]:
    claim, last = version.claim, version.claim.last
    used = dossier.outcomes.get(str(version.first), Outcomes())
    memory = _memory(dossier, asking, claim, version.valid_from, version.valid_to)
    return Known(
        id=dossier.id,
        memory=memory,
        status=_status(version, asking.at),
        valid_from=version.valid_from,
        valid_to=version.valid_to,
        recorded_at=min(each.recorded_at for each in claim.statements),
        sources=claim.sources,
        revision=_revision(dossier, asking),
        version=stands.versions.index(version) + 1,
        alternatives=tuple(
            _memory(dossier, asking, rival, version.valid_from, rival.last.valid_to)
            for rival in version.rivals
        ),
        reason=last.reason,
        weight=_weight(memory, dossier.statements, asking),
        worked=used.worked,
        failed=used.failed,
        note=used.note,
    )


def _of_claim(
    dossier: Dossier, asking: Asking, claim: Claim, status: Status, reason: str
) -> Known[Memory]:
    last = claim.last
    return Known(
        id=dossier.id,
        memory=_memory(dossier, asking, claim, last.valid_from, last.valid_to),
        status=status,
        valid_from=last.valid_from,
        valid_to=last.valid_to,
        recorded_at=min(each.recorded_at for each in claim.statements),
        sources=claim.sources,
        revision=_revision(dossier, asking),
        version=0,
        reason=reason,
    )


def _memory(
    dossier: Dossier,
    asking: Asking,
    claim: Claim,
    valid_from: datetime,
    valid_to: datetime | None,
) -> Memory:
    last = claim.last
    fields = {
        **(claim.content or {}),
        "valid_from": valid_from,
        "valid_to": valid_to,
        "confidence": last.confidence,
        "tags": last.tags,
        "consent": last.consent,
    }
    return read_memory(asking.kinds[dossier.type], dossier.of, fields)


def _revision(dossier: Dossier, asking: Asking) -> int:
    return max(each.number for each in _known_statements(dossier.statements, asking))


def _known_statements(statements: Sequence[Statement], asking: Asking) -> list[Statement]:
    return [
        each
        for each in statements
        if asking.known_at is None or each.recorded_at <= asking.known_at
    ]


def _status(version: Version, at: datetime) -> Status:
    if version.holds_at(at):
        return "current"
    return "future" if version.valid_from > at else "past"


def _weight(memory: Memory, statements: Iterable[Statement], asking: Asking) -> float:
    """1 when it was seen last, half of that after each half-life."""
    if not isinstance(memory, Reflection):
        return 1.0
    seen = [
        each.recorded_at
        for each in _known_statements([*statements], asking)
        if each.kind in ("said", "confirmed")
    ]
    age = (asking.at - max(seen)) / timedelta(days=memory.half_life_days)
    return math.pow(0.5, max(0.0, age))
