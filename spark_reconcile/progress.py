"""The progress of a run: the seconds of each step and, on a terminal only, one line for each step.

The line shows the number of finished Spark tasks, if the session reports it (Spark Connect does not).
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from semq.clock import Clock

REFRESH_S = 0.5


class Progress:
    """Measures steps; shows them if ``stream`` (None: stderr) is a terminal."""

    def __init__(self, clock: Clock, stream: TextIO | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.session: Any = None  #: the Spark session; None before it is started
        self._clock = clock
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        begun = self._clock.monotonic()
        done = threading.Event()
        display = threading.Thread(target=self._show_elapsed, args=(name, begun, done), daemon=True)
        if self._is_terminal:
            display.start()
        try:
            yield
        finally:
            done.set()
            self.seconds[name] = round(self._clock.monotonic() - begun, 3)
            if self._is_terminal:
                display.join()
                self._stream.write(f"\r\033[K  {name:<28} {self.seconds[name]:8.1f} s\n")
                self._stream.flush()

    def _show_elapsed(self, name: str, begun: float, done: threading.Event) -> None:
        while not done.wait(REFRESH_S):
            elapsed = self._clock.monotonic() - begun
            self._stream.write(f"\r\033[K  {name:<28} {elapsed:8.1f} s {self._tasks()}")
            self._stream.flush()

    def _tasks(self) -> str:
        tracker = getattr(getattr(self.session, "_sc", None), "statusTracker", None)
        if tracker is None:
            return ""
        status = tracker()
        stages = [info for number in status.getActiveStageIds() if (info := status.getStageInfo(number)) is not None]
        total = sum(info.numTasks for info in stages)
        return f"  {sum(info.numCompletedTasks for info in stages)} of {total} tasks" if total else ""
