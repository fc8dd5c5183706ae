"""`sessionmem replay`: a recorded conversation, as a model would have seen it."""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from langgraph_sessionmem import LongTermStore, SessionSaver
from langgraph_sessionmem.cli.console import DatabaseOption, output, plain_errors, progress_bar
from langgraph_sessionmem.cli.evidence import Asked, answerable, ask_all
from langgraph_sessionmem.cli.playback import Playback, first_turns, user_turns
from langgraph_sessionmem.cli.reading import choose, read_conversations
from langgraph_sessionmem.cli.report import Replayed, Stored, as_json, show
from langgraph_sessionmem.cli.transcripts import Conversation, refused
from langgraph_sessionmem.errors import InvalidArgument


class Files(NamedTuple):
    """Where the databases are.

    Attributes:
        checkpoints: the saver's file.
        archive: the store's; may be the same.
    """

    checkpoints: Path
    archive: Path

    def sizes(self) -> Stored:
        """What they hold; only true while nobody has them open."""
        sizes = [path.stat().st_size if path.exists() else 0 for path in self]
        if self.checkpoints == self.archive:
            return Stored(sizes[0], None)
        return Stored(*sizes)


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            help="LoCoMo's JSON, or a JSON list or JSONL of messages.",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ],
    conversation: Annotated[
        str | None,
        typer.Option(help="Only this one, e.g. conv-26 of LoCoMo.", show_default="all"),
    ] = None,
    budget: Annotated[
        int, typer.Option(help="Tokens of a model call.", min=1, metavar="TOKENS")
    ] = 2_000,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Only the first so many user turns.", min=1, metavar="TURNS", show_default="all"
        ),
    ] = None,
    questions: Annotated[
        bool,
        typer.Option(
            "--questions", help="Ask LoCoMo's questions at the end and look for their evidence."
        ),
    ] = False,
    database: DatabaseOption = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the results here as well.", dir_okay=False),
    ] = None,
) -> None:
    """Replay a real conversation and measure what the model would have seen.

    The conversation runs through a LangGraph graph with SessionSaver, LongTermStore and Compactor
    on SQLite. No model is called: the recorded assistant answers as it did.

    FILE is a JSON list or JSONL of {"role": "user", "content": "..."} messages, tool calls
    included, or LoCoMo's locomo10.json.
    """
    with plain_errors():
        if json_file is not None and not json_file.parent.is_dir():
            raise InvalidArgument(f"--json {json_file}: there is no folder {json_file.parent}.")
        chosen = choose(read_conversations(file), conversation, file.name)
        if questions and not any(one.questions for one in chosen):
            raise refused(file.name, "there are no questions in it; --questions needs LoCoMo.")
        with _files(database) as files:
            replayed = [_replay(one, files, budget, limit, questions) for one in chosen]
        show(output(), replayed, budget)
        if json_file is not None:
            json_file.write_text(json.dumps(as_json(replayed, budget), indent=2) + "\n", "utf-8")


@contextmanager
def _files(database: Path | None) -> Iterator[Files]:
    if database is not None:
        yield Files(database, database)
        return
    with tempfile.TemporaryDirectory(prefix="sessionmem-") as folder:
        yield Files(Path(folder, "checkpoints.db"), Path(folder, "archive.db"))


def _replay(
    conversation: Conversation, files: Files, budget: int, limit: int | None, questions: bool
) -> Replayed:
    messages = first_turns(conversation.messages, limit)
    thread_id = f"replay-{conversation.name}-{os.urandom(4).hex()}"
    with _opened(files) as (saver, store):
        saver.setup()
        store.setup()
    before = files.sizes()
    with progress_bar() as progress:
        with _opened(files) as (saver, store):
            task = progress.add_task(conversation.name, total=len(user_turns(messages)))
            playback = Playback(messages, thread_id, budget, saver, store)
            played = playback.play(lambda: progress.advance(task))
        after = files.sizes()
        asked: Sequence[Asked] = []
        if questions:
            asking = answerable(conversation.questions, messages, conversation.messages)
            with _opened(files) as (saver, store):
                task = progress.add_task(f"{conversation.name} questions", total=len(asking))
                playback = Playback(messages, thread_id, budget, saver, store)
                asked = ask_all(playback, asking, budget, lambda: progress.advance(task))
    return Replayed(conversation.name, len(messages), played, after.since(before), asked)


@contextmanager
def _opened(files: Files) -> Iterator[tuple[SessionSaver, LongTermStore]]:
    """The two databases; when they close, SQLite moves its log into the files."""
    with SessionSaver(files.checkpoints) as saver, LongTermStore(files.archive) as store:
        yield saver, store
