"""Long tasks of queues and channels in slices, so that other clients are served in between.

A task is an iterator, and each step is one slice. ``server`` runs a later slice when the store has saved the changes of
the slice before; without a server all slices run immediately.
"""

from collections import deque
from collections.abc import Callable, Iterator

SLICE = 1_000
"""The number of messages in one slice."""


class LongTasks:
    """Unfinished tasks, which take turns."""

    def __init__(self, on_pending: Callable[[], None] | None = None) -> None:
        self._waiting: deque[Iterator[object]] = deque()
        self._is_running = False
        self._on_pending = on_pending or self.finish

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, task: Iterator[object]) -> None:
        """Run the first slice now and the others later."""
        if _step(task):
            self._waiting.append(task)
            if len(self._waiting) == 1 and not self._is_running:
                self._on_pending()

    def run(self) -> None:
        """Run one slice of the task whose turn it is."""
        if self._waiting:
            task, self._is_running = self._waiting.popleft(), True
            try:
                if _step(task):
                    self._waiting.append(task)
            finally:
                self._is_running = False

    def finish(self) -> None:
        """Run all remaining slices now; from now on, run new tasks at once."""
        self._on_pending = self.finish
        while self._waiting:
            self.run()


def _step(task: Iterator[object]) -> bool:
    try:
        next(task)
    except StopIteration:
        return False
    return True
