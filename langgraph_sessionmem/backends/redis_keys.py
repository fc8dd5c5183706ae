"""The names of keys: a bucket's, a thread's. `docs/format.md` has the layout."""

from collections.abc import Iterable
from hashlib import blake2b, sha1
from typing import NamedTuple

from langgraph_sessionmem.backends.redis_rows import to_bytes

BUCKETS = 256


class ThreadKey(NamedTuple):
    """Where a thread is.

    Attributes:
        name: its id as bytes.
        key: of its hash, which all keys of the bucket can be told from.
        mark: what is remembered of the id when the thread is gone.
    """

    name: bytes
    key: bytes
    mark: bytes


class Keys:
    """The keys under a prefix.

    Args:
        prefix: of every key.
        mark_key: the database's own key, so that a mark names nobody.
    """

    def __init__(self, prefix: bytes, mark_key: bytes) -> None:
        self._prefix, self._mark_key = prefix, mark_key

    def thread(self, thread_id: str) -> ThreadKey:
        """Where the thread of this id is."""
        name = to_bytes(thread_id)
        # SHA-1, for scripts can compute it too; the id itself is stored and compared.
        digest = sha1(name, usedforsecurity=False).hexdigest()[:20].encode()
        key = b"%b{%b}:t:%b" % (self._prefix, digest[:2], digest[2:])
        return ThreadKey(name, key, blake2b(name, key=self._mark_key, digest_size=16).digest())

    def buckets(self) -> Iterable[bytes]:
        """The key of the ids of each bucket."""
        return (b"%b{%02x}:ids" % (self._prefix, number) for number in range(BUCKETS))

    def names(self, bucket: int) -> bytes:
        """The key of the namespaces of a bucket."""
        return b"%b{%02x}:names" % (self._prefix, bucket)
