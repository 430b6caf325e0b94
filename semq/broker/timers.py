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

    __slots__ = ("_timers", "callback", "deadline")

    def __init__(self, deadline: float, callback: Callable[[], None], timers: "Timers") -> None:
        self.deadline = deadline
        self.callback: Callable[[], None] | None = callback
        self._timers = timers

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._timers.cancelled()


class Timers:
    """Deadlines in order. ``on_earlier`` is called when the earliest one moved forward, so that a driver can re-arm."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._cancelled = 0  # of those in the heap
        self.on_earlier: Callable[[], None] = lambda: None

    def at(self, deadline: float, callback: Callable[[], None]) -> Timer:
        """Ring at ``deadline`` (seconds of the monotonic clock)."""
        timer = Timer(deadline, callback, self)
        heapq.heappush(self._heap, (deadline, next(self._order), timer))
        if self._heap[0][2] is timer:
            self.on_earlier()
        return timer

    def earliest(self) -> float | None:
        """The next deadline that still counts, or None."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def cancelled(self) -> None:
        """One of the deadlines counts no more. Queues that come and go leave such with days to run: when half of all
        are of that kind, they are swept out, so that the heap never holds more than twice what counts."""
        self._cancelled += 1
        if self._cancelled * 2 > len(self._heap):
            self._heap = [row for row in self._heap if row[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def run(self, now: float) -> None:
        """Ring everything that is due; what a callback adds for the past rings in the next run, not in this one."""
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        self._cancelled -= sum(timer.callback is None for timer in due)
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
