"""``./run bench``: sustained documents per second and latency on real processes, compared with the floor of Postgres.

The floor is the rate at which Postgres alone makes the row changes of the documents. Rates are sustainable: the
measured time ends when the queues of all nodes are empty. Before the rates, the latencies of documents and of the disk
are measured at the same time. Options add work:

    --large [N]     N documents of 1 MiB beside small ones: rate of the large ones, latency of the small ones, memory
    --backlog N     N documents wait for an offline institution during all other phases
    --partners N    A sends to N institutions in turn, each with its own node

    ./run bench against | broker | cluster | datagrams | everyday | http | large | peers | reconcile | secrecy |
                sessions
                    other benchmarks, each with --help

Exit status: 0 with figures; 1 without figures, because documents were lost, repeated or damaged, a node died, or there
was no progress; 2 for wrong arguments; 130 when interrupted. bench/README.md explains the figures.
"""

import argparse
import asyncio
import importlib
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from bench import backlog, cli, disk, large_documents, phases
from bench.cli import Result, say, show
from bench.floor import floor, rows
from bench.floor.floor import Observed
from bench.interpreter import is_optimized
from bench.network import BenchNetwork

# Other benchmarks: name | module with ``main(argv)``, which returns the exit status.
OTHERS = {
    "against": "bench.versions.against",
    "broker": "bench.rabbitmq.broker",
    "cluster": "bench.cluster",
    "datagrams": "bench.datagrams",
    "everyday": "bench.versions.everyday",
    "http": "bench.http.pages",
    "large": "bench.large",
    "peers": "bench.rabbitmq.peers",
    "reconcile": "bench.reconciliation.nightly_job",
    "secrecy": "bench.secrecy",
    "sessions": "bench.sessions",
}
WARM_UP = 500  # documents
LATENCY_S = 10  # duration of the latency phase
FLOOR_MAX = 20_000  # documents
SUMMARY = """
{messages} documents of {size} bytes from A to {partners} partner(s) through a hub; {cores} cores, load {load_1m}
  online   {online_per_s:>6}/s from submit at A until all nodes are clean; {online_ack2_per_s}/s until SS_ACK2
           {ratio_online:>6} of the floor, {floor_per_s}/s \
({ratio_online_now} of {floor_now_per_s}/s, the floor with the row changes of this run)
  stored   {stored_per_s:>6}/s likewise, through the hub's store
           {ratio_stored:>6} of its floor, {floor_stored_per_s}/s
  cpu      {cpu_us:>6} µs a document in the nodes and their Postgres, online
  latency  {p50_ms:>6} ms p50, {p99_ms} ms p99 at {rate:g}/s
  disk     {fdatasync_p50_us:>6} µs fdatasync p50 in the same seconds, {fdatasync_p99_us} p99, \
{fdatasync_max_us} max; {fsyncs_at_rate} fsyncs a document
  memory   {rss_mib:>6} MiB in the processes of the nodes at the end; {rows_left} rows left
"""


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status."""
    if argv and argv[0] in OTHERS:
        status: int = importlib.import_module(OTHERS[argv[0]]).main(argv[1:])
        return status
    parser = cli.parser_of("", __doc__)
    parser.add_argument("--messages", type=cli.count, default=60_000, metavar="N", help="documents in a phase (60000)")
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    parser.add_argument(
        "--rate",
        type=cli.positive,
        default=100.0,
        metavar="PER_S",
        help="documents a second in the latency phase (100)",
    )
    parser.add_argument("--partners", type=cli.count, default=1, metavar="N", help="institutions that receive (1)")
    parser.add_argument(
        "--backlog", type=cli.count, default=0, metavar="N", help="documents that wait for an offline institution (0)"
    )
    parser.add_argument(
        "--idle", type=cli.positive, default=backlog.IDLE_S, metavar="S",
        help=f"seconds at rest with the documents of --backlog ({backlog.IDLE_S:g})",
    )  # fmt: skip
    parser.add_argument(
        "--large", type=cli.count, nargs="?", const=large_documents.DOCUMENTS, default=0, metavar="N",
        help=f"measure N documents of 1 MiB too ({large_documents.DOCUMENTS} if N is left out)",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, lambda figures: SUMMARY.format(**figures))


async def run(folder: Path, arguments: argparse.Namespace) -> Result:
    """Run all phases and return the figures."""
    load = cli.load_average()
    show("machine", machine())
    say(f"starting a hub, A and {arguments.partners} partner(s) ...")
    async with BenchNetwork(folder, partners=arguments.partners) as network:
        say("processes: " + ", ".join(f"{name} {node.pid}" for name, node in network.nodes.items()))
        figures = await network.watched(measure(folder, phases.Bench(network, arguments.size), arguments))
    options = {name: getattr(arguments, name) for name in ("messages", "size", "rate", "partners", "backlog")}
    return {**options, "cores": len(os.sched_getaffinity(0)), "load_1m": load, **figures}


async def measure(folder: Path, bench: phases.Bench, arguments: argparse.Namespace) -> Result:
    """Run the phases on a running network; return their figures."""
    messages = arguments.messages
    await phases.online(bench, min(WARM_UP, messages))
    if arguments.backlog:
        say(f"backlog: {arguments.backlog} documents for an institution that is never online ...")
        show("backlog", await backlog.measure(bench, arguments.backlog, arguments.idle))
    figures = await latency(folder, bench, arguments.rate, messages)
    if arguments.large:
        say("large: documents of 1 MiB beside small ones ...")
        result = await large_documents.measure(bench, arguments.rate, arguments.large, messages)
        show("large", result)
        figures |= {f"large_{name}": result[name] for name in ("per_s", "p99_ms", "rss_mib_max")}
    work: dict[str, Mapping[str, Observed]] = {}  # by phase and node
    for name, phase in (("online", phases.online), ("stored", phases.stored)):
        say(f"{name}: {messages} documents ...")
        result, work[name] = await phases.run_observed(bench, phase, messages)
        show(name, result)
        figures |= _figures(name, result)
    figures["rows_left"] = await rows.queued(bench.databases, phases.ABSENT_NODE)
    for name, observed in work.items():
        say(f"the floor of {name} ...")
        floor_rates = await asyncio.to_thread(floor.measure, name, observed, min(messages, FLOOR_MAX), bench.size)
        show(f"floor of {name}", floor_rates)
        figures |= _ratios(name, figures[f"{name}_per_s"], floor_rates)
    return figures | bench.faults


async def latency(folder: Path, bench: phases.Bench, rate: float, messages: int) -> Result:
    """Measure the latency of single documents, and of the disk at the same time."""
    count = max(int(min(LATENCY_S * rate, messages)), 2)
    say(f"latency: {count} documents at {rate:g} a second ...")
    async with disk.probed(folder) as probe:
        result, _ = await phases.run_observed(bench, lambda bench, count: phases.latency(bench, count, rate), count)
    show("latency", {**result, "fdatasync": probe})
    disk_figures = {f"fdatasync_{name}": value for name, value in probe.items() if name != "samples"}
    fsyncs = round(sum(result["fsyncs_per_message"].values()), 2)
    return {"p50_ms": result["p50_ms"], "p99_ms": result["p99_ms"], "fsyncs_at_rate": fsyncs, **disk_figures}


def machine() -> Result:
    """Return the description of the machine."""
    return {
        "python": platform.python_version(), "optimized": is_optimized(), "cores": len(os.sched_getaffinity(0)),
        "load_1m": cli.load_average(), "kernel": platform.release(),
    }  # fmt: skip


def _figures(name: str, result: Result) -> Result:
    figures = {f"{name}_per_s": result["per_s"], "rss_mib": round(sum(result["rss_mib"].values()), 1)}
    if name == "online":
        figures |= {"online_ack2_per_s": result["ack2_per_s"], "cpu_us": result["cpu_us"]}
    return figures


def _ratios(name: str, per_s: int, floor_rates: Result) -> Result:
    prefix = "floor" if name == "online" else f"floor_{name}"
    return {
        f"{prefix}_per_s": floor_rates["per_s"],
        f"{prefix}_best_per_s": floor_rates["best_per_s"],
        f"{prefix}_now_per_s": floor_rates["now_per_s"],
        f"ratio_{name}": round(per_s / floor_rates["per_s"], 3),
        f"ratio_{name}_now": round(per_s / floor_rates["now_per_s"], 3),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
