"""Scripts as functions in the PostgreSQL server, made from the very queries of the scripts."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from langgraph_sessionmem.backends.postgres_text import PARAM
from langgraph_sessionmem.backends.sql import Params, Step, load_queries

_ARGUMENT = re.compile(r"\bp_(\w+) (?:text|bytea|bigint|integer|double precision)(?:\[\])?[,\n]")
_QUERY = re.compile(r"(return query )?\{(\w+)\}")
_DOES = re.compile(r"\{does ([\w\s]+)\}\n")


class ServerFunction(NamedTuple):
    """A script that the server keeps, with its plans.

    Attributes:
        name: with schema, quoted.
        text: the statement that makes it.
        arguments: the names of its parameters, in order.
        steps: the queries it may run, in order.
        answers: the one of them whose rows it returns.
        call: the statement that calls it.
    """

    name: str
    text: str
    arguments: Sequence[str]
    steps: tuple[str, ...]
    answers: str
    call: str

    def arguments_of(self, script: Sequence[Step]) -> dict[str, object] | None:
        """What to call it with to run a script; None: it is another script than that."""
        if not _is_part_of(tuple([step.query for step in script]), self.steps):
            return None
        values: dict[str, object] = dict.fromkeys(self.arguments)
        given: Params | None = None
        for step in script:
            if step.params is not given:  # most scripts have the same for all steps
                given = step.params
                values.update(given)
            if step.rows is not None:
                values.update(columns_of(step.rows))
        return values


def load_functions(queries: Mapping[str, str], schema: str) -> dict[str, ServerFunction]:
    """The server's functions, by the query whose rows they return.

    A function runs the queries that stand in it in braces, or says first which ones it does.
    """
    found = {}
    for title, template in load_queries(["functions.sql", "item_functions.sql"], schema).items():
        parts = [part for part in _QUERY.findall(template) if part[1] in queries]
        [answers] = [name for answer, name in parts if answer]
        does = _DOES.match(template)
        steps = tuple(does[1].split() if does else [name for _, name in parts])

        def body(part: re.Match[str]) -> str:
            query = queries.get(part[2])
            return part[0] if query is None else (part[1] or "") + _body(query)

        text = _QUERY.sub(body, _DOES.sub("", template))
        digest = blake2b(text.encode(), digest_size=6).hexdigest()
        name = f'{schema}."sessionmem_{title}_{digest}"'
        text = text.replace("{function}", name).replace("{quote}", f"$sessionmem_{digest}$")
        arguments = _ARGUMENT.findall(template)
        given = ", ".join(f":{argument}" for argument in arguments)
        call = f"select * from {name}({given})"  # noqa: S608 - our own words
        found[answers] = ServerFunction(name, text, arguments, steps, answers, call)
    return found


@lru_cache(256)
def _is_part_of(names: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    """Whether the names are among the steps, in their order."""
    left = iter(steps)
    return all(name in left for name in names)


def columns_of(rows: Sequence[Params]) -> dict[str, list[object]]:
    """Rows as one list for each name."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def _body(query: str) -> str:
    """A query with a function's variables in place of parameters."""

    def variable(found: re.Match[str]) -> str:
        identifier, name = found.groups()
        return identifier or ("v_now" if name == "now" else f"p_{name}")

    return PARAM.sub(variable, query)
