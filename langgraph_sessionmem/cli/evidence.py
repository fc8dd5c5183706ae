"""Whether the turns that answer a question are in the model's view when it is asked."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_sessionmem.cli.locomo import ADVERSARIAL, CATEGORIES
from langgraph_sessionmem.cli.playback import Playback
from langgraph_sessionmem.cli.transcripts import Question
from langgraph_sessionmem.cli.views import newest


class Asked(NamedTuple):
    """How one question went.

    Attributes:
        category: LoCoMo's number of its kind.
        tokens: the cost of the view.
        kept: how many turns of the thread stand in the view as they were said.
        recalled: how many came back into it.
        newest: how many of the newest turns fit the same budget.
        recall: the share of the evidence in the view.
        newest_recall: the same for the newest turns that fit the same budget.
    """

    category: int
    tokens: int
    kept: int
    recalled: int
    newest: int
    recall: float
    newest_recall: float


class Found(NamedTuple):
    """The mean over some questions; each from 0 to 1.

    Attributes:
        questions: how many.
        recall: the share of a question's evidence in the view.
        hit: the share of questions with any of their evidence in the view.
        newest_recall: `recall` for the newest turns.
        newest_hit: `hit` for the newest turns.
    """

    questions: int
    recall: float
    hit: float
    newest_recall: float
    newest_hit: float


def answerable(
    questions: Sequence[Question], played: Sequence[BaseMessage], whole: Sequence[BaseMessage]
) -> list[Question]:
    """The questions with evidence; where only a part was played, those about nothing later."""
    later = {str(message.id) for message in whole[len(played) :]}
    return [one for one in questions if one.evidence and not one.evidence & later]


def ask_all(
    playback: Playback, questions: Sequence[Question], budget: int, advance: Callable[[], None]
) -> list[Asked]:
    """Ask each question as the next user turn, each in a fork of its own."""
    end = playback.end()
    asked: list[Asked] = []
    for question in questions:
        call = playback.ask(question.text, end)
        thread = [*playback.messages, HumanMessage(question.text, id="question")]
        at_the_end = {str(message.id) for message in newest(thread, budget)}
        asked.append(
            Asked(
                question.category,
                call.tokens,
                len(call.shown.kept) - 1,
                len(call.shown.recalled),
                len(at_the_end) - 1,
                _share(question.evidence, call.shown.kept | call.shown.recalled),
                _share(question.evidence, at_the_end),
            )
        )
        advance()
    return asked


def by_category(asked: Sequence[Asked]) -> Mapping[str, Found]:
    """The means, a line a category, then without adversarial questions, then of all."""
    lines = {
        name: [one for one in asked if one.category == number]
        for number, name in CATEGORIES.items()
    }
    lines["without adversarial"] = [one for one in asked if one.category != ADVERSARIAL]
    lines["all"] = list(asked)
    return {name: _mean(part) for name, part in lines.items() if part}


def _mean(asked: Sequence[Asked]) -> Found:
    count = len(asked)
    return Found(
        count,
        sum(one.recall for one in asked) / count,
        sum(one.recall > 0 for one in asked) / count,
        sum(one.newest_recall for one in asked) / count,
        sum(one.newest_recall > 0 for one in asked) / count,
    )


def _share(evidence: frozenset[str], shown: frozenset[str] | set[str]) -> float:
    return len(evidence & shown) / len(evidence)
