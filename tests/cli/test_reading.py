import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_sessionmem.cli.reading import choose, read_conversations
from langgraph_sessionmem.errors import InvalidTranscript

USER = {"role": "user", "content": "hello"}
OPENAI_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
LANGCHAIN_CALL = {"id": "c", "name": "f", "args": {"x": 1}}
TURN = {"speaker": "A", "dia_id": "D1:1", "text": "hi"}
SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "A",
        "speaker_b": "B",
        "session_1_date_time": "8 May",
        "session_1": [TURN, {"speaker": "B", "dia_id": "D1:2", "text": "ho"}],
        "session_2_date_time": "9 May",
    },
    "qa": [{"question": "q", "answer": 3, "evidence": ["D:1:02; D1:1"], "category": 2}],
}


def written(folder: Path, content: Any, name: str = "chat.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def refusal(folder: Path, content: Any, name: str = "chat.json") -> str:
    with pytest.raises(InvalidTranscript) as caught:
        read_conversations(written(folder, content, name))
    return str(caught.value)


@pytest.mark.parametrize("call", [OPENAI_CALL, LANGCHAIN_CALL])
def test_a_list_of_messages_becomes_a_conversation(tmp_path: Path, call: dict[str, Any]) -> None:
    messages = [
        {"role": "developer", "content": "be kind"},
        {**USER, "name": "Ann", "timestamp": "2026-01-02"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done", "id": "result"},
        {"role": "ai", "content": [{"type": "text", "text": "It is done."}]},
    ]
    [conversation] = read_conversations(written(tmp_path, messages))
    system, user, asking, result, answer = conversation.messages
    assert conversation.name == "chat"
    assert system == SystemMessage("be kind", id="message-1")
    assert user == HumanMessage(
        "hello", id="message-2", name="Ann", additional_kwargs={"timestamp": "2026-01-02"}
    )
    assert isinstance(asking, AIMessage)
    assert [(one["name"], one["args"]) for one in asking.tool_calls] == [("f", {"x": 1})]
    assert result == ToolMessage("done", tool_call_id="c", id="result")
    assert answer.text == "It is done."


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([USER, USER]),
        json.dumps({"messages": [USER, USER]}),
        f"{json.dumps(USER)}\n\n{json.dumps(USER)}\n",
        "\ufeff" + json.dumps([USER, USER], indent=2),
        json.dumps({**USER, "content": "a\u2028b"}, ensure_ascii=False) + "\r\n" + json.dumps(USER),
    ],
    ids=["list", "object", "lines", "byte order mark", "line separator in a text"],
)
def test_every_form_of_a_file_is_read(tmp_path: Path, text: str) -> None:
    [conversation] = read_conversations(written(tmp_path, text))
    assert [message.type for message in conversation.messages] == ["human", "human"]


def test_a_single_line_is_a_conversation(tmp_path: Path) -> None:
    [conversation] = read_conversations(written(tmp_path, json.dumps(USER), "one.jsonl"))
    assert [message.text for message in conversation.messages] == ["hello"]


@pytest.mark.parametrize(
    ("bad", "place", "reason"),
    [
        ("text", "message 2", "object with"),
        ({"content": "x"}, "message 2", '"role" is None'),
        ({"role": "boss", "content": "x"}, "message 2", "one of user, human, assistant"),
        ({"role": ["user"], "content": "x"}, "message 2", '"role" is'),
        ({"role": "user"}, "message 2", '"content" is None'),
        ({"role": "assistant", "content": None}, "message 2", '"content" is None'),
        ({"role": "user", "content": 4}, "message 2", '"content" is 4'),
        ({"role": "user", "content": [{"text": "x"}]}, "message 2", 'with a "type"'),
        ({**USER, "id": 7}, "message 2", '"id" is 7'),
        ({**USER, "id": "message-1"}, "message 2", "message 1 already"),
        ({**USER, "name": {}}, "message 2", '"name" is {}'),
        ({**USER, "timestamp": 1}, "message 2", '"timestamp" is 1'),
        ({**USER, "content": "\ud800"}, "message 2", "lone surrogate"),
        ({**USER, "tool_calls": [OPENAI_CALL]}, "message 2", "message of the assistant"),
        ({"role": "tool", "content": "x"}, "message 2", '"tool_call_id" is None'),
        ({"role": "tool", "content": "x", "tool_call_id": "c"}, "message 2", "made that call"),
    ],
)
def test_a_message_that_cannot_be_used_is_named_with_what_would_do(
    tmp_path: Path, bad: Any, place: str, reason: str
) -> None:
    told = refusal(tmp_path, [USER, bad])
    assert told.startswith(f"chat.json, {place}: ")
    assert reason in told


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("f", "a call is"),
        ({"id": "c", "function": 3}, "a call is"),
        ({"function": {"name": "f", "arguments": "{}"}}, '"id" is None'),
        ({"id": "c", "function": {"arguments": "{}"}}, '"name" is None'),
        ({"id": "c", "function": {"name": "f", "arguments": "{"}}, "the arguments are"),
        ({"id": "c", "function": {"name": "f", "arguments": "[]"}}, "the arguments are"),
        ({"id": "c", "name": "f", "args": 3}, "the arguments are 3"),
    ],
)
def test_a_tool_call_that_cannot_be_used_is_named(tmp_path: Path, call: Any, reason: str) -> None:
    told = refusal(tmp_path, [{"role": "assistant", "content": "", "tool_calls": [call]}])
    assert told.startswith("chat.json, message 1, tool call 1: ")
    assert reason in told


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", "chat.json", "the file is empty"),
        ("  \n", "chat.json", "the file is empty"),
        ("hello", "chat.json, line 1, column 1", "not JSON"),
        ('[{"role":\n', "chat.json, line 2, column 1", "not JSON"),
        ('{"role": "user", "content": "x"}\n{oops', "chat.json, line 2", "not JSON"),
        ('{"role": "user", "content": "x"}\n3', "chat.json, line 2", "object with"),
        ('[{"role": "user", "content": NaN}]', "chat.json", "NaN"),
        ("[" * 100_000, "chat.json", "nested too deeply"),
        ("3", "chat.json", "no list of messages"),
        ('{"chat": []}', "chat.json", "no list of messages"),
        ("[]", "chat.json", "no message of a user"),
        ('[{"role": "assistant", "content": "x"}]', "chat.json", "no message of a user"),
    ],
)
def test_a_file_that_is_no_conversation_is_refused(
    tmp_path: Path, text: str, place: str, reason: str
) -> None:
    told = refusal(tmp_path, text)
    assert told.startswith(f"{place}: ")
    assert reason in told


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(b'[{"role": "user", "content": "\xe9"}]')
    with pytest.raises(InvalidTranscript, match=r"^chat.json: byte 30 is not UTF-8"):
        read_conversations(path)


def test_locomo_becomes_conversations_with_questions(tmp_path: Path) -> None:
    turns = SAMPLE["conversation"]["session_1"]  # type: ignore[index]
    shared = {**turns[1], "blip_caption": "a dog"}
    conversation = {**SAMPLE["conversation"], "session_1": [TURN, shared]}  # type: ignore[dict-item]
    [read] = read_conversations(written(tmp_path, [{**SAMPLE, "conversation": conversation}]))
    assert read.name == "conv-1"
    assert list(read.messages) == [
        HumanMessage("[8 May] A: hi", id="D1:1"),
        AIMessage("[8 May] B: ho [shares a dog]", id="D1:2"),
    ]
    [question] = read.questions
    assert (question.text, question.category) == ("q", 2)
    assert question.evidence == {"D1:1", "D1:2"}


@pytest.mark.parametrize(
    ("sample", "place", "reason"),
    [
        (3, "sample 2", '"sample_id" is None'),
        ({"sample_id": "c", "conversation": []}, "sample 2 (c)", '"conversation" is []'),
        ({"sample_id": "c", "conversation": {}}, "sample 2 (c)", '"speaker_a" is None'),
        ({**SAMPLE, "qa": 3}, "sample 2 (conv-1)", '"qa" is 3'),
        ({**SAMPLE, "qa": [{}]}, "sample 2 (conv-1), question 1", '"evidence" is None'),
        (
            {**SAMPLE, "conversation": {"speaker_a": "A", "session_1": [TURN]}},
            "sample 2 (conv-1)",
            '"session_1_date_time" is None',
        ),
        (
            {
                **SAMPLE,
                "conversation": {
                    "speaker_a": "A",
                    "session_1_date_time": "8 May",
                    "session_1": [TURN, {"speaker": "B"}],
                },
            },
            "sample 2 (conv-1), session_1, turn 2",
            '"text" is None',
        ),
        (
            {
                **SAMPLE,
                "conversation": {
                    "speaker_a": "A",
                    "session_1_date_time": "8 May",
                    "session_1": [TURN, TURN],
                },
            },
            "sample 2 (conv-1)",
            "all different",
        ),
    ],
)
def test_locomo_with_something_missing_is_refused(
    tmp_path: Path, sample: Any, place: str, reason: str
) -> None:
    told = refusal(tmp_path, [SAMPLE, sample])
    assert told.startswith(f"chat.json, {place}: ")
    assert reason in told


def test_an_unknown_conversation_is_refused_with_those_there_are(tmp_path: Path) -> None:
    conversations = read_conversations(written(tmp_path, [SAMPLE]))
    assert choose(conversations, "conv-1", "x.json") == conversations
    assert choose(conversations, None, "x.json") == conversations
    with pytest.raises(InvalidTranscript, match=r"x.json: .*'conv-2'; known are conv-1"):
        choose(conversations, "conv-2", "x.json")
