"""Deadlines of queues: expiry of messages and of queues, and reads to be repeated."""

import heapq
from collections.abc import Callable
from itertools import count


class Timer:
    """One deadline. After ``cancel`` its callback is never called."""

    __slots__ = ("_timers", "callback", "deadline")

    def __init__(self, deadline: float, callback: Callable[[], None], timers: "Timers") -> None:
        self.deadline = deadline
        self.callback: Callable[[], None] | None = callback
        self._timers = timers

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._timers.note_cancelled()


class Timers:
    """Deadlines in order. ``on_earlier`` is called when a new deadline is the earliest."""

    def __init__(self, on_earlier: Callable[[], None] = lambda: None) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._cancelled = 0  # number of cancelled timers in the heap
        self._on_earlier = on_earlier

    def at(self, deadline: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` at ``deadline`` (monotonic clock, in seconds), unless the returned timer is cancelled."""
        timer = Timer(deadline, callback, self)
        heapq.heappush(self._heap, (deadline, next(self._order), timer))
        if self._heap[0][2] is timer:
            self._on_earlier()
        return timer

    def earliest(self) -> float | None:
        """Return the next deadline that is not cancelled, or None."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def note_cancelled(self) -> None:
        """Rebuild the heap if more than half of it is cancelled."""
        self._cancelled += 1
        if self._cancelled * 2 > len(self._heap):
            self._heap = [row for row in self._heap if row[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def run(self, now: float) -> None:
        """Call the callbacks that are due at ``now``; a deadline that a callback adds is due in the next run at the
        earliest.
        """
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        self._cancelled -= sum(timer.callback is None for timer in due)
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
