"""What a config says: which checkpoint, which metadata, how long its thread lives."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import EXCLUDED_METADATA_KEYS, CheckpointMetadata

from langgraph_sessionmem.checkpoint.options import Options
from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.expiry import TTL, TTLFunction, read_session_ttl
from langgraph_sessionmem.rows import Limits

SESSION_TTL = "session_ttl"
OWNERS = ("langgraph_auth_user_id", "user_id")
"""Whom a config may name as the thread's owner. The server's word comes first: any client may send
a `user_id`."""


class Place(NamedTuple):
    """Which checkpoint a config names; no `checkpoint_id` means the latest."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None


def read_place(config: RunnableConfig) -> Place:
    """The checkpoint that a config names.

    Raises:
        InvalidArgument: the config names no thread.
    """
    configurable = config.get("configurable") or {}
    checkpoint_id = configurable.get("checkpoint_id")
    return Place(
        read_thread_id(configurable.get("thread_id")),
        read_name("checkpoint_ns", configurable.get("checkpoint_ns") or ""),
        read_name("checkpoint_id", checkpoint_id) if checkpoint_id else None,
    )


def read_thread_id(given: object) -> str:
    """A thread id as text; LangGraph's callers pass integers and UUIDs too.

    Raises:
        InvalidArgument: it is None or empty, so it names no thread.
    """
    if given is None or given == "":
        raise InvalidArgument(
            f"thread_id={given!r} names no thread: pass a text that is not empty, in a config as "
            '{"configurable": {"thread_id": "..."}}.'
        )
    return read_name("thread_id", given)


def read_name(what: str, given: object) -> str:
    """What is given as the name of `what`, as text.

    Raises:
        InvalidArgument: it has a lone surrogate, which is no text.
    """
    name = str(given)
    if name.isascii():
        return name
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{what}={name!r} has a lone surrogate, which no database can hold in an id; remove it."
        ) from error
    return name


def config_of(thread_id: str, checkpoint_ns: str, checkpoint_id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": checkpoint_ns,
            "checkpoint_id": checkpoint_id,
        }
    }


def merge_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> dict[str, Any]:
    """The metadata to store: what was passed, and the scalars of the config, as LangGraph does.

    Unlike LangGraph's own, NUL stays in text, and `session_ttl` stays out.
    """
    merged: dict[str, Any] = dict(metadata)
    merged.pop("writes", None)
    for source in (config.get("metadata"), config.get("configurable")):
        for key, value in (source or {}).items():
            hidden = key in EXCLUDED_METADATA_KEYS or key.startswith("__") or key == SESSION_TTL
            if key not in merged and not hidden and isinstance(value, str | int | float):
                merged[key] = value
    return merged


def read_owner(config: RunnableConfig) -> str | None:
    """Whose thread it is, as text; None if the config names nobody."""
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    for key in OWNERS:
        owner = configurable.get(key)
        if owner not in (None, ""):
            return str(owner)
    return None


def read_limits(
    config: RunnableConfig,
    metadata: CheckpointMetadata,
    ttl: TTL | TTLFunction | None,
    options: Options,
) -> tuple[Limits, bool]:
    """The limits for the thread of this put, and whether the thread asked for them itself.

    A duration alone, as `session_ttl`, changes how long the thread lives and keeps the strategy of
    the saver.

    Raises:
        InvalidArgument: `session_ttl` is no duration, or the function returned no `TTL`.
    """
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    own = SESSION_TTL in configurable
    if callable(ttl):
        found = ttl(config, metadata)
        if found is not None and not isinstance(found, TTL):
            raise InvalidArgument(f"The ttl function returned {found!r}: return a TTL or None.")
        ttl = found
    if own:
        ttl = read_session_ttl(configurable[SESSION_TTL], ttl.strategy if ttl else "delete")
    return limits_of(ttl, options), own


def limits_of(ttl: TTL | None, options: Options) -> Limits:
    """What a thread that a saver with these options stores is limited to."""
    limits = ttl.limits if ttl is not None else Limits()
    return limits._replace(tells_expiry=True) if options.tells_expiry else limits
