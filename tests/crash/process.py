"""Processes that are killed and restarted, as by a service manager: the base of all, a node, a database server.

``begin`` runs for the whole campaign. The caller of ``kill`` states when the node may restart, and with
which failpoint; any other end of the process is a fault.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from semq.installation.configuration import NodePlace
from semq.installation.process import STOP_S, NodeProcess
from semq.store.embedded.errors import ServerFailed
from semq.store.embedded.server import EmbeddedPostgres
from tests.crash.armed.failpoints import VARIABLE

ROOT = Path(__file__).parents[2]
READY_S = 180.0  # from the start until it serves, on a busy machine
EXIT_UNAVAILABLE = 69  # semq.service.process: its database was lost during the start
UNAVAILABLE_MAX = 5
CHECK_S = 0.2  # between two checks of a shared server


class RestartedProcess:
    """One process; ``_keep`` starts it whenever it has ended, and sets ``_serving`` while it serves."""

    name: str  #: in its installation
    port: int

    def __init__(self) -> None:
        self.starts = 0
        self.on_ready: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self._serving = asyncio.Event()
        self._stopping = False
        self._pause_s = 0.0  #: before the next start
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the process, and restart it whenever it has ended."""
        self._task = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    @property
    def is_ready(self) -> bool:
        """Whether it serves now."""
        return self._serving.is_set()

    async def served_now(self) -> None:
        """Wait until it serves. Raises TimeoutError."""
        async with asyncio.timeout(READY_S):
            await self._serving.wait()

    async def _keep(self) -> None:
        raise NotImplementedError


class CrashProcess(RestartedProcess, NodeProcess):
    """A node of a campaign."""

    def __init__(self, place: NodePlace, complaints: list[str]) -> None:
        NodeProcess.__init__(self, place)
        RestartedProcess.__init__(self)
        self._complaints = complaints
        self._over = asyncio.Event()  #: the present or last run of the process has ended
        self._expected = False  #: the node was ended on purpose
        self.other: CrashProcess | None = None  #: the other process of its store: one serves, one is the standby
        self._may_start = asyncio.Event()  #: cleared while its files are changed
        self._may_start.set()
        self._failpoint = ""  #: failpoint of the next start
        self.armed = ""  #: failpoint of the running process
        self.served = 0  #: number of starts after which it served
        self.fired: list[str] = []  #: failpoints that ended it

    # ------------------------------------------------------------ life

    @property
    def is_ready(self) -> bool:
        """Whether it serves now, or the other process of its store."""
        return self.owns_store or (self.other is not None and self.other.owns_store)

    @property
    def owns_store(self) -> bool:
        """Whether this process serves now."""
        return self._serving.is_set()

    async def served_now(self) -> None:
        """Wait until it serves, or the other process of its store. Raises TimeoutError."""
        ways = [one.has_store_now() for one in (self, self.other) if one is not None]
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        for task in done:
            task.result()

    async def has_store_now(self) -> None:
        """Wait until this process serves. Raises TimeoutError."""
        await super().served_now()

    def kill(self, back_after_s: float, failpoint: str = "") -> None:
        """Send SIGKILL; it restarts after a pause, optionally with a failpoint."""
        self._pause_s, self._failpoint = back_after_s, failpoint
        if self.pid is not None:
            self._expected = True
            self._serving.clear()
            self.signal(signal.SIGKILL)

    async def down(self, *, orderly: bool = False) -> None:
        """Send SIGKILL, or SIGTERM; it stays down until ``up``."""
        self._may_start.clear()
        if orderly and self.pid is not None:
            self._expected, self._pause_s = True, 0.0
            self.signal(signal.SIGTERM)
        else:
            self.kill(0.0)
        await self._over.wait()

    def up(self) -> None:
        """Allow the next start."""
        self._may_start.set()

    async def may_die(self, within_s: float) -> None:
        """Wait until an armed node has reached its failpoint, or for the given time."""
        with suppress(TimeoutError):
            await self.served_now()
            async with asyncio.timeout(within_s):
                await self._over.wait()

    def kill_postgres(self) -> bool:
        """Send SIGKILL to its database server; return False if none runs."""
        pid = self.postgres.pid
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def freeze(self, frozen: bool) -> None:
        """Suspend the process, or resume it."""
        self.signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    async def stop(self) -> None:
        """Stop it in an orderly way; any other end is a fault."""
        self._stopping = True
        if self.pid is not None:
            self.signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_S):
                    status = await self.ended()
            except TimeoutError:
                self._complaints.append(f"{self.name} did not stop in {STOP_S:g} s")
            else:
                if status:
                    self._complaints.append(f"{self.name} ended with status {status} when it was asked to stop")
        await self.remove()

    async def remove(self) -> None:
        """End all its processes, also after a failed campaign."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self.end, signal.SIGKILL)
        if self.other is None:  # two processes of one store did not start its server
            await asyncio.to_thread(self.postgres.stop)

    # ------------------------------------------------------------ inside

    async def _keep(self) -> None:
        unavailable = 0
        while True:
            was = self.served
            status = await self._one_life()
            if self.served != was:
                unavailable = 0
            if self._is_stopping():
                return
            if self._expected:
                self._expected = False
            elif status == -signal.SIGKILL and self.armed:
                self.fired.append(self.armed)
            elif status == EXIT_UNAVAILABLE and unavailable < UNAVAILABLE_MAX:
                unavailable += 1  # its server was killed while it started: a service manager would try again
            else:
                self._complaints.append(f"{self.name} ended by itself with status {status}: see {self.place.log}")
            await asyncio.sleep(self._pause_s)
            await self._may_start.wait()

    def _is_stopping(self) -> bool:
        return self._stopping

    def program(self) -> list[str]:
        """Return the arguments of Python that run the node, or the node with its failpoint."""
        return ["-m", "tests.crash.armed", self.place.kind] if self.armed else super().program()

    async def _one_life(self) -> int:
        self.armed, self._failpoint = self._failpoint, ""
        self.launch(**({VARIABLE: self.armed, "PYTHONPATH": str(ROOT)} if self.armed else {}))
        self.starts += 1
        self._over.clear()
        if await self.ready():
            self.served += 1
            self._serving.set()
            self.on_ready()
        status = await self.ended()
        self._serving.clear()
        self._over.set()
        self.on_end()
        return status


class SharedServer:
    """The database server of two nodes that use one store in turns: restarted whenever it was killed.

    A node restarts the server that it has started itself. This one is started by ``world``.
    """

    def __init__(self, folder: Path) -> None:
        self.postgres = EmbeddedPostgres(folder)
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Start the server, and return the URL of its database."""
        url = await asyncio.to_thread(self.postgres.start)
        self._task = asyncio.create_task(self._keep(), name="keep the shared server")
        return url

    async def stop(self) -> None:
        """Stop the server; harmless if it was never started."""
        self._over.set()
        if self._task is not None:
            await self._task
            await asyncio.to_thread(self.postgres.stop)

    async def _keep(self) -> None:
        while not self._over.is_set():
            if self.postgres.pid is None:
                with suppress(ServerFailed):  # it was killed while it started
                    await asyncio.to_thread(self.postgres.start)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), CHECK_S)
