r"""Filters of a search: what they may say, and which values they match.

The one place that decides. A database may pre-select by `terms_for`, as long as it never
leaves out what `matches` would take, so every backend gives the same answer.

A filter is a mapping of paths to conditions, all of which must hold, and means what MongoDB means:

- `{"status": "open"}` is equality, aware of types: `True` is not `1`, `1` is `1.0`, and whole
  numbers compare exactly. Mappings and lists are equal when all of their parts are.
- `{"f": None}` matches null and missing; `$ne` and `$nin` match missing.
- `{"user.id": 1}` goes into `user`, then `id`; a number goes into a list. A backslash makes a dot,
  a dollar or a backslash plain: the field `user.id` itself is `"user\.id"`.
- `$gt $gte $lt $lte` compare numbers with numbers, text with text and booleans with booleans;
  anything else doesn't match. `$in`, `$nin` take a list. `$exists` takes a boolean. `$contains`
  asks for an element of a list, or a part of a text. `$not` turns a condition or a filter round,
  `$and` and `$or` take a list of filters.
"""

import json
import operator
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final

from langgraph_sessionmem.errors import InvalidFilter

Filter = Mapping[str, Any]

_MISSING: Final = object()
_ORDERINGS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_FIELD_OPERATORS: Final = (
    "$eq",
    "$ne",
    *_ORDERINGS,
    "$in",
    "$nin",
    "$exists",
    "$contains",
    "$not",
)
_FILTER_OPERATORS: Final = ("$and", "$or", "$not")
_DEEPEST: Final = 100
_FLOAT_BITS: Final = 1_024  # a larger whole number equals no float
_LONGEST_TERM: Final = 64  # who filters by a whole text pays for it, not everybody who stores one


def validate(filter: object) -> None:
    """Refuse a filter that can't be understood.

    Raises:
        InvalidFilter: not a mapping with text keys, an unknown operator, or an operand that the
            operator can't use; the message names it and what would do.
    """
    _validate_filter(filter, 0)


def matches(filter: Filter, value: object) -> bool:
    """Say whether `value` is what `filter` asks for; the filter must have passed `validate`."""
    return all(_holds(key, condition, value) for key, condition in filter.items())


def terms_of(value: Mapping[str, Any]) -> list[str]:
    """A short name for each field of a value that is a scalar, to pre-select by.

    Returns:
        Names that begin with `=`, which no word does; the same for the same field and an equal
        scalar, and hardly ever for others. Without null and long texts.
    """
    fields = {name: part for name, part in value.items() if _has_term(part)}
    return [_term(name, scalar) for name, scalar in fields.items()]


def terms_for(filter: Filter) -> list[str]:
    """What `terms_of` gives, among others, for every value that `filter` matches; each once.

    Left out is what such an index can't say: null (a missing field matches as well), what stands
    deeper in the value, and everything below `$or` and `$not`.
    """
    found: dict[str, None] = {}
    for key, condition in filter.items():
        if key == "$and":
            found |= dict.fromkeys(term for part in condition for term in terms_for(part))
        elif key not in _FILTER_OPERATORS:
            path = split_path(key)
            wanted = condition.get("$eq") if _has_operators(condition) else condition
            if len(path) == 1 and _has_term(wanted):
                found[_term(path[0], wanted)] = None
    return list(found)


def equal(left: object, right: object) -> bool:
    """Equality as JSON has it: booleans are no numbers, numbers compare by exact value."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return left == right


def split_path(path: str) -> tuple[str, ...]:
    r"""The fields a path goes through; `\.`, `\$` and `\\` are plain characters."""
    if "\\" not in path:
        return tuple(path.split("."))
    fields = [""]
    characters = iter(path)
    for character in characters:
        if character == ".":
            fields.append("")
        elif character == "\\":
            escaped = next(characters, "")
            fields[-1] += escaped if escaped and escaped in ".$\\" else character + escaped
        else:
            fields[-1] += character
    return tuple(fields)


def _holds(key: str, condition: Any, value: object) -> bool:
    if key == "$and":
        return all(matches(part, value) for part in condition)
    if key == "$or":
        return any(matches(part, value) for part in condition)
    if key == "$not":
        return not matches(condition, value)
    return _satisfies(_at(value, split_path(key)), condition)


def _satisfies(found: object, condition: Any) -> bool:
    if not _has_operators(condition):
        return _equal_or_missing(found, condition)
    return all(_applies(name, found, operand) for name, operand in condition.items())


def _applies(name: str, found: object, operand: Any) -> bool:
    if name == "$eq":
        return _equal_or_missing(found, operand)
    if name == "$ne":
        return not _equal_or_missing(found, operand)
    if name == "$in":
        return any(_equal_or_missing(found, wanted) for wanted in operand)
    if name == "$nin":
        return not any(_equal_or_missing(found, wanted) for wanted in operand)
    if name == "$exists":
        return (found is not _MISSING) is operand
    if name == "$contains":
        return _contains(found, operand)
    if name == "$not":
        return not _satisfies(found, operand)
    return _comparable(found, operand) and _ORDERINGS[name](found, operand)


def _equal_or_missing(found: object, wanted: object) -> bool:
    if found is _MISSING or wanted is None:
        return wanted is None and (found is None or found is _MISSING)
    return equal(found, wanted)


def _contains(found: object, wanted: object) -> bool:
    if isinstance(found, list):
        return any(equal(element, wanted) for element in found)
    return isinstance(found, str) and isinstance(wanted, str) and wanted in found


def _comparable(left: object, right: object) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    return (isinstance(left, int | float) and isinstance(right, int | float)) or (
        isinstance(left, str) and isinstance(right, str)
    )


def _at(value: object, path: tuple[str, ...]) -> object:
    for field in path:
        if isinstance(value, Mapping):
            value = value.get(field, _MISSING)
        elif isinstance(value, list) and _is_index(field):
            value = value[int(field)] if int(field) < len(value) else _MISSING
        else:
            return _MISSING
    return value


def _is_index(field: str) -> bool:
    return field.isascii() and field.isdecimal()


def _has_term(part: object) -> bool:
    if isinstance(part, str):
        return len(part) <= _LONGEST_TERM
    return isinstance(part, float) or (isinstance(part, int) and part.bit_length() <= _FLOAT_BITS)


def _term(field: str, scalar: str | int | float) -> str:
    if isinstance(scalar, float) and scalar.is_integer():
        scalar = int(scalar)  # equal numbers are one term
    # JSON, so that an enum or another kind of text is the same as the text it equals.
    written = json.dumps([field, scalar]).encode()
    return "=" + urlsafe_b64encode(blake2b(written, digest_size=6).digest()).decode()


def _has_operators(condition: object) -> bool:
    return (
        isinstance(condition, Mapping)
        and bool(condition)
        and all(isinstance(key, str) and key.startswith("$") for key in condition)
    )


def _validate_filter(filter: object, depth: int) -> None:
    if depth > _DEEPEST:
        raise InvalidFilter(f"The filter is nested more than {_DEEPEST} levels deep.")
    if not isinstance(filter, Mapping):
        raise InvalidFilter(
            f"A filter is a mapping of fields to conditions, not {filter!r}; "
            'for example {"status": "open", "priority": {"$gte": 3}}.'
        )
    for key, condition in filter.items():
        if not isinstance(key, str):
            raise InvalidFilter(f"A filter names fields by text, not by {key!r}.")
        if not key.startswith("$"):
            _validate_condition(key, condition, depth)
        elif key == "$not":
            _validate_filter(condition, depth + 1)
        elif key in _FILTER_OPERATORS:
            for part in _validate_parts(key, condition):
                _validate_filter(part, depth + 1)
        else:
            raise InvalidFilter(
                f"Unknown operator {key!r} in a filter; known are {', '.join(_FILTER_OPERATORS)} "
                f"around filters. A field of that name is written \\{key}."
            )


def _validate_parts(name: str, parts: object) -> list[object] | tuple[object, ...]:
    if not isinstance(parts, list | tuple) or not parts:
        raise InvalidFilter(f"{name} takes a list of at least one filter, not {parts!r}.")
    return parts


def _validate_condition(path: str, condition: object, depth: int) -> None:
    if depth > _DEEPEST:
        raise InvalidFilter(f"The filter is nested more than {_DEEPEST} levels deep.")
    if not isinstance(condition, Mapping):
        return _validate_operand(path, condition, depth)
    operators = [key for key in condition if isinstance(key, str) and key.startswith("$")]
    if not operators:
        return _validate_operand(path, condition, depth)
    if len(operators) < len(condition):
        raise InvalidFilter(
            f"{path!r}: operators and fields are mixed in {condition!r}; to compare with a mapping "
            'that has keys starting with "$", use {"$eq": ...}.'
        )
    for name, operand in condition.items():
        _validate_operator(path, name, operand, depth)
    return None


def _validate_operator(path: str, name: str, operand: object, depth: int) -> None:
    if name not in _FIELD_OPERATORS:
        raise InvalidFilter(
            f"{path!r}: unknown operator {name!r}; known are {', '.join(_FIELD_OPERATORS)}."
        )
    if name in _ORDERINGS and not isinstance(operand, str | int | float):
        raise InvalidFilter(
            f"{path!r}: {name} compares with a number, a text or a boolean, not {operand!r}."
        )
    if name in ("$in", "$nin"):
        if not isinstance(operand, list | tuple | set | frozenset):
            raise InvalidFilter(f"{path!r}: {name} takes a list of values, not {operand!r}.")
        for wanted in operand:
            _validate_operand(path, wanted, depth)
    elif name == "$exists":
        if not isinstance(operand, bool):
            raise InvalidFilter(f"{path!r}: $exists takes True or False, not {operand!r}.")
    elif name == "$not":
        if not _has_operators(operand):
            raise InvalidFilter(
                f'{path!r}: $not takes operators such as {{"$gt": 5}}, not {operand!r}.'
            )
        _validate_condition(path, operand, depth + 1)
    else:
        _validate_operand(path, operand, depth)


def _validate_operand(path: str, operand: object, depth: int) -> None:
    if depth > _DEEPEST:
        raise InvalidFilter(f"{path!r}: a value is nested more than {_DEEPEST} levels deep.")
    if isinstance(operand, Mapping):
        for key, part in operand.items():
            if not isinstance(key, str):
                raise InvalidFilter(f"{path!r}: a mapping has the key {key!r}, which is no text.")
            _validate_operand(path, part, depth + 1)
    elif isinstance(operand, list | tuple):
        for part in operand:
            _validate_operand(path, part, depth + 1)
    elif not (operand is None or isinstance(operand, str | int | float)):
        raise InvalidFilter(
            f"{path!r}: {operand!r} is {type(operand).__name__}, and stored values are JSON; "
            "compare with a text, a number, a boolean, null, a list or a mapping."
        )
