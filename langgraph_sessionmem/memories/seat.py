"""What the parts of `Memories` stand on: a store, a namespace, and the rules."""

from langgraph_sessionmem.memories.desk import AsyncLink, BlockingLink, Desk


class Seated:
    """`Memories` as its parts see them.

    Attributes:
        desk: whose memories they are, and by which rules they are kept.
    """

    desk: Desk
    _blocking: BlockingLink
    _async: AsyncLink
