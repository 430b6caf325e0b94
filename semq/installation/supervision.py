"""A node that is started again after an unexpected end, and ends with the process that started it.

Users of the demo may ``kill -9`` a node and start it by hand. ``stop`` therefore also ends a node that a user has
started.
"""

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from semq.installation.configuration import NodePlace
from semq.installation.errors import NodeNotStarted
from semq.installation.process import POLL_S, STOP_S, NodeProcess

RESTART_S_MIN, RESTART_S_MAX = 0.2, 2.0  # pauses between failed starts
FAILURES_MAX = 5  # consecutive failed starts after which the log is printed

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """Request a SIGTERM for this process when the thread that has started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def pause_s(failures: int) -> float:
    """Return the pause after consecutive failed starts, in seconds."""
    return float(min(RESTART_S_MIN * 2 ** min(failures - 1, 10), RESTART_S_MAX))


class SupervisedNode(NodeProcess):
    """A node as a supervised process. ``report`` prints a line for people."""

    before_program = staticmethod(_end_with_parent)

    def __init__(self, place: NodePlace, report: Callable[[str], None]) -> None:
        super().__init__(place)
        self.deaths = 0  #: number of ends that ``stop`` did not cause; failed restarts do not count
        self._report = report
        self._supervisor: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Start the node, wait until it serves, and supervise it from then on. Raises NodeNotStarted."""
        self.launch()
        await self.supervise_when_ready()

    async def supervise_when_ready(self) -> None:
        """Wait until the launched node serves, and supervise it from then on. Raises NodeNotStarted."""
        while not await self.wait_ready():
            if await self.wait_ended() >= 0:  # no signal has ended the node
                raise NodeNotStarted(node=self.name, log=self.log_tail())
            self.deaths += 1
            self._report(f"{self.name} was killed while it started; it is started again")
            self.launch()
        self._supervisor = asyncio.create_task(self._supervise(), name=f"supervisor of {self.name}")

    async def stop(self) -> None:
        """Stop the node, and a process that a user has started on the same data directory.

        Do not wait longer than STOP_S for the user's process.
        """
        await self._end_supervision()
        await asyncio.to_thread(self.end)
        waited_s = 0.0
        while (pid := self.lock_holder()) is not None and waited_s < STOP_S:
            if waited_s == 0.0:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
            await asyncio.sleep(POLL_S)
            waited_s += POLL_S

    async def kill(self) -> None:
        await self._end_supervision()
        if self.process is not None:
            self.process.kill()
            await self.wait_ended()
            self.deaths += 1

    async def _end_supervision(self) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)

    async def remove(self) -> None:
        await self.stop()
        await asyncio.to_thread(self.end_with_database)

    async def _supervise(self) -> None:
        while True:
            status = await self.wait_ended()
            self.deaths += 1
            cause = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            self._report(f"{self.name} has ended ({cause}); it is started again")
            failures = 0
            self.launch()
            while not await self.wait_ready():
                failures += 1
                if failures == FAILURES_MAX:
                    self._report(f"{self.name} does not start:\n{self.log_tail()}")
                await asyncio.sleep(pause_s(failures))
                self.launch()
            self._report(f"{self.name} is back (pid {self.pid})")
