"""``./run campaign --minutes N [--seed S] [--rate R] [--json]``: run a campaign.

Exit status: 0 all statements agree, 1 some do not, 2 wrong arguments, 130 interrupted.
"""

import argparse
import asyncio
import json
import logging
import secrets
import sys

from tests.campaign import campaign
from tests.crash.__main__ import quiet, run_until_signal


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
    parser.add_argument(
        "--rate", type=float, default=campaign.RATE, metavar="R", help="documents a second (%(default)s)"
    )
    parser.add_argument("--no-faults", action="store_false", dest="has_faults", help="only traffic")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end of standard output")
    arguments = parser.parse_args()
    if arguments.minutes <= 0 or arguments.rate <= 0:
        parser.error("--minutes and --rate are above 0")
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(1_000_000)
    quiet()

    def say(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    say(f"seed {seed}, {arguments.minutes:g} minutes")
    running = campaign.run(arguments.minutes, seed, say, rate=arguments.rate, has_faults=arguments.has_faults)
    try:
        report = asyncio.run(run_until_signal(running))
    except asyncio.CancelledError:
        say("interrupted; no process is left running")
        return 130
    for line in report.details:
        say(line)
    if not report.is_good:
        say(f"FAILED; notebook, logs and databases are in {report.folder}")
        say(f"repeat: ./run campaign --minutes {arguments.minutes:g} --seed {seed} --rate {arguments.rate:g}")
    if arguments.json:
        print(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        summary = {name: value for name, value in report.as_json().items() if name not in ("details", "samples")}
        say("\n".join(f"{name:>22}  {value}" for name, value in summary.items()))
    logging.shutdown()
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
