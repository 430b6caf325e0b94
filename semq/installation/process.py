"""One node as a process: start, wait, end."""

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from signal import SIGTERM, Signals

from semq.config.institutions import database_url
from semq.installation.configuration import NodePlace
from semq.installation.errors import NodeNotStarted
from semq.store.embedded.server import EmbeddedPostgres

# Kind of node | module that runs it
MODULES = {"platform": "platform_node", "local": "local_node", "virtual": "local_node.virtual"}
STOP_S = 90.0  # time for an orderly end; then the process is killed
POLL_S = 0.1


async def wait_for_exit(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process; return the exit status, negative for a signal."""
    if process.poll() is None:
        has_ended, loop = asyncio.Event(), asyncio.get_running_loop()
        handle = os.pidfd_open(process.pid)
        loop.add_reader(handle, has_ended.set)
        try:
            await has_ended.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)
    return process.wait()


class NodeProcess:
    """A node as a process."""

    before_program: Callable[[], None] | None = None  #: called in the new process before the program starts
    popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen  #: starts the process; tests replace it

    def __init__(self, place: NodePlace, python: str = sys.executable) -> None:
        self.place = place
        self._python = python
        self.port = place.port  #: AMQP port; a configured 0 stays until the node serves
        self.postgres = EmbeddedPostgres(place.data_dir)  #: started by the node
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def pid(self) -> int | None:
        """The process id; None if no process runs."""
        process = self.process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def url(self) -> str:
        return self.place.url_at(self.port)

    @property
    def database(self) -> str:
        """The URL of the embedded database; valid while the database runs."""
        url = EmbeddedPostgres(self.place.data_dir).url
        return database_url(url, self.place.institution) if self.place.institution is not None else url

    def start(self) -> None:
        """Start the process and block the thread until the node serves. Raises NodeNotStarted."""
        self.launch()
        self.ensure_ready()

    def program(self) -> list[str]:
        return ["-m", MODULES[self.place.kind]]

    def launch(self, **variables: str) -> None:
        """Start the process. ``variables``: further environment variables.

        Variables SEMQ_… of this process are not passed on: the node would read them as settings.
        """
        self.forget()
        environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("SEMQ_")}
        with self.place.log.open("ab") as log:
            self.process = self.popen(
                [self._python, "-P", *self.program(), "--config", str(self.place.config)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd=self.place.folder,
                env=environment | variables, start_new_session=True, preexec_fn=self.before_program,
            )  # fmt: skip

    def block_until_ready(self) -> bool:
        """Block the thread until the node serves; return False if it ends instead."""
        process = self.process
        assert process is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        if line.startswith(b"ready "):
            self.port = int(line.rpartition(b":")[2])
            return True
        process.wait()
        return False

    def ensure_ready(self) -> None:
        """Block the thread until the node serves. Raises NodeNotStarted if it ends instead."""
        if not self.block_until_ready():
            raise NodeNotStarted(node=self.name, log=self.log_tail())

    def console(self) -> str:
        """Return the address of the console, which a node with [http] prints; empty if the node ends."""
        process = self.process
        assert process is not None
        assert process.stdout is not None
        lines = (line.split() for line in process.stdout)
        return next((words[1].decode() for words in lines if words[:1] == [b"console"]), "")

    async def wait_ready(self) -> bool:
        """Wait until the node serves; return False if it ends instead.

        After a cancelled wait, the caller must end the process: a thread still waits for it.
        """
        return await asyncio.to_thread(self.block_until_ready)

    async def wait_ended(self) -> int:
        """Wait for the end of the process; return the exit status, negative for a signal."""
        assert self.process is not None
        return await wait_for_exit(self.process)

    def signal(self, number: Signals) -> None:
        if self.pid is not None and self.process is not None:
            self.process.send_signal(number)

    def end(self, number: Signals = SIGTERM) -> None:
        """Send a signal and block the thread until the process ends; kill it after STOP_S."""
        if (process := self.process) is None:
            return
        self.signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.forget()

    def forget(self) -> None:
        """Close the pipe of the ended process, and set ``process`` to None."""
        process, self.process = self.process, None
        if process is not None and process.stdout is not None:
            process.stdout.close()

    def end_with_database(self) -> None:
        """End the node, then the database server, which survives a killed node."""
        self.end()
        if self.place.data_dir.exists():
            self.postgres.stop()

    def lock_holder(self) -> int | None:
        """Return the id of the process that has the lock of the data directory, or None."""
        with suppress(OSError, ValueError), (self.place.data_dir / "postgres" / "lock").open("r+") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(stream.read())
        return None

    def log_tail(self, lines: int = 6) -> str:
        """Return the last lines of the log; empty if it cannot be read."""
        with suppress(OSError):
            return "\n".join(self.place.log.read_text("utf-8", "replace").splitlines()[-lines:])
        return ""
