"""Processes that are killed and restarted, as by a service manager: a node, a database server.

An end that the campaign has not caused is a fault.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from semq.installation.configuration import NodePlace
from semq.installation.empty_database import copy_empty_database
from semq.installation.process import STOP_S, NodeProcess
from semq.store.embedded.errors import ServerFailed
from semq.store.embedded.server import EmbeddedPostgres
from tests.crash.armed.failpoints import VARIABLE

ROOT = Path(__file__).parents[3]
READY_S = 180.0  # longest time from the start of a node until it serves, on a busy machine
EXIT_UNAVAILABLE = 69  # exit status of a node whose database was lost during the start
UNAVAILABLE_MAX = 5  # consecutive starts that may end with this status
CHECK_S = 0.2  # time between two checks of a shared server


class RestartedProcess:
    """One process, which is started whenever it has ended."""

    name: str  #: in the installation
    port: int

    def __init__(self) -> None:
        self.starts = 0
        self.killed_at: list[float] = []  #: seconds since 1970 of each end with another status than 0
        self.on_ready: Callable[[], None] = lambda: None  #: called when the process begins to serve
        self.on_end: Callable[[], None] = lambda: None
        self._serving = asyncio.Event()
        self._stopping = False
        self._pause_s = 0.0  #: pause before the next start
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    @property
    def is_ready(self) -> bool:
        return self._serving.is_set()

    async def wait_until_serving(self) -> None:
        """Wait until the process serves. Raises TimeoutError."""
        async with asyncio.timeout(READY_S):
            await self._serving.wait()

    async def _keep(self) -> None:
        raise NotImplementedError


class CrashProcess(RestartedProcess, NodeProcess):
    def __init__(self, place: NodePlace, complaints: list[str]) -> None:
        NodeProcess.__init__(self, place)
        RestartedProcess.__init__(self)
        self._complaints = complaints
        self._has_ended = asyncio.Event()  #: set from the end of the process to the next start
        self._is_expected = False  #: the campaign has caused the end of the process
        self.other: CrashProcess | None = None  #: the other process of the same store, if there is one
        self._may_start = asyncio.Event()  #: cleared by ``down``, set by ``up``
        self._may_start.set()
        self._failpoint = ""  #: of the next start
        self.armed = ""  #: failpoint of the running process
        self.served = 0  #: starts after which the node served
        self.fired: list[str] = []  #: failpoints that ended the process
        self._variables: Mapping[str, str] = {}
        self._runner: list[str] = []  #: module that runs the program

    def run_by(self, python: str, variables: Mapping[str, str], runner: str = "") -> None:
        """Run the program by another interpreter, with further environment variables, from the next start.

        ``runner``: a module that gets the program's module as its first argument.
        """
        self._python, self._variables, self._runner = python, variables, ["-m", runner] if runner else []

    # ------------------------------------------------------------ life

    @property
    def is_ready(self) -> bool:
        """Whether the store of this process is served."""
        return self.owns_store or (self.other is not None and self.other.owns_store)

    @property
    def owns_store(self) -> bool:
        return self._serving.is_set()

    async def wait_until_serving(self) -> None:
        """Wait until the store of this process is served. Raises TimeoutError."""
        processes = [process for process in (self, self.other) if process is not None]
        tasks = [asyncio.ensure_future(process.wait_until_owner()) for process in processes]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        for task in done:
            task.result()

    async def wait_until_owner(self) -> None:
        """Wait until this process serves. Raises TimeoutError."""
        await super().wait_until_serving()

    def kill(self, back_after_s: float, failpoint: str = "") -> None:
        """Send SIGKILL; the process restarts after a pause, with the failpoint."""
        self._pause_s, self._failpoint = back_after_s, failpoint
        if self.pid is not None:
            self._is_expected = True
            self._serving.clear()
            self.signal(signal.SIGKILL)

    async def down(self, *, orderly: bool = False) -> None:
        """Send SIGKILL, or SIGTERM if ``orderly``, and wait for the end; the process restarts after ``up``."""
        self._may_start.clear()
        if orderly and self.pid is not None:
            self._is_expected, self._pause_s = True, 0.0
            self.signal(signal.SIGTERM)
        else:
            self.kill(0.0)
        await self._has_ended.wait()

    def up(self) -> None:
        self._may_start.set()

    async def wait_for_failpoint(self, within_s: float) -> None:
        """Wait until an armed node has ended, at most ``within_s`` seconds after it serves."""
        with suppress(TimeoutError):
            await self.wait_until_serving()
            async with asyncio.timeout(within_s):
                await self._has_ended.wait()

    async def wait_until_suspended(self, within_s: float) -> bool:
        """Wait until an armed node has suspended itself; return False if it ends, or is not suspended after it
        has served for ``within_s`` seconds.

        Raises TimeoutError.
        """
        async with asyncio.timeout(READY_S):
            while not (self._is_suspended() or self.owns_store or self._has_ended.is_set()):  # noqa: ASYNC110
                await asyncio.sleep(CHECK_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self._is_suspended():  # noqa: ASYNC110
                    await asyncio.sleep(CHECK_S)
        return self._is_suspended()

    def _is_suspended(self) -> bool:
        with suppress(OSError):  # it has ended
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False

    def kill_postgres(self) -> bool:
        """Kill the node's database server; return False if none runs."""
        pid = self.postgres.pid
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Stop the node with SIGTERM; complain if it does not end with status 0 within STOP_S."""
        self._stopping = True
        if self.pid is not None:
            self.signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_S):
                    status = await self.wait_ended()
            except TimeoutError:
                self._complaints.append(f"{self.name} did not stop in {STOP_S:g} s")
            else:
                if status:
                    self._complaints.append(f"{self.name} ended with status {status} when it was asked to stop")
        await self.remove()

    async def remove(self) -> None:
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self.end, signal.SIGKILL)
        if self.other is None:  # a shared server is stopped by ``SharedServer``
            await asyncio.to_thread(self.postgres.stop)

    # ------------------------------------------------------------ inside

    async def _keep(self) -> None:
        unavailable = 0
        while True:
            served_before = self.served
            status = await self._run_once()
            if self.served != served_before:
                unavailable = 0
            if self._is_stopping():
                return
            if self._is_expected:
                self._is_expected = False
            elif status == -signal.SIGKILL and self.armed:
                self.fired.append(self.armed)
            elif status == EXIT_UNAVAILABLE and unavailable < UNAVAILABLE_MAX:
                unavailable += 1  # its database server was killed
            else:
                self._complaints.append(f"{self.name} ended by itself with status {status}: see {self.place.log}")
            await asyncio.sleep(self._pause_s)
            await self._may_start.wait()

    def _is_stopping(self) -> bool:
        return self._stopping

    def program(self) -> list[str]:
        module = ["-m", "tests.crash.armed", self.place.kind] if self.armed else super().program()
        return [*self._runner, *module[1 if self._runner else 0 :]]

    async def _run_once(self) -> int:
        self.armed, self._failpoint = self._failpoint, ""
        armed = {VARIABLE: self.armed, "PYTHONPATH": str(ROOT)} if self.armed else {}
        self.launch(**{**self._variables, **armed})
        self.starts += 1
        self._has_ended.clear()
        if await self.wait_ready():
            self.served += 1
            self._serving.set()
            self.on_ready()
        status = await self.wait_ended()
        if status:
            self.killed_at.append(time.time())
        self._serving.clear()
        self._has_ended.set()
        self.on_end()
        return status


class SharedServer:
    """The database server of the hub's second instance and its standby, restarted whenever it was killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.postgres = EmbeddedPostgres(folder)
        self._has_ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Start the server; return the URL of its database."""
        await asyncio.to_thread(copy_empty_database, self._folder)
        url = await asyncio.to_thread(self.postgres.start)
        self._task = asyncio.create_task(self._keep(), name="keep the shared server")
        return url

    async def stop(self) -> None:
        self._has_ended.set()
        if self._task is not None:
            await self._task
            await asyncio.to_thread(self.postgres.stop)

    async def _keep(self) -> None:
        while not self._has_ended.is_set():
            if self.postgres.pid is None:
                with suppress(ServerFailed):  # it was killed while it started
                    await asyncio.to_thread(self.postgres.start)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), CHECK_S)
