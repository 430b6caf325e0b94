"""One node as a process that dies and comes back: started, awaited, killed, as under a service manager.

``CrashProcess.keep`` runs for the whole campaign. Whoever kills says when the node may come back, and with which
failpoint; any other end of the process is a complaint.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from semq.service.failpoints import VARIABLE
from semq.store.embedded.server import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
READY_S = 180.0  # from start to serving, on a machine that may be busy with other things
STOP_S = 90.0
EXIT_UNAVAILABLE = 69  # semq.service.process: its database went away before it had begun
UNAVAILABLE_MAX = 5


class CrashProcess:
    """A node: ``module`` is local_node or platform_node; everything it keeps lies in ``folder``."""

    def __init__(self, name: str, module: str, config: Path, data: Path, complaints: list[str]) -> None:
        self.name = name
        self.postgres = EmbeddedPostgres(data)  # looked at from outside: the node alone starts it
        self._module = module
        self._config = config
        self._complaints = complaints
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()  #: the life that is running now, or the last one, is over
        self._expected = False  #: somebody has killed it
        self._stopping = False
        self._pause_s = 0.0
        self._may_start = asyncio.Event()  #: cleared while somebody works on its files
        self._may_start.set()
        self._failpoint = ""  #: of the next start
        self.armed = ""  #: of the running process
        self.port = 0
        self.starts = 0
        self.served = 0  #: lives in which it came to serve
        self.fired: list[str] = []  #: failpoints that it died at
        self.on_ready: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Start, and start again whenever it has died."""
        self._task = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    @property
    def is_ready(self) -> bool:
        """Whether it serves now."""
        return self._ready.is_set()

    async def ready(self) -> None:
        """Wait until it serves. Raises TimeoutError."""
        async with asyncio.timeout(READY_S):
            await self._ready.wait()

    def kill(self, back_after_s: float, failpoint: str = "") -> None:
        """SIGKILL; it comes back after a pause, perhaps with a failpoint."""
        self._pause_s, self._failpoint = back_after_s, failpoint
        if self._process is not None and self._process.returncode is None:
            self._expected = True
            self._ready.clear()
            self._process.kill()

    async def down(self) -> None:
        """SIGKILL; it stays down until ``up``."""
        self._may_start.clear()
        self.kill(0.0)
        await self._ended.wait()

    def up(self) -> None:
        """It may start again."""
        self._may_start.set()

    async def may_die(self, within_s: float) -> None:
        """Give an armed node time to come to its failpoint: returns when it has died, or after so long."""
        with suppress(TimeoutError):
            await self.ready()
            async with asyncio.timeout(within_s):
                await self._ended.wait()

    def kill_postgres(self) -> bool:
        """SIGKILL for its database server; False if none runs now."""
        pid = self.postgres.pid
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def freeze(self, frozen: bool) -> None:
        """Stop its time, or let it go on."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    async def stop(self) -> None:
        """End it in order; anything but that is a complaint."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_S):
                    status = await self._process.wait()
            except TimeoutError:
                self._complaints.append(f"{self.name} did not stop in {STOP_S:g} s")
            else:
                if status:
                    self._complaints.append(f"{self.name} ended with status {status} when it was asked to stop")
        await self.remove()

    async def remove(self) -> None:
        """Whatever is left of it goes: also after a failed campaign nothing stays behind."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
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
                unavailable += 1  # its server was killed while it started: a service manager tries again
            else:
                self._complaints.append(f"{self.name} ended by itself with status {status}: see {self.log}")
            await asyncio.sleep(self._pause_s)
            await self._may_start.wait()

    def _is_stopping(self) -> bool:
        return self._stopping

    async def _one_life(self) -> int:
        self.armed, self._failpoint = self._failpoint, ""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SEMQ_")}
        environment |= {"PYTHONPATH": str(ROOT)} | ({VARIABLE: self.armed} if self.armed else {})
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", self._module, "--config", str(self._config),
                cwd=self._config.parent, env=environment, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.starts += 1
        self._ended.clear()
        reading = asyncio.create_task(self._read(self._process))
        status = await self._process.wait()
        await reading
        self._ready.clear()
        self._ended.set()
        self.on_end()
        return status

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            words = line.decode().split()
            if words[:1] == ["ready"]:
                self.port = int(words[1].rpartition(":")[2])
                self.served += 1
                self._ready.set()
                self.on_ready()

    @property
    def log(self) -> Path:
        """What the node says, in all its lives."""
        return self._config.with_suffix(".log")
