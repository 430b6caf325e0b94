"""A node that is started again when it dies unexpectedly, and that ends with the process which has started it.

Used by the demo, which invites its users to ``kill -9`` a node and to start it again by hand. The supervisor therefore
retries while another process holds the data directory, and ``stop`` also ends a node that a user has started.
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

RESTART_S_MIN, RESTART_S_MAX = 0.2, 2.0
FAILURES_MAX = 5  # failed starts in a row after which the log is shown


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """In the child process: request a SIGTERM when the thread that has started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class SupervisedNode(NodeProcess):
    """One node. ``say`` prints a line for people."""

    in_child = staticmethod(_end_with_parent)

    def __init__(self, place: NodePlace, say: Callable[[str], None]) -> None:
        super().__init__(place)
        self.deaths = 0  #: unexpected ends
        self._say = say
        self._supervisor: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Start the node, wait until it serves, and supervise it from then on. Raises NodeNotStarted."""
        self.launch()
        await self.continued()

    async def continued(self) -> None:
        """Wait until a node serves that has been launched, and supervise it from then on. Raises NodeNotStarted."""
        while not await self.ready():
            if await self.ended() >= 0:  # by itself, not by a signal
                raise NodeNotStarted(node=self.name, log=self.log_tail())
            self.deaths += 1
            self._say(f"{self.name} was killed while it started; it is started again")
            self.launch()
        self._supervisor = asyncio.create_task(self._supervise(), name=f"supervisor of {self.name}")

    async def stop(self) -> None:
        """Stop the node, and a process that a user has started on its data directory."""
        await self._leave()
        await asyncio.to_thread(self.end)
        waited_s = 0.0
        while (pid := self.holder()) is not None and waited_s < STOP_S:
            if waited_s == 0.0:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
            await asyncio.sleep(POLL_S)
            waited_s += POLL_S

    async def kill(self) -> None:
        """Kill the node, and do not start it again."""
        await self._leave()
        if self.process is not None:
            self.process.kill()
            await self.ended()
            self.deaths += 1

    async def _leave(self) -> None:
        """End the supervision."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)

    async def remove(self) -> None:
        """Stop the node and a database server that it may have left running."""
        await self.stop()
        await asyncio.to_thread(self.clear)

    async def _supervise(self) -> None:
        """Start the node again whenever it ends; ``stop`` cancels this task first."""
        while True:
            status = await self.ended()
            self.deaths += 1
            how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            self._say(f"{self.name} has ended ({how}); it is started again")
            failures = 0
            self.launch()
            while not await self.ready():
                failures += 1
                if failures == FAILURES_MAX:
                    self._say(f"{self.name} does not start:\n{self.log_tail()}")
                await asyncio.sleep(min(RESTART_S_MIN * 2**failures, RESTART_S_MAX))
                self.launch()
            self._say(f"{self.name} is back (pid {self.pid})")
