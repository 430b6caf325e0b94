"""Long work of the model in slices: between two of them everybody else is served.

Fifty thousand deliveries that come back at once, or a queue of a million messages that is deleted, would keep all
other clients waiting. Work is an iterator, and each step of it one slice. The first slice is done at once, so short
work keeps its order. ``server`` runs the others, one by one, each when the store has taken what the one before it
wrote; without a server (``on_pending`` as it is) they follow at once. Used by ``queue`` and ``channel``.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

SLICE = 1_000
"""Messages in one slice."""


class Chores:
    """Work that is not done yet, in turns."""

    def __init__(self) -> None:
        self._waiting: deque[Iterator[Any]] = deque()
        self._is_running = False
        self.on_pending: Callable[[], None] = self.finish

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, work: Iterator[Any]) -> None:
        """Do the first slice now, and the others later."""
        if _step(work):
            self._waiting.append(work)
            if len(self._waiting) == 1 and not self._is_running:
                self.on_pending()

    def run(self) -> None:
        """Do the next slice."""
        if self._waiting:
            work, self._is_running = self._waiting.popleft(), True
            try:
                if _step(work):
                    self._waiting.append(work)
            finally:
                self._is_running = False

    def finish(self) -> None:
        """Do all that is left."""
        while self._waiting:
            self.run()


def _step(work: Iterator[Any]) -> bool:
    """One slice; whether there are more."""
    try:
        next(work)
    except StopIteration:
        return False
    return True
