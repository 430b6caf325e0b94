"""Processor time and memory of the processes of a network, as the kernel counts them in ``/proc``.

A node is two rows: its own process (``a``) and the Postgres processes that it has started (``a postgres``), backends
that have ended included. ``load`` is this process, in which the applications run. Used by ``phases``.
"""

import os
import time
from pathlib import Path

from bench.network import BenchNetwork
from semq.store.embedded.process import postmaster_of
from semq.store.embedded.server import EmbeddedPostgres

TICKS_S = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
LOAD = "load"
PARENT, SESSION, OWN, OF_CHILDREN = (
    1,
    3,
    slice(11, 13),
    slice(11, 15),
)  # fields of /proc/PID/stat after the name of the program


class ProcessorMeter:
    """Processor time by row, and time on the clock, while it runs. It may be stopped and started again."""

    def __init__(self, network: BenchNetwork) -> None:
        self.used: dict[str, float] = {}
        self.seconds = 0.0
        self._network = network
        self._before: dict[str, float] = {}
        self._since = 0.0

    def start(self) -> None:
        """Count from now on."""
        self._before = processor_s(self._network)
        self._since = time.perf_counter()

    def stop(self) -> None:
        """Pause counting; nodes may be stopped and started until it continues."""
        self.seconds += time.perf_counter() - self._since
        for name, used in processor_s(self._network).items():
            self.used[name] = self.used.get(name, 0.0) + used - self._before.get(name, 0.0)

    def cpu_us(self, messages: int) -> dict[str, float]:
        """Microseconds of processor time for each document, by row."""
        return {name: round(used / messages * 1e6, 1) for name, used in self.used.items()}


def of_the_path(cpu_us: dict[str, float]) -> float:
    """Return the sum over the nodes and their Postgres, without the applications."""
    return round(sum(used for name, used in cpu_us.items() if name != LOAD), 1)


def processor_s(network: BenchNetwork) -> dict[str, float]:
    """Return seconds of processor time so far, by row."""
    stats = _stats()
    used = {LOAD: time.process_time()}
    for name, node in network.nodes.items():
        if node.pid:
            used[name] = _seconds(stats[node.pid], OWN)
            used[f"{name} postgres"] = _postgres_s(stats, postmaster_of(EmbeddedPostgres(node.place.data_dir).data))
    return used


def session_s(session: int) -> float:
    """Return seconds of processor time of all present processes of a session."""
    return sum(_seconds(fields, OWN) for fields in _stats().values() if fields[SESSION] == session)


def _postgres_s(stats: dict[int, list[int]], postmaster: int | None) -> float:
    if postmaster is None or postmaster not in stats:
        return 0.0
    children = [fields for fields in stats.values() if fields[PARENT] == postmaster]
    return _seconds(stats[postmaster], OF_CHILDREN) + sum(_seconds(fields, OWN) for fields in children)


def _seconds(fields: list[int], which: slice) -> float:
    return sum(fields[which]) / TICKS_S


def _stats() -> dict[int, list[int]]:
    """Return the numbers of ``/proc/PID/stat``, beginning with the parent, of every process."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            found[int(folder.name)] = [0, *map(int, fields[1:])]
    return found


def rss_mib(network: BenchNetwork, *, applications: bool = False) -> dict[str, float]:
    """Return the resident memory of each node's process, without Postgres; with ``applications``, of this one too."""
    processes = {name: node.pid for name, node in network.nodes.items() if node.pid}
    if applications:
        processes["applications"] = os.getpid()
    return {
        name: round(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20, 1)
        for name, pid in processes.items()
    }
