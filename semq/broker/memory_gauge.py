"""A counter of bytes in memory that reports larger changes."""

from collections.abc import Callable


class MemoryGauge:
    """A number of bytes in memory. ``on_change`` is called when the number differs by ``step`` or more from the number
    at the last call.
    """

    __slots__ = ("_on_change", "_reported", "bytes", "step")

    def __init__(self, on_change: Callable[[], None] = lambda: None, step: int = 1 << 20) -> None:
        self.bytes = 0
        self.step = step
        self._reported = 0
        self._on_change = on_change

    def add(self, size: int) -> None:
        self.bytes += size
        if not -self.step < self.bytes - self._reported < self.step:
            self._reported = self.bytes
            self._on_change()
