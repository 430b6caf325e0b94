"""A node's process: started, watched, started again when it dies without having been asked to, stopped in the end.

``kill -9`` of any of them is a part of the show, whoever starts it again: this one does so at once, and stands back
while somebody else's process has the data directory.
"""

import asyncio
import ctypes
import fcntl
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from semq.demo.errors import WillNotStart
from semq.demo.stage import Place
from semq.store.embedded.server import EmbeddedPostgres

MODULES = {"platform": "platform_node", "local": "local_node"}
RESTART_S_MIN, RESTART_S_MAX = 0.2, 2.0
FAILURES_MAX = 5  # starts in a row that came to nothing
STOP_S = 90.0
POLL_S = 0.1
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)

Tell = Callable[[str], None]


def _end_with_the_demo() -> None:
    """In the child: be asked to stop when the demo itself is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Actor:
    """One node of the demo."""

    def __init__(self, place: Place, tell: Tell) -> None:
        self.place = place
        self.deaths = 0  #: how often it died without having been asked to
        self._tell = tell
        self._process: Process | None = None
        self._guard: asyncio.Task[None] | None = None
        self._is_wanted = False

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Start it and wait until it serves; from now on it is kept alive. Raises WillNotStart."""
        self._is_wanted = True
        while not await self._launch():
            if not self._was_killed:
                raise WillNotStart(node=self.place.name, log=self._log_tail())
            self.deaths += 1
            self._tell(f"{self.place.name} was killed while it started; once more")
        self._guard = asyncio.create_task(self._keep_alive(), name=f"guard {self.place.name}")

    async def stop(self) -> None:
        """SIGTERM, and wait until it has drained and ended."""
        self._is_wanted = False
        if self._guard is not None:
            self._guard.cancel()
            await asyncio.gather(self._guard, return_exceptions=True)
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        await self._stop_stranger()

    async def _stop_stranger(self) -> None:
        """Somebody may have started the node by hand after a kill: the process that holds its data directory."""
        waited = 0.0
        while (pid := holder(self.place.data_dir / "postgres" / "lock")) is not None and waited < STOP_S:
            if waited == 0.0:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
            await asyncio.sleep(POLL_S)
            waited += POLL_S

    async def clear(self) -> None:
        """End it, and a database server that it may have left behind."""
        await self.stop()
        if self.place.data_dir.exists():
            await asyncio.to_thread(EmbeddedPostgres(self.place.data_dir).stop)

    @property
    def _was_killed(self) -> bool:
        return self._process is not None and (self._process.returncode or 0) < 0

    async def _launch(self) -> bool:
        """Start the process; whether it came to serve."""
        with self.place.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", MODULES[self.place.kind], "--config", str(self.place.config),
                stdin=DEVNULL, stdout=PIPE, stderr=log, cwd=self.place.folder, env=_environment(),
                start_new_session=True, preexec_fn=_end_with_the_demo,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if line.startswith(b"ready "):
            return True
        await self._process.wait()
        return False

    async def _keep_alive(self) -> None:
        failures = 0
        while self._is_wanted:
            if self._process is not None:
                status = await self._process.wait()
                self.deaths += 1
                self._tell(f"{self.place.name} has ended ({_how(status)}); it is started again")
            failures = 0
            while not await self._launch():
                failures += 1
                if failures == FAILURES_MAX:
                    self._tell(f"{self.place.name} does not start:\n{self._log_tail()}")
                await asyncio.sleep(min(RESTART_S_MIN * 2**failures, RESTART_S_MAX))
            self._tell(f"{self.place.name} is back (pid {self.pid})")

    def _log_tail(self, lines: int = 6) -> str:
        with suppress(OSError):
            return "\n".join(self.place.log.read_text("utf-8", "replace").splitlines()[-lines:])
        return ""


def holder(lock: Path) -> int | None:
    """The process that holds the lock of a data directory now, None if there is none."""
    with suppress(OSError, ValueError), lock.open("r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(stream.read())
    return None


def _environment() -> dict[str, str]:
    """Ours, without what would change the configuration of the nodes."""
    return {name: value for name, value in os.environ.items() if not name.upper().startswith("SEMQ_")}


def _how(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
