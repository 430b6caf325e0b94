"""A share of the campaign in every test run: nothing lost, nothing doubled, nothing untrue, nothing left over.

``SEMQ_SIMULATION_SEEDS`` sets how many seeds (default 5000). Each share is a process of its own, with a hash seed that
makes a seed the same everywhere; shares are tests, so that they spread over the workers of the test run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semq.umx_t.grids import GRIDS

ROOT = Path(__file__).parents[2]
SEEDS = int(os.environ.get("SEMQ_SIMULATION_SEEDS", "5000"))
SHARES = 10


def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, report and messages of the command."""
    command = [sys.executable, "-P", "-m", "tests.simulation", "--workers", "1", "--json", *arguments]
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


def run_share(share: int, *more: str) -> dict[str, Any]:
    """The report of one share, in which nothing was found."""
    size = max(SEEDS // SHARES, 1)
    status, report, messages = run("--first", str(share * size), "--seeds", str(size), *more)
    assert (report["violations"], report["lost"], report["duplicated"], report["unclean"]) == (0, 0, 0, 0), messages
    assert status == 0
    assert report["seeds"] >= size
    assert report["faults"] > size
    return report


@pytest.mark.parametrize("share", range(1, SHARES))
def test_a_share_of_the_campaign_finds_nothing(share: int) -> None:
    report = run_share(share)
    assert report["outcomes"]["DELIVERED"] > report["messages"] / 3


def test_every_decided_cell_of_the_grids_is_reached() -> None:
    """The first share; what its seeds leave out is drilled, cell by cell."""
    report = run_share(0, "--cover")
    assert report["coverage"]["missing"] == []
    assert report["coverage"]["reached"] == sum(1 for grid in GRIDS for _ in grid.cells())


def test_a_seed_is_the_same_in_a_campaign_and_alone() -> None:
    _, together, _ = run("--first", "40", "--seeds", "12")
    alone = [run("--first", str(seed), "--seeds", "1")[1] for seed in (40, 51)]
    _, rest, _ = run("--first", "41", "--seeds", "10")
    for counted in ("steps", "faults", "frames", "messages"):
        assert together[counted] == rest[counted] + sum(report[counted] for report in alone)
