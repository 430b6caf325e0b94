"""``./run bench``: documents per second and latency on real processes, beside the floor that Postgres itself sets.

    ./run bench [--json] [--messages N] [--size BYTES] [--rate PER_S] [--keep]
    ./run bench NAME ...        another measurement, from the table below

Prints one JSON object a phase on standard output, progress on standard error, and at the end a summary for people or,
with ``--json``, one object with the figures. The exit status is 0 only if no document was lost, repeated or damaged.
"""

import argparse
import asyncio
import importlib
import json
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvloop

from bench import disk, floor, phases
from bench.network import Network

# name | module with ``main(argv) -> exit status``: measurements of their own
OTHERS = {"broker": "bench.broker", "reconcile": "bench.reconcile", "secrecy": "bench.secrecy"}
WARM_UP = 500
LATENCY_S = 10
SUMMARY = """
{messages} documents of {size} octets; a hub and two institutions on this machine, {cores} cores
  online   {online_per_s:>6}/s from submit at A to SS_ACK2 at A: {ratio_online:.2f} of the floor, {floor_per_s}/s
  stored   {stored_per_s:>6}/s the same through the hub's store: {ratio_stored:.2f} of its floor, {floor_stored_per_s}/s
  latency  {p50_ms:>6} ms p50, {p99_ms} ms p99, at {rate:g} documents a second
  disk     {fdatasync_p50_us:>6} µs p50 until a page is durable
"""


def main(argv: list[str]) -> int:
    """Run what the arguments ask for; the exit status."""
    if argv and argv[0] in OTHERS:
        other: int = importlib.import_module(OTHERS[argv[0]]).main(argv[1:])
        return other
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="./run bench", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--json", action="store_true", help="end with one JSON object instead of a summary")
    parser.add_argument("--messages", type=_count, default=20_000, metavar="N", help="documents in a phase (20000)")
    parser.add_argument("--size", type=_size, default=1024, metavar="BYTES", help="octets in a document (1024)")
    parser.add_argument("--rate", type=float, default=100.0, metavar="PER_S", help="of the latency phase (100)")
    parser.add_argument("--keep", action="store_true", help="keep the folder with configurations, logs and databases")
    arguments = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="semq-bench-"))
    try:
        found = uvloop.run(run(folder, arguments.messages, arguments.size, arguments.rate))
    finally:
        if arguments.keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found) if arguments.json else SUMMARY.format(**found), flush=True)
    return 0 if not any(found[fault] for fault in ("repeated", "damaged", "missing")) else 1


async def run(folder: Path, messages: int, size: int, rate: float) -> dict[str, Any]:
    """All phases, one after the other; the figures."""
    probe = await asyncio.to_thread(disk.probe, folder)
    show("machine", {"python": platform.python_version(), "fdatasync": probe})
    say("starting a hub and two institutions ...")
    async with Network(folder) as network:
        say("processes: " + ", ".join(f"{name} {node.pid}" for name, node in network.nodes.items()))
        bench = phases.Bench(network, size)
        await phases.online(bench, min(WARM_UP, messages))
        found: dict[str, Any] = {"messages": messages, "size": size, "rate": rate}
        for name, phase in (("online", phases.online), ("stored", phases.stored)):
            say(f"{name}: {messages} documents ...")
            result, observed = await phases.observed(bench, phase, messages)
            show(name, result)
            say(f"the floor of {name} ...")
            base = await asyncio.to_thread(floor.measure, observed, messages, messages, size)
            show(f"floor of {name}", base)
            found |= _figures(name, result, base)
        count = max(int(min(LATENCY_S * rate, messages)), 2)
        say(f"latency: {count} documents at {rate:g} a second ...")
        result = await phases.latency(bench, count, rate)
        show("latency", result)
    cores = len(__import__("os").sched_getaffinity(0))
    facts = {
        "p50_ms": result["p50_ms"],
        "p99_ms": result["p99_ms"],
        "fdatasync_p50_us": probe["p50_us"],
        "cores": cores,
    }
    return found | facts | bench.account


def _figures(name: str, result: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """What one phase adds to the last object."""
    of_floor = "floor" if name == "online" else f"floor_{name}"
    return {
        f"{name}_per_s": result["per_s"],
        f"{of_floor}_per_s": base["per_s"],
        f"{of_floor}_best_per_s": base["best_per_s"],
        f"ratio_{name}": round(result["per_s"] / base["per_s"], 3),
    }


def show(phase: str, facts: dict[str, Any]) -> None:
    """One JSON line on standard output."""
    print(json.dumps({"phase": phase, **facts}), flush=True)


def say(text: str) -> None:
    """Progress, for whoever waits."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _size(text: str) -> int:
    number = int(text)
    if number < 8:
        raise argparse.ArgumentTypeError("at least 8: the number of the document stands in front")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
