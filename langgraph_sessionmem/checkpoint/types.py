"""Which types stored data may become: data is never code.

`JsonPlusSerializer` writes an object as the name of a callable and its arguments, and reads it by
importing and calling whatever is named. Here nothing is imported, and only these are called:
LangGraph's safe types, types the user named, and data classes whose module the program has itself
imported. Anything else raises; it never becomes something it wasn't.
"""

import dataclasses
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np
import ormsgpack
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic.v1 import BaseModel as BaseModelV1

from langgraph_sessionmem.errors import (
    CorruptData,
    InvalidArgument,
    SessionMemoryError,
    TypeNotAllowed,
)

_METHODS = {("datetime", "datetime", "fromisoformat")}
_MOVED = {"pathlib._local": "pathlib"}
"""Modules as some Python names them, and where every Python has their types."""


class Types:
    """A rule for types.

    Args:
        named: types, or modules by name, whose types are allowed.
        imported: data classes of modules that are already imported are allowed too.
    """

    def __init__(self, named: Iterable[type | str] = (), *, imported: bool = True) -> None:
        self._imported = imported
        self._modules: set[str] = set()
        self._names: set[tuple[str, str]] = set()
        self._given: dict[tuple[str, str], type] = {}
        self._found: dict[tuple[str, str], Any] = {}
        for entry in named:
            if isinstance(entry, str):
                self._modules.add(entry)
            elif isinstance(entry, type):
                self._given[entry.__module__, entry.__name__] = entry
            else:
                raise InvalidArgument(
                    f"types=[{entry!r}]: give a class, or the name of a module as text."
                )

    @classmethod
    def only(cls, names: Collection[tuple[str, ...]]) -> "Types":
        """LangGraph's safe types and `names`, nothing else."""
        types = cls(imported=False)
        types._names = {(name[0], name[1]) for name in names}
        return types

    def find(self, module: str, name: str) -> Any:
        """The type that data names.

        Raises:
            TypeNotAllowed: it may not be rebuilt, or isn't where the data says.
        """
        if (module, name) in self._given:
            return self._given[module, name]
        module = _MOVED.get(module, module)
        there = getattr(sys.modules.get(module), name, None)
        if there is not None and self._found.get((module, name)) is there:
            return there
        safe = (module, name) in SAFE_MSGPACK_TYPES
        named = module in self._modules or (module, name) in self._names
        if safe or named:
            # Named by LangGraph or the user, so importing it is their own doing.
            with suppress(ImportError):
                import_module(module)
        found = getattr(sys.modules.get(module), name, None)
        # What a module has only imported (`Popen`) isn't its own, and data never names it so.
        own = isinstance(found, type) and found.__module__ == module
        allowed = named or (self._imported and _is_data_class(found))
        if found is None or not (safe or (own and allowed)):
            raise TypeNotAllowed(module, name)
        self._found[module, name] = found
        return found

    def rebuild(self, data: bytes) -> Any:
        """The value that `write` or `JsonPlusSerializer` wrote as msgpack.

        Raises:
            TypeNotAllowed: the data names a type that may not be rebuilt.
            CorruptData: it isn't what `JsonPlusSerializer` writes.
        """
        errors: list[Exception] = []

        def hook(code: int, content: bytes) -> Any:
            try:
                return self._build(code, content, hook)
            except Exception as error:
                errors.append(error)
                raise

        try:
            return ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
        except ValueError as error:
            # ormsgpack doesn't say what a hook raised; the first was the innermost.
            cause = errors[0] if errors else error
            if isinstance(cause, SessionMemoryError):
                raise cause from None
            raise CorruptData(f"Stored data can't be rebuilt: {cause!r}.") from cause

    def hook(self, code: int, data: bytes) -> Any:
        """Rebuild one msgpack extension of `JsonPlusSerializer`; for `__unpack_ext_hook__`.

        Raises:
            TypeNotAllowed: the data names a type that may not be rebuilt.
            CorruptData: the extension isn't one that `JsonPlusSerializer` writes.
        """
        return self._build(code, data, self.hook)

    def _build(self, code: int, data: bytes, hook: Callable[[int, bytes], Any]) -> Any:
        content = ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
        if code == jsonplus.EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(content)
        if code == jsonplus.EXT_NUMPY_ARRAY:
            dtype, shape, order, buffer = content
            return np.frombuffer(buffer, dtype=np.dtype(dtype)).reshape(shape, order=order)
        build = _BUILDERS.get(code)
        if build is None:
            raise CorruptData(f"Stored data has a msgpack extension of unknown code {code}.")
        return build(self.find(content[0], content[1]), content)


def write(value: object) -> bytes:
    """A value as `JsonPlusSerializer` writes it, and `Types.rebuild` reads it.

    Beside its types, arrays of times can be written; arrays that could not be read again can't.

    Raises:
        TypeError, ValueError, RecursionError: it can't be written.
    """
    try:
        data = ormsgpack.packb(value, default=_write_other, option=jsonplus._option)
    except ormsgpack.MsgpackEncodeError:
        _raise_cause(value)
        raise
    if b"|O" in data or b"|V" in data:
        # Perhaps the dtype of an array within a model, which JsonPlus packs by itself.
        _refuse_arrays(data)
    return data


def _raise_cause(value: object) -> None:
    """Pack a value again, and raise what ormsgpack doesn't tell: the error of the innermost."""
    errors: list[Exception] = []

    def other(inner: Any) -> Any:
        try:
            return _write_other(inner)
        except (TypeError, ValueError) as error:
            errors.append(error)
            raise

    with suppress(ormsgpack.MsgpackEncodeError):
        ormsgpack.packb(value, default=other, option=jsonplus._option)
    if errors:
        raise errors[0] from None


def _refuse_arrays(data: bytes) -> None:
    """Raise TypeError where stored data holds an array that can't be read."""

    def hook(code: int, content: bytes) -> Any:
        inner = ormsgpack.unpackb(content, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
        if code == jsonplus.EXT_NUMPY_ARRAY and inner[0][:2] in ("|O", "|V"):
            refused.append(inner[0])
        return None

    refused: list[str] = []
    ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
    if refused:
        raise TypeError(f"an array of dtype {refused[0]} would not come back")


def _write_other(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        content = (value.dtype.str, value.shape, order, value.tobytes(order="A"))
        return ormsgpack.Ext(jsonplus.EXT_NUMPY_ARRAY, ormsgpack.packb(content))
    if isinstance(value, np.generic):
        raise TypeError(f"numpy's {type(value).__name__} is no Python value: store value.item()")
    return jsonplus._msgpack_default(value)


def _is_data_class(found: Any) -> bool:
    if not isinstance(found, type):
        return False
    named_tuple = issubclass(found, tuple) and hasattr(found, "_fields")
    models = issubclass(found, BaseModel | BaseModelV1 | Enum | SecretStr | SecretBytes)
    return models or named_tuple or dataclasses.is_dataclass(found)


def _build_single(found: Any, content: Any) -> Any:
    if found in (set, frozenset):
        return found(map(_hashable, content[2]))
    return found(content[2])


def _hashable(value: Any) -> Any:
    """An element of a set, as it was: what is a list now can only have been a tuple."""
    return tuple(map(_hashable, value)) if type(value) is list else value


def _build_positional(found: Any, content: Any) -> Any:
    if (content[0], content[1]) == ("langgraph.types", "Send"):
        node, arg, *timeout = content[2]
        return found(node, arg, timeout=timeout[0]) if timeout else found(node, arg)
    return found(*content[2])


def _build_keywords(found: Any, content: Any) -> Any:
    fields = content[2]
    own = {name: field.init for name, field in getattr(found, "__dataclass_fields__", {}).items()}
    settable = {name for name in fields if own.get(name, True)}
    value = found(**{name: fields[name] for name in fields if name in settable})
    for name in fields.keys() - settable:
        # A field with `init=False` holds what it held, not what `__post_init__` makes anew.
        object.__setattr__(value, name, fields[name])
    return value


def _build_method(found: Any, content: Any) -> Any:
    module, name, argument, method = content
    if (module, name, method) not in _METHODS:
        raise TypeNotAllowed(module, f"{name}.{method}")
    return getattr(found, method)(argument)


def _build_model(found: Any, content: Any) -> Any:
    try:
        return found(**content[2])
    except Exception:  # noqa: BLE001 - a validator may raise anything; the stored values were valid
        return found.model_construct(**content[2])


def _build_model_v1(found: Any, content: Any) -> Any:
    try:
        return found(**content[2])
    except Exception:  # noqa: BLE001 - as above
        return found.construct(**content[2])


_BUILDERS: dict[int, Callable[[Any, Any], Any]] = {
    jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG: _build_single,
    jsonplus.EXT_CONSTRUCTOR_POS_ARGS: _build_positional,
    jsonplus.EXT_CONSTRUCTOR_KW_ARGS: _build_keywords,
    jsonplus.EXT_METHOD_SINGLE_ARG: _build_method,
    jsonplus.EXT_PYDANTIC_V1: _build_model_v1,
    jsonplus.EXT_PYDANTIC_V2: _build_model,
}
