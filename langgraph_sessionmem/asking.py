"""Asking a chat model for structured output, with a deadline, from blocking code or on a loop."""

from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from langgraph.constants import TAG_NOSTREAM
from pydantic import BaseModel

from langgraph_sessionmem.background import finish_within, wait_within
from langgraph_sessionmem.errors import InvalidArgument

_CUT_SHORT = frozenset({"length", "max_tokens", "max_output_tokens", "content_filter"})


class ModelLink(Protocol):
    """How the chat model is called."""

    async def ask(self, messages: list[BaseMessage]) -> Any:
        """The model's structured output, with the raw message."""
        ...


@dataclass(frozen=True, slots=True)
class BlockingModel:
    """The model called from blocking code; never suspends."""

    chain: Runnable[Any, Any]
    seconds: float

    async def ask(self, messages: list[BaseMessage]) -> Any:
        """The answer, or `TimeoutError`."""
        return finish_within(self.seconds, lambda: self.chain.invoke(messages))


@dataclass(frozen=True, slots=True)
class AsyncModel:
    """The model called on an event loop."""

    chain: Runnable[Any, Any]
    seconds: float

    async def ask(self, messages: list[BaseMessage]) -> Any:
        """The answer, or `TimeoutError`."""
        return await wait_within(self.seconds, self.chain.ainvoke(messages))


def structured(model: BaseChatModel, schema: type[BaseModel], role: str) -> Runnable[Any, Any]:
    """The model as one that answers with a `schema`, and its raw message beside it.

    Its tokens are kept out of `stream_mode="messages"`.

    Args:
        model: a chat model.
        schema: what it is to answer with.
        role: what it is asked for, in traces and messages.

    Raises:
        InvalidArgument: it can't.
    """
    try:
        chain = model.with_structured_output(schema, include_raw=True)
    except (NotImplementedError, AttributeError) as error:
        raise InvalidArgument(
            f"The {role} {type(model).__name__} has no structured output: "
            "with_structured_output failed. Give a chat model that supports tools, or None."
        ) from error
    return chain.with_config(
        tags=[TAG_NOSTREAM],
        metadata={"sessionmem": role},
        run_name=f"sessionmem_{role}",
    )


def objection(answer: Any, schema: type[BaseModel]) -> str:
    """Why an answer can't be used; empty if it can."""
    if not isinstance(answer, dict):
        return f"the answer is a {type(answer).__name__}"
    raw = answer.get("raw")
    metadata = getattr(raw, "response_metadata", None) or {}
    ended = str(metadata.get("finish_reason") or metadata.get("stop_reason") or "").lower()
    if ended in _CUT_SHORT:
        return f"the answer was cut short ({ended})"
    if answer.get("parsing_error") is not None:
        return f"the answer is invalid: {answer['parsing_error']!r}"
    if not isinstance(answer.get("parsed"), schema):
        return "the answer is prose or a refusal"
    return ""
