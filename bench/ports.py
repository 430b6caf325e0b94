"""Ports on this machine: find a free one, and wait until a server listens on one."""

import socket
import time
from collections.abc import Callable

from semq.amqp.spec import PROTOCOL_HEADER
from semq.installation.configuration import free_ports


def free_port() -> int:
    """Return a free port outside the range of outgoing connections."""
    return free_ports(1)[0]


def wait_for_server(port: int, patience_s: float, is_running: Callable[[], bool], *, amqp: bool = True) -> bool:
    """Wait until an AMQP server greets on this port; without ``amqp``, until any server accepts connections.

    Return False after ``patience_s``, or when ``is_running`` returns False.
    """
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and is_running():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
                if not amqp:
                    return True
                client.sendall(PROTOCOL_HEADER)
                if client.recv(1) == b"\x01":
                    return True
        except OSError:
            pass
        time.sleep(0.2)
    return False
