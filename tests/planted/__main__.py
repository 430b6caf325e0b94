"""``./run mutants [--room R] [--name TEXT] [--jobs N] [--campaign MINUTES] [--json]``: try the planted faults.

Exit status: 0 each fault was noticed or has a reason in ``SURVIVORS``, 1 one was not, 2 wrong arguments.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

from tests.planted.table import PlantedFault, read_faults
from tests.planted.trial import BROKEN, KILLED, SURVIVED, TIMED_OUT, TrialResult, copy_of_sources, run_trial

SECONDS_MAX = 600.0  # for one fault, without the load of a campaign
CAMPAIGN_SEED = 1
# Name of a fault | why nothing notices it.
SURVIVORS: dict[str, str] = {
    "documents by SQL that are being withdrawn are read": "the unit decides whether it is accepted or withdrawn; both"
    " answers are true, and the guard only makes the withdrawal likelier",
    "exchanges in a circle are followed for ever": "the test that meets it does not end",
}


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="./run mutants", description="Plant faults in copies of the product, one at a time."
    )
    parser.add_argument("--room", default="", help="only the faults of this file")
    parser.add_argument("--name", default="", metavar="TEXT", help="only faults whose name contains this text")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="faults at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, metavar="S", help="limit of one (%(default)g)")
    parser.add_argument(
        "--campaign",
        type=float,
        default=0.0,
        metavar="MINUTES",
        help="a campaign of this length must notice each fault, instead of the tests that its row names",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object at the end of standard output")
    arguments = parser.parse_args()
    faults = [
        fault for fault in read_faults()
        if arguments.room in ("", fault.room) and arguments.name in fault.name
    ]  # fmt: skip
    if not faults or arguments.jobs < 1:
        parser.error("no fault has this room and name" if not faults else "--jobs counts from 1")
    minutes = arguments.campaign
    campaign = ("--minutes", str(minutes), "--seed", str(CAMPAIGN_SEED)) if minutes else ()
    seconds_max = arguments.seconds + 60 * minutes
    results = try_all(faults, arguments.jobs, seconds_max, sys.stderr if arguments.json else sys.stdout, campaign)
    report = as_json(results)
    if arguments.json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        print("\n".join(f"{name:>9}  {report[name]}" for name in ("planted", KILLED, SURVIVED, BROKEN, TIMED_OUT)))
    return 1 if any(result.outcome != KILLED and result.fault.name not in SURVIVORS for result in results) else 0


def try_all(
    faults: list[PlantedFault], jobs: int, seconds_max: float, out: TextIO, campaign: tuple[str, ...]
) -> list[TrialResult]:
    """Try all faults, by the tests of each or by a campaign with these options, and print a line about each."""
    results: list[TrialResult] = []
    with tempfile.TemporaryDirectory(prefix="semq-planted-") as name, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        managers = [copy_of_sources(Path(name) / str(number)) for number in range(jobs)]
        for manager in managers:
            copies.put(manager.__enter__())

        def work(fault: PlantedFault) -> TrialResult:
            copy = copies.get()
            try:
                return run_trial(fault, copy, seconds_max, campaign)
            finally:
                copies.put(copy)

        for result in pool.map(work, faults):
            results.append(result)
            name = f"{result.fault.room}: {result.fault.name}"
            print(f"{result.outcome:>8} {result.seconds:6.1f} s  {name}  {result.detail}", file=out, flush=True)
    return results


def as_json(results: list[TrialResult]) -> dict[str, object]:
    """Return the figures, and the faults that nothing has noticed."""
    counts = Counter(result.outcome for result in results)
    return {
        "planted": len(results),
        **{outcome: counts[outcome] for outcome in (KILLED, SURVIVED, BROKEN, TIMED_OUT)},
        "rooms": dict(Counter(result.fault.room for result in results)),
        "survivors": {
            result.fault.name: SURVIVORS.get(result.fault.name, "") or result.detail
            for result in results if result.outcome != KILLED
        },
        "seconds": {result.fault.name: result.seconds for result in results},
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
