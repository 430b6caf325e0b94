"""A counter of bytes in memory that reports larger changes."""

from collections.abc import Callable

STEP = 1 << 20  # bytes


class MemoryGauge:
    """A number of bytes. ``on_change`` is called when it differs by ``STEP`` or more from the last reported number."""

    __slots__ = ("_on_change", "_reported", "bytes")

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.bytes = 0
        self._reported = 0
        self._on_change = on_change

    def add(self, size: int) -> None:
        """Add a number of bytes, which may be negative."""
        self.bytes += size
        if not -STEP < self.bytes - self._reported < STEP:
            self._reported = self.bytes
            self._on_change()
