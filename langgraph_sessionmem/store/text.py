"""From texts and values to the tokens that are stored and looked up.

The one analysis, in Python, for every database: so that all of them find the same. Case, width and
accents are levelled; Latin words are stemmed as English, Cyrillic ones as Russian; Chinese,
Japanese, Korean and Thai, which have no spaces to go by, become characters and pairs of them.
"""

import functools
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final

import snowballstemmer  # type: ignore[import-untyped]  # ships no types
from langgraph.store.base import get_text_at_path

from langgraph_sessionmem.store.words import (
    CHINESE_STOP,
    ENGLISH_STOP,
    IRREGULAR_ENGLISH,
    RUSSIAN_STOP,
)

WHOLE_VALUE: Final = "$"
"""The path that stands for the whole value, as in LangGraph's index configuration."""

_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai and Lao
    "\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\uac00-\ud7af"  # Hangul, Hiragana, Katakana
    "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_INDIC: Final = "\u0900-\u0963\u0966-\u0dff"  # whose vowel signs are no letters to Python
_RUNS: Final = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_INDIC}])+")
_KEPT: Final = re.compile(rf"[й{_UNSPACED}{_INDIC}]")  # й is a letter of its own
_IS_UNSPACED: Final = re.compile(rf"[{_UNSPACED}]")
_APOSTROPHES: Final = re.compile("[\u2018\u2019\u02bc\uff07]")
_POSSESSIVE: Final = re.compile(r"(?<=\w)'s\b")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CHINESE_STOP: Final = re.compile(
    "|".join(sorted(CHINESE_STOP, key=len, reverse=True))  # the longest that fits
)
_QUESTION: Final = re.compile(r"[?\uff1f\u061f]\s*(\[[^\]]*\]\s*)?\Z")
_LONGEST_TOKEN: Final = 64


def tokens(text: str) -> list[str]:
    """The tokens of a text that is to be found, in order, each as often as it occurs."""
    found: list[str] = []
    for run in _runs(text):
        if _IS_UNSPACED.match(run):
            found += run
            found += _pairs(run)
        else:
            found.append(_stem(run))
    return found


def query_tokens(query: str) -> list[str]:
    """The tokens to look up for a question, each once, in order.

    Words that a question says without meaning them are left out, unless nothing else is there.
    """
    chosen = [token for run in _runs(query) for token in _query_run(run)]
    if not chosen:
        chosen = [token for run in _runs(query) for token in (_pairs(run) or [_stem(run)])]
    return list(dict.fromkeys(chosen))


def asks(text: str) -> bool:
    """Say whether a text ends as a question; a remark in brackets may follow."""
    return _QUESTION.search(text) is not None


def texts_of(value: Any, paths: Sequence[str]) -> list[str]:
    """The texts that the paths lead to, for the lexical index; what is missing is skipped.

    Args:
        value: a stored value (JSON).
        paths: as in LangGraph's `index`; `"$"` is the whole value: its fields' names and leaves.
    """
    return [text for path in paths for text in _texts_at(value, path)]


def embedded_texts_of(value: Any, paths: Sequence[str]) -> list[str]:
    """The texts to embed, one a vector, each once; as LangGraph's stores choose them."""
    found = [
        text
        for path in paths
        # Given as a text: split into tokens, "$" would be taken for a field of that name.
        for text in get_text_at_path(value, path)
    ]
    return [text for text in dict.fromkeys(found) if text.strip()]


def _texts_at(value: Any, path: str) -> Iterator[str]:
    if path in ("", WHOLE_VALUE):
        yield from _leaves(value)
        return
    for text in get_text_at_path(value, path):
        if text[:1] in ("{", "["):
            yield from _leaves_of_json(text)
        else:
            yield text


def _leaves_of_json(text: str) -> list[str]:
    try:
        return list(_leaves(json.loads(text)))
    except (ValueError, RecursionError):  # a plain text that happens to begin with a bracket
        return [text]


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield _CAMEL.sub(" ", name)
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _query_run(run: str) -> list[str]:
    if not _IS_UNSPACED.match(run):
        return [] if run in ENGLISH_STOP or run in RUSSIAN_STOP else [_stem(run)]
    return [
        token for part in _CHINESE_STOP.split(run) if part for token in (_pairs(part) or [part])
    ]


def _runs(text: str) -> list[str]:
    levelled = unicodedata.normalize("NFKC", text).casefold()
    if not levelled.isascii():
        levelled = _without_accents(_APOSTROPHES.sub("'", levelled))
    return _RUNS.findall(_POSSESSIVE.sub("", levelled))


def _without_accents(text: str) -> str:
    return "".join(map(_base_letter, text))


@functools.lru_cache(maxsize=4096)
def _base_letter(character: str) -> str:
    if _KEPT.match(character):
        return character
    parts = unicodedata.normalize("NFD", character)
    return "".join(part for part in parts if not unicodedata.combining(part))


def _pairs(run: str) -> list[str]:
    if not _IS_UNSPACED.match(run):
        return []
    return [run[start : start + 2] for start in range(len(run) - 1)]


@functools.lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    if word.isascii():
        word = IRREGULAR_ENGLISH.get(word, word)
    language = "russian" if "\u0400" <= word[0] <= "\u04ff" else "english"
    # A stemmer keeps the word it works on, so threads can't share one; making one costs nothing.
    stem: str = snowballstemmer.stemmer(language).stemWord(word[:_LONGEST_TOKEN])
    return stem
