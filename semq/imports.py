"""Imports of a program while Python's garbage collector is off, without packages that a program can do without.

Modules stay in use, so the collector would search ever more objects and free none. This would take a fifth of the
processor time of a node's start.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Libraries import them if they are installed: structlog imports rich, for exceptions with variables.
UNUSED = ("rich",)


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Switch the collector off during the block, then exclude all existing objects from later collections."""
    gc.disable()
    hidden = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: an import raises ImportError
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
        gc.freeze()
        gc.enable()
