"""`./run simulate`: campaigns of seeds, and the replay of one seed.

Progress goes to stderr, the report to stdout. With --json, the report of a campaign is one JSON object.
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

from semq.umx_t.grids import SenderEvent, SenderState
from tests.simulation.campaign import (
    Totals,
    cover,
    focus_of,
    prepare_process,
    print_progress,
    run_campaign,
    run_seed,
    table_of_rules,
)
from tests.simulation.disturbances.drills import Goal
from tests.simulation.mutations import MUTATIONS
from tests.simulation.oracle.rules import occasions


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 only if no violation was found. ``arguments`` None: those of the process."""
    options = _parser().parse_args(arguments)
    prepare_process()  # stdout has only the report
    if options.replay is not None:
        return _replay(options)
    return _campaign(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="./run simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5000, help="how many seeds to run (default 5000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per processor)"
    )
    parser.add_argument(
        "--mode",
        choices=("both", "swarm", "hell"),
        default="both",
        help="plans with some kinds of faults (swarm), with all of them and a rough network (hell), or both (default)",
    )
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="remove a rule: the oracle must find a violation")
    parser.add_argument(
        "--focus", default="", metavar="KINDS", help="kinds of faults, separated by commas, that every seed has often"
    )
    parser.add_argument(
        "--goal", metavar="CELL", help="with --replay: drill this cell, given as grid, column, event: 'class3 AWAY rej'"
    )
    parser.add_argument("--instances", type=int, default=0, metavar="N", help="a hub of N instances with a store each")
    parser.add_argument(
        "--cover", action="store_true", help="if no violation was found, drill each cell that was not reached"
    )
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed and show what was found")
    parser.add_argument("--trace", action="store_true", help="with --replay: show every event")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--json", action="store_true", help="end a campaign with one JSON object on stdout")
    return parser


def _hell_or_drawn(options: argparse.Namespace) -> bool | None:
    """Return whether all plans have the mode ``hell``; None: each seed draws it."""
    return {"both": None, "swarm": False, "hell": True}[options.mode]


def _focus(options: argparse.Namespace) -> frozenset[str]:
    return frozenset(filter(None, options.focus.split(",")))


def _goal(options: argparse.Namespace) -> Goal | None:
    if not options.goal:
        return None
    grid, state, event = options.goal.split()
    return grid, SenderState[state], SenderEvent[event]


def _replay(options: argparse.Namespace) -> int:
    focus, trace = _focus(options), print if options.trace else None
    with ExitStack() as stack:
        if options.mutation:
            focus |= MUTATIONS[options.mutation].focus
            stack.enter_context(MUTATIONS[options.mutation].applied())
        result = run_seed(
            options.replay, _hell_or_drawn(options), focus, _goal(options), instances=options.instances, trace=trace
        )
    print(f"seed={result.seed} steps={result.steps} faults={result.faults} messages={result.messages}")
    of_rules = occasions(result.occasions, result.cells)
    for line in table_of_rules(Counter((+of_rules).keys()), of_rules):
        print(line)
    for kind, text in result.found.items():
        print(f"{kind}: {text}")
    return 1 if result.found else 0


def _campaign(options: argparse.Namespace) -> int:
    totals, began = Totals(), time.monotonic()
    extra = f" --mode {options.mode}" if options.mode != "both" else ""
    extra += f" --mutation {options.mutation}" if options.mutation else ""
    extra += f" --focus {options.focus}" if options.focus else ""
    extra += f" --instances {options.instances}" if options.instances else ""
    shares = run_campaign(
        options.first,
        options.seeds,
        options.workers,
        _hell_or_drawn(options),
        options.mutation,
        _focus(options),
        stop=options.stop,
        instances=options.instances,
    )
    for share in shares:
        for seed, text in share.failed:
            print_progress(f"FAILED seed={seed} {text[:600]}\n  replay: ./run simulate --replay {seed} --trace{extra}")
        totals.add(share)
        if options.stop and share.failed:
            break
        if totals.seeds % 500 < 50 or totals.seeds == options.seeds:
            spent = time.monotonic() - began
            print_progress(f"{totals.seeds} seeds, {totals.steps} steps, {len(totals.failed)} failed, {spent:.0f} s")
    if options.cover and totals.is_clean:
        _cover(totals, options.first)
    report = totals.report()
    if options.json:
        print(json.dumps(report))
    else:
        del report["rules"]
        for name, value in report.items():
            print(f"{name}: {value}")
        for line in table_of_rules(totals.exercised, totals.occasions):
            print(line)
    for cell in report["coverage"]["missing"]:
        print_progress(f"not reached: {cell}")
    return 0 if totals.is_clean else 1


def _cover(totals: Totals, first: int) -> None:
    """Drill the cells that were not reached."""
    for cell, reached_by in cover(totals, first):
        name = " ".join(cell)
        if reached_by is not None:
            focus = ",".join(sorted(focus_of(cell[0], reached_by)))
            print_progress(
                f"{name}: reached by --replay {reached_by} " + (f"--focus {focus}" if focus else f"--goal '{name}'")
            )
    for failed, text in totals.failed:
        print_progress(f"FAILED seed={failed} in a drill: {text[:600]}")
