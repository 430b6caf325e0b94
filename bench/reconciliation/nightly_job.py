"""``./run bench reconcile``: the nightly job on invented ledgers, beside the same comparison in DuckDB and in Postgres.

    ./run bench reconcile [--messages N] [--nodes N] [--memory MIB] [--engines spark,duckdb,postgres] [--json] [--keep]

Spark does the whole job (validation, verdicts, tables, report), the other two only the comparison and a table of
verdicts. All three must find the verdicts of the truth, else the exit status is 1. Memory is that of the whole process
tree, shared pages counted once (the sum of proportional set sizes), sampled twice a second; so is the processor time,
which is more meaningful than the elapsed time on a machine with other load.
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

from bench.cli import end_in_order
from semq.clock import SystemClock
from spark_reconcile.days import Calendar
from spark_reconcile.samples.invention import generate
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
    parser.add_argument("--nodes", type=int, default=8, metavar="N", help="institutions, one of which sends half (8)")
    parser.add_argument("--memory", type=int, default=2048, metavar="MIB", help="what each engine may use (2048)")
    parser.add_argument("--engines", default=",".join(ENGINES), help="which to measure (all three)")
    parser.add_argument("--json", action="store_true", help="end with one JSON object instead of a summary")
    parser.add_argument("--keep", action="store_true", help="keep the folder with ledgers and reports")
    arguments = parser.parse_args(argv)
    engines = [engine for engine in ENGINES if engine in arguments.engines.split(",")]
    if arguments.messages < 1 or not engines:
        parser.error("there must be messages and an engine")
    end_in_order()
    folder = Path(tempfile.mkdtemp(prefix="semq-reconcile-"))
    try:
        found = measure(folder, arguments.messages, arguments.nodes, arguments.memory, engines)
    finally:
        if arguments.keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found) if arguments.json else _summary(found, engines), flush=True)
    return 0 if found["agree"] else 1


def measure(folder: Path, messages: int, nodes: int, mib: int, engines: list[str]) -> dict[str, Any]:
    """Generate the ledgers, and compare them with each engine; return the figures."""
    clock = SystemClock()
    day = (clock.wall() - timedelta(days=2)).date()
    say(f"inventing {messages:,} messages ...")
    begun = time.monotonic()
    truth = generate(
        Place.at(folder / "extracts"), Place.at(folder / "truth"), day, Calendar(), clock, messages, nodes=nodes
    )
    found: dict[str, Any] = {"messages": messages, "rows": truth.rows, "generate_s": round(time.monotonic() - begun, 2)}
    found |= {"memory_mib": {}, "agree": True}
    for engine in engines:
        say(f"{engine} ...")
        figures, peak = _watched(engine, folder, day, mib)
        right = figures["verdicts"] == truth.verdicts
        found[f"{engine}_s"] = round(figures["seconds"], 2)
        found[f"{engine}_cpu_s"] = round(figures["cpu_s"], 1)
        found["memory_mib"][engine] = peak
        found["agree"] = found["agree"] and right
        if "load_s" in figures:
            found[f"{engine}_load_s"] = round(figures["load_s"], 2)
        if "steps" in figures:
            found["spark_steps"] = figures["steps"]
        say(f"{engine}: {figures['seconds']:.1f} s, {peak} MiB, verdicts {'right' if right else 'WRONG'}")
    found["peak_memory_mib"] = found["memory_mib"].get("spark", max(found["memory_mib"].values()))
    return found


def _watched(engine: str, folder: Path, day: date, mib: int) -> tuple[dict[str, Any], int]:
    """Run one engine in a separate process; return its result, and the largest memory of all its processes together."""
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
    peak = 0
    spent: dict[int, float] = {}  #: by process, because processes of the tree end meanwhile
    done = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def watch() -> None:
            nonlocal peak
            while not done.wait(SAMPLE_S):
                family = _family(process.pid)
                peak = max(peak, sum(map(_pss_kib, family)))
                spent.update({pid: max(_cpu_s(pid), spent.get(pid, 0.0)) for pid in family})

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()  # it ends its database and its Java itself
            raise
        finally:
            done.set()
            watcher.join()
    if process.returncode:
        raise SystemExit(f"{engine} failed with {process.returncode}")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result | {"cpu_s": sum(spent.values())}, peak >> 10


def _family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [one for child in task.read_text().split() for one in _family(int(child))]
        except OSError:
            continue
    return found


def _cpu_s(pid: int) -> float:
    """Return the processor time that a process has used; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _pss_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _summary(found: dict[str, Any], engines: list[str]) -> str:
    lines = [SUMMARY.format(**found).strip("\n")]
    for engine in engines:
        seconds = found[f"{engine}_s"]
        each = 1_000_000 * seconds / found["messages"]
        cpu, peak = found[f"{engine}_cpu_s"], found["memory_mib"][engine]
        lines.append(f"  {engine:<10}{seconds:>9.1f}{each:>15.1f}{cpu:>9.0f}{peak:>11}   {found['agree']}")
    if "postgres_load_s" in found:
        lines.append(f"  (Postgres first loads the rows: {found['postgres_load_s']:.1f} s more)")
    return "\n".join(lines)


def say(text: str) -> None:
    """Print progress, for people."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
