"""``./run bench everyday``: what a document costs each process when documents come one by one, by activity.

Documents go from A to B at a fixed rate. Each row is a process: a node, or all processes of its Postgres. Figures are
per document:

| column       | meaning                                                                                           |
|--------------|---------------------------------------------------------------------------------------------------|
| user, system | microseconds of processor time                                                                    |
| wake-ups     | how often the process slept and was woken (voluntary context switches of all threads)             |
| preempted    | how often another process took its processor (involuntary context switches)                       |
| needed       | wake-ups that the protocol needs. A: publish, commit, receipt, commit; hub: document, receipt;    |
|              | B: document, commit                                                                               |
| units        | transactions of the node's writer that changed something; the protocol needs 2 at A and 1 at B    |
| read         | transactions that changed nothing                                                                 |

With ``--calls``, strace then counts the system calls of the nodes, which makes them slower: ``epoll_pwait`` are turns
of the event loop, ``sendto`` and ``recvfrom`` round trips to Postgres, ``writev`` or ``write`` and ``read`` AMQP.
"""

import argparse
import asyncio
import re
import shutil
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import cli, gauges, phases
from bench.cli import Result, say
from bench.errors import NoFigures
from bench.network import A, B, BenchNetwork
from semq.installation.configuration import HUB
from semq.store.embedded.process import postmaster_of
from semq.store.embedded.server import EmbeddedPostgres

WARM_UP = 500  # documents
NEEDED = {A: 4, HUB: 2, B: 2}  # wake-ups of the protocol
TICK_US = 1_000_000 / gauges.TICKS_PER_S
SWITCHES = re.compile(r"^(voluntary|nonvoluntary)_ctxt_switches:\s+(\d+)", re.MULTILINE)
CALL = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)  # a row of strace -c
COLUMNS = ("user", "system", "wake-ups", "preempted", "needed", "units", "read")


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = cli.parser_of("everyday", __doc__)
    parser.add_argument("--rate", type=cli.positive, default=100.0, metavar="PER_S", help="documents a second (100)")
    parser.add_argument("--seconds", type=cli.positive, default=8.0, metavar="S", help="seconds of documents (8)")
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    parser.add_argument("--calls", action="store_true", help="count system calls, too (needs strace)")
    arguments = parser.parse_args(argv)
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, summary)


async def run(folder: Path, arguments: argparse.Namespace) -> Result:
    """Return the figures of all processes."""
    if arguments.calls and shutil.which("strace") is None:
        raise NoFigures("strace is not installed (Debian: apt-get install strace)")
    count = max(int(arguments.rate * arguments.seconds), 2)
    async with BenchNetwork(folder) as network:
        bench = phases.Bench(network, arguments.size)
        await phases.online(bench, WARM_UP)
        say(f"{count} documents at {arguments.rate:g} a second ...")
        before = await _reading(network)
        result = await network.watched(phases.latency(bench, count, arguments.rate))
        after = await _reading(network)
        costs = {name: _each(after[name] - before[name], count) for name in after}
        for name, needed in NEEDED.items():
            costs[name]["needed"] = needed
        found = {"rate": arguments.rate, "messages": count, "p50_ms": result["p50_ms"], "processes": costs}
        if arguments.calls:
            say("the same again with strace ...")
            found["calls"] = await network.watched(_calls(bench, folder, count, arguments.rate))
    return found


async def _reading(network: BenchNetwork) -> dict[str, "Counter[str]"]:
    """Return what each process has used so far."""
    parents: dict[int, list[int]] = {}
    for pid, fields in gauges.stats().items():
        parents.setdefault(fields[gauges.PARENT], []).append(pid)
    found: dict[str, Counter[str]] = {}
    for name, node in network.nodes.items():
        assert node.pid is not None
        store = (await network.status(name))["store"]
        found[name] = _used([node.pid])
        found[name].update({"units": store["units"] - store["read_only"], "read": store["read_only"]})
        postmaster = postmaster_of(EmbeddedPostgres(node.place.data_dir).data)
        assert postmaster is not None
        found[f"{name} postgres"] = _used([postmaster, *parents.get(postmaster, ())])
    return found


def _used(pids: list[int]) -> "Counter[str]":
    used: Counter[str] = Counter()
    for pid in pids:
        try:
            user, system = gauges.stats_of(pid)[gauges.OWN_TICKS]
            statuses = [(task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
        except OSError:
            continue  # the process has ended
        used.update({"user": round(user * TICK_US), "system": round(system * TICK_US)})
        for kind, switches in SWITCHES.findall("\n".join(statuses)):
            used["wake-ups" if kind == "voluntary" else "preempted"] += int(switches)
    return used


def _each(used: Mapping[str, int], count: int) -> dict[str, float]:
    return {name: round(value / count, 2) for name, value in used.items()}


async def _calls(bench: phases.Bench, folder: Path, count: int, rate: float) -> dict[str, dict[str, float]]:
    """Return system calls of each node for a document."""
    tracers = {}
    for name, node in bench.network.nodes.items():
        command = ["strace", "-f", "-c", "-o", str(folder / f"calls-{name}"), "-p", str(node.pid)]
        tracers[name] = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    try:
        await phases.latency(bench, count, rate)
    finally:
        for tracer in tracers.values():
            tracer.send_signal(signal.SIGINT)
            await tracer.wait()
    found: dict[str, dict[str, float]] = {}
    for name in tracers:
        calls = {call: int(number) for number, call in CALL.findall((folder / f"calls-{name}").read_text())}
        found[name] = {call: each for call, each in _each(calls, count).items() if call != "total" and each >= 0.05}
    return found


def summary(found: Mapping[str, Any]) -> str:
    """Return the figures as a table, system calls below it."""
    lines = [f"{found['messages']} documents at {found['rate']:g} a second, p50 {found['p50_ms']} ms; for a document"]
    lines.append(f"{'':<14}" + "".join(f"{name:>11}" for name in COLUMNS))
    for name, costs in found["processes"].items():
        lines.append(f"{name:<14}" + "".join(f"{costs.get(column, ''):>11}" for column in COLUMNS))
    for name, calls in found.get("calls", {}).items():
        lines.append(f"{name}: " + ", ".join(f"{call} {each:g}" for call, each in calls.items()))
    return "\n".join(lines)
