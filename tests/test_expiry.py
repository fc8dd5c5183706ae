"""What people say of how long threads live, as limits in seconds."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_sessionmem import TTL
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.expiry import Sweeping, read_session_ttl, read_sweeping, read_ttl
from langgraph_sessionmem.rows import Limits

MINUTE = timedelta(minutes=1)
durations = st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=9_999))


@given(
    idle=st.none() | durations,
    max_age=st.none() | durations,
    interrupted=st.none() | durations,
    refresh=st.booleans(),
)
def test_limits_are_the_durations_in_seconds_and_waiting_shortens_nothing(
    idle: Any, max_age: Any, interrupted: Any, refresh: bool
) -> None:
    limits = TTL(idle, max_age, interrupted, refresh).limits
    assert limits.idle_seconds == (idle and idle.total_seconds())
    assert limits.max_age_seconds == (max_age and max_age.total_seconds())
    if idle is None or interrupted is None:
        assert limits.interrupted_seconds is None
    else:
        assert limits.interrupted_seconds == max(idle, interrupted).total_seconds()
    assert limits.refresh_on_read is refresh
    assert not limits.keep_latest


def test_langgraphs_mapping_is_in_minutes() -> None:
    ttl = read_ttl({"default_ttl": 1.5, "refresh_on_read": True, "strategy": "keep_latest"})
    week = timedelta(days=7).total_seconds()
    assert isinstance(ttl, TTL)
    assert ttl.limits == Limits(90.0, None, week, refresh_on_read=True, keep_latest=True)
    assert read_ttl({}) == read_ttl({"default_ttl": None, "strategy": None}) == TTL()
    assert read_ttl({"strategy": "keep_latest"}) == TTL(strategy="keep_latest")


@pytest.mark.parametrize(
    ("interval", "ttl", "sweeping"),
    [
        (None, None, None),
        (None, {"default_ttl": 5}, None),
        (None, {"sweep_limit": 5}, None),
        (None, {"sweep_interval_minutes": 2}, Sweeping(120.0)),
        (None, {"sweep_interval_minutes": 0.5, "sweep_limit": 9}, Sweeping(30.0, 9)),
        (MINUTE, {"sweep_interval_minutes": 2, "sweep_limit": 9}, Sweeping(60.0, 9)),
        (MINUTE, TTL(idle=MINUTE), Sweeping(60.0)),
        (MINUTE, None, Sweeping(60.0)),
    ],
)
def test_the_interval_of_sweeps_is_an_option_of_its_own_or_in_the_mapping(
    interval: Any, ttl: Any, sweeping: Any
) -> None:
    assert read_sweeping(interval, ttl) == sweeping


BAD_MINUTES = (0, -1, True, "5", float("nan"), float("inf"))


@pytest.mark.parametrize(
    ("interval", "ttl"),
    [
        *((bad, None) for bad in (0, 60, "1", timedelta(0), -MINUTE)),
        *((None, {"sweep_interval_minutes": bad}) for bad in BAD_MINUTES),
        *((MINUTE, {"sweep_limit": bad}) for bad in (0, -1, True, 1.5, "5")),
    ],
)
def test_an_interval_that_is_no_positive_duration_is_refused(interval: Any, ttl: Any) -> None:
    with pytest.raises(InvalidArgument, match="sweep_"):
        read_sweeping(interval, ttl)


@pytest.mark.parametrize(
    "ttl",
    [
        {"idle": 5},
        {"idle": timedelta(0)},
        {"max_age": -MINUTE},
        {"interrupted": "1"},
        {"strategy": "keep"},
        {"strategy": None},
        {"idle": MINUTE, "max_age": MINUTE, "strategy": "keep_latest"},
    ],
)
def test_a_ttl_of_no_sound_meaning_is_refused(ttl: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(set(ttl) - {"idle"}), "idle")):
        TTL(**ttl)


@pytest.mark.parametrize(
    "ttl", [{"ttl": 5}, {"strategy": "forget"}, *({"default_ttl": bad} for bad in BAD_MINUTES)]
)
def test_a_mapping_with_unknown_keys_or_values_is_refused(ttl: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"ttl|TTL"):
        read_ttl(ttl)


def test_a_duration_alone_keeps_the_strategy_it_is_told() -> None:
    for given_ttl in (5, 5.0, timedelta(minutes=5)):
        found = read_session_ttl(given_ttl, "keep_latest")
        assert found == TTL(idle=timedelta(minutes=5), strategy="keep_latest")
    assert read_session_ttl(TTL(idle=MINUTE), "keep_latest") == TTL(idle=MINUTE)
    assert read_session_ttl(None, "keep_latest") == TTL(interrupted=None)
    for bad in ("5", True, float("nan"), float("inf"), -5, 0, [5]):
        with pytest.raises(InvalidArgument, match=r"session_ttl|TTL"):
            read_session_ttl(bad)
