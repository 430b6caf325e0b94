"""A part of the campaign: no document lost or duplicated, no false outcome, no row left; seeds can be replayed.

A run has 1,000 seeds, ``./run test --deep`` has 5,000, ``SEMQ_SIMULATION_SEEDS`` sets another number. They are divided
into ten shares, a test each, which the workers of the run divide among themselves.
"""

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from semq.umx_t.grids import GRIDS, HANDLING, HUB, HandlingEvent
from semq.umx_t.status import AppStatus
from tests import depth
from tests.depth import deeper
from tests.simulation.campaign import Totals, focus_of, run_share, run_with_drills
from tests.simulation.command import main
from tests.simulation.disturbances.faults import ALL_KINDS
from tests.simulation.oracle.rules import RULES
from tests.simulation.runs import SimulatorProcess

ROOT = Path(__file__).parents[2]
SEEDS, SEEDS_DEEP = 1000, 5000
SHARES = 10
RULES_MIN = len(RULES) - 9  # rules that each share exercises; those about keys need a revocation at the right time
# Cells that few drills reach, each with a seed whose drill has reached it; a usual run tries this seed first.
KNOWN_TABLE = """
class12  FINAL       claim         33
class12  FINAL       corrected     12
class12  SS_INIT     recv           5
class12  SS_INIT     rej           13
class12  SS_ACK      claim          4
class12  SS_ACK_FWD  discarded      6
class3   AWAY        refused_again 12
class3   AWAY        settled       54
class3   AWAY        void          15
class3   FINAL       claim          6
class3   FINAL       not_here_bare 23
class3   FINAL       refused_again  5
class3   FINAL       returned       4
class3   FINAL       settled       34
class3   SS_ACK_FWD  gone           6
class3   SS_INIT     settled       23
hub      REFUSED     ack_other     57
hub      REFUSED     again        133
"""
KNOWN = {(grid, state, event): int(seed) for grid, state, event, seed in map(str.split, KNOWN_TABLE.split("\n")[1:-1])}


@pytest.fixture(scope="session")
def size(pytestconfig: pytest.Config) -> int:
    usual = SEEDS_DEEP if pytestconfig.getoption("deep") else SEEDS
    return max(int(os.environ.get("SEMQ_SIMULATION_SEEDS", usual)) // SHARES, 1)


def expect_no_violation(totals: Totals, size: int) -> None:
    assert [f"./run simulate --replay {seed} --trace  # {text}" for seed, text in totals.failed] == []
    assert totals.seeds >= size
    assert totals.faults > size


@pytest.mark.parametrize("share", range(1, SHARES))
def test_a_share_of_the_campaign_finds_no_violation(runs: SimulatorProcess, size: int, share: int) -> None:
    totals = runs(run_share, share * size, size)
    expect_no_violation(totals, size)
    assert totals.outcomes["DELIVERED"] > totals.messages / 3
    assert len(totals.exercised) >= RULES_MIN
    assert totals.kinds.keys() >= ALL_KINDS - {"second_thoughts"}


def test_every_decided_cell_of_the_grids_is_reached(runs: SimulatorProcess, size: int) -> None:
    totals = runs(run_with_drills, size, {} if depth.is_deep else KNOWN)
    expect_no_violation(totals, size)
    assert [rule.name for rule in RULES if not totals.occasions[rule.name]] == []
    coverage = totals.report()["coverage"]
    assert coverage["missing"] == []
    assert coverage["reached"] == sum(1 for grid in GRIDS for _ in grid.cells())


def test_nodes_without_a_hub_cause_no_violation(runs: SimulatorProcess) -> None:
    totals = runs(run_share, 0, 60, focus=frozenset({"no_hub"}))
    expect_no_violation(totals, 60)
    assert totals.outcomes["DELIVERED"] > totals.messages / 3
    assert not [cell for cell in totals.cells if cell[0] == HUB.name]


def test_a_kind_of_fault_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no such kinds of faults: crash$"):
        run_share(0, 1, focus=frozenset({"crash", "cut"}))


def test_drills_reach_a_document_that_is_given_back_after_it_was_parked(runs: SimulatorProcess) -> None:
    cell = HANDLING.name, AppStatus.PARKED.name, HandlingEvent.back.name
    totals = runs(run_share, 20, 20, focus=focus_of(HANDLING.name, 0))
    assert totals.failed == []
    assert cell in totals.cells
    assert cell not in runs(run_share, 20, deeper(5, 20)).cells  # random runs seldom reach it


def run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "tests.simulation", "--workers", "1", "--json", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}  # PYTHONHASHSEED stays: the command sets its own
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def test_a_seed_is_the_same_in_a_campaign_and_alone(runs: SimulatorProcess) -> None:
    together = run("--first", "40", "--seeds", "3")
    alone = [runs(run_share, seed, 1).report() for seed in (42, 41, 40)]
    for counted in ("steps", "faults", "frames", "messages"):
        assert together[counted] == sum(report[counted] for report in alone)


def printed(*arguments: str) -> str:
    output = StringIO()
    with redirect_stdout(output):
        main(arguments)
    return output.getvalue()


@pytest.mark.parametrize("mutation", [None, "inc"])
@pytest.mark.parametrize("instances", [0, 2])
def test_a_replay_uses_mutation_and_instances_together(
    runs: SimulatorProcess, mutation: str | None, instances: int
) -> None:
    totals = runs(run_share, 5, 1, mutation=mutation, instances=instances)
    options = [*(("--mutation", mutation) if mutation else ()), "--instances", str(instances)]
    line, *_ = runs(printed, "--replay", "5", *options).splitlines()
    assert line == f"seed=5 steps={totals.steps} faults={totals.faults} messages={totals.messages}"
