"""`Memories`: a typed view on the long-term memories of one user, or whoever owns a namespace."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from langgraph_sessionmem.errors import InvalidArgument
from langgraph_sessionmem.memories.desk import AsyncLink, BlockingLink, Desk
from langgraph_sessionmem.memories.kinds import Memory, read_types
from langgraph_sessionmem.memories.reading import Reading
from langgraph_sessionmem.memories.slots import POLICIES, Policy
from langgraph_sessionmem.memories.writing import Writing
from langgraph_sessionmem.store.store import LongTermStore
from langgraph_sessionmem.store_links import checked_namespace


def _now() -> datetime:
    return datetime.now(UTC)


class Memories(Reading, Writing):
    """What is known of one user across threads: typed, with sources, versions and times.

        memories = Memories(store, ("users", user_id))
        memories.remember(Fact("user", "db_port", 6432), source=Source(message=message))
        memories.fact("user", "db_port").value
        memories.recall("which port?", limit=5, max_tokens=300).text

    Nothing that was said is overwritten: `get`, `fact`, … say what holds now, or at any time, by
    what was known then; `history` says all of it. Memories are items of the store in
    `(*namespace, type)`, so they are found through the store as well; `statements.py` has their
    layout.

    Args:
        store: a `LongTermStore`; in a node of a graph, `runtime.store`.
        namespace: whose memories they are, such as `("users", user_id)`. It belongs to one owner:
            nothing of another one may be below it.
        types: types of your own, and subclasses that take the place of one of the six.
        conflicts: what settles it when different sources contradict each other about one time:
            `ask` leaves it open until `resolve`, `latest` takes what was learnt last,
            `confidence` what is surest, and leaves equals open.
        ttl: how long memories of a type are kept after they were written last, by class or name;
            otherwise the store's `default_ttl` holds.
        clock: tells the time, aware; for what is learnt and for what holds now.

    Raises:
        InvalidArgument: an argument can't be used.

    Attributes:
        desk: namespace and rules, for the other modules of this package.
    """

    def __init__(
        self,
        store: object,
        namespace: Sequence[str],
        *,
        types: Iterable[type[Memory]] = (),
        conflicts: Policy = "ask",
        ttl: Mapping[type[Memory] | str, timedelta] | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        if not isinstance(store, LongTermStore):
            raise InvalidArgument(
                f"{type(store).__name__} can't keep memories: it has no write that holds only if "
                "nobody else wrote meanwhile. Give a LongTermStore."
            )
        if conflicts not in POLICIES:
            raise InvalidArgument(f"conflicts={conflicts!r}: give one of {', '.join(POLICIES)}.")
        kinds = read_types(types)
        self.desk = Desk(checked_namespace(namespace), kinds, conflicts, _ttl(ttl), clock)
        self._blocking, self._async = BlockingLink(store), AsyncLink(store)


def _ttl(given: Mapping[type[Memory] | str, timedelta] | None) -> dict[str, timedelta]:
    kept: dict[str, timedelta] = {}
    for kind, time in (given or {}).items():
        if not isinstance(time, timedelta) or time <= timedelta(0):
            raise InvalidArgument(f"ttl[{kind!r}] = {time!r}: give a timedelta above 0.")
        kept[kind if isinstance(kind, str) else kind.type] = time
    return kept
