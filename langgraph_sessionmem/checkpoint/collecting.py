"""The garbage collector, put off while many objects are made at once."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 256


@contextmanager
def collecting_later(count: int) -> Iterator[None]:
    """Let the garbage collector wait while so many values are made, if they are many.

    Otherwise it would walk over all of them, and now and then over every object there is, again and
    again while they come into being. Everything inside must be done at once, without waiting.
    """
    if count < _MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
