"""``semq demo``, and ``./run demo`` of a checkout: command line and exit status of the demo."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from msgspec.structs import asdict
from rich.console import Console

from semq.demo.cluster import ClusterScenario
from semq.demo.display import SAMPLES
from semq.demo.hubless import HublessScenario
from semq.demo.scenario import Scenario, run
from semq.demo.tracker import files_in
from semq.errors import SemqError

EXIT_GOOD, EXIT_BAD, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 0, 1, 69, 130


def read_options(argv: list[str] | None = None, semq: str = "semq", demo: str = "semq demo") -> argparse.Namespace:
    """Read the command line. A usage error ends the process with status 2.

    ``semq``, ``demo``: commands as the user types them, for texts.
    """
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog=demo,
        description="Start a hub and two institutions, 10008 and 56001, as processes with their own databases. "
        "10008 sends a folder of documents while 56001 is online, then again while 56001 is offline. 56001 is started "
        "again and receives them; at the end 10008 has a receipt for every document. Then Spark compares the ledgers.",
        epilog="exit status: 0 no document lost or duplicated, and every queue empty; 1 otherwise; 2 wrong usage; 69 "
        "another error, for instance a node that does not start; 130 interrupted. The reconciliation is "
        "skipped if its packages cannot be installed",
    )
    add = parser.add_argument
    add(
        "--documents",
        type=Path,
        default=SAMPLES,
        metavar="DIR",
        help="folder of the files to send; default: eight sample documents",
    )
    add(
        "--count",
        type=int,
        metavar="N",
        help="documents in each round: the folder is repeated or cut; default: each file once",
    )
    add("--data-dir", type=Path, metavar="DIR", help="use this folder instead of a temporary one, and keep it")
    add("--keep", action="store_true", help="keep configuration, logs, databases and received files")
    add("--stay", action="store_true", help="leave the nodes running at the end, until Ctrl-C")
    add("--secure", action="store_true", help="TLS links, certificates from the hub, sealed documents, signed extracts")
    add(
        "--direct",
        action="store_true",
        help="the institutions have a direct link; the hub is killed between the rounds and not started again",
    )
    add("--no-hub", action="store_true", help="the institutions have a direct link; there is no hub")
    add(
        "--cluster",
        action="store_true",
        help="a hub of two instances with a store each, a standby and a broker, and six institutions; an instance is "
        "killed, and the standby takes over its store",
    )
    add("--json", action="store_true", help="print messages on standard error and one JSON object on standard output")
    add(
        "--patience",
        type=float,
        default=180.0,
        dest="patience_s",
        metavar="S",
        help="longest wait for each step, in seconds; default: 180",
    )
    add("--no-reconcile", action="store_false", dest="reconcile", help="skip the reconciliation by Spark at the end")
    add("--inject", action="store_true", help="plant defects in the extracts, which the reconciliation must find")
    parser.set_defaults(semq=semq, demo=demo)
    options = parser.parse_args(argv)
    if not files_in(options.documents):
        parser.error(f"{options.documents} is not a folder with files; name one: --documents DIR")
    if options.count is not None and options.count < 1:
        parser.error("--count must be at least 1")
    if options.inject and not options.reconcile:
        parser.error("--inject cannot be combined with --no-reconcile: the reconciliation finds the defects")
    options.direct |= options.no_hub
    if options.direct and (options.inject or options.stay):
        parser.error("--inject and --stay cannot be combined with --direct and --no-hub: they need a running hub")
    if options.cluster and (options.direct or options.secure or options.stay):
        parser.error("--cluster cannot be combined with --direct, --no-hub, --secure and --stay")
    options.secure |= options.direct  # a direct link needs certificates
    options.keep |= options.data_dir is not None
    return options


def main(argv: list[str] | None = None, **commands: str) -> int:
    """Run the demo and return its exit status. ``commands``: as for `read_options`."""
    options = read_options(argv, **commands)
    console = Console(stderr=options.json, highlight=False)
    try:
        scenario = ClusterScenario if options.cluster else HublessScenario if options.no_hub else Scenario
        counts, reconciliation = asyncio.run(run(scenario, options, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; the nodes have been stopped")
        return EXIT_INTERRUPTED
    except SemqError as error:
        print(f"demo: {error.advice()}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    if reconciliation is not None:
        counts |= {"ok": counts["ok"] and reconciliation.is_good, "reconcile": asdict(reconciliation)}
    if options.json:
        print(json.dumps(counts), flush=True)
    return EXIT_GOOD if counts["ok"] else EXIT_BAD


if __name__ == "__main__":
    sys.exit(main(semq="./run semq", demo="./run demo"))
