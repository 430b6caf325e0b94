"""``python -m semq.demo``: command line and exit status."""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from semq.demo.cluster import ClusterScenario
from semq.demo.display import SAMPLES
from semq.demo.hubless import HublessScenario
from semq.demo.scenario import Scenario, run
from semq.demo.tracker import files_in
from semq.errors import SemqError

EXIT_GOOD, EXIT_BAD, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 0, 1, 69, 130


def read_options(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line; end the process with status 2 on a usage error."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="./run demo",
        description="Start a hub and two institutions, 10008 and 56001, as processes with their own databases. "
        "10008 sends a folder of documents while 56001 is online, then again while 56001 is offline. 56001 comes back, "
        "and in the end 10008 knows that 56001 has every document. Then Spark compares the ledgers.",
        epilog="exit status: 0 nothing lost or duplicated and every queue empty; 1 otherwise; 2 usage; 69 a node did "
        "not start; 130 interrupted. The reconciliation is skipped if its packages cannot be installed",
    )
    add = parser.add_argument
    add("--documents", type=Path, default=SAMPLES, metavar="DIR", help="the folder of files to send")
    add("--count", type=int, metavar="N", help="documents in each of the two rounds (the folder is repeated or cut)")
    add("--data-dir", type=Path, metavar="DIR", help="work in this folder instead of a temporary one, and keep it")
    add("--keep", action="store_true", help="keep configuration, logs, databases and received files")
    add("--stay", action="store_true", help="leave the nodes running at the end, until Ctrl-C")
    add("--secure", action="store_true", help="TLS links, certificates from the hub, sealed documents, signed extracts")
    add(
        "--direct",
        action="store_true",
        help="the institutions have a direct link, and the hub is killed and stays away",
    )
    add("--no-hub", action="store_true", help="the institutions have a direct link, and there is no hub at all")
    add(
        "--cluster",
        action="store_true",
        help="a hub of two instances with a store each, a standby and a broker, and six institutions; an instance is "
        "killed, and the standby takes over its store",
    )
    add("--json", action="store_true", help="print messages on standard error and one JSON object on standard output")
    add("--patience", type=float, default=180.0, dest="patience_s", metavar="S", help="seconds to wait for each step")
    add("--no-reconcile", action="store_false", dest="reconcile", help="skip the reconciliation on Spark at the end")
    add("--inject", action="store_true", help="plant some defects in the extracts: the reconciliation must find them")
    options = parser.parse_args(argv)
    if not files_in(options.documents):
        parser.error(f"{options.documents} is not a folder with files; name one: --documents DIR")
    if options.count is not None and options.count < 1:
        parser.error("--count needs a number from 1")
    if options.inject and not options.reconcile:
        parser.error("--inject needs the reconciliation, which --no-reconcile skips")
    options.direct |= options.no_hub
    if options.direct and (options.inject or options.stay):
        parser.error("--inject and --stay need a hub, which --direct kills and --no-hub leaves out")
    if options.cluster and (options.direct or options.secure or options.stay):
        parser.error("--cluster has no --direct, --no-hub, --secure and --stay")
    options.secure |= options.direct  # a direct link needs certificates
    options.keep |= options.data_dir is not None
    return options


def main() -> int:
    """Run the demo and return its exit status."""
    options = read_options()
    console = Console(stderr=options.json, highlight=False)
    try:
        kind = ClusterScenario if options.cluster else HublessScenario if options.no_hub else Scenario
        counts, reconciled = asyncio.run(run(kind, options, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; the nodes have been stopped")
        return EXIT_INTERRUPTED
    except SemqError as error:
        print(f"demo: {error.advice()}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    if reconciled is not None:
        counts |= {"ok": counts["ok"] and reconciled.is_good, "reconcile": asdict(reconciled)}
    if options.json:
        print(json.dumps(counts), flush=True)
    return EXIT_GOOD if counts["ok"] else EXIT_BAD


if __name__ == "__main__":
    sys.exit(main())
