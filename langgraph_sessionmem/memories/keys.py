"""Ids and places of memories (pure): `fact:user/db_port` is an item in `(*namespace, "fact")`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.item_records import ItemKey
from langgraph_sessionmem.memories.kinds import Memory
from langgraph_sessionmem.memories.known import Kinds
from langgraph_sessionmem.store_links import thread_label


class Place(NamedTuple):
    """Where a memory is.

    Attributes:
        type: its type's name.
        key: of its item: the names of its identity, with `/` between them.
        shelf: the name of the namespace it is in, below that of its type; or none.
    """

    type: str
    key: str
    shelf: str | None

    @property
    def id(self) -> str:
        """The memory's id."""
        return f"{self.type}:{self.key}"

    def item(self, namespace: tuple[str, ...]) -> ItemKey:
        """The namespace and the key of its item."""
        shelf = () if self.shelf is None else (thread_label(self.shelf),)
        return (*namespace, self.type, *shelf), self.key


def place_of(memory: Memory) -> Place:
    """Where a memory is, by its identity.

    Raises:
        InvalidArgument: a field of its identity is empty, or has a lone surrogate.
    """
    return place(type(memory), memory.named())


def place(kind: type[Memory], names: Mapping[str, str]) -> Place:
    """Where a memory with these names is; see `place_of`."""
    for field, name in names.items():
        if not name:
            raise InvalidArgument(f"{kind.__name__}.{field} is empty: give a name.")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(
                f"{kind.__name__}.{field} = {name!r} has a lone surrogate; remove it."
            ) from None
    key = "/".join(_quoted(names[field]) for field in kind.identity)
    return Place(kind.type, key, names[kind.shelf] if kind.shelf else None)


def place_of_id(kinds: Kinds, memory_id: str) -> Place:
    """Where the memory of an id is.

    Raises:
        InvalidArgument: it is no id of a known type.
    """
    name, colon, key = memory_id.partition(":") if isinstance(memory_id, str) else ("", "", "")
    if not colon or not key or name not in kinds:
        raise InvalidArgument(
            f"{memory_id!r} is no id of a memory: it looks like 'fact:user/db_port'; known types "
            f"are {', '.join(kinds)}."
        )
    kind = kinds[name]
    shelf = _unquoted(key.split("/")[0]) if kind.shelf else None
    return Place(name, key, shelf)


def named_fields(memory: Memory) -> dict[str, Any]:
    """The fields of a memory that tell it from others and that never change, as they were said."""
    fields = {*memory.identity, *memory.fixed}
    return memory.model_dump(mode="json", include=fields, exclude_none=True)


def _quoted(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def _unquoted(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")
