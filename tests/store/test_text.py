# ruff: noqa: RUF001 - letters that look like others are what this file is about

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_sessionmem.store import text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Running RUNS", "running runs"),
        ("naïve café", "NAIVE CAFE"),
        ("Straße", "STRASSE"),
        ("ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("Ёлка ёжик", "елка ежик"),
        ("Caroline’s dog", "Caroline's dog"),
        ("Caroline's dog", "Caroline dog"),
        ("went bought children", "go buy child"),
        ("adopted a dog", "adopting a dog"),
        ("дорожки дорожкам", "дорожка дорожке"),
        ("e\u0301te\u0301", "\u00e9t\u00e9"),
        ("db_port", "db port"),
        ("كِتَاب", "كتاب"),
        ("שָׁלוֹם", "שלום"),
    ],
)
def test_spellings_of_the_same_words_are_the_same_tokens(one: str, other: str) -> None:
    assert text.tokens(one) == text.tokens(other)


@pytest.mark.parametrize(
    ("one", "other"), [("йод", "иод"), ("в", "b"), ("が", "か"), ("cat", "car")]
)
def test_different_letters_stay_different(one: str, other: str) -> None:
    assert text.tokens(one) != text.tokens(other)


def test_chinese_is_found_by_characters_and_pairs_of_them() -> None:
    assert text.tokens("去北京") == ["去", "北", "京", "去北", "北京"]
    assert set(text.query_tokens("北京")) <= set(text.tokens("我在北京工作"))
    assert "北京" in text.tokens("很" * 100 + "北京")
    assert set(text.query_tokens("猫")) <= set(text.tokens("我有一只猫"))


def test_vowel_signs_are_part_of_a_word() -> None:
    assert text.tokens("मुझे चाय पसंद है।") == ["मुझे", "चाय", "पसंद", "है"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When did Melanie sign up for a pottery class?", "melani sign potteri class"),
        ("What's the name of her dog?", "name dog"),
        ("Где живёт мой брат?", "живет брат"),
        ("你什么时候去北京？", "去北 北京"),
    ],
)
def test_a_question_is_looked_up_by_the_words_that_mean_something(
    question: str, expected: str
) -> None:
    assert text.query_tokens(question) == expected.split()


@pytest.mark.parametrize("question", ["Who is she?", "Кто это?", "你是谁？", "the The THE"])
def test_a_question_of_nothing_but_small_words_is_looked_up_by_them(question: str) -> None:
    looked_up = text.query_tokens(question)
    assert looked_up
    assert set(looked_up) <= set(text.tokens(question))


@given(st.text(max_size=60))
def test_every_token_looked_up_for_a_text_is_in_that_text(written: str) -> None:
    looked_up = text.query_tokens(written)
    assert len(set(looked_up)) == len(looked_up)
    if not any(character >= "\u0e00" for character in written):
        assert set(looked_up) <= set(text.tokens(written))


@given(st.text(max_size=200))
def test_tokens_are_short_plain_text(written: str) -> None:
    for token in text.tokens(written):
        assert 0 < len(token) <= 64
        assert not any(character.isspace() for character in token)


def test_a_missing_path_is_skipped() -> None:
    value = {"title": "Tea", "parts": [{"text": "green"}, {"text": "black"}, {}]}
    assert text.texts_of(value, ["title", "parts[*].text", "nowhere", "parts[9].text"]) == [
        "Tea",
        "green",
        "black",
    ]


def test_the_whole_value_is_read_with_the_names_of_its_fields() -> None:
    value = {"dbPort": 6432, "tags": ["a", None, True], "who": {"name": "Ann"}}
    expected = ["db Port", "6432", "tags", "a", "who", "name", "Ann"]
    assert text.texts_of(value, ["$"]) == expected
    assert text.texts_of({"x": value}, ["x"]) == expected


@pytest.mark.parametrize("paths", [[], ["nowhere"]])
def test_without_a_path_that_leads_somewhere_there_is_no_text(paths: list[str]) -> None:
    assert text.texts_of({"a": "b"}, paths) == []


@pytest.mark.parametrize("written", ["[not json", "{", "[" * 5_000, "[" * 900 + "]" * 900, "[1e5"])
def test_a_text_that_looks_like_json_is_read_as_it_stands(written: str) -> None:
    expected = text.tokens(written)
    assert text.tokens(" ".join(text.texts_of({"a": written}, ["a"]))) == expected


def test_a_text_is_embedded_once_however_often_it_occurs() -> None:
    value: dict[str, Any] = {"a": ["same", "same", " "], "b": "same"}
    assert text.embedded_texts_of(value, ["a[*]", "b"]) == ["same"]
    assert text.embedded_texts_of({"b": 1}, ["$"]) == ['{"b": 1}']


@pytest.mark.parametrize(
    ("written", "asks"),
    [
        ("How are you?", True),
        ("Ann: how are you? [a photo of a dog]", True),
        ("Как дела？ ", True),
        ("Fine. And you? I went home.", False),
        ("", False),
    ],
)
def test_a_text_asks_if_it_ends_as_a_question(written: str, asks: bool) -> None:
    assert text.asks(written) is asks
