"""What runs on a data directory, seen from outside: the postmaster, its file, its orphans. Called by ``server`` only.

A process counts as a server of a data directory if its program is ``postgres`` and it was given that directory (the
postmaster) or stands in it (all of its children), so neither a process number that was given away again nor
somebody's shell in that directory is taken for one.
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
    """The process id of the server that runs on ``data``, None if there is none (a stale file counts as none)."""
    pid = _noted(data, 1)
    return int(pid) if pid.isdigit() and is_server_of(int(pid), data) else None


def port_of(data: Path) -> int | None:
    """The TCP port that the running server has noted, if it has come so far."""
    line = _noted(data, 4)
    return int(line) if line.isdigit() else None


def status_of(data: Path) -> str:
    """What the server says of itself: starting, stopping, ready; "" before it says anything."""
    return _noted(data, 8)


def _noted(data: Path, line: int) -> str:
    """One line of postmaster.pid, counted from 1; "" if it is not there (yet)."""
    try:
        return (data / "postmaster.pid").read_text().split("\n")[line - 1].strip()
    except (OSError, IndexError):
        return ""


def is_server_of(pid: int, data: Path) -> bool:
    """Is this a living Postgres process of that data directory?"""
    process = Path("/proc") / str(pid)
    with suppress(OSError):
        # Readable for every user, also where a container keeps root from looking further; empty for a zombie.
        program, *arguments = (process / "cmdline").read_text(errors="replace").split("\0")
        if Path(program).name == "postgres" and str(data) in arguments:
            return True
    with suppress(OSError):
        # The program may have been replaced by an upgrade while it ran: " (deleted)" follows its name then.
        name = (process / "exe").readlink().name.split(" ")[0]
        return name == "postgres" and (process / "cwd").readlink() == data
    return False


def all_servers_of(data: Path) -> list[int]:
    """Every living Postgres process of that data directory that we may look at, orphans included."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if is_server_of(pid, data)]


def clear_remains(data: Path, run: Path, patience_s: float = 2.0) -> None:
    """After a killed postmaster: end its orphans, remove its lock files in ``data`` and ``run``.

    Only for a caller who holds the owner's lock and has seen that no server runs.

    Orphans notice by themselves, but a busy one late, and a new server cannot start while one is attached. The file
    must go because its number may belong to another process by now (in containers it nearly always does), which
    Postgres believes.
    """
    for number in (signal.SIGQUIT, signal.SIGKILL):
        orphans = all_servers_of(data)
        for pid in orphans:
            send(pid, number)
        if wait_gone(orphans, data, patience_s):
            break
    for file in (data / "postmaster.pid", *run.glob(".s.PGSQL.*")):
        file.unlink(missing_ok=True)


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may be gone by now."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_gone(pids: Iterable[int], data: Path, patience_s: float) -> bool:
    """Wait until none of these is a server of that directory any more; False if patience ended first."""
    deadline = time.monotonic() + patience_s
    while any(is_server_of(pid, data) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def free_port(wanted: int | None) -> int:
    """``wanted`` if nobody listens there on the loopback address, else a port that the system chooses."""
    for port in (wanted, 0) if wanted else (0,):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As Postgres itself binds: a port in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
    raise OSError("no free port on the loopback address")
