"""``./run bench reconcile``: the nightly job on invented ledgers, and the same comparison in DuckDB and in Postgres.

    ./run bench reconcile [--messages N] [--nodes N] [--memory MIB] [--engines spark,duckdb,postgres] [--json] [--keep]

Spark does the whole job (validation, verdicts, tables, report); DuckDB and Postgres only compare and write a table of
verdicts. The exit status is 1 if the verdicts of an engine are wrong. Memory and processor time are those of
all processes of an engine together, sampled twice a second; shared pages count once (proportional set sizes). On a
machine with other load, the processor time is more meaningful than the elapsed time.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from bench.cli import exit_on_sigterm
from bench.reconciliation.invention import generate
from semq.clock import SystemClock
from spark_reconcile.days import Calendar
from spark_reconcile.storage import Place

ENGINES = ("spark", "duckdb", "postgres")
SAMPLE_S = 0.5
SUMMARY = """
{messages:,} messages, {rows:,} ledger rows
  engine      seconds   µs a message    CPU s   peak MiB   verdicts right
"""


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="./run bench reconcile", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--messages", type=int, default=100_000, metavar="N", help="messages of the date (100000)")
    parser.add_argument(
        "--nodes",
        type=int,
        default=8,
        metavar="N",
        help="institutions; one of them sends more than half of the messages (8)",
    )
    parser.add_argument(
        "--memory", type=int, default=2048, metavar="MIB", help="heap or memory limit of each engine (2048)"
    )
    parser.add_argument(
        "--engines", default=",".join(ENGINES), metavar="NAMES", help="engines, separated by commas (all three)"
    )
    parser.add_argument("--json", action="store_true", help="end with one JSON object instead of a summary")
    parser.add_argument("--keep", action="store_true", help="keep the folder with ledgers and reports")
    arguments = parser.parse_args(argv)
    engines = [engine for engine in ENGINES if engine in arguments.engines.split(",")]
    if arguments.messages < 1 or not engines:
        parser.error("at least one message and one engine are needed")
    exit_on_sigterm()
    folder = Path(tempfile.mkdtemp(prefix="semq-reconcile-"))
    try:
        result = measure(folder, arguments.messages, arguments.nodes, arguments.memory, engines)
    finally:
        if arguments.keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(result) if arguments.json else _summary(result, engines), flush=True)
    return 0 if result["agree"] else 1


def measure(folder: Path, messages: int, nodes: int, mib: int, engines: list[str]) -> dict[str, Any]:
    """Generate the ledgers, and compare them with each engine; return the figures."""
    clock = SystemClock()
    day = (clock.wall() - timedelta(days=2)).date()
    say(f"inventing {messages:,} messages ...")
    begun = time.monotonic()
    truth = generate(
        Place.at(folder / "extracts"), Place.at(folder / "truth"), day, Calendar(), clock, messages, nodes=nodes
    )
    result: dict[str, Any] = {
        "messages": messages,
        "rows": truth.rows,
        "generate_s": round(time.monotonic() - begun, 2),
    }
    result |= {"memory_mib": {}, "verdicts_right": {}}
    for engine in engines:
        say(f"{engine} ...")
        figures, peak_mib = _watched(engine, folder, day, mib)
        is_right = figures["verdicts"] == truth.verdicts
        result[f"{engine}_s"] = round(figures["seconds"], 2)
        result[f"{engine}_cpu_s"] = round(figures["cpu_s"], 1)
        result["memory_mib"][engine] = peak_mib
        result["verdicts_right"][engine] = is_right
        if "load_s" in figures:
            result[f"{engine}_load_s"] = round(figures["load_s"], 2)
        if "steps" in figures:
            result["spark_steps"] = figures["steps"]
        say(f"{engine}: {figures['seconds']:.1f} s, {peak_mib} MiB, verdicts {'right' if is_right else 'WRONG'}")
    if {"spark", "duckdb"} <= set(engines):
        result["duckdb_ratio"] = round(result["spark_s"] / result["duckdb_s"], 2)
        result["duckdb_cpu_ratio"] = round(result["spark_cpu_s"] / max(result["duckdb_cpu_s"], SAMPLE_S), 2)
    result["agree"] = all(result["verdicts_right"].values())
    result["peak_memory_mib"] = result["memory_mib"].get("spark", max(result["memory_mib"].values()))
    return result


def _watched(engine: str, folder: Path, day: date, mib: int) -> tuple[dict[str, Any], int]:
    """Run one engine in a separate process; return its figures and its peak memory in MiB."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "bench.reconciliation.engines",
        engine,
        str(folder),
        day.isoformat(),
        str(mib),
    ]
    peak_kib = 0
    cpu_s: dict[int, float] = {}  # by process id: some processes end before the engine
    ended = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def watch() -> None:
            nonlocal peak_kib
            while not ended.wait(SAMPLE_S):
                pids = _with_descendants(process.pid)
                peak_kib = max(peak_kib, sum(map(_pss_kib, pids)))
                cpu_s.update({pid: max(_cpu_s(pid), cpu_s.get(pid, 0.0)) for pid in pids})

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()  # the engine ends its database or its Java itself
            raise
        finally:
            ended.set()
            watcher.join()
    if process.returncode:
        raise SystemExit(f"{engine} failed with {process.returncode}")
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    return figures | {"cpu_s": sum(cpu_s.values())}, peak_kib >> 10


def _with_descendants(pid: int) -> list[int]:
    pids = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            pids += _with_descendants(int(child))
    return pids


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _pss_kib(pid: int) -> int:
    """Return the proportional set size of a process; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _summary(result: dict[str, Any], engines: list[str]) -> str:
    lines = [SUMMARY.format(**result).strip("\n")]
    for engine in engines:
        seconds = result[f"{engine}_s"]
        us_per_message = 1_000_000 * seconds / result["messages"]
        cpu_s, peak_mib = result[f"{engine}_cpu_s"], result["memory_mib"][engine]
        is_right = result["verdicts_right"][engine]
        lines.append(f"  {engine:<10}{seconds:>9.1f}{us_per_message:>15.1f}{cpu_s:>9.0f}{peak_mib:>11}   {is_right}")
    if "postgres_load_s" in result:
        lines.append(f"  (Postgres first loads the rows: {result['postgres_load_s']:.1f} s more)")
    return "\n".join(lines)


def say(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
