"""What a call adds to what was said of a memory (pure): the same dossier if that is nothing."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.memories.keys import named_fields
from langgraph_sessionmem.memories.kinds import Memory, Source, canonical, shown
from langgraph_sessionmem.memories.known import Kinds
from langgraph_sessionmem.memories.slots import Claim, Policy, Version, standing
from langgraph_sessionmem.memories.statements import Dossier, Outcomes, Statement, utc_text

Decide = Callable[[Dossier, datetime], Dossier]
"""The dossier with what a call adds to it, learnt at a time."""


class _Whatever:
    """Stands for a value that wasn't given."""


WHATEVER: Final = _Whatever()


def remember(memory: Memory, source: Source | None, policy: Policy) -> Decide:
    """Claim something; nothing if that is known from there already.

    Raises (when it decides):
        InvalidArgument: it never changes, and is there with another content.
    """
    if memory.valid_to is not None and memory.valid_from is not None:
        _check_span(memory)

    def decide(dossier: Dossier, now: datetime) -> Dossier:
        claimed = _Claimed(memory, source)
        if not dossier.statements:
            dossier = replace(dossier, of=named_fields(memory))
        elif memory.rule == "confirmed":
            claimed = _Claimed(memory, source, _with_evidence(dossier, memory.content()))
            if claimed.content == _last_content(dossier) and source is None:
                return dossier.with_statement("confirmed", now)
        if claimed.is_known(dossier, policy, now):
            return dossier
        if memory.rule == "once":
            claimed.check_unchanged(dossier)
        return dossier.with_statement("said", now, **claimed.fields())

    return decide


class _Claimed:
    """A memory that is about to be said, with where that was learnt."""

    def __init__(
        self, memory: Memory, source: Source | None, content: dict[str, Any] | None = None
    ) -> None:
        self.memory, self.source = memory, source
        self.content = memory.content() if content is None else content
        self.time = memory.valid_from or (source.at if source is not None else None)

    def fields(self) -> dict[str, Any]:
        """What a statement holds of it."""
        memory = self.memory
        about = {
            "content": self.content,
            "valid_to": memory.valid_to,
            "source": self.source,
            "confidence": memory.confidence,
            "tags": memory.tags,
            "consent": memory.consent,
        }
        return about if self.time is None else about | {"valid_from": self.time}

    def is_known(self, dossier: Dossier, policy: Policy, now: datetime) -> bool:
        """Whether saying it adds nothing."""
        alike = [each for each in dossier.statements if self._is_alike(each)]
        if self.source is not None and self.source.messages:
            # What was retracted doesn't come back because the same message is read once more.
            return any(_is_from(each, self.source) for each in alike)
        stands = standing(dossier.statements, policy)
        version = stands.at(self.time or dossier.after(now))
        if version is None and self.memory.rule == "once":
            version = stands.versions[-1] if stands.versions else None
        numbers = version.claim.numbers if version is not None else frozenset()
        return any(each.number in numbers and self._adds_nothing_to(each) for each in alike)

    def check_unchanged(self, dossier: Dossier) -> None:
        """Refuse another content of what never changes."""
        held = _held_statements(dossier)
        if held and not any(self._is_alike(each) for each in held):
            raise InvalidArgument(
                f"{dossier.id} is there already with another content or time, and what is of the "
                f"type {dossier.type!r} never changes: retract it first, or give another id."
            )
        if held and self.time is None:
            self.time = held[0].valid_from

    def _is_alike(self, statement: Statement) -> bool:
        if statement.kind != "said" or canonical(statement.content) != canonical(self.content):
            return False
        return self.time is None or statement.valid_from == self.time

    def _adds_nothing_to(self, statement: Statement) -> bool:
        memory = self.memory
        told = (statement.valid_to, statement.confidence, statement.tags, statement.consent)
        is_same = told == (memory.valid_to, memory.confidence, memory.tags, memory.consent)
        return is_same and self.source in (None, statement.source)


def retract(reason: str, source: Source | None, at: datetime | None, value: Any) -> Decide:
    """Say that what holds, or a `value`, was never true.

    Raises (when it decides):
        InvalidArgument: there is no such claim.
    """
    if not reason.strip():
        raise InvalidArgument("reason is empty: say in a few words why it was never true.")

    def decide(dossier: Dossier, now: datetime) -> Dossier:
        if value is WHATEVER:
            numbers = [*_version_at(dossier, at, now).claim.numbers]
        else:
            held = _held_statements(dossier)
            numbers = [each.number for each in held if _has_value(each.content, value)]
        if not numbers:
            raise InvalidArgument(f"{dossier.id} was never said to be {shown(value)}.")
        about = tuple(sorted(numbers))
        return dossier.with_statement("retracted", now, about=about, source=source, reason=reason)

    return decide


def end(at: datetime | None, reason: str, source: Source | None) -> Decide:
    """Say that what holds ends, with nothing in its place.

    Raises (when it decides):
        InvalidArgument: nothing holds at that time.
    """

    def decide(dossier: Dossier, now: datetime) -> Dossier:
        time = at or dossier.after(now)
        version = standing(dossier.statements).at(time)
        if version is None or version.valid_from == time:
            raise InvalidArgument(f"{dossier.id} has no value before {utc_text(time)} to be ended.")
        fields = {"valid_from": time, "source": source, "reason": reason}
        return dossier.with_statement("ended", now, **fields)

    return decide


def resolve(value: Any, reason: str, source: Source | None) -> Decide:
    """Say which of the values holds that sources contradict each other about.

    Raises (when it decides):
        InvalidArgument: no conflict is open, or none of its claims is that value.
    """

    def decide(dossier: Dossier, now: datetime) -> Dossier:
        open_ = standing(dossier.statements).conflicts
        claims = [
            (version, claim)
            for version in reversed(open_)
            for claim in (version.claim, *version.rivals)
        ]
        chosen = [each for each in claims if _has_value(each[1].content, value)]
        if not chosen:
            said = ", ".join(_shown_claim(claim) for _, claim in claims) or "no conflict is open"
            raise InvalidArgument(f"{dossier.id} has no claim {shown(value)} to choose: {said}.")
        version, claim = chosen[0]
        fields = {"valid_from": version.valid_from, "about": (claim.last.number,)}
        return dossier.with_statement("resolved", now, **fields, source=source, reason=reason)

    return decide


def confirm(source: Source | None) -> Decide:
    """Say that a reflection was seen again.

    Raises (when it decides):
        InvalidArgument: it is of a type that needs no confirming.
    """

    def decide(dossier: Dossier, now: datetime) -> Dossier:
        _version_at(dossier, None, now)
        seen = [each for each in dossier.statements if each.kind in ("said", "confirmed")]
        if source is not None and source.messages and any(_is_from(each, source) for each in seen):
            return dossier
        return dossier.with_statement("confirmed", now, source=source)

    return decide


def outcome(worked: bool, note: str, version: int | None) -> Decide:
    """Count how a version of a skill did; by default the one that holds.

    Raises (when it decides):
        InvalidArgument: there is no such version.
    """

    def decide(dossier: Dossier, now: datetime) -> Dossier:
        versions = standing(dossier.statements).versions
        if version is None:
            used = _version_at(dossier, None, now)
        elif 1 <= version <= len(versions):
            used = versions[version - 1]
        else:
            raise InvalidArgument(
                f"version={version}: {dossier.id} has versions 1 to {len(versions)}."
            )
        number = str(used.first)
        count = dossier.outcomes.get(number, Outcomes())
        changed = Outcomes(
            worked=count.worked + worked, failed=count.failed + (not worked), last=now, note=note
        )
        return replace(dossier, outcomes={**dossier.outcomes, number: changed})

    return decide


def is_there(dossier: Dossier) -> bool:
    """Whether anything that was said of it still stands."""
    return bool(_held_statements(dossier))


def _check_span(memory: Memory) -> None:
    since, until = memory.valid_from, memory.valid_to
    if since is not None and until is not None and until <= since:
        raise InvalidArgument(
            f"valid_to={utc_text(until)} is not after valid_from={utc_text(since)}."
        )


def _held_statements(dossier: Dossier) -> list[Statement]:
    statements = dossier.statements
    retracted = {number for each in statements if each.kind == "retracted" for number in each.about}
    return [each for each in statements if each.kind == "said" and each.number not in retracted]


def _is_from(statement: Statement, source: Source) -> bool:
    known = statement.source
    return known is not None and (known.origin, set(known.messages)) == (
        source.origin,
        set(source.messages),
    )


def _version_at(dossier: Dossier, at: datetime | None, now: datetime) -> Version:
    """What holds at a time; by default now, or what held last."""
    stands = standing(dossier.statements)
    version = stands.at(at or dossier.after(now))
    if version is None and at is None and stands.versions:
        version = stands.versions[-1]
    if version is None:
        when = "" if at is None else f" at {utc_text(at)}"
        raise InvalidArgument(f"{dossier.id} has no value{when}.")
    return version


def _has_value(content: Mapping[str, Any] | None, value: Any) -> bool:
    if content is None:
        return False
    if "value" in content:
        return canonical({"value": content["value"]}) == canonical({"value": value})
    return isinstance(value, Mapping) and canonical(content) == canonical(value)


def _shown_claim(claim: Claim) -> str:
    return shown((claim.content or {}).get("value", claim.content))


def _last_content(dossier: Dossier) -> dict[str, Any] | None:
    held = _held_statements(dossier)
    return held[-1].content if held else None


def _with_evidence(dossier: Dossier, content: dict[str, Any]) -> dict[str, Any]:
    """The content with the evidence there was before, first."""
    before = _last_content(dossier) or {}
    evidence = dict.fromkeys([*before.get("evidence", ()), *content.get("evidence", ())])
    return {**content, "evidence": list(evidence)}


def evidence_of(kinds: Kinds, dossier: Dossier) -> tuple[str, ...]:
    """The ids of the memories that a memory rests on; none for types that need no evidence."""
    kind = kinds.get(dossier.type)
    if kind is None or kind.rule != "confirmed":
        return ()
    return tuple((_last_content(dossier) or {}).get("evidence", ()))
