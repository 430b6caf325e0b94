"""The Postgres processes of a data directory, and what they have recorded in postmaster.pid. Also the choice of a free
TCP port.

A process belongs to a data directory if the program is ``postgres`` and has that directory as an argument (postmaster)
or as working directory (children). So a process of another program is never ended, even if it has the recorded number.
"""

import os
import signal
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

POLL_S = 0.02


def postmaster_of(data: Path) -> int | None:
    """Return the process id of the running server; None if none runs."""
    pid = _recorded_line(data, 1)
    return int(pid) if pid.isdigit() and is_postgres_of(int(pid), data) else None


def port_of(data: Path) -> int | None:
    """Return the TCP port that the server has recorded; None if there is none yet."""
    line = _recorded_line(data, 4)
    return int(line) if line.isdigit() else None


def status_of(data: Path) -> str:
    """Return the status that the server has recorded (starting, stopping, ready); "" if there is none yet."""
    return _recorded_line(data, 8)


def _recorded_line(data: Path, line: int) -> str:
    """Return one line of postmaster.pid, counted from 1; "" if it does not exist."""
    try:
        return (data / "postmaster.pid").read_text().split("\n")[line - 1].strip()
    except (OSError, IndexError):
        return ""


def is_postgres_of(pid: int, data: Path) -> bool:
    """Return whether a process is a running Postgres process of a data directory."""
    process = Path("/proc") / str(pid)
    with suppress(OSError):
        # Every user may read ``cmdline``, which is empty for a zombie.
        program, *arguments = (process / "cmdline").read_text(errors="replace").split("\0")
        if Path(program).name == "postgres" and str(data) in arguments:
            return True
    with suppress(OSError):
        # " (deleted)" follows the name if an upgrade has replaced the program.
        name = (process / "exe").readlink().name.split(" ")[0]
        return name == "postgres" and (process / "cwd").readlink() == data
    return False


def all_processes_of(data: Path) -> list[int]:
    """Return the running Postgres processes of a data directory."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if is_postgres_of(pid, data)]


def clear_remains(data: Path, run: Path, patience_s: float = 2.0) -> None:
    """End the orphans of a killed postmaster, and remove its lock files in ``data`` and ``run``.

    The caller has locked the folder of the server and has checked that no postmaster runs. Busy orphans would delay the
    new server. The file postmaster.pid is removed because another process may have its number now, and Postgres would
    take that process for the earlier postmaster.
    """
    for number in (signal.SIGQUIT, signal.SIGKILL):
        orphans = all_processes_of(data)
        for pid in orphans:
            send_signal(pid, number)
        if wait_gone(orphans, data, patience_s):
            break
    for file in (data / "postmaster.pid", *run.glob(".s.PGSQL.*")):
        file.unlink(missing_ok=True)


def send_signal(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_gone(pids: Iterable[int], data: Path, patience_s: float) -> bool:
    """Wait until none of the processes belongs to the data directory; return False after ``patience_s``."""
    deadline = time.monotonic() + patience_s
    while any(is_postgres_of(pid, data) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def free_port(wanted: int | None) -> int:
    """Return ``wanted`` if this port is free on the loopback address, otherwise another free port. Raises OSError."""
    for port in (wanted, 0) if wanted else (0,):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As Postgres does: a port in TIME_WAIT counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
    raise OSError("no free port on the loopback address")
