"""Russian and Chinese: what the dense leg of a small English model costs them, and what it brings.

The sets beside this file were written for it: facts about people and a workplace, half of them
there only to be mistaken for the others. Questions are inflected (the words of the memory in other
forms), partial (one or two of its words), or paraphrased (other words altogether).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from langgraph.store.base import PutOp

from langgraph_sessionmem import LongTermStore

LANGUAGES = ("russian", "chinese")
CUTS = (1, 5)
_KINDS = ("inflected", "partial", "paraphrased")


class Asked(NamedTuple):
    """A question, its kind, and the number of the memory that answers it."""

    kind: str
    number: str
    question: str


def read(language: str) -> tuple[dict[str, str], list[Asked]]:
    """The memories of a set by their numbers, and its questions."""
    lines = (Path(__file__).parent / f"{language}.txt").read_text("utf-8").splitlines()
    memories: dict[str, str] = {}
    questions = []
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind.isdigit():
            memories[kind] = rest
        elif kind in _KINDS:
            questions.append(Asked(kind, *rest.split(" ", 1)))
    return memories, questions


def print_languages() -> None:
    """A line for each language and leg: the share of questions answered by the first k."""
    kinds = ("all", *_KINDS)
    heads = [f"{kind} R@{cut}" for kind in kinds for cut in CUTS]
    print("| | " + " | ".join(heads) + " |\n" + "|---" * (len(heads) + 1) + "|")
    for language in LANGUAGES:
        memories, questions = read(language)
        for name, index in (("words", None), ("with the local model", {"embed": "local"})):
            with LongTermStore(index=index) as store:
                store.batch(
                    PutOp((language,), number, {"text": text}, ["text"])
                    for number, text in memories.items()
                )
                ranks = [_rank(store, language, asked) for asked in questions]
            cells = [f"{_share(ranks, questions, kind, cut):.1f}" for kind in kinds for cut in CUTS]
            print(f"| {language}, {name} | " + " | ".join(cells) + " |", flush=True)


def _rank(store: LongTermStore, language: str, asked: Asked) -> int:
    found = store.search((language,), query=asked.question, limit=max(CUTS))
    keys = [item.key for item in found]
    return keys.index(asked.number) if asked.number in keys else max(CUTS)


def _share(ranks: Sequence[int], questions: Sequence[Asked], kind: str, cut: int) -> float:
    chosen = [
        rank for rank, asked in zip(ranks, questions, strict=True) if kind in ("all", asked.kind)
    ]
    return 100 * sum(rank < cut for rank in chosen) / len(chosen)
