"""``./run crash [--cycles N] [--seed S] [--secure [--direct]] [--cluster [--rabbitmq [--root DIR]]]``: run a campaign.

Exit status: 0 no fault found, 1 a fault, 2 wrong arguments, 69 RabbitMQ is not installed, 130 interrupted.
"""

import argparse
import asyncio
import json
import logging
import secrets
import signal
import sys
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from bench.rabbitmq.debian import install
from bench.rabbitmq.server import PROGRAM, is_installed
from tests.crash import campaign
from tests.crash.armed.process import EXIT_UNAVAILABLE

T = TypeVar("T")
SHAPES = ("secure", "cluster", "rabbitmq", "direct")  # arguments of ``CrashWorld``


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="./run crash", description="Kill nodes and databases under load."
    )
    parser.add_argument("--cycles", type=int, default=20, help="cycles of faults (%(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="seed of documents and faults (default: a random one)")
    parser.add_argument("--group", type=int, default=campaign.GROUP, help="cycles between two checks (%(default)s)")
    parser.add_argument(
        "--secure", action="store_true", help="TLS, sealed documents, signed receipts; also renewals and revocations"
    )
    parser.add_argument(
        "--direct",
        action="store_true",
        help="with --secure: the institutions also have a direct link, which is cut, too; the campaign fails if all"
        " messages went through the hub, or all over the direct link",
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="two instances of the hub with a store each, a standby, and a carrier, which is also killed",
    )
    parser.add_argument(
        "--rabbitmq", action="store_true", help="with --cluster: the carrier is a cluster of three RabbitMQ nodes"
    )
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="with --rabbitmq: that of Debian 13, which is installed in DIR"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object at the end of standard output")
    arguments = parser.parse_args()
    if arguments.cycles < 1 or arguments.group < 1:
        parser.error("--cycles and --group count from 1")
    if arguments.rabbitmq and not arguments.cluster:
        parser.error("--rabbitmq needs --cluster")
    if arguments.root is not None and not arguments.rabbitmq:
        parser.error("--root needs --rabbitmq")
    if arguments.direct and (arguments.cluster or not arguments.secure):
        parser.error("--direct needs --secure, and is not possible with --cluster")
    if arguments.root is not None:
        arguments.root = arguments.root.absolute()
        install(arguments.root)
    elif arguments.rabbitmq and not is_installed():
        print(f"crash: {PROGRAM} is not installed (Debian: apt-get install rabbitmq-server)", file=sys.stderr)
        return EXIT_UNAVAILABLE
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(1_000_000)
    quiet()

    def say(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    say(f"seed {seed}, {arguments.cycles} cycles")
    try:
        report = asyncio.run(run_until_signal(_run(arguments, seed, say)))
    except asyncio.CancelledError:
        say("interrupted; no process is left running")
        return 130
    for line in report.details:
        say(line)
    if not report.good:
        say(f"FAILED; logs and databases are in {report.folder}")
        shape = "".join(f" --{name}" for name in SHAPES if getattr(arguments, name))
        root = f" --root {arguments.root}" if arguments.root else ""
        say(f"repeat: ./run crash --cycles {arguments.cycles} --group {arguments.group} --seed {seed}{shape}{root}")
    if arguments.json:
        print(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        summary = {name: value for name, value in report.as_json().items() if name not in ("details", "failpoints")}
        say("\n".join(f"{name:>14}  {value}" for name, value in summary.items()))
    return 0 if report.good else 1


def quiet() -> None:
    """Suppress the warnings that lost connections cause in client libraries."""
    logging.getLogger().addHandler(logging.NullHandler())
    for name in ("asyncio", "pika", "aio_pika", "aiormq"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # aio-pika does not await the close of a connection that failed early.
    warnings.filterwarnings("ignore", "coroutine 'Connection.close' was never awaited")


async def _run(arguments: argparse.Namespace, seed: int, say: Callable[[str], None]) -> campaign.CampaignReport:
    shape = {name: getattr(arguments, name) for name in SHAPES}
    return await campaign.run(arguments.cycles, seed, say, arguments.group, arguments.root, **shape)


async def run_until_signal(work: Coroutine[Any, Any, T]) -> T:
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


if __name__ == "__main__":
    sys.exit(main())
