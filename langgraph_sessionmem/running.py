"""How code written once, as `async def`, serves blocking callers too.

A blocking link never suspends, so a coroutine over it can be finished with a single `send`: no
event loop, no thread, no cost worth naming.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_now(operation: Coroutine[Any, Any, T]) -> T:
    """Finish `operation` on the spot; every await in it must be on a blocking link.

    No event loop takes part, so this is safe inside a running one.

    Raises:
        RuntimeError: `operation` suspended, so something in it really waits.
    """
    try:
        operation.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    operation.close()
    raise RuntimeError(f"{operation!r} waits, so it cannot be finished without an event loop.")
