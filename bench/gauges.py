"""Processor time and memory of the processes of a network, as the kernel counts them in ``/proc``.

Processor time has two rows for a node: its own process (``a``), and its Postgres processes (``a postgres``), including
backends that have ended. The row ``load`` is this process, in which the applications run.
"""

import os
import time
from pathlib import Path

from bench.network import BenchNetwork
from semq.store.embedded.process import postmaster_of
from semq.store.embedded.server import EmbeddedPostgres

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LOAD = "load"  # row of this process
# Indexes of fields of /proc/PID/stat after the name of the program: parent process, session, ticks of processor time.
PARENT, SESSION = 1, 3
OWN_TICKS = slice(11, 13)
TICKS_WITH_CHILDREN = slice(11, 15)  # including children that have ended


class ProcessorMeter:
    """A meter of processor time by row, and of elapsed time. It may be stopped and started again."""

    def __init__(self, network: BenchNetwork) -> None:
        self.used: dict[str, float] = {}  #: seconds of processor time by row
        self.seconds = 0.0  #: elapsed time
        self._network = network
        self._before: dict[str, float] = {}
        self._since = 0.0

    def start(self) -> None:
        """Begin or continue counting."""
        self._before = processor_s(self._network)
        self._since = time.perf_counter()

    def stop(self) -> None:
        """Pause; nodes may be stopped and started until ``start``."""
        self.seconds += time.perf_counter() - self._since
        for name, used in processor_s(self._network).items():
            self.used[name] = self.used.get(name, 0.0) + used - self._before.get(name, 0.0)

    def cpu_us(self, messages: int) -> dict[str, float]:
        """Return microseconds of processor time for each document, by row."""
        return {name: round(used / messages * 1e6, 1) for name, used in self.used.items()}


def sum_of_nodes(cpu_us: dict[str, float]) -> float:
    """Return the sum over the nodes and their Postgres, without the applications."""
    return round(sum(used for name, used in cpu_us.items() if name != LOAD), 1)


def processor_s(network: BenchNetwork) -> dict[str, float]:
    """Return seconds of processor time so far, by row."""
    present = stats()
    used = {LOAD: time.process_time()}
    for name, node in network.nodes.items():
        if node.pid:
            used[name] = _seconds(present[node.pid], OWN_TICKS)
            used[f"{name} postgres"] = _postgres_s(present, postmaster_of(EmbeddedPostgres(node.place.data_dir).data))
    return used


def session_s(session: int) -> float:
    """Return the processor time, in seconds, of the running processes of an operating-system session (``setsid``)."""
    return sum(_seconds(fields, OWN_TICKS) for fields in stats().values() if fields[SESSION] == session)


def process_s(pid: int) -> float:
    """Return the processor time, in seconds, of one process."""
    return _seconds(stats_of(pid), OWN_TICKS)


def _postgres_s(stats: dict[int, list[int]], postmaster: int | None) -> float:
    if postmaster is None or postmaster not in stats:
        return 0.0
    children = [fields for fields in stats.values() if fields[PARENT] == postmaster]
    return _seconds(stats[postmaster], TICKS_WITH_CHILDREN) + sum(_seconds(fields, OWN_TICKS) for fields in children)


def _seconds(fields: list[int], ticks: slice) -> float:
    return sum(fields[ticks]) / TICKS_PER_S


def stats() -> dict[int, list[int]]:
    """Return ``stats_of`` of all processes, by process id."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = stats_of(int(folder.name))
            except OSError:
                continue  # the process has ended
    return found


def stats_of(pid: int) -> list[int]:
    """Return the fields of ``/proc/PID/stat`` after the program's name; 0 for the state, a letter. Raises OSError."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [0, *map(int, fields[1:])]


def rss_mib(network: BenchNetwork, *, applications: bool = False) -> dict[str, float]:
    """Return the resident memory of each node in MiB, without Postgres; with ``applications``, also of this process."""
    processes = {name: node.pid for name, node in network.nodes.items() if node.pid}
    if applications:
        processes["applications"] = os.getpid()
    return {
        name: round(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / 2**20, 1)
        for name, pid in processes.items()
    }
