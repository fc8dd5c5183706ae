"""What a save or a deletion of items runs, step by step; pure."""

import json
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from langgraph_sessionmem.backends.sql import Params, Step, text_in
from langgraph_sessionmem.backends.sql_item_rows import json_in, namespace_in, scope_in
from langgraph_sessionmem.backends.sql_rows import text_or_none
from langgraph_sessionmem.item_records import ItemPut, ItemsSave, Scope

_FORGET = (
    "uncount_texts",
    "forget_postings",
    "forget_vectors",
    "forget_versions",
    "forget_items",
)
_DROP_SCOPE = (
    "count_claimed",
    "drop_claimed_postings",
    "drop_claimed_vectors",
    "drop_claimed_versions",
    "drop_claimed_items",
    "drop_claimed_namespaces",
)
_DROP_EXPIRED = (
    "claim_expired_items",
    "uncount_expired",
    "drop_expired_postings",
    "drop_expired_vectors",
    "drop_expired_versions",
    "drop_expired_namespaces",
    "drop_expired_items",
)


class Script(NamedTuple):
    """The steps of a script, and which of them has the answer."""

    steps: Sequence[Step]
    answer: int


def save_script(save: ItemsSave) -> Script:
    """Stores, deletes and renews; the answer is 1, or 0 if an item is not as it is expected."""
    named = [
        *(_named(put) for put in save.puts),
        *((namespace_in(namespace), text_in(key), 0, None) for namespace, key in save.drops),
    ]
    names = sorted({namespace for namespace, *_ in named})
    expects = any(put.expected is not None for put in save.puts)
    base: dict[str, object] = {
        "stamp": _new_stamp(),
        "names": json_in(names) if names else None,
        "named": json_in(named),
        "first": names[0] if expects else None,
        "last": max(len(save.puts) - 1, 0),
        "keeps": save.keeps,
        "drops": int(bool(save.drops)),
    }
    steps = _write_steps(save, base, expects=expects) if named else []
    if save.touched:
        steps.append(Step("touch_items", {**base, "item_ids": json_in(sorted(save.touched))}))
    answer = len(steps)
    steps.append(Step("is_settled", base))
    if save.drops or expects:
        # Deletions, which have this name, also give pages back.
        name = "drop_empty_namespaces" if save.drops else "forget_namespaces"
        steps.append(Step(name, {**base, "emptied": json_in(names)}))
    return Script(steps, answer)


def drop_script(scope: Scope) -> Script:
    """Deletes the items of a scope; the answer is how many there were."""
    params: Params = {**scope_in(scope), "stamp": _new_stamp()}
    return Script([Step(name, params) for name in ("claim_scope", *_DROP_SCOPE)], 1)


def drop_expired_script(limit: int) -> Script:
    """Deletes expired items; the answer has a row for each."""
    params: Params = {"limit": limit, "stamp": _new_stamp()}
    return Script([Step(name, params) for name in _DROP_EXPIRED], len(_DROP_EXPIRED) - 1)


def _write_steps(save: ItemsSave, base: Params, *, expects: bool) -> list[Step]:
    steps = [Step("hold_namespaces", base)]
    if expects:
        steps.append(Step("refuse_unexpected", {**base, "refused": _new_stamp()}))
    steps += [Step(name, base) for name in _FORGET]
    if not save.puts:
        return steps
    puts = [_put_in(put, before) for before, put in enumerate(reversed(save.puts))]
    puts.sort(key=lambda row: str(row["namespace"]))  # so that each is looked up once
    if save.keeps != 0:
        steps.append(Step("keep_version", base, puts))
    steps.append(Step("save_item", base, puts))
    if versions := [row for put in save.puts for row in _versions_in(put)]:
        steps.append(Step("save_version", base, versions))
    if save.keeps is not None:
        steps.append(Step("cut_versions", base))
    steps.append(Step("save_postings", base))
    if vectors := [row for put in save.puts for row in _vectors_in(put)]:
        steps.append(Step("save_vector", base, vectors))
    return [*steps, Step("count_texts", base)]


def _named(put: ItemPut) -> tuple[str, str, int, int | None]:
    # What comes from elsewhere is another item, not a later value.
    stays = int(put.times is None)
    return namespace_in(put.namespace), text_in(put.key), stays, put.expected


def _put_in(put: ItemPut, before: int) -> Params:
    """A put as parameters, of which `before` puts of its batch come later."""
    created_at, updated_at = put.times or (None, None)
    tokens = {**put.tokens, **dict.fromkeys(put.terms, 0)}
    return {
        "namespace": namespace_in(put.namespace),
        "key": text_in(put.key),
        "before": before,
        "created_at": created_at,
        "updated_at": updated_at,
        "since": _began(put) or updated_at,
        "ttl_minutes": put.ttl_minutes,
        "length": sum(put.tokens.values()),
        "position": put.position,
        "session": text_or_none(put.session),
        "asks": int(put.asks),
        "paths": None if put.paths is None else json.dumps(list(put.paths)),
        "tokens": json_in({text_in(token): count for token, count in tokens.items()}),
        "body": put.value,
    }


def _began(put: ItemPut) -> int | None:
    """Since when an item that comes from elsewhere has its value, if its versions say it."""
    is_told = put.versions and put.versions[0].value == put.value
    return put.versions[0].updated_at if is_told else None


def _versions_in(put: ItemPut) -> Iterable[Params]:
    if put.times is None:
        return
    for version in put.versions if _began(put) is None else put.versions[1:]:
        yield {
            "version_namespace": namespace_in(put.namespace),
            "version_key": text_in(put.key),
            "version_since": version.updated_at,
            "version_value": version.value,
        }


def _vectors_in(put: ItemPut) -> Iterable[Params]:
    for digest, vector in dict(put.vectors).items():
        yield {
            "vector_namespace": namespace_in(put.namespace),
            "vector_key": text_in(put.key),
            "digest": digest,
            "vector": vector,
        }


def _new_stamp() -> int:
    """A random number, not 0; the sum of a million of them is still an integer of 64 bits."""
    return int.from_bytes(os.urandom(5)) + 1
