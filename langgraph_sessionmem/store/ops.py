"""LangGraph's ops, checked before anything is read or written; raw ops as well."""

import math
from collections.abc import Iterable
from typing import Final, TypeGuard

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.item_records import Namespace
from langgraph_sessionmem.store import filters

_RESERVED_ROOT: Final = "langgraph"


def check_ops(ops: Iterable[Op]) -> list[Op]:
    """The ops as a list, all of them sound.

    Raises:
        InvalidNamespaceError: a namespace is no tuple of labels, or a put's is empty or reserved.
        InvalidFilter: a filter can't be understood.
        InvalidArgument: anything else that can't be used.
    """
    checked = list(ops)
    for op in checked:
        _check_op(op)
    return checked


def check_namespace(namespace: object) -> None:
    """Refuse what is no tuple of labels; an empty one is fine.

    Raises:
        InvalidNamespaceError: with the label that can't be used.
    """
    if not isinstance(namespace, tuple):
        raise InvalidNamespaceError(
            f"A namespace is a tuple of labels, not {namespace!r}: write "
            f"{(namespace,) if isinstance(namespace, str) else ('users', 'u1')!r}."
        )
    validate_op_namespace(GetOp(namespace, ""))
    for label in namespace:
        if not _is_text(label):
            raise InvalidNamespaceError(
                f"The label {label!r} of {namespace!r} has a lone surrogate; remove it."
            )


def check_key(key: object) -> None:
    """Refuse what is no key.

    Raises:
        InvalidArgument: it is no text, or none that a database can hold.
    """
    if not isinstance(key, str):
        raise InvalidArgument(f"key={key!r}: a key is a text; use str(key).")
    if not _is_text(key):
        raise InvalidArgument(f"key={key!r} has a lone surrogate; remove it.")


def check_minutes(name: str, minutes: object) -> None:
    """Refuse what is no time to live.

    Raises:
        InvalidArgument: it is neither None nor a positive, finite number.
    """
    if minutes is not None and not (_is_number(minutes) and 0 < minutes < math.inf):
        raise InvalidArgument(
            f"{name}={minutes!r}: give a positive number of minutes, or None for no limit."
        )


def check_paths(name: str, paths: object) -> None:
    """Refuse what is no list of paths.

    Raises:
        InvalidArgument: it is no list of texts.
    """
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise InvalidArgument(
            f'{name}={paths!r}: give a list of paths such as ["text", "notes[*].title"].'
        )


def _check_op(op: object) -> None:
    if isinstance(op, GetOp):
        check_namespace(op.namespace)
        check_key(op.key)
    elif isinstance(op, PutOp):
        _check_put(op)
    elif isinstance(op, SearchOp):
        check_namespace(op.namespace_prefix)
        _check_page(op.limit, op.offset)
        if op.filter is not None:
            filters.validate(op.filter)
        if op.query is not None and not isinstance(op.query, str):
            raise InvalidArgument(f"query={op.query!r}: give a text, or None.")
    elif isinstance(op, ListNamespacesOp):
        _check_listing(op)
    else:
        raise InvalidArgument(f"{op!r} is no op: give GetOp, PutOp, SearchOp or ListNamespacesOp.")


def _check_put(op: PutOp) -> None:
    check_namespace(op.namespace)
    check_key(op.key)
    if op.value is None:
        return
    if not op.namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    if op.namespace[0] == _RESERVED_ROOT:
        raise InvalidNamespaceError(
            f'Root label for namespace cannot be "{_RESERVED_ROOT}". Got: {op.namespace}'
        )
    if op.index is not None and op.index is not False:
        check_paths("index", op.index)
    check_minutes("ttl", op.ttl)


def _check_listing(op: ListNamespacesOp) -> None:
    for condition in op.match_conditions or ():
        if condition.match_type not in ("prefix", "suffix"):
            raise InvalidArgument(
                f'match_type={condition.match_type!r}: known are "prefix" and "suffix".'
            )
        check_namespace(condition.path)
    _check_page(op.limit, op.offset)
    if op.max_depth is not None and not (_is_whole(op.max_depth) and op.max_depth >= 1):
        raise InvalidArgument(f"max_depth={op.max_depth!r}: give at least 1, or None.")


def _check_page(limit: object, offset: object) -> None:
    for name, number in (("limit", limit), ("offset", offset)):
        if not (_is_whole(number) and number >= 0):
            raise InvalidArgument(f"{name}={number!r}: give a whole number, 0 or more.")


def _is_whole(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool)


def _is_number(number: object) -> TypeGuard[float]:
    return isinstance(number, int | float) and not isinstance(number, bool)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def matches_listing(op: ListNamespacesOp, namespace: Namespace) -> bool:
    """Say whether a namespace is what a listing asks for; `*` stands for any one label."""
    return all(
        _matches_labels(
            namespace[: len(condition.path)]
            if condition.match_type == "prefix"
            else namespace[max(0, len(namespace) - len(condition.path)) :],
            condition.path,
        )
        for condition in op.match_conditions or ()
    )


def listing_prefix(op: ListNamespacesOp) -> Namespace:
    """The labels that every namespace of a listing begins with, as far as they are known."""
    longest: Namespace = ()
    for condition in op.match_conditions or ():
        if condition.match_type == "prefix":
            path = tuple(condition.path)
            known = path[: path.index("*")] if "*" in path else path
            longest = max(longest, known, key=len)
    return longest


def _matches_labels(labels: Namespace, path: Namespace) -> bool:
    return len(labels) == len(path) and all(
        wanted in ("*", label) for label, wanted in zip(labels, path, strict=True)
    )
