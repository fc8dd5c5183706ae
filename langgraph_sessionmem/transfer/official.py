"""LangGraph's savers and stores by connection string: `langgraph+` and their database's own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from langgraph_sessionmem.backends.opening import FILE_ENDINGS
from langgraph_sessionmem.checkpoint.saver import SaverArguments, SessionSaver
from langgraph_sessionmem.errors import DriverMissing, InvalidArgument, UnknownScheme
from langgraph_sessionmem.store.store import LongTermStore, StoreArguments

_PREFIX = "langgraph+"


class _Official(NamedTuple):
    """Where an official saver is.

    Attributes:
        package: to install.
        module: where the class is.
        name: of the class.
        always_set_up: it can't even be read before.
    """

    package: str
    module: str
    name: str
    always_set_up: bool


_SAVERS = {
    "sqlite": _Official(
        "langgraph-checkpoint-sqlite", "langgraph.checkpoint.sqlite", "SqliteSaver", False
    ),
    "postgresql": _Official(
        "langgraph-checkpoint-postgres", "langgraph.checkpoint.postgres", "PostgresSaver", False
    ),
    "postgres": _Official(
        "langgraph-checkpoint-postgres", "langgraph.checkpoint.postgres", "PostgresSaver", False
    ),
    "redis": _Official(
        "langgraph-checkpoint-redis", "langgraph.checkpoint.redis", "RedisSaver", True
    ),
    "rediss": _Official(
        "langgraph-checkpoint-redis", "langgraph.checkpoint.redis", "RedisSaver", True
    ),
}

_STORES = {
    "sqlite": _Official(
        "langgraph-checkpoint-sqlite", "langgraph.store.sqlite", "SqliteStore", False
    ),
    "postgresql": _Official(
        "langgraph-checkpoint-postgres", "langgraph.store.postgres", "PostgresStore", False
    ),
}
_STORES["postgres"] = _STORES["postgresql"]

SCHEMES = tuple(f"{_PREFIX}{scheme}" for scheme in _SAVERS)
"""The schemes of the official savers."""


@contextmanager
def open_saver(
    url: str, *, create: bool = False, **options: Unpack[SaverArguments]
) -> Iterator[BaseCheckpointSaver[Any]]:
    """An official saver or a `SessionSaver`, open while the block runs; its blocking face only.

    Args:
        url: `langgraph+sqlite:///file.db`, `langgraph+postgresql://…` or `langgraph+redis://…` for
            the official savers, otherwise a connection string of `SessionSaver`.
        create: set up the schema, and begin a database file that isn't there.
        options: of a `SessionSaver`.

    Raises:
        UnknownScheme: the connection string names no saver we know.
        InvalidArgument: there is no such file, or an option isn't the saver's.
        DriverMissing: the saver's package isn't installed.
    """
    if not url.startswith(_PREFIX):
        if not create:
            check_file(url)
        with SessionSaver.from_conn_string(url, **options) as own:
            if create:
                own.setup()
            yield own
        return
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InvalidArgument(f"{given[0]}={options[given[0]]!r}: {url!r} has no such option.")  # type: ignore[literal-required]  # it is one of them
    with _opened(url, _SAVERS, create) as saver:
        yield saver


@contextmanager
def open_store(
    url: str, *, create: bool = False, **options: Unpack[StoreArguments]
) -> Iterator[BaseStore]:
    """An official store or a `LongTermStore`, open while the block runs; its blocking face only.

    Args:
        url: `langgraph+sqlite:///file.db` or `langgraph+postgresql://…` for the official stores,
            otherwise a connection string of `LongTermStore`.
        create: set up the schema, and begin a database file that isn't there.
        options: of a `LongTermStore`.

    Raises:
        UnknownScheme, InvalidArgument, DriverMissing: as `open_saver` does.
    """
    if not url.startswith(_PREFIX):
        if not create:
            check_file(url)
        with LongTermStore.from_conn_string(url, **options) as own:
            if create:
                own.setup()
            yield own
        return
    with _opened(url, _STORES, create) as store:
        yield store


@contextmanager
def _opened(url: str, known: Mapping[str, _Official], create: bool) -> Iterator[Any]:
    own_url = url.removeprefix(_PREFIX)
    scheme, _, rest = own_url.partition("://")
    if scheme not in known:
        raise UnknownScheme(f"{_PREFIX}{scheme}", sorted(f"{_PREFIX}{each}" for each in known))
    official = known[scheme]
    kind = _load(official)
    if scheme == "sqlite":
        if not create:
            check_file(own_url)
        own_url = rest.removeprefix("/") or ":memory:"
    with kind.from_conn_string(own_url) as opened:
        if create or official.always_set_up:
            opened.setup()
        yield opened


def _load(official: _Official) -> Any:
    try:
        return getattr(import_module(official.module), official.name)
    except ImportError as error:
        raise DriverMissing(
            f"{official.name} can't be loaded ({error}). Run: pip install {official.package}"
        ) from error


def check_file(url: str) -> None:
    """Refuse a database file that isn't there, rather than begin an empty one.

    Raises:
        InvalidArgument: there is no such file.
    """
    scheme, separator, rest = url.partition("://")
    path = rest.removeprefix("/") if separator else url
    is_file = scheme == "sqlite" if separator else path.endswith(FILE_ENDINGS)
    if is_file and path not in ("", ":memory:") and not Path(path).is_file():
        raise InvalidArgument(f"{url!r}: there is no file {path}.")
