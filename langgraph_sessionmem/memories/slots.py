"""What holds when, derived from what was said (pure).

Event time goes before arrival time: claims are put in the order in which they are true, so one that
arrives late becomes history. A conflict is two values of one slot at one time:

- said by one source (a speaker in a thread), the later corrects the earlier;
- said by different sources, it stays open until it is resolved, and the first to be said holds
  meanwhile, unless a policy decides;
- said about different times, it is no conflict: the later closes the earlier.

A value that was closed doesn't come back when its successor ends: nobody said so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from langgraph_sessionmem.memories.kinds import Source, canonical
from langgraph_sessionmem.memories.statements import Statement

Policy = Literal["ask", "latest", "confidence"]
POLICIES: tuple[Policy, ...] = ("ask", "latest", "confidence")


@dataclass(frozen=True, slots=True)
class Claim:
    """One value, and all that say it about one time.

    Attributes:
        content: the value; `None` says that nothing holds.
        statements: in the order they were learnt.
    """

    content: dict[str, Any] | None
    statements: tuple[Statement, ...]

    @property
    def last(self) -> Statement:
        """The statement learnt last, whose end, confidence, tags and consent count."""
        return self.statements[-1]

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where it was learnt, each once."""
        given = (statement.source for statement in self.statements)
        return tuple(dict.fromkeys(source for source in given if source is not None))

    @property
    def numbers(self) -> frozenset[int]:
        """Its statements' numbers."""
        return frozenset(statement.number for statement in self.statements)


@dataclass(frozen=True, slots=True)
class Version:
    """What held for some time.

    Attributes:
        claim: what is claimed; all that say it again later are in it too.
        valid_from: since when.
        valid_to: until when; `None` is until further notice.
        rivals: other claims about the same time, as long as the conflict is open.
    """

    claim: Claim
    valid_from: datetime
    valid_to: datetime | None
    rivals: tuple[Claim, ...] = ()

    @property
    def first(self) -> int:
        """The number of the statement that began it."""
        return min(self.claim.numbers)

    def holds_at(self, time: datetime) -> bool:
        """Whether it is what holds at a time."""
        return self.valid_from <= time and (self.valid_to is None or time < self.valid_to)


@dataclass(frozen=True, slots=True)
class Standing:
    """All that can be told of a slot from what is known.

    Attributes:
        versions: in the order in which they were true; without those that say that nothing held.
        lost: claims that don't hold, and why: corrected, overruled or retracted.
    """

    versions: tuple[Version, ...] = ()
    lost: tuple[tuple[Claim, str, str], ...] = ()

    def at(self, time: datetime) -> Version | None:
        """What holds at a time; `None`: nothing is known to."""
        return next((version for version in self.versions if version.holds_at(time)), None)

    @property
    def conflicts(self) -> tuple[Version, ...]:
        """The versions that others contradict, openly."""
        return tuple(version for version in self.versions if version.rivals)


@dataclass(slots=True)
class _Moment:
    """The claims about one time, in the making."""

    claims: list[Claim] = field(default_factory=list)
    lost: list[tuple[Claim, str, str]] = field(default_factory=list)

    def hear(self, statement: Statement) -> None:
        if statement.kind == "resolved":
            self._resolve(statement)
            return
        content = statement.content if statement.kind == "said" else None
        # An end makes room for what begins at that time, and says nothing against it.
        if content is None and self.claims:
            return
        self.claims = [claim for claim in self.claims if claim.content is not None]
        said = canonical(content)
        for place, claim in enumerate(self.claims):
            if canonical(claim.content) == said:
                self.claims[place] = replace(claim, statements=(*claim.statements, statement))
                return
        corrected = [claim for claim in self.claims if _is_corrected(claim, statement)]
        self.claims = [claim for claim in self.claims if claim not in corrected]
        self.lost += [(claim, "corrected", statement.reason) for claim in corrected]
        self.claims.append(Claim(content, (statement,)))

    def _resolve(self, statement: Statement) -> None:
        chosen = [claim for claim in self.claims if claim.numbers & set(statement.about)]
        if chosen:
            beaten = [claim for claim in self.claims if claim not in chosen]
            self.lost += [(claim, "overruled", statement.reason) for claim in beaten]
            self.claims = chosen

    def decided(self, policy: Policy) -> tuple[Claim, tuple[Claim, ...]]:
        """The claim that holds, and its rivals if that is open."""
        if len(self.claims) == 1:
            return self.claims[0], ()
        if policy == "latest":
            return self._settled(max(self.claims, key=lambda claim: claim.last.number))
        surest = max(claim.last.confidence for claim in self.claims)
        sure = [claim for claim in self.claims if claim.last.confidence == surest]
        if policy == "confidence" and len(sure) == 1:
            return self._settled(sure[0])
        return self.claims[0], tuple(self.claims[1:])

    def _settled(self, chosen: Claim) -> tuple[Claim, tuple[Claim, ...]]:
        self.lost += [(claim, "overruled", "") for claim in self.claims if claim is not chosen]
        return chosen, ()


def standing(
    statements: Sequence[Statement], policy: Policy = "ask", known_at: datetime | None = None
) -> Standing:
    """What holds when, by what was known at a time.

    Args:
        statements: in the order they were learnt.
        policy: what decides between sources that contradict each other about one time: `ask`
            leaves it open, `latest` takes what was learnt last, `confidence` what is surest.
        known_at: only what was learnt until then counts; by default everything.
    """
    known = [each for each in statements if known_at is None or each.recorded_at <= known_at]
    retracting = [each for each in known if each.kind == "retracted"]
    retractions = {number: each for each in retracting for number in each.about}
    claimed = [each for each in known if each.kind in ("said", "ended", "resolved")]
    held = [each for each in claimed if each.number not in retractions]
    lost = [
        (Claim(each.content, (each,)), "retracted", retractions[each.number].reason)
        for each in claimed
        if each.number in retractions and each.kind == "said"
    ]
    by_time = attrgetter("valid_from", "number")
    decided: list[tuple[datetime, Claim, tuple[Claim, ...]]] = []
    for time, group in groupby(sorted(held, key=by_time), key=attrgetter("valid_from")):
        moment = _Moment()
        for statement in group:
            moment.hear(statement)
        if moment.claims:
            decided.append((time, *moment.decided(policy)))
        lost += moment.lost
    return Standing(_closed(decided), tuple(lost))


def _closed(
    decided: Iterable[tuple[datetime, Claim, tuple[Claim, ...]]],
) -> tuple[Version, ...]:
    """Versions, each closed by the next; what is only said again belongs to what was said."""
    versions: list[Version] = []
    for time, claim, rivals in decided:
        before = versions[-1] if versions else None
        if before is not None and _goes_on(before, claim, rivals, time):
            both = Claim(claim.content, (*before.claim.statements, *claim.statements))
            versions[-1] = replace(before, claim=both, valid_to=claim.last.valid_to)
            continue
        if before is not None and (before.valid_to is None or before.valid_to > time):
            versions[-1] = replace(before, valid_to=time)
        versions.append(Version(claim, time, claim.last.valid_to, rivals))
    return tuple(version for version in versions if version.claim.content is not None)


def _goes_on(before: Version, claim: Claim, rivals: tuple[Claim, ...], time: datetime) -> bool:
    if rivals or before.rivals or (before.valid_to is not None and before.valid_to < time):
        return False
    return canonical(before.claim.content) == canonical(claim.content)


def _is_corrected(claim: Claim, by: Statement) -> bool:
    """Whether all that is said for a claim was said by the source that now says otherwise."""
    origin = None if by.source is None else by.source.origin
    return all(
        (None if each.source is None else each.source.origin) == origin for each in claim.statements
    )
