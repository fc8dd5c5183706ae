"""WordPiece: text as the numbers that BERT-like models know, in pure Python.

The vocabulary beside this file, `wordpiece.txt`, is that of `bert-base-uncased` (Google, Apache
License 2.0), which all-MiniLM-L6-v2 was trained with; its line numbers are the numbers.

Source:
    Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2019; the reference
    tokenizer's rules for cleaning, accents, Chinese characters and punctuation.
"""

import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

_UNKNOWN, _BEGIN, _END = 100, 101, 102
_LONGEST_WORD: Final = 100
_CONTROL: Final = ("Cc", "Cf", "Co", "Cs")
_CHINESE: Final = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def encode(text: str, most: int) -> list[int]:
    """The numbers of a text, at most so many, between those that begin and end it."""
    found: list[int] = []
    for word in _words(text):
        found += _pieces(word)
        if len(found) >= most - 2:
            break
    return [_BEGIN, *found[: most - 2], _END]


def _words(text: str) -> list[str]:
    spaced = "".join(map(_spaced, text))
    # Letter by letter: the lower case of a whole word knows a final sigma, which the model doesn't.
    lowered = unicodedata.normalize("NFD", "".join(map(str.lower, spaced)))
    levelled = "".join(
        character for character in lowered if unicodedata.category(character) != "Mn"
    )
    return "".join(
        f" {character} " if _is_punctuation(character) else character for character in levelled
    ).split()


def _spaced(character: str) -> str:
    """A character as the model saw it: a Chinese one is a word, a control one is nothing."""
    if character.isspace():
        return " "
    code = ord(character)
    if code in (0, 0xFFFD) or unicodedata.category(character) in _CONTROL:
        return ""
    return f" {character} " if any(low <= code <= high for low, high in _CHINESE) else character


def _is_punctuation(character: str) -> bool:
    # To the model all signs of ASCII are punctuation, `$` and `+` too.
    if character.isascii():
        return not character.isalnum() and not character.isspace()
    return unicodedata.category(character)[0] == "P"


def _pieces(word: str) -> list[int]:
    """The longest pieces of the vocabulary, from the left; one that is unknown spoils the word."""
    known, found, start = _vocabulary(), list[int](), 0
    if len(word) > _LONGEST_WORD:
        return [_UNKNOWN]
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            number = known.get(prefix + word[start:end])
            if number is not None:
                break
        else:
            return [_UNKNOWN]
        found.append(number)
        start = end
    return found


@cache
def _vocabulary() -> Mapping[str, int]:
    file = resources.files("langgraph_sessionmem.store") / "wordpiece.txt"
    return {piece: number for number, piece in enumerate(file.read_text("utf-8").split("\n"))}
