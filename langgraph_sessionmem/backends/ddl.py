"""What `setup()` would make, as text: for those who don't let a program change their schema."""

from importlib import resources

from langgraph_sessionmem.backends.postgres_functions import load_functions
from langgraph_sessionmem.backends.schema import meta_table
from langgraph_sessionmem.backends.sql import PACKAGE, QUERIES, load_queries, quote_identifier
from langgraph_sessionmem.errors import InvalidArgument, UnknownScheme

_DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres", "postgres": "postgres"}
_REDIS = ("redis", "rediss", "unix")
_CLUSTERS = ("redis+cluster", "rediss+cluster")
_RIGHTS = "+@read +@write +@connection +@transaction +eval +evalsha +script|load +time -@dangerous"
_MARK_KEYS = {
    "sqlite": "lower(hex(randomblob(16)))",
    "postgres": "replace(gen_random_uuid()::text, '-', '')",
}


def schema_text(
    url: str, *, schema: str | None = None, prefix: str | None = None, since: int = 0
) -> str:
    """The statements that make or upgrade a schema, or on Redis the rights that are needed.

    After they ran, `setup=False` finds the version that it wants.

    Args:
        url: a connection string, of which the scheme counts; nothing is opened.
        schema: of the PostgreSQL tables; by default `public`.
        prefix: of the Redis keys.
        since: the version that is there; 0 is none.

    Raises:
        UnknownScheme: the connection string names no database we know.
        InvalidArgument: there is no such version, or an option isn't the database's.
    """
    scheme = url.partition("://")[0] if "://" in url else "sqlite"
    if scheme in (*_REDIS, *_CLUSTERS):
        if schema is not None:
            raise InvalidArgument(f"schema={schema!r}: Redis has no such option.")
        return _redis_text(prefix or "sessionmem:", since, in_cluster=scheme in _CLUSTERS)
    if scheme not in _DIALECTS:
        raise UnknownScheme(scheme, sorted((*_DIALECTS, *_REDIS, *_CLUSTERS)))
    if prefix is not None:
        raise InvalidArgument(f"prefix={prefix!r}: {_DIALECTS[scheme]} has no such option.")
    if scheme == "sqlite" and schema is not None:
        raise InvalidArgument(f"schema={schema!r}: sqlite has no such option.")
    return _sql_text(_DIALECTS[scheme], quote_identifier(schema or _default(scheme)), since)


def _default(scheme: str) -> str:
    return "main" if scheme == "sqlite" else "public"


def _sql_text(dialect: str, schema: str, since: int) -> str:
    folder = resources.files(PACKAGE) / "migrations" / dialect
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    _check_version(since, len(names))
    meta = f"{schema}.sessionmem_meta"
    parts = [f"-- langgraph-sessionmem: from version {since} to version {len(names)}"]
    if dialect == "sqlite" and not since:
        parts += ["pragma auto_vacuum = incremental;\npragma journal_mode = wal;"]
    parts.append("begin;")
    if dialect == "postgres" and not since:
        parts.append(f"create schema if not exists {schema};")
    if not since:
        parts.append(f"{meta_table(meta)};")
        parts.append(_fact(meta, "mark_key", _MARK_KEYS[dialect]))
    texts = [(folder / name).read_text("utf-8").strip() for name in names[since:]]
    parts += [text.replace("{schema}", schema) for text in texts]
    if dialect == "postgres":
        queries = load_queries([*QUERIES, "postgres.sql", "postgres_items.sql"], schema)
        parts += [f"{each.text.strip()};" for each in load_functions(queries, schema).values()]
    parts.append(_fact(meta, "version", f"'{len(names)}'"))
    return "\n\n".join([*parts, "commit;"]) + "\n"


def _fact(meta: str, name: str, value: str) -> str:
    return (
        f"insert into {meta} (name, value) values ('{name}', {value})\n"  # noqa: S608 - our own words
        "on conflict (name) do update set value = excluded.value;"
    )


def _redis_text(prefix: str, since: int, *, in_cluster: bool) -> str:
    _check_version(since, 1)
    more = " +cluster|slots" if in_cluster else ""
    return (
        "# Redis has no schema to make: setup() writes the key "
        f"{prefix}meta, with these rights.\n"
        f"ACL SETUSER sessionmem on >PASSWORD ~{prefix}* {_RIGHTS}{more}\n"
    )


def _check_version(since: int, newest: int) -> None:
    if not 0 <= since <= newest:
        raise InvalidArgument(f"since={since}: give a version from 0 (none) to {newest}.")
