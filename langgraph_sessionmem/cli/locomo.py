"""LoCoMo: long conversations of two people over many sessions, with questions about them.

`locomo10.json` is a list of samples: `sample_id`; `conversation` with `speaker_a`, `speaker_b`, and
for each session N `session_N_date_time` and `session_N`, a list of turns `{speaker, dia_id, text,
blip_caption?}`; `qa`, a list of `{question, evidence: [dia_id], category}`.

Speaker A is the user, speaker B the assistant. A message's id is the turn's `dia_id`; its text has
the session's date and the speaker in front, as they are part of what was said.

Source:
    Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents", ACL 2024.
    The data (snap-research/LoCoMo) is under CC BY-NC 4.0 and no part of this package.
"""

import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_sessionmem.cli.transcripts import (
    Conversation,
    Question,
    is_text,
    refused,
    shortened,
)

CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
ADVERSARIAL = 5
_TURN_ID = re.compile(r"D:?(\d+):0*(\d+)")
"""Some evidence is misspelt in the data: "D:11:26", "D30:05", "D8:6; D9:17"."""
_SESSION = re.compile(r"session_(\d+)")


def is_locomo(data: Any) -> bool:
    """Whether a file's JSON is LoCoMo's."""
    return (
        isinstance(data, list)
        and bool(data)
        and isinstance(data[0], dict)
        and "conversation" in data[0]
    )


def locomo_conversations(file: str, samples: Sequence[Any]) -> list[Conversation]:
    """The conversations of a LoCoMo file.

    Args:
        file: the file's name, for errors.
        samples: its JSON.

    Raises:
        InvalidTranscript: something that is needed is missing.
    """
    return [_sample(f"{file}, sample {at}", sample) for at, sample in enumerate(samples, 1)]


def _sample(place: str, sample: Any) -> Conversation:
    name = _field(place, sample, "sample_id", str)
    place = f"{place} ({name})"
    said = _field(place, sample, "conversation", dict)
    messages = _messages(place, said)
    known = {message.id for message in messages}
    if len(known) < len(messages) or not any(isinstance(one, HumanMessage) for one in messages):
        raise refused(
            place,
            'the turns need a "dia_id" each, all different, and one at least is by "speaker_a".',
        )
    questions = sample.get("qa", [])
    if not isinstance(questions, list):
        raise refused(place, f'"qa" is {shortened(questions)}; it must be a list.')
    asked = [_question(f"{place}, question {at}", one) for at, one in enumerate(questions, 1)]
    return Conversation(name, messages, asked)


def _messages(place: str, said: dict[str, Any]) -> list[BaseMessage]:
    user = _field(place, said, "speaker_a", str)
    numbers = sorted(
        int(found[1]) for name in said if (found := _SESSION.fullmatch(name)) is not None
    )
    messages: list[BaseMessage] = []
    for number in numbers:
        session = f"session_{number}"
        date = _field(place, said, f"{session}_date_time", str)
        turns = _field(place, said, session, list)
        for at, turn in enumerate(turns, 1):
            where = f"{place}, {session}, turn {at}"
            speaker = _field(where, turn, "speaker", str)
            text = f"[{date}] {speaker}: {_field(where, turn, 'text', str)}"
            if turn.get("blip_caption"):
                text += f" [shares {_field(where, turn, 'blip_caption', str)}]"
            kind = HumanMessage if speaker == user else AIMessage
            messages.append(kind(text, id=_field(where, turn, "dia_id", str)))
    return messages


def _question(place: str, question: Any) -> Question:
    evidence = _field(place, question, "evidence", list)
    named = {
        f"D{session}:{turn}" for one in evidence for session, turn in _TURN_ID.findall(str(one))
    }
    # What names no turn at all can't be found either; only an empty list asks for nothing.
    unknown = frozenset(map(str, evidence))
    return Question(
        _field(place, question, "question", str),
        frozenset(named) or unknown,
        _field(place, question, "category", int),
    )


def _field(place: str, holder: Any, name: str, kind: type[Any]) -> Any:
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, kind) or (kind is str and not is_text(value)):
        words = {str: "a text", int: "a number", list: "a list", dict: "an object"}
        raise refused(
            place, f'"{name}" is {shortened(value)}; LoCoMo\'s format has {words[kind]} there.'
        )
    return value
