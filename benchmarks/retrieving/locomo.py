"""LoCoMo: how well a search finds the turns that answer a question.

LoCoMo (Maharana et al., ACL 2024; CC BY-NC 4.0, snap-research/locomo) is not part of this package:
download `locomo10.json` yourself. Each conversation is one namespace of turns, each question a
query; recall is the share of a question's evidence turns among the first k, as in the benchmark's
own code, averaged over the questions that have evidence.
"""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from langgraph.store.base import PutOp

from langgraph_sessionmem import LongTermStore
from langgraph_sessionmem.item_records import CandidateRow, PostingsRow, ScopeRow
from langgraph_sessionmem.store.local_embedding import LocalEmbeddings
from langgraph_sessionmem.store.ranking import DEFAULT_WEIGHTS, Scored, Weights, fuse, rank
from langgraph_sessionmem.store.text import asks, query_tokens, tokens

CUTS = (5, 10, 20)
CATEGORIES = {4: "1-hop", 1: "multi", 2: "temporal", 3: "open", 5: "adversarial"}
ADVERSARIAL = 5
FOLDS = 5
_EVIDENCE = re.compile(r"D:?(\d+):0*(\d+)")


class Turn(NamedTuple):
    """One turn of a conversation."""

    name: str
    session: int
    dated: str
    text: str


class Question(NamedTuple):
    """A question, the names of the turns that answer it, and its category."""

    text: str
    evidence: frozenset[str]
    category: int


class Conversation(NamedTuple):
    """One sample of the data set."""

    turns: Sequence[Turn]
    questions: Sequence[Question]


class Leg(Enum):
    """What a search goes by."""

    WORDS = "words"
    MEANING = "meaning"
    BOTH = "both"


Ranker = Callable[[str], list[str]]
"""From a question to the names of turns, best first."""


def read_locomo(path: Path) -> list[Conversation]:
    """The conversations of a LoCoMo file, with the questions that have evidence."""
    return [_conversation(sample) for sample in json.loads(path.read_text("utf-8"))]


def _conversation(sample: Mapping[str, Any]) -> Conversation:
    said = sample["conversation"]
    names = (re.fullmatch(r"session_(\d+)", name) for name in said)
    sessions = sorted(int(name[1]) for name in names if name)
    turns = [
        _turn(turn, session, said[f"session_{session}_date_time"])
        for session in sessions
        for turn in said[f"session_{session}"]
    ]
    questions = [
        Question(question["question"], _names(question["evidence"]), question["category"])
        for question in sample["qa"]
        if question["evidence"]
    ]
    return Conversation(turns, questions)


def _turn(turn: Mapping[str, Any], session: int, date: str) -> Turn:
    caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
    [name] = _names([turn["dia_id"]])
    return Turn(name, session, f"[{date}] ", f"{turn['speaker']}: {turn['text']}{caption}")


def _names(evidence: Sequence[str]) -> frozenset[str]:
    return frozenset(
        f"{session}:{turn}" for entry in evidence for session, turn in _EVIDENCE.findall(entry)
    )


def through_store(conversation: Conversation, store: LongTermStore, namespace: str) -> Ranker:
    """Search as a user does: one namespace of turns, `store.search`."""
    puts = []
    for position, turn in enumerate(conversation.turns):
        text = turn.dated + turn.text
        value = {"text": text, "position": position, "session": turn.session}
        puts.append(PutOp((namespace,), turn.name, value, ["text"]))
    store.batch(puts)

    def ranked(question: str) -> list[str]:
        return [item.key for item in store.search((namespace,), query=question, limit=max(CUTS))]

    return ranked


class Corpus:
    """A conversation in memory, ranked by the store's own pure functions under any weights."""

    def __init__(self, conversation: Conversation, *, dated: bool = True) -> None:
        texts = [turn.dated * dated + turn.text for turn in conversation.turns]
        counts = [Counter(tokens(text)) for text in texts]
        self.names = [turn.name for turn in conversation.turns]
        self.rows = [
            CandidateRow(
                position,
                ("turns",),
                f"{position:06}",
                position,
                count.total(),
                position,
                f"{turn.session}",
                asks(text),
            )
            for position, (turn, text, count) in enumerate(
                zip(conversation.turns, texts, counts, strict=True)
            )
        ]
        columns: dict[str, list[tuple[int, int, int]]] = {}
        for position, count in enumerate(counts):
            for token, occurrences in count.items():
                columns.setdefault(token, []).append((position, occurrences, count.total()))
        self.postings = {
            token: PostingsRow(token, *np.array(column, dtype=np.int64).T)
            for token, column in columns.items()
        }
        frequencies = {token: len(column) for token, column in columns.items()}
        length = sum(row.length for row in self.rows)
        self.scope = ScopeRow(len(texts), length, frequencies, 0)
        self._conversation = conversation

    def ranker(
        self, weights: Weights, analyse: Callable[[str], list[str]], *, leg: Leg = Leg.WORDS
    ) -> Ranker:
        """Rank under other weights, with another analysis of the question, or by other legs."""
        vectors = None if leg is Leg.WORDS else self._embedded()

        def ranked(question: str) -> list[str]:
            asked = dict.fromkeys(analyse(question))
            found = [self.postings[token] for token in asked if token in self.postings]
            scored = rank(self.scope, found, self.rows, weights)
            if vectors is not None:
                similar = (vectors @ _embedded_question(question)).tolist()
                dense = list(map(Scored, self.rows, similar))
                scored = fuse([] if leg is Leg.MEANING else scored, dense, min(similar), weights)
            return [self.names[one.item.item_id] for one in scored[: max(CUTS)]]

        return ranked

    @cache  # noqa: B019 - they live as long as the benchmark
    def _embedded(self) -> npt.NDArray[np.float32]:
        texts = [turn.dated + turn.text for turn in self._conversation.turns]
        return np.array(LocalEmbeddings().embed_documents(texts), dtype=np.float32)


@cache
def _embedded_question(question: str) -> npt.NDArray[np.float32]:
    return np.array(LocalEmbeddings().embed_query(question), dtype=np.float32)


class Outcome(NamedTuple):
    """What one question came to.

    Attributes:
        recalls: at each of `CUTS`, 0 to 1.
    """

    conversation: int
    category: int
    recalls: tuple[float, ...]


def judge(conversations: Sequence[Conversation], rankers: Sequence[Ranker]) -> list[Outcome]:
    """Ask all questions."""
    return [
        Outcome(place, question.category, _recalls(ranked(question.text), question.evidence))
        for place, (conversation, ranked) in enumerate(zip(conversations, rankers, strict=True))
        for question in conversation.questions
    ]


def _recalls(names: Sequence[str], evidence: frozenset[str]) -> tuple[float, ...]:
    return tuple(len(evidence & set(names[:cut])) / max(len(evidence), 1) for cut in CUTS)


def _mean(outcomes: Sequence[Outcome], cut: int) -> float:
    return 100 * sum(outcome.recalls[cut] for outcome in outcomes) / len(outcomes)


def _answerable(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.category != ADVERSARIAL]


def report(name: str, outcomes: Sequence[Outcome]) -> None:
    """Print a line of the table."""
    cells = [_mean(part, cut) for part in (_answerable(outcomes), outcomes) for cut in range(3)]
    at_ten = CUTS.index(10)
    cells += [
        _mean([outcome for outcome in outcomes if outcome.category == category], at_ten)
        for category in CATEGORIES
    ]
    print(f"| {name} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |", flush=True)


def print_table(conversations: Sequence[Conversation], *, dense: bool) -> None:
    """The store's result, and what each part of it brings; with `dense` the local model too."""
    heads = [f"{part} R@{cut}" for part in ("without adversarial", "all") for cut in CUTS]
    heads += [f"{name} R@10" for name in CATEGORIES.values()]
    print("| | " + " | ".join(heads) + " |\n" + "|---" * (len(heads) + 1) + "|")
    with LongTermStore(index={"embed": "local"} if dense else None) as store:
        started = time.perf_counter()
        rankers = [
            through_store(conversation, store, f"conversation-{place}")
            for place, conversation in enumerate(conversations)
        ]
        stored = time.perf_counter()
        outcomes = judge(conversations, rankers)
        asked = time.perf_counter()
    report("**LongTermStore.search**", outcomes)
    corpora = [Corpus(conversation) for conversation in conversations]
    undated = [Corpus(conversation, dated=False) for conversation in conversations]
    plain = replace(DEFAULT_WEIGHTS, nearby=(), answer=0.0, asking=0.0, session=0.0)
    for name, corpus, weights, analyse in [
        ("plain BM25, every word of the question", corpora, plain, _every_token),
        ("plain BM25, stop list", corpora, plain, query_tokens),
        ("all, without the stop list", corpora, DEFAULT_WEIGHTS, _every_token),
        ("all, without the date in the text", undated, DEFAULT_WEIGHTS, query_tokens),
        ("all, k1 1.2 and b 0.75", corpora, replace(DEFAULT_WEIGHTS, k1=1.2, b=0.75), query_tokens),
        ("all, without neighbours", corpora, _without(nearby=(), answer=0.0), query_tokens),
        ("all, neighbours at distance 1 only", corpora, _without(nearby=(0.5,)), query_tokens),
        ("all, no more for answers", corpora, _without(answer=0.0), query_tokens),
        ("all, no less for questions", corpora, _without(asking=0.0), query_tokens),
        ("all, without the session", corpora, _without(session=0.0), query_tokens),
        ("all", corpora, DEFAULT_WEIGHTS, query_tokens),
    ]:
        report(name, judge(conversations, [one.ranker(weights, analyse) for one in corpus]))
    if dense:
        for leg, share in [
            (Leg.MEANING, 0.3),
            *((Leg.BOTH, share) for share in (0.1, 0.2, 0.3, 0.4, 0.5)),
        ]:
            name = "the local model alone" if leg is Leg.MEANING else f"all, and the model: {share}"
            weights = _without(dense=share)
            rankers = [one.ranker(weights, query_tokens, leg=leg) for one in corpora]
            report(name, judge(conversations, rankers))
    turns = sum(len(conversation.turns) for conversation in conversations)
    print(f"\n{turns} turns stored at {1e3 * (stored - started) / turns:.2f} ms each, ", end="")
    print(f"{len(outcomes)} questions at {1e3 * (asked - stored) / len(outcomes):.2f} ms each.")


def _without(**changes: Any) -> Weights:
    return replace(DEFAULT_WEIGHTS, **changes)


def _every_token(question: str) -> list[str]:
    return list(dict.fromkeys(tokens(question)))


CHOICES: Mapping[str, Sequence[Any]] = {
    "k1": (0.5, 0.7, 0.9, 1.2),
    "b": (0.2, 0.4, 0.6),
    "nearby": ((0.5, 0.4, 0.3, 0.2), (0.6, 0.4, 0.2), (0.6, 0.5, 0.4, 0.3, 0.2, 0.1), (0.4, 0.2)),
    "following": (0.7, 0.8, 0.9, 1.0),
    "answer": (0.0, 0.7, 0.8, 0.9),
    "asking": (0.0, 0.1, 0.2, 0.3),
    "session": (0.1, 0.2, 0.3, 0.4),
    "dense": (0.1, 0.2, 0.3, 0.4),
}


def print_folds(conversations: Sequence[Conversation], tries: int, *, dense: bool) -> None:
    """Choose weights on four fifths of the conversations, judge them on the last, five times."""
    leg = Leg.BOTH if dense else Leg.WORDS
    corpora = [Corpus(conversation) for conversation in conversations]
    chance = random.Random(0)
    drawn = [DEFAULT_WEIGHTS]
    drawn += [
        Weights(**{name: chance.choice(values) for name, values in CHOICES.items()})
        for _ in range(tries)
    ]
    recalls = np.array(
        [_recall_of_folds(conversations, corpora, weights, leg) for weights in drawn]
    )
    held_out = []
    for fold in range(FOLDS):
        chosen = int(np.delete(recalls, fold, axis=1).mean(axis=1).argmax())
        held_out.append(float(recalls[chosen, fold]))
        print(f"fold {fold}: {held_out[-1]:.1f} with {drawn[chosen]}")
    print(f"R@10 without adversarial, held out: mean {np.mean(held_out):.1f}, ", end="")
    print(f"worst fold {min(held_out):.1f}")
    print(f"the default weights on the same folds: {np.round(recalls[0], 1).tolist()}")


def _recall_of_folds(
    conversations: Sequence[Conversation],
    corpora: Sequence[Corpus],
    weights: Weights,
    leg: Leg,
) -> npt.NDArray[np.float64]:
    rankers = [corpus.ranker(weights, query_tokens, leg=leg) for corpus in corpora]
    outcomes = _answerable(judge(conversations, rankers))
    per_fold = len(conversations) / FOLDS
    parts: list[list[Outcome]] = [[] for _ in range(FOLDS)]
    for outcome in outcomes:
        parts[int(outcome.conversation / per_fold)].append(outcome)
    return np.array([_mean(part, CUTS.index(10)) for part in parts])
