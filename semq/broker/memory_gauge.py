"""A counter of bytes in memory that reports larger changes."""

from collections.abc import Callable


class MemoryGauge:
    """The bytes of message bodies that queues hold in memory; ``on_change`` is called after a change of
    ``step`` bytes.
    """

    __slots__ = ("_reported", "bytes", "on_change", "step")

    def __init__(self, step: int = 1 << 20) -> None:
        self.bytes = 0
        self.step = step
        self._reported = 0
        self.on_change: Callable[[], None] = lambda: None

    def add(self, size: int) -> None:
        self.bytes += size
        if not -self.step < self.bytes - self._reported < self.step:
            self._reported = self.bytes
            self.on_change()
