"""From a connection string, or from what the user already opened, to a backend.

A backend's module is imported when its scheme is asked for, so nobody pays for a driver they don't
use. A fourth database is its own file and a line in `_MODULES`.
"""

from datetime import timedelta
from importlib import import_module
from typing import Any

from langgraph_sessionmem.backends.base import Backend
from langgraph_sessionmem.backends.time_limit import DEFAULT_TIMEOUT, read_timeout
from langgraph_sessionmem.errors import DriverMissing, InvalidArgument, UnknownScheme

_MODULES = {
    "sqlite": "sqlite",
    "postgresql": "postgres",
    "postgres": "postgres",
    "redis": "redis",
    "rediss": "redis",
    "unix": "redis",
    "redis+cluster": "redis",
    "rediss+cluster": "redis",
}
_OPTIONS = {"sqlite": (), "postgres": ("schema",), "redis": ("prefix",)}
FILE_ENDINGS = (".db", ".sqlite", ".sqlite3")


def open_backend(
    source: object,
    *,
    setup: bool = True,
    prefix: str | None = None,
    schema: str | None = None,
    timeout: timedelta = DEFAULT_TIMEOUT,
) -> Backend:
    """The backend for a connection string, path, connection, pool or client; nothing is sent yet.

    Args:
        source: `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://` or `:memory:`, a path
            that ends in `.db` or `.sqlite`; `postgresql://…`; `redis://…`, `rediss://…`,
            `unix://…`, `redis+cluster://host:port,host:port`; or an open sqlite3 or psycopg
            connection, psycopg pool, or redis-py client.
        setup: make the schema on first use.
        prefix: of every Redis key.
        schema: of every PostgreSQL table.
        timeout: how long one call may take, whatever it waits for, before it raises `TimedOut`.

    Raises:
        UnknownScheme: the string names no database we know.
        InvalidArgument: the string or object can't be used, or an option isn't the database's.
        DriverMissing: the database's driver isn't installed.
    """
    always = {"setup": setup, "timeout_seconds": read_timeout(timeout)}
    options = {"prefix": prefix, "schema": schema}
    if isinstance(source, str):
        return _open_url(source, always, options)
    return _open_object(source, always, options)


def _open_url(url: str, always: dict[str, Any], options: dict[str, str | None]) -> Backend:
    scheme, separator, rest = url.partition("://")
    if not separator:
        if url != ":memory:" and not url.endswith(FILE_ENDINGS):
            raise InvalidArgument(
                f"{url!r} is no connection string: give sqlite:///file.db, postgresql://…, "
                "redis://…, a path that ends in .db or .sqlite, or :memory:."
            )
        scheme, rest = "sqlite", f"/{url}"
    if scheme not in _MODULES:
        raise UnknownScheme(scheme, sorted(_MODULES))
    module, given = _load(_MODULES[scheme]), always | _given(_MODULES[scheme], options)
    if scheme == "sqlite":
        return _backend(module.SqliteBackend.from_path(_sqlite_path(url, rest), **given))
    if _MODULES[scheme] == "postgres":
        return _backend(module.PostgresBackend.from_url(url, **given))
    return _backend(module.RedisBackend.from_url(url, **given))


def _open_object(source: object, always: dict[str, Any], options: dict[str, str | None]) -> Backend:
    driver = type(source).__module__.partition(".")[0]
    base = {kind.__module__.partition(".")[0] for kind in type(source).__mro__}
    if hasattr(source, "__fspath__"):
        given = always | _given("sqlite", options)
        return _backend(_load("sqlite").SqliteBackend.from_path(source, **given))
    if base & {"sqlite3", "_sqlite3"}:
        given = always | _given("sqlite", options)
        return _backend(_load("sqlite").SqliteBackend(source, **given))
    if base & {"psycopg", "psycopg_pool"}:
        given = always | _given("postgres", options)
        return _backend(_load("postgres").PostgresBackend(source, **given))
    if base & {"redis", "valkey"}:
        given = always | _given("redis", options)
        return _backend(_load("redis").RedisBackend(source, **given))
    raise InvalidArgument(
        f"{source!r} ({driver}) is no database we know: give a connection string, a path, or an "
        "open sqlite3 or psycopg connection, psycopg pool, or redis-py client."
    )


def _load(name: str) -> Any:
    try:
        return import_module(f"langgraph_sessionmem.backends.{name}")
    except ImportError as error:
        raise DriverMissing(
            f"The driver for {name} can't be loaded ({error}). "
            "Run: pip install 'langgraph-sessionmem[binary]'"
        ) from error


def _backend(backend: Backend) -> Backend:
    return backend


def _given(module: str, options: dict[str, str | None]) -> dict[str, str]:
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in _OPTIONS[module]:
            raise InvalidArgument(f"{name}={given[name]!r}: {module} has no such option.")
    return given


def _sqlite_path(url: str, rest: str) -> str:
    if rest in ("", "/", "/:memory:"):
        return ":memory:"
    if not rest.startswith("/"):
        raise InvalidArgument(
            f"{url!r} names a host, which SQLite has not: write sqlite:///relative.db or "
            "sqlite:////absolute.db."
        )
    if "?" in rest:
        raise InvalidArgument(
            f"{url!r} has options after `?`, which we don't read: open the connection yourself and "
            "pass it, or pass a path object for a file with such a name."
        )
    return rest[1:]
