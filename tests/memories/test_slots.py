"""What holds when, derived from any statements, against the plainest reading of them."""

from datetime import datetime, timedelta
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from minds import START

from langgraph_sessionmem.memories.kinds import Source
from langgraph_sessionmem.memories.slots import POLICIES, Policy, standing
from langgraph_sessionmem.memories.statements import (
    MOST_STATEMENTS,
    Dossier,
    Statement,
    trimmed,
)

DAY = timedelta(days=1)


class Line(NamedTuple):
    """A statement of a slot, in short."""

    day: int
    value: int | None  # None ends
    source: str
    retracts: int = 0


lines = st.lists(
    st.builds(
        Line,
        st.integers(0, 4),
        st.sampled_from([1, 2, 3, None]),
        st.sampled_from("ab"),
        st.sampled_from([0, 0, 0, 1, 2, 3]),
    ),
    max_size=8,
)


def said(line: Line, number: int) -> Statement:
    times = {
        "recorded_at": START + number * timedelta(seconds=1),
        "valid_from": START + line.day * DAY,
    }
    source = Source(thread=line.source)
    if line.retracts and line.retracts < number:
        return Statement(
            number=number, kind="retracted", about=(line.retracts,), source=source, **times
        )
    if line.value is None:
        return Statement(number=number, kind="ended", source=source, **times)
    return Statement(
        number=number, kind="said", content={"value": line.value}, source=source, **times
    )


def plainly(statements: list[Statement], at: datetime, policy: Policy) -> set[int]:
    """The values that may hold at a time, read statement by statement: more than one is open."""
    gone = {number for each in statements if each.kind == "retracted" for number in each.about}
    past = [
        each
        for each in statements
        if each.kind in ("said", "ended") and each.number not in gone and each.valid_from <= at
    ]
    if not past:
        return set()
    latest = max(each.valid_from for each in past)
    claims: list[tuple[int, set[str]]] = []
    for each in past:
        if each.valid_from < latest or each.content is None:
            continue
        value, who = each.content["value"], each.source.thread if each.source else ""
        known = next((claim for claim in claims if claim[0] == value), None)
        if known is not None:
            known[1].add(who)
        else:
            claims = [claim for claim in claims if claim[1] != {who}]
            claims.append((value, {who}))
    if policy == "latest" and len(claims) > 1:
        claims = [max(claims, key=lambda claim: _last(past, claim[0], latest))]
    return {value for value, _ in claims}


def _last(past: list[Statement], value: int, at: datetime) -> int:
    return max(
        each.number for each in past if each.valid_from == at and each.content == {"value": value}
    )


@given(lines, st.sampled_from(["ask", "latest"]))
def test_what_holds_at_any_time_is_what_a_plain_reading_says(
    spoken: list[Line], policy: Policy
) -> None:
    statements = [said(line, number) for number, line in enumerate(spoken, 1)]
    for known in range(len(statements) + 1):
        until = statements[:known]
        stands = standing(statements, policy, START + known * timedelta(seconds=1))
        assert stands == standing(until, policy)
        for hour in range(-1, 11):
            at = START + hour * DAY / 2
            version = stands.at(at)
            claims = () if version is None else (version.claim, *version.rivals)
            found = {claim.content["value"] for claim in claims if claim.content}
            assert found == plainly(until, at, policy)


@given(lines, st.sampled_from(POLICIES))
def test_versions_follow_each_other_and_nothing_that_was_said_is_lost(
    spoken: list[Line], policy: Policy
) -> None:
    statements = [said(line, number) for number, line in enumerate(spoken, 1)]
    stands = standing(statements, policy)
    for former, later in zip(stands.versions, stands.versions[1:], strict=False):
        assert former.valid_from < later.valid_from
        assert former.valid_to is not None
        assert former.valid_to <= later.valid_from
    told = {
        number
        for version in stands.versions
        for claim in (version.claim, *version.rivals)
        for number in claim.numbers
    } | {number for claim, _, _ in stands.lost for number in claim.numbers}
    assert told >= {each.number for each in statements if each.kind == "said"}


@given(st.lists(st.sampled_from([1, 1, 1, 2]), max_size=30))
def test_very_many_statements_are_thinned_out_without_a_change(values: list[int]) -> None:
    spoken = [Line(0, value, "a") for value in values for _ in range(40)]
    statements = [
        said(line, number).model_copy(update={"valid_from": START + number * timedelta(minutes=1)})
        for number, line in enumerate(spoken, 1)
    ]
    kept = trimmed(statements)
    assert len(kept) <= max(MOST_STATEMENTS, 0)
    full, thin = standing(statements), standing(kept)
    assert [(each.claim.content, each.valid_from, each.valid_to) for each in full.versions] == [
        (each.claim.content, each.valid_from, each.valid_to) for each in thin.versions
    ]


def test_numbers_go_on_after_statements_were_thinned_out() -> None:
    dossier = Dossier("fact", "a/b", {"subject": "a", "attribute": "b"})
    for minute in range(MOST_STATEMENTS + 20):
        now = START + minute * timedelta(minutes=1)
        dossier = dossier.with_statement("said", now, content={"value": 1})
    assert dossier.revision == MOST_STATEMENTS + 20
    assert len(dossier.statements) == MOST_STATEMENTS
