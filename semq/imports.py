"""Imports of a program, without collections of garbage. Used by the entry points of nodes and their companions.

A node imports a thousand modules before it does anything. All of them stay, so that the collector searches more objects
each time and finds nothing: a fifth of the processor time of a start.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Collect no garbage during the block, and never search what exists at its end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
