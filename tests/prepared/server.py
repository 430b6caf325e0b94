"""The server: it imports the modules of a node once, and forks a node for each request.

``python -P -m tests.prepared.server DESCRIPTOR``: DESCRIPTOR is its listening socket. The server ends when its standard
input is closed.
"""

import os
import pickle
import runpy
import signal
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from select import POLLIN, poll, select
from struct import Struct
from typing import NamedTuple, NoReturn

from semq.imports import lasting_imports

MODULES = ("local_node.node", "platform_node.node", "semq.service.process")
NUMBER = Struct("!i")


class Request(NamedTuple):
    """A node to start. The descriptors of its output and error are sent with the request."""

    words: list[str]  #: module and arguments
    folder: str
    variables: dict[str, str]
    before_program: Callable[[], None] | None  #: called in the new process


def receive_number(connection: socket.socket) -> int:
    """Receive a number; if the connection is closed, -SIGKILL."""
    received = connection.recv(NUMBER.size, socket.MSG_WAITALL)
    return int(NUMBER.unpack(received)[0]) if len(received) == NUMBER.size else -signal.SIGKILL


def serve(listening: socket.socket) -> tuple[Request, list[int]]:
    """Fork a keeper for each connection, which forks the node and reports its end (``keep``).

    Returns only in the process that becomes the node: its request, and the descriptors of its output and error.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no keeper becomes a zombie
    while sys.stdin not in select([listening, sys.stdin], [], [])[0]:
        connection, _ = listening.accept()
        with lasting_imports():
            for module in MODULES:
                import_module(module)
        if os.fork() == 0:
            listening.close()
            return become_node(connection)
        connection.close()
    sys.exit()


def become_node(connection: socket.socket) -> tuple[Request, list[int]]:
    """Receive a request and fork the node. Returns only in the forked node: what ``serve`` returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, descriptors, _, _ = socket.recv_fds(connection, NUMBER.size, 2)
    request: Request = pickle.loads(connection.recv(NUMBER.unpack(size)[0], socket.MSG_WAITALL))
    pid = os.fork()
    if pid:
        for descriptor in descriptors:
            os.close(descriptor)
        keep(connection, pid)
    connection.close()
    return request, descriptors


def keep(connection: socket.socket, pid: int) -> NoReturn:
    """Send the node's process id and, at its end, its status; end when the caller has closed the connection."""
    try:
        connection.sendall(NUMBER.pack(pid))
        waiting = poll()
        waiting.register(connection, POLLIN)
        handle = os.pidfd_open(pid)
        waiting.register(handle, POLLIN)
        if any(descriptor == handle for descriptor, _ in waiting.poll()):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert ended is not None
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            connection.sendall(NUMBER.pack(status))
            connection.recv(1)
            os.waitpid(pid, 0)
    finally:
        os._exit(0)


def run(request: Request, descriptors: list[int]) -> None:
    """Run the module of a request in this process."""
    os.setsid()
    output, errors = descriptors
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, output, errors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # New objects, because the server's objects may have been made for a file, and would seek in a pipe.
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # type: ignore[misc]
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.variables)
    if request.before_program is not None:
        request.before_program()
    sys.argv = request.words
    runpy.run_module(request.words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run(*serve(socket.socket(fileno=int(sys.argv[1]))))
