"""What a saver remembers of checkpoints it handed out or took in: enough to store the next one.

Forgetting costs one read of the parent, nothing else. Bounded by bytes, shared by clones and
threads.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from langgraph_sessionmem.bounded import Remembered
from langgraph_sessionmem.checkpoint.channels import Known
from langgraph_sessionmem.checkpoint.codec import Codec
from langgraph_sessionmem.checkpoint.head import Head, unpack_outline
from langgraph_sessionmem.checkpoint.options import Options
from langgraph_sessionmem.rows import CheckpointRow

CheckpointKey: TypeAlias = tuple[str, str, str]
"""A thread id, a namespace and a checkpoint id."""

KNOWN_BYTES = 64 * 1024 * 1024
OUTLINE_BYTES = 16 * 1024 * 1024
GENERATIONS = 100_000


class SaverState(NamedTuple):
    """What the operations of a saver share.

    Attributes:
        codec: values to bytes and back.
        options: how the saver behaves.
        custom_serde: the user's own serializer writes the values.
        known: checkpoints that the next one may build on.
        generations: in which life of its thread each checkpoint was handed out.
        outlines: of heads that were read on the way up to a delta channel's value.
        depths: how far up the delta channels of a thread's namespace last reached.
        successors: the life in which a run went on whose own, by thread id and generation, had
            expired and was swept.
    """

    codec: Codec
    options: Options
    custom_serde: bool
    known: Remembered[CheckpointKey, Known]
    generations: Remembered[CheckpointKey, int]
    outlines: Remembered[bytes, Head]
    depths: Remembered[tuple[str, str], int]
    successors: Remembered[tuple[str, int], int]

    @classmethod
    def empty(cls, codec: Codec, options: Options, *, custom_serde: bool) -> "SaverState":
        """The state of a new saver."""
        return cls(
            codec,
            options,
            custom_serde,
            Remembered(KNOWN_BYTES),
            Remembered(GENERATIONS),
            Remembered(OUTLINE_BYTES),
            Remembered(GENERATIONS),
            Remembered(GENERATIONS),
        )

    def forgotten(self) -> "SaverState":
        """The same saver's, with nothing remembered: all that it reads comes from the database."""
        return SaverState.empty(self.codec, self.options, custom_serde=self.custom_serde)

    def remember(self, key: CheckpointKey, known: Known) -> None:
        """Keep what a checkpoint that was just read or stored makes known."""
        self.known.put(key, known, known.size())
        self.generations.put(key, known.generation, 1)

    def recall(self, row: CheckpointRow) -> Known | None:
        """What is remembered of a checkpoint, if it is of the same life of its thread."""
        known = self.known.get((row.thread_id, row.checkpoint_ns, row.checkpoint_id))
        return known if known is not None and known.generation == row.generation else None

    def outline(self, head: bytes) -> Head:
        """The outline of a stored head; many may be given the same, so it is only to be read."""
        found = self.outlines.get(head)
        if found is None:
            found = unpack_outline(head, self.codec)
            # The objects of an outline take about ten times the bytes they were made of.
            self.outlines.put(head, found, 10 * len(head) + 1_000)
        return found

    def generation_of(
        self, key: CheckpointKey, ancestors: Mapping[str, str] | None = None
    ) -> int | None:
        """The life in which a checkpoint, or else one of those above it, was handed out.

        Args:
            key: the checkpoint.
            ancestors: the checkpoints of the graphs above, by namespace: a subgraph runs in the
                life of its thread in which they ran.
        """
        found = self.generations.get(key)
        for namespace, checkpoint_id in (ancestors or {}).items():
            found = found or self.generations.get((key[0], namespace, checkpoint_id))
        return found
