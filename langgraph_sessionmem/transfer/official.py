"""LangGraph's official savers by connection string: `langgraph+` and their database's own one."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from langgraph.checkpoint.base import BaseCheckpointSaver

from langgraph_sessionmem.backends.opening import FILE_ENDINGS
from langgraph_sessionmem.checkpoint.saver import SaverArguments, SessionSaver
from langgraph_sessionmem.errors import DriverMissing, InvalidArgument, UnknownScheme

_PREFIX = "langgraph+"


class _Official(NamedTuple):
    """Where an official saver is.

    Attributes:
        package: to install.
        name: of the class, in the module `langgraph.checkpoint.<module>`.
        always_set_up: it can't even be read before.
    """

    package: str
    module: str
    name: str
    always_set_up: bool


_SAVERS = {
    "sqlite": _Official("langgraph-checkpoint-sqlite", "sqlite", "SqliteSaver", False),
    "postgresql": _Official("langgraph-checkpoint-postgres", "postgres", "PostgresSaver", False),
    "postgres": _Official("langgraph-checkpoint-postgres", "postgres", "PostgresSaver", False),
    "redis": _Official("langgraph-checkpoint-redis", "redis", "RedisSaver", True),
    "rediss": _Official("langgraph-checkpoint-redis", "redis", "RedisSaver", True),
}

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
    own_url = url.removeprefix(_PREFIX)
    scheme, _, rest = own_url.partition("://")
    if scheme not in _SAVERS:
        raise UnknownScheme(f"{_PREFIX}{scheme}", sorted(SCHEMES))
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InvalidArgument(f"{given[0]}={options[given[0]]!r}: {url!r} has no such option.")  # type: ignore[literal-required]  # it is one of them
    official = _SAVERS[scheme]
    kind = _load(official)
    if scheme == "sqlite":
        if not create:
            check_file(own_url)
        own_url = rest.removeprefix("/") or ":memory:"
    with kind.from_conn_string(own_url) as saver:
        if create or official.always_set_up:
            saver.setup()
        yield saver


def _load(official: _Official) -> Any:
    module = f"langgraph.checkpoint.{official.module}"
    try:
        return getattr(import_module(module), official.name)
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
