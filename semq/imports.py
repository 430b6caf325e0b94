"""Imports of a program while Python's garbage collector is off. Used by the entry points of nodes and their companions.

A node imports a thousand modules at its start. All of them stay in use, so the collector would search ever more objects
and free none; the search took a fifth of the processor time of a start.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Switch the collector off during the block, and exclude the objects that exist at its end from all later
    collections.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
