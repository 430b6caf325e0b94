"""``python -m tests.campaign.clocked MODULE --config FILE``: a node whose wall clock a file puts forward or back."""

import os
import runpy
import sys
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

from semq.clock import SystemClock

VARIABLE = "CAMPAIGN_CLOCK"  # the file
READ_S = 0.1  # interval between two reads of the file


class SteppedClock:
    """The clock of the system, put forward or back."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_at = -READ_S
        self._ahead = timedelta()
        self._right = SystemClock.wall

    def wall(self, clock: SystemClock) -> datetime:
        """Return the time of the system, put forward or back."""
        if monotonic() - self._read_at >= READ_S:
            self._ahead, self._read_at = timedelta(seconds=float(self._file.read_text())), monotonic()
        return self._right(clock) + self._ahead


if __name__ == "__main__":
    stepped = SteppedClock(Path(os.environ[VARIABLE]))
    SystemClock.wall = lambda self: stepped.wall(self)  # type: ignore[method-assign]
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
