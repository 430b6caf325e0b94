"""``./run campaign --minutes N [--seed S] [--shrink] [--rabbitmq [--root DIR]] [--json]``: run a campaign.

Exit status: 0 all statements agree, 1 some do not, 2 wrong arguments, 69 RabbitMQ is not installed, 130 interrupted.
"""

import argparse
import asyncio
import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from bench.rabbitmq.debian import install
from bench.rabbitmq.server import PROGRAM, is_installed
from tests.campaign import campaign, shrink
from tests.campaign.campaign import Report
from tests.campaign.plan import RATE, CampaignPlan
from tests.crash.armed.process import EXIT_UNAVAILABLE
from tests.crash.shaping import ALONE
from tests.interop import amqplib
from tests.prepared.client import SOCKET


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="./run campaign",
        description="Hand over documents at all doors of real nodes, under faults, and compare what the notebook of the"
        " driver, the doors, the ledgers and the nightly reconciliation say about every document.",
    )
    parser.add_argument("--minutes", type=float, default=3.0, metavar="N", help="duration of the load (%(default)s)")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="seed of documents and faults")
    parser.add_argument("--rate", type=float, default=RATE, metavar="R", help="documents a second (%(default)s)")
    parser.add_argument("--old", default="", metavar="COMMIT", help="the node of one institution is of this commit")
    parser.add_argument("--rabbitmq", action="store_true", help="the carrier is a cluster of three RabbitMQ nodes")
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="with --rabbitmq: that of Debian 13, which is installed in DIR"
    )
    for name, what in (("faults", "faults"), ("traffic", "documents"), ("doors", "doors")):
        parser.add_argument(
            f"--{name}",
            type=partial(_kinds, shrink.PARTS[name]),
            metavar="K,...",
            help=f'only these kinds of {what}; "": none',
        )
    parser.add_argument(
        "--shrink", action="store_true", help="after a failure, repeat with less as long as a disagreement stays"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write charts of memory, sizes, latencies as HTML")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end of standard output")
    arguments = parser.parse_args()
    if arguments.minutes <= 0 or arguments.rate <= 0:
        parser.error("--minutes and --rate are above 0")
    if arguments.root is not None and not arguments.rabbitmq:
        parser.error("--root needs --rabbitmq")
    if arguments.root is not None:
        arguments.root = arguments.root.absolute()
        install(arguments.root)
    elif arguments.rabbitmq and not is_installed():
        print(f"campaign: {PROGRAM} is not installed (Debian: apt-get install rabbitmq-server)", file=sys.stderr)
        return EXIT_UNAVAILABLE
    install_packages(arguments.doors)
    use_own_network()
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(1_000_000)
    quiet()

    def say(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    plan = CampaignPlan(
        arguments.minutes, seed, arguments.rate, arguments.faults, arguments.traffic, arguments.doors, arguments.old,
        arguments.rabbitmq, arguments.root,
    )  # fmt: skip
    say(plan.options())
    running = shrink.run(plan, say) if arguments.shrink else campaign.run(plan, say)
    try:
        report = asyncio.run(run_until_signal(running))
    except asyncio.CancelledError:
        say("interrupted; no process is left running")
        return 130
    for line in report.details:
        say(line)
    if not report.is_good:
        say(f"FAILED; notebook, logs and databases are in {report.folder}")
        say(f"repeat: ./run campaign {report.options or plan.options()}")
    if arguments.report is not None:
        arguments.report.write_text(report.page(), "utf-8")
    if arguments.json:
        print(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        summary = {name: value for name, value in report.as_json().items() if name not in ("details", "samples")}
        say("\n".join(f"{name:>22}  {value}" for name, value in summary.items()))
    logging.shutdown()
    return 0 if report.is_good else 1


def install_packages(doors: frozenset[str] | None) -> None:
    """Install what the doors need (None: all) and a campaign in a network of its own could not get."""
    if amqplib.is_available() and (doors is None or "amqplib" in doors):
        amqplib.installed()


def use_own_network() -> None:
    """Begin again in a network namespace of its own, if the user is root.

    Otherwise programs beside the campaign may take the port of a node that is down. Nodes that a server of prepared
    nodes starts (``SOCKET``) are in the network of the server.
    """
    if os.geteuid() or {ALONE, SOCKET} & os.environ.keys() or not (shutil.which("unshare") and shutil.which("ip")):
        return
    if subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode == 0:
        begin = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "campaign", *sys.orig_argv]
        os.execvpe(begin[0], begin, {**os.environ, ALONE: "1"})


def quiet() -> None:
    """Suppress the warnings that lost connections cause in client libraries."""
    logging.getLogger().addHandler(logging.NullHandler())
    for name in ("asyncio", "pika", "aio_pika", "aiormq"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # aio-pika does not await the close of a connection that failed early.
    warnings.filterwarnings("ignore", "coroutine 'Connection.close' was never awaited")


async def run_until_signal(work: Coroutine[Any, Any, Report]) -> Report:
    """Run a campaign; stop its processes when it is interrupted."""
    running = asyncio.ensure_future(work)
    is_cancelled = False

    def end() -> None:
        nonlocal is_cancelled
        if not is_cancelled:  # a second signal must not interrupt the cleanup
            is_cancelled = True
            running.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    return await running


def _kinds(known: frozenset[str], text: str) -> frozenset[str]:
    kinds = frozenset(kind for kind in text.split(",") if kind)
    if kinds - known:
        unknown, all_kinds = (", ".join(sorted(names)) for names in (kinds - known, known))
        raise argparse.ArgumentTypeError(f"not known: {unknown}; known: {all_kinds}")
    return kinds


if __name__ == "__main__":
    sys.exit(main())
