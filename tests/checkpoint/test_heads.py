"""Heads as bytes: whatever LangGraph or a user calls things, it comes back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.checkpoint.head import Head, pack_head, unpack_head, unpack_outline
from langgraph_sessionmem.checkpoint.runs import Layout, Tip
from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.errors import ValueNotStorable
from langgraph_sessionmem.rows import Run

CODECS = [Codec(Types()), Codec(Types(), packs_short=True)]

NUMBERS = st.integers(0, 2**59 - 1)
NAMES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["__start__", "__input__", "messages", "agent"]),
    st.text(max_size=4).map("branch:to:{}".format),
)
VERSIONS = st.one_of(
    st.builds("{:032}.{:010}".format, st.integers(0, 10**6), st.integers(0, 2**32 - 1)),
    st.builds("{:032}.{}".format, st.integers(0, 10**6), st.floats(0, 1)),
    st.text("0+-9._ \u0663", min_size=41, max_size=44),
    st.text(max_size=3),
    st.integers(0, 100),
    st.sampled_from([0.5, 1.5]),
)
SEEN = st.dictionaries(NAMES, VERSIONS, max_size=3)
LAYOUTS = st.builds(
    Layout,
    st.lists(st.builds(Run, NUMBERS, NUMBERS, NUMBERS), max_size=3).map(tuple),
    st.builds(Tip, NUMBERS, NUMBERS),
)
WHOLE = st.builds(lambda log, end: Layout((Run(log, 0, end),), Tip(log, end)), NUMBERS, NUMBERS)
HEADS = st.builds(
    Head,
    st.integers(1, 9),
    st.sampled_from(["2026-01-02T03:04:05.678901+00:00", "+00:00", "", "2026-01-02T03:04:05Z"]),
    SEEN,
    st.dictionaries(NAMES, SEEN, max_size=3),
    st.none() | st.lists(NAMES, max_size=3),
    st.dictionaries(NAMES, st.one_of(st.binary(max_size=300), NUMBERS, LAYOUTS, WHOLE), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2),
)


@given(HEADS, st.sampled_from(CODECS))
def test_a_head_comes_back_as_it_was(head: Head, codec: Codec) -> None:
    body = pack_head(head, codec)
    found = unpack_head(body, CODECS[0])
    assert found == head
    assert list(found.channel_versions) == list(head.channel_versions)
    assert list(found.entries) == list(head.entries)
    outline = unpack_outline(body, CODECS[0])
    assert (outline.channel_versions, outline.entries) == (head.channel_versions, head.entries)


@pytest.mark.parametrize("name", ["\ud800", "branch:to:\ud800", 7, b"x"])
def test_a_name_that_is_no_text_is_refused(name: object) -> None:
    head = Head(4, "", {name: 1}, {}, None, {})  # type: ignore[dict-item]  # that is the point
    with pytest.raises(ValueNotStorable):
        pack_head(head, CODECS[0])


@pytest.mark.parametrize("version", ["\ud800", f"{7:032}.\ud800{0:09}", 2**64])
def test_a_version_that_cannot_be_stored_is_refused(version: str | int) -> None:
    with pytest.raises(ValueNotStorable):
        pack_head(Head(4, "", {"a": version}, {}, None, {}), CODECS[0])
