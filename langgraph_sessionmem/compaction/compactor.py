"""`Compactor`: compaction for a `StateGraph`.

The node commits the ledger in a step of its own; the view is computed where the model is called.
Both are thin faces of one `Engine`.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.config import get_config
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.base import BaseStore

from langgraph_sessionmem.asking import AsyncModel, BlockingModel, structured
from langgraph_sessionmem.compaction.engine import Engine, Moment, TurnStatus
from langgraph_sessionmem.compaction.ledger import STATE_KEY, field_of
from langgraph_sessionmem.compaction.operations import Patch
from langgraph_sessionmem.compaction.planner import Budget
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.running import run_now
from langgraph_sessionmem.store_links import AsyncStore, BlockingStore, StoreLink, checked_namespace
from langgraph_sessionmem.tokens import CountTokens, count_messages, tool_tokens

RECALL_SHARE = 0.5
"""The part of the budget kept free for recalled turns, unless `recall_tokens` says otherwise."""
SUMMARIZER_TOKENS = 16_000
"""The size of a summarizer's request, unless the model's profile or `summarizer_tokens` says."""


def _now() -> datetime:
    return datetime.now(UTC)


class Compactor:
    """Keeps what a model sees within a budget, and everything else within reach.

    Args:
        summarizer: a chat model with structured output that fills the ledger; None: the ledger
            stays as your own nodes make it, the rest works alike.
        max_tokens: the budget of a whole request: view, tools and answer.
        reserve_tokens: the part of it for the answer and whatever else you add to the request.
        tools: the tools bound to the model; the cost of their schemas is taken off as well.
        recall_tokens: the part kept free for recalled turns; by default half of the rest.
        messages_key: the state's channel with the messages.
        state_key: the state's channel for ledger and marks; `CompactedState` has it.
        namespace: where in the store the archive is; each thread gets a namespace below it. Two
            compactors that work on the same thread (a graph and its subgraph) need two.
        count_tokens: counts the tokens of a message list, instead of the estimate.
        summarizer_tokens: the size of a request to the summarizer.
        summarizer_timeout: seconds after which the summarizer's answer is no longer waited for.
        clock: gives the time, aware, for the entries' `recorded_at` and `until`.

    Raises:
        InvalidArgument: an argument can't be used.
    """

    def __init__(
        self,
        summarizer: BaseChatModel | None = None,
        *,
        max_tokens: int = 4_000,
        reserve_tokens: int = 0,
        tools: Sequence[Any] = (),
        recall_tokens: int | None = None,
        messages_key: str = "messages",
        state_key: str = STATE_KEY,
        namespace: Sequence[str] = ("sessionmem", "archive"),
        count_tokens: CountTokens | None = None,
        summarizer_tokens: int | None = None,
        summarizer_timeout: float = 60.0,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        total = max_tokens - reserve_tokens - tool_tokens(tools)
        if recall_tokens is None:
            recall_tokens = int(total * RECALL_SHARE)
        if max_tokens <= 0 or reserve_tokens < 0 or total <= 0:
            raise InvalidArgument(
                f"max_tokens={max_tokens} with reserve_tokens={reserve_tokens} and "
                f"{tool_tokens(tools)} tokens of tools leaves {total} for the messages; it must be "
                "more than 0."
            )
        if not 0 <= recall_tokens < total:
            raise InvalidArgument(
                f"recall_tokens={recall_tokens} must be at least 0 and less than the {total} "
                "tokens there are for the messages."
            )
        if summarizer_timeout <= 0 or (summarizer_tokens is not None and summarizer_tokens <= 0):
            raise InvalidArgument(
                f"summarizer_timeout={summarizer_timeout} and "
                f"summarizer_tokens={summarizer_tokens} must be more than 0."
            )
        self.max_tokens, self.messages_key, self.state_key = max_tokens, messages_key, state_key
        self._chain = (
            structured(summarizer, Patch, "summarizer") if summarizer is not None else None
        )
        self._seconds = summarizer_timeout
        known = (getattr(summarizer, "profile", None) or {}).get("max_input_tokens")
        size = min(int(known) * 3 // 4, SUMMARIZER_TOKENS) if known else SUMMARIZER_TOKENS
        self._engine = Engine(
            Budget(total, recall_tokens),
            checked_namespace(namespace),
            count_tokens or count_messages,
            summarizer_tokens or size,
            clock,
        )
        self._node = RunnableLambda(self._run_node, self._arun_node, name="compact")

    @property
    def node(self) -> Runnable[Any, Any]:
        """The graph's node that makes room: `builder.add_node("compact", compactor.node)`.

        It archives what is about to leave the window, has the summarizer read it, and commits
        ledger and marks. It changes no message, and nothing at all while everything fits.

        Raises (when it runs):
            InvalidArgument: the state has no channel for the ledger.
            BudgetExceeded: what must be in the view doesn't fit.
        """
        return self._node

    def view(self, state: Any, runtime: Runtime[Any]) -> list[BaseMessage]:
        """The messages to call the model with, valid for providers and within the budget.

        Args:
            state: the graph's state, as the node that calls the model gets it.
            runtime: the node's runtime, for the store and the thread's id.

        Raises:
            BudgetExceeded: what must be in the view doesn't fit; nothing was written.
            ArchiveFailed: turns must leave the window and the store doesn't hold them.
        """
        return run_now(self._engine.view(self._moment(state, runtime, _blocking(runtime.store))))

    async def aview(self, state: Any, runtime: Runtime[Any]) -> list[BaseMessage]:
        """`view`, for a store on an event loop."""
        return await self._engine.view(self._moment(state, runtime, _on_loop(runtime.store)))

    def status(self, state: Any, runtime: Runtime[Any]) -> list[TurnStatus]:
        """For each turn of the thread: whether it slid out of the window, and whether it is held.

        Asks the store for every turn and writes nothing.
        """
        return run_now(self._engine.status(self._moment(state, runtime, _blocking(runtime.store))))

    async def astatus(self, state: Any, runtime: Runtime[Any]) -> list[TurnStatus]:
        """`status`, for a store on an event loop."""
        return await self._engine.status(self._moment(state, runtime, _on_loop(runtime.store)))

    def _moment(self, state: Any, runtime: Runtime[Any], store: StoreLink | None) -> Moment:
        messages = field_of(state, self.messages_key) or []
        channel = field_of(state, self.state_key)
        return self._engine.moment(messages, channel, store, _thread_id(runtime))

    def _run_node(self, state: Any) -> dict[str, Any] | None:
        self._check_channel()
        runtime = get_runtime()
        store = _blocking(runtime.store)
        model = BlockingModel(self._chain, self._seconds) if self._chain is not None else None
        moment = self._moment(state, runtime, store)
        return self._update(run_now(self._engine.commit(moment, store, model)))

    async def _arun_node(self, state: Any) -> dict[str, Any] | None:
        self._check_channel()
        runtime = get_runtime()
        store = _on_loop(runtime.store)
        model = AsyncModel(self._chain, self._seconds) if self._chain is not None else None
        moment = self._moment(state, runtime, store)
        return self._update(await self._engine.commit(moment, store, model))

    def _update(self, channel: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if channel is None else {self.state_key: channel}

    def _check_channel(self) -> None:
        """LangGraph drops an update of an unknown channel silently; then nothing would stick."""
        read: Callable[[str], Any] | None = get_config()["configurable"].get("__pregel_read")
        try:
            if read is not None:
                read(self.state_key)
        except KeyError:
            raise InvalidArgument(
                f"The graph's state has no channel {self.state_key!r}, so the ledger can't be "
                f"kept: derive the state from CompactedState, or add `{self.state_key}: dict`."
            ) from None


def _blocking(store: BaseStore | None) -> StoreLink | None:
    return None if store is None else BlockingStore(store)


def _on_loop(store: BaseStore | None) -> StoreLink | None:
    return None if store is None else AsyncStore(store)


def _thread_id(runtime: Runtime[Any]) -> str | None:
    """The thread of this run; None without a checkpointer and an id."""
    info = runtime.execution_info
    return info.thread_id if info is not None else None
