"""Start nodes by the server of prepared nodes (`server`), and wait for their ends."""

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from select import POLLIN, poll
from signal import SIGKILL, Signals
from tempfile import TemporaryDirectory
from threading import Lock
from typing import IO

from tests.prepared.server import NUMBER, Request, receive_number

SOCKET = "PREPARED_NODES"  # environment variable: path of the server's socket
RUN_MODULE = [sys.executable, "-P", "-m"]
STOP_S = 10.0


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module as a program whose nodes the server starts."""
    return [sys.executable, "-P", str(Path(__file__).with_name("program.py")), module, *arguments]


def start_prepared(module: str, *arguments: str) -> "PreparedProcess":
    """Start a module; it inherits the folder, environment and standard error of this process."""
    with os.fdopen(os.dup(2), "wb") as errors:
        return PreparedProcess(
            [*RUN_MODULE, module, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            cwd=Path.cwd(), env=os.environ, start_new_session=True, preexec_fn=None,
        )  # fmt: skip


def start_server(stack: ExitStack) -> None:
    """Start the server, and set the environment variable SOCKET. ``stack`` ends the server."""
    # Not below TMPDIR: a path of a socket has at most 107 bytes.
    path = f"{stack.enter_context(TemporaryDirectory(prefix='semq-nodes-', dir='/tmp'))}/socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(socket.SOMAXCONN)
        server = subprocess.Popen(
            [*RUN_MODULE, "tests.prepared.server", str(listening.fileno())],
            stdin=subprocess.PIPE, cwd=Path(__file__).parents[2], pass_fds=[listening.fileno()], start_new_session=True,
        )  # fmt: skip
    os.environ[SOCKET] = path
    stack.callback(server.communicate, timeout=STOP_S)  # closes the standard input of the server, which ends the server


class PreparedProcess:
    """A node that the server starts, with the members of ``subprocess.Popen`` that ``NodeProcess`` needs."""

    def __init__(
        self, command: Sequence[str], *, stdin: int, stdout: int, stderr: IO[bytes], cwd: Path,
        env: Mapping[str, str], start_new_session: bool, preexec_fn: Callable[[], None] | None,
    ) -> None:  # fmt: skip
        """Start the node. Raises OSError if the server does not answer."""
        assert (stdin, stdout, start_new_session) == (subprocess.DEVNULL, subprocess.PIPE, True)
        assert command[: len(RUN_MODULE)] == RUN_MODULE
        request = pickle.dumps(Request(list(command[len(RUN_MODULE) :]), str(cwd), dict(env), preexec_fn))
        self.returncode: int | None = None
        self._lock = Lock()
        self._keeper = socket.socket(socket.AF_UNIX)
        read_end, write_end = os.pipe()
        self.stdout = os.fdopen(read_end, "rb")
        try:
            self._keeper.connect(os.environ[SOCKET])
            socket.send_fds(self._keeper, [NUMBER.pack(len(request))], [write_end, stderr.fileno()])
            self._keeper.sendall(request)
            self.pid = receive_number(self._keeper)
            if self.pid < 0:
                raise ConnectionResetError("the server of prepared processes has ended")
        except OSError:
            self.stdout.close()
            self._keeper.close()
            raise
        finally:
            os.close(write_end)

    def poll(self) -> int | None:
        """Return the exit status, or the negative number of a signal; None while the node runs."""
        with self._lock:
            if self.returncode is None and _is_readable(self._keeper.fileno(), 0):
                self._receive()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the node, and return its status. Raises subprocess.TimeoutExpired."""
        if self.returncode is not None:
            return self.returncode
        with suppress(ProcessLookupError):  # another thread has the status
            handle = os.pidfd_open(self.pid)
            try:
                if not _is_readable(handle, timeout):
                    raise subprocess.TimeoutExpired("node", timeout or 0)
            finally:
                os.close(handle)
        with self._lock:
            return self._receive()

    def send_signal(self, number: Signals) -> None:
        """Send a signal to the node if it runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(SIGKILL)

    def _receive(self) -> int:
        if self.returncode is None:
            with self._keeper:
                self.returncode = receive_number(self._keeper)
        return self.returncode


def _is_readable(descriptor: int, timeout_s: float | None) -> bool:
    waiting = poll()
    waiting.register(descriptor, POLLIN)
    return bool(waiting.poll(None if timeout_s is None else timeout_s * 1000))
