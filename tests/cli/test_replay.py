import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from typer.testing import CliRunner, Result

from langgraph_sessionmem import LongTermStore, SessionSaver
from langgraph_sessionmem.cli import app
from langgraph_sessionmem.cli.playback import Playback, first_turns, user_turns
from langgraph_sessionmem.cli.reading import read_conversations
from langgraph_sessionmem.cli.report import spread
from langgraph_sessionmem.cli.views import newest
from langgraph_sessionmem.tokens import count_messages

ROOT = Path(__file__).parents[2]
LOCOMO = Path(os.environ.get("SESSIONMEM_LOCOMO", ROOT.parent / "shared/data/locomo10.json"))
TOOLS = [
    {"role": "system", "content": "You help with orders."},
    {"role": "user", "content": "Where is order 4711?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "track", "arguments": '{"order": 4711}'}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "in transit"},
    {"role": "assistant", "content": "It is in transit."},
    {"role": "user", "content": "Thanks."},
]
KINDS: dict[str, type[BaseMessage]] = {"s": SystemMessage, "u": HumanMessage, "a": AIMessage}


def replay(path: Path, *arguments: str) -> Result:
    command = ["replay", str(path), *arguments]
    return CliRunner().invoke(app, command, env={"COLUMNS": "100"})


def results(path: Path, *arguments: str) -> dict[str, Any]:
    target = path.with_suffix(".results")
    result = replay(path, *arguments, "--json", str(target))
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(target.read_text())
    return found


def lines(path: Path, messages: Sequence[Any]) -> Path:
    path.write_text("\n".join(json.dumps(message) for message in messages))
    return path


def chat(turns: int) -> list[dict[str, str]]:
    return [
        {"role": role, "content": f"{role} says number {turn} at some length, about topic{turn}"}
        for turn in range(turns)
        for role in ("user", "assistant")
    ]


def locomo(path: Path) -> Path:
    """A conversation of two sessions, in whose first turns something is said once."""
    said = ["My parrot is called Figaro.", *(f"Today I read chapter {n}." for n in range(60))]
    turns = [
        {"speaker": "AB"[at % 2], "dia_id": f"D1:{at + 1}", "text": text}
        for at, text in enumerate(said)
    ]
    sample = {
        "sample_id": "made-up",
        "conversation": {
            "speaker_a": "A",
            "speaker_b": "B",
            "session_1_date_time": "8 May",
            "session_1": turns,
        },
        "qa": [
            {"question": "What is the parrot called?", "evidence": ["D1:1"], "category": 4},
            {"question": "Which chapter came last?", "evidence": ["D1:61"], "category": 2},
            {"question": "Who is the mayor?", "evidence": [], "category": 3},
        ],
    }
    path.write_text(json.dumps([sample]))
    return path


def test_a_transcript_with_tool_calls_is_replayed_call_by_call(tmp_path: Path) -> None:
    [found] = results(lines(tmp_path / "chat.jsonl", TOOLS))["conversations"]
    assert (found["conversation"], found["turns"]) == ("chat", 6)
    assert (found["user_turns"], found["calls"]) == (2, 3)


def test_the_replayed_thread_has_the_messages_of_the_file(tmp_path: Path) -> None:
    path, database = lines(tmp_path / "chat.jsonl", TOOLS), tmp_path / "kept.db"
    assert replay(path, "--database", str(database)).exit_code == 0
    [conversation] = read_conversations(path)
    with SessionSaver(database) as saver:
        [thread] = saver.threads()
        kept = saver.get_tuple({"configurable": {"thread_id": thread.thread_id}})
    assert kept is not None
    assert kept.checkpoint["channel_values"]["messages"] == list(conversation.messages)


def test_a_long_conversation_stays_within_the_budget(tmp_path: Path) -> None:
    [found] = results(lines(tmp_path / "chat.jsonl", chat(40)), "--budget", "500")["conversations"]
    assert found["calls"] == 40
    assert found["view_tokens"]["max"] <= 500 < found["history_tokens"]["last"]
    assert found["held_turns"] == found["evicted_turns"] > 50
    assert found["recalled_turns_per_call"] > 0
    assert found["stored_bytes"]["archive"] > 0
    assert found["stored_bytes"]["checkpoints"] > 0


def test_the_report_says_what_was_measured_and_that_no_model_was_called(tmp_path: Path) -> None:
    result = replay(lines(tmp_path / "chat.jsonl", chat(40)), "--budget", "500")
    told = result.stdout
    assert "No model was called: the recorded assistant answers as it did." in " ".join(
        told.split()
    )
    assert "80 turns replayed." in told
    assert max(map(len, told.splitlines())) <= 100


def test_a_conversation_that_fits_is_said_to_fit(tmp_path: Path) -> None:
    assert "nothing was evicted" in replay(lines(tmp_path / "chat.jsonl", TOOLS)).stdout


def test_only_the_first_user_turns_are_replayed_with_a_limit(tmp_path: Path) -> None:
    [found] = results(lines(tmp_path / "chat.jsonl", chat(9)), "--limit", "4")["conversations"]
    assert (found["user_turns"], found["turns"]) == (4, 8)


def test_evidence_that_slid_out_is_in_the_view_and_not_in_the_newest_turns(tmp_path: Path) -> None:
    found = results(locomo(tmp_path / "l.json"), "--questions", "--budget", "600")["questions"]
    single_hop, temporal = found["single-hop"], found["temporal"]
    assert (single_hop["recall"], single_hop["newest_recall"]) == (1, 0)
    assert (temporal["recall"], temporal["newest_recall"]) == (1, 1)
    assert found["all"]["questions"] == 2  # the third has no evidence


def test_questions_about_what_was_not_replayed_are_left_out(tmp_path: Path) -> None:
    found = results(locomo(tmp_path / "l.json"), "--questions", "--limit", "20")["questions"]
    assert found["all"]["questions"] == 1


def test_questions_do_not_see_each_other(tmp_path: Path) -> None:
    [conversation] = read_conversations(locomo(tmp_path / "l.json"))
    with SessionSaver() as saver, LongTermStore() as store:
        playback = Playback(conversation.messages, "thread", 600, saver, store)
        playback.play(lambda: None)
        end = playback.end()
        first, other, again = (
            playback.ask(question, end)
            for question in (
                "What is the parrot called?",
                "Chapter 7?",
                "What is the parrot called?",
            )
        )
    assert first == again != other
    assert first.said == len(conversation.messages) + 1


def test_a_malformed_transcript_is_a_sentence_before_anything_is_written(tmp_path: Path) -> None:
    database, target = tmp_path / "kept.db", tmp_path / "results.json"
    path = lines(tmp_path / "chat.jsonl", [*TOOLS, {"role": "boss", "content": "x"}])
    result = replay(path, "--database", str(database), "--json", str(target))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "chat.jsonl, line 7: \"role\" is 'boss'" in result.stderr
    assert "Traceback" not in result.stderr
    assert not database.exists()
    assert not target.exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--conversation", "conv-1"], "known are chat"),
        (["--questions"], "there are no questions"),
        (["--budget", "20"], "the budget is 20"),
        (["--budget", "0"], "--budget"),
        (["--limit", "0"], "--limit"),
        (["--json", "/no/such/folder/x.json"], "no folder"),
    ],
)
def test_an_argument_that_cannot_be_used_exits_with_2(
    tmp_path: Path, arguments: list[str], reason: str
) -> None:
    result = replay(lines(tmp_path / "chat.jsonl", TOOLS), *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_file_that_is_not_there_exits_with_2(tmp_path: Path) -> None:
    result = replay(tmp_path / "none.json")
    assert result.exit_code == 2
    assert "does not exist" in " ".join(result.stderr.replace("│", " ").split())


def test_a_database_that_is_none_exits_with_2_and_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "notes.db"
    other.write_text("these are my notes, not a database " * 40)
    before = other.read_bytes()
    result = replay(lines(tmp_path / "chat.jsonl", TOOLS), "--database", str(other))
    assert result.exit_code == 2
    assert "SQLite" in result.stderr
    assert other.read_bytes() == before


def recorded(kinds: str) -> list[BaseMessage]:
    """Messages by letter: system, user, assistant, a call, and the result of the last call."""
    messages: list[BaseMessage] = []
    call = ""
    for at, kind in enumerate(kinds):
        text, name = f"{kind} {at} " * 12, str(at)
        if kind == "c":
            call = f"call-{at}"
            calls = [{"name": "look", "args": {"at": at}, "id": call}]
            messages.append(AIMessage(text, id=name, tool_calls=calls))
        elif kind == "t":
            messages.append(ToolMessage(text, id=name, tool_call_id=call))
        else:
            messages.append(KINDS[kind](text, id=name))
    return messages


@given(st.text(alphabet="suact", min_size=1, max_size=24))
@settings(max_examples=40, deadline=None)
def test_whatever_was_recorded_is_what_the_thread_has_in_the_end(kinds: str) -> None:
    messages = recorded(kinds)
    with SessionSaver() as saver, LongTermStore() as store:
        playback = Playback(messages, "thread", 1_000, saver, store)
        played = playback.play(lambda: None)
        kept = saver.get_tuple({"configurable": {"thread_id": "thread"}})
    assert kept is not None
    assert kept.checkpoint["channel_values"]["messages"] == messages
    assert all(call.tokens <= 1_000 for call in played.calls)


@given(st.text(alphabet="suat", max_size=12))
def test_what_users_say_is_given_once_and_in_order(kinds: str) -> None:
    messages = recorded(kinds)
    turns = user_turns(messages)
    given_ids = [message.id for turn in turns for message in turn]
    asked = [message.id for message in messages if message.type in {"human", "system"}]
    assert [name for name in given_ids if name in asked] == asked
    assert given_ids == sorted(given_ids, key=lambda name: int(str(name)))
    for count in range(1, len(turns) + 1):
        part = first_turns(messages, count)
        assert user_turns(part) == turns[:count]
        assert list(part) == messages[: len(part)]


@given(st.lists(st.integers(0, 400), max_size=20), st.integers(0, 1_000))
def test_the_newest_turns_are_the_longest_end_that_fits(sizes: list[int], budget: int) -> None:
    messages = [HumanMessage("x" * size) for size in sizes]
    end = newest(messages, budget)
    assert end == messages[len(messages) - len(end) :]
    assert count_messages(end) <= budget
    longer = messages[max(len(messages) - len(end) - 1, 0) :]
    assert longer == end or count_messages(longer) > budget


@given(st.lists(st.integers(0, 1_000), min_size=1))
def test_ninety_five_of_a_hundred_are_at_most_the_percentile(series: list[int]) -> None:
    found = spread(series)
    assert sum(one <= found.p95 for one in series) >= 0.95 * len(series)
    assert min(series) <= found.mean <= found.max == max(series)
    assert found.last == series[-1]


@pytest.mark.skipif(
    not LOCOMO.exists(),
    reason=f"LoCoMo's data isn't at {LOCOMO}; say where it is with SESSIONMEM_LOCOMO",
)
def test_of_a_real_conversation_more_evidence_is_seen_than_in_its_newest_turns(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "locomo10.json"
    copy.symlink_to(LOCOMO)
    arguments = ["--conversation", "conv-26", "--limit", "40", "--questions", "--budget", "1000"]
    found = results(copy, *arguments)
    [conversation] = found["conversations"]
    assert conversation["view_tokens"]["max"] <= 1_000
    assert found["questions"]["all"]["recall"] > 2 * found["questions"]["all"]["newest_recall"]
