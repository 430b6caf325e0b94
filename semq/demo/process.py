"""A node as a process: started, started again when it dies unexpectedly, stopped at the end; and its enrolment.

The demo invites its users to ``kill -9`` a node and to start it again by hand. The supervisor therefore retries while
another process holds the data directory, and ``stop`` also ends a node that a user has started.
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

from local_node.enrolment import HubAddress, enrol
from semq.app import Client
from semq.clock import SystemClock
from semq.config import load
from semq.demo.configuration import NodePlace
from semq.demo.errors import NodeNotStarted
from semq.pki.certificate import NodeCertificate
from semq.service.identity import ring_of
from semq.store.embedded.server import EmbeddedPostgres

MODULES = {"platform": "platform_node", "local": "local_node"}
RESTART_S_MIN, RESTART_S_MAX = 0.2, 2.0
FAILURES_MAX = 5  # failed starts in a row after which the log is shown
STOP_S = 90.0
POLL_S = 0.1
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _end_with_the_demo() -> None:
    """In the child process: request a SIGTERM when the demo is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class DemoProcess:
    """One node of the demo. ``say`` prints a line for people."""

    def __init__(self, place: NodePlace, say: Callable[[str], None]) -> None:
        self.place = place
        self.deaths = 0  #: unexpected ends
        self._say = say
        self._process: Process | None = None
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while the node runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Start the node, wait until it serves, and supervise it from then on. Raises NodeNotStarted."""
        while not await self._launch():
            if self._process is None or (self._process.returncode or 0) >= 0:  # ended by itself, not by a signal
                raise NodeNotStarted(node=self.place.name, log=self._log_tail())
            self.deaths += 1
            self._say(f"{self.place.name} was killed while it started; it is started again")
        self._supervisor = asyncio.create_task(self._supervise(), name=f"supervisor of {self.place.name}")

    async def stop(self) -> None:
        """Send SIGTERM and wait until the node has ended."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
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
        await self._stop_lock_holder()

    async def _stop_lock_holder(self) -> None:
        """Stop a process that a user has started on the same data directory."""
        waited_s = 0.0
        while (pid := lock_holder(self.place.data_dir / "postgres" / "lock")) is not None and waited_s < STOP_S:
            if waited_s == 0.0:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
            await asyncio.sleep(POLL_S)
            waited_s += POLL_S

    async def clear(self) -> None:
        """Stop the node and a database server that it may have left running."""
        await self.stop()
        if self.place.data_dir.exists():
            await asyncio.to_thread(EmbeddedPostgres(self.place.data_dir).stop)

    async def _launch(self) -> bool:
        """Start the process and return whether it serves."""
        environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("SEMQ_")}
        with self.place.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", MODULES[self.place.kind], "--config", str(self.place.config),
                stdin=DEVNULL, stdout=PIPE, stderr=log, cwd=self.place.folder, env=environment,
                start_new_session=True, preexec_fn=_end_with_the_demo,
            )  # fmt: skip
        assert self._process.stdout is not None
        if (await self._process.stdout.readline()).startswith(b"ready "):
            return True
        await self._process.wait()
        return False

    async def _supervise(self) -> None:
        """Start the node again whenever it ends; ``stop`` cancels this task first."""
        while self._process is not None:
            status = await self._process.wait()
            self.deaths += 1
            how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            self._say(f"{self.place.name} has ended ({how}); it is started again")
            failures = 0
            while not await self._launch():
                failures += 1
                if failures == FAILURES_MAX:
                    self._say(f"{self.place.name} does not start:\n{self._log_tail()}")
                await asyncio.sleep(min(RESTART_S_MIN * 2**failures, RESTART_S_MAX))
            self._say(f"{self.place.name} is back (pid {self.pid})")

    def _log_tail(self, lines: int = 6) -> str:
        with suppress(OSError):
            return "\n".join(self.place.log.read_text("utf-8", "replace").splitlines()[-lines:])
        return ""


def lock_holder(lock: Path) -> int | None:
    """Return the process that holds the lock of a data directory, or None."""
    with suppress(OSError, ValueError), lock.open("r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(stream.read())
    return None


async def enrol_node(hub: Client, hub_place: NodePlace, place: NodePlace) -> NodeCertificate:
    """Enrol an institution's node with a token of the hub, unless an earlier run in this folder did."""
    ring = ring_of(load(place.config, {}))
    if ring.is_enrolled:
        return ring.identity().certificate
    token = await hub.request("nodes.token", {"node": place.name})
    address = HubAddress("127.0.0.1", hub_place.port)
    return await enrol(ring, address, token["fingerprint"], token["token"], SystemClock())
