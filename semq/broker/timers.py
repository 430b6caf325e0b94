"""Deadlines of the model: message and queue expiry, and whatever else must happen at a time.

The model has no clock of its own that ticks. It leaves callbacks with a moment on the monotonic clock; the driver asks
for the earliest one, waits by whatever means it has, and calls ``run``. Used by ``queue`` and ``vhost``; driven by
``server``.
"""

import heapq
from collections.abc import Callable
from itertools import count


class Timer:
    """One deadline. ``cancel`` makes it never ring; cancelling after it rang does nothing."""

    __slots__ = ("callback", "deadline")

    def __init__(self, deadline: float, callback: Callable[[], None]) -> None:
        self.deadline = deadline
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    """Deadlines in order. ``on_earlier`` is called when the earliest one moved forward, so that a driver can re-arm."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()
        self.on_earlier: Callable[[], None] = lambda: None

    def at(self, deadline: float, callback: Callable[[], None]) -> Timer:
        """Ring at ``deadline`` (seconds of the monotonic clock)."""
        timer = Timer(deadline, callback)
        heapq.heappush(self._heap, (deadline, next(self._order), timer))
        if self._heap[0][2] is timer:
            self.on_earlier()
        return timer

    def earliest(self) -> float | None:
        """The next deadline that still counts, or None."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Ring everything that is due; what a callback adds for the past rings in the next run, not in this one."""
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
