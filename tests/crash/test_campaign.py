"""Campaigns on real processes: ``./run crash`` alone, and with ``--secure``, ``--direct`` and ``--cluster``."""

import json
import os
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from semq.installation.configuration import DIRECT, HUB
from tests.crash.faults import CycleFault, failpoints_by_turn, plan
from tests.crash.world import SIDES
from tests.prepared.client import command_of

ROOT = Path(__file__).parents[2]
CYCLES, SECURE_CYCLES, CLUSTER_CYCLES = 3, 3, 2
SEED = int(os.environ.get("SEMQ_CRASH_SEED", datetime.now(UTC).toordinal()))  # other faults each day
DEEP = 8  # times as many cycles with --deep
NODE_KILLS = {"kill", "kill two", "kill both", "kill ends", "kill twice", "kill postgres at start"}


@pytest.fixture
def factor(pytestconfig: pytest.Config) -> int:
    return DEEP if pytestconfig.getoption("deep") else 1


def report_of(command: str, zeros: Iterable[str], *options: str) -> dict[str, Any]:
    """Run ``./run COMMAND``; return its report. The figures ``zeros`` must be 0, else pytest shows how to repeat it."""
    print(f"repeat: ./run {command}", *options)
    program = command_of(f"tests.{command}", *options, "--json")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(program, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe) as campaign:
        try:
            printed, logged = campaign.communicate()
        except BaseException:
            campaign.terminate()  # it ends its nodes and their servers
            raise
    result = logged.decode(errors="replace")
    assert printed, result
    report: dict[str, Any] = json.loads(printed.decode().splitlines()[-1])
    assert {name: report[name] for name in zeros} == dict.fromkeys(zeros, 0), result
    assert campaign.returncode == 0, result
    return report


def run_campaign(cycles: int, seed: int, *arguments: str) -> dict[str, Any]:
    """Return the report of a successful campaign."""
    zeros = ("violations", "lost", "duplicated", "unclean")
    report = report_of("crash", zeros, "--cycles", str(cycles), "--seed", str(seed), *arguments)
    assert report["cycles"] == cycles
    assert report["faults"] == sum(report["faults_by_kind"].values()) >= cycles
    assert report["documents"]["class_3"] > cycles
    assert report["documents"]["to_group"] > 0
    assert report["steps"] > report["documents"]["accepted"]
    return report


def kills_nodes(seed: int) -> bool:
    """Whether each of the first cycles kills a node, and together they kill the hub and an institution."""
    points = failpoints_by_turn(seed)
    cycles = [plan(seed, number, points) for number in range(1, CYCLES + 1)]
    killed = [{fault.where for fault in faults if fault.kind in NODE_KILLS | {"failpoint"}} for faults in cycles]
    return all(killed) and HUB in set().union(*killed) and not set().union(*killed).isdisjoint(SIDES)


def test_nothing_is_lost_and_nothing_is_duplicated_after_random_kills(factor: int) -> None:
    seed = next(seed for seed in count(SEED) if kills_nodes(seed))
    run_campaign(CYCLES * factor, seed, "--group", "2")


def changes_stores(seed: int) -> bool:
    """Whether a campaign of this seed takes over the store of a frozen owner, and retires a store."""
    points = failpoints_by_turn(seed, cluster=True)
    faults = [fault for number in range(1, CLUSTER_CYCLES + 1) for fault in plan(seed, number, points, cluster=True)]
    kinds = {(fault.kind, fault.text if fault.kind == "take over" else "") for fault in faults}
    return {("take over", "freeze"), ("retire", "")} <= kinds


def test_stores_are_taken_over_and_retired_while_instances_and_carrier_are_killed(factor: int) -> None:
    seed = next(seed for seed in count(SEED) if changes_stores(seed))
    report = run_campaign(CLUSTER_CYCLES * factor, seed, "--cluster")
    assert report["takeovers"]["freeze"] >= 1
    assert report["retired"] >= 1


def changes_certificates(seed: int) -> bool:
    """Whether a campaign of this seed revokes both institutions, renews a key and kills a node."""
    points = failpoints_by_turn(seed)
    faults = [fault for number in range(1, SECURE_CYCLES + 1) for fault in plan(seed, number, points, secure=True)]
    seen = {(fault.kind, fault.where) for fault in faults}
    kinds = {kind for kind, _ in seen}
    return {("revoke", "a"), ("revoke", "b")} <= seen and "renew" in kinds and bool({"kill", "failpoint"} & kinds)


def run_through_the_hub(factor: int) -> None:
    """Run a campaign with certificates and without a direct link."""
    seed = next(seed for seed in count(SEED) if changes_certificates(seed))
    report = run_campaign(SECURE_CYCLES * factor, seed, "--secure")
    assert report["faults_by_kind"]["revoke"] >= 2
    assert report["faults_by_kind"]["renew"] >= 1


def killed_during_change(faults: list[CycleFault]) -> bool:
    """Whether a node of an institution is killed during a change of ways."""
    changes = [(fault.at_s, fault.at_s + 2 * fault.value) for fault in faults if fault.kind == "change ways"]
    kills = [
        fault.at_s for fault in faults if fault.kind in NODE_KILLS and not {fault.where, fault.text}.isdisjoint(SIDES)
    ]
    return any(start <= at_s <= end for start, end in changes for at_s in kills)


def test_only_a_kill_of_an_institution_while_ways_change_counts() -> None:
    change = CycleFault(0.5, "change ways", DIRECT, 1.0)
    assert killed_during_change([change, CycleFault(2.4, "kill", "a")])
    assert killed_during_change([change, CycleFault(0.6, "kill two", HUB, text="b")])
    assert not killed_during_change([change, CycleFault(2.6, "kill", "a")])
    assert not killed_during_change([change, CycleFault(0.4, "kill", "a")])
    assert not killed_during_change([change, CycleFault(1.0, "kill", HUB)])
    assert not killed_during_change([change, CycleFault(1.0, "kill postgres", "b")])
    assert not killed_during_change([CycleFault(1.0, "kill", "a")])


def kills_during_change(seed: int) -> bool:
    """Whether this seed revokes an institution, and kills an institution's node during a change of ways."""
    points = failpoints_by_turn(seed)
    cycles = [plan(seed, number, points, secure=True, direct=True) for number in range(1, SECURE_CYCLES + 1)]
    is_revoked = any(fault.kind == "revoke" for faults in cycles for fault in faults)
    return is_revoked and any(killed_during_change(faults) for faults in cycles)


def run_with_direct_link(factor: int) -> None:
    """Run a campaign with certificates and a direct link."""
    seed = next(seed for seed in count(SEED) if kills_during_change(seed))
    report = run_campaign(SECURE_CYCLES * factor, seed, "--secure", "--direct")
    assert report["faults_by_kind"]["change ways"] >= 1
    assert min(report["ways"].values()) > 0


def test_roll_over_revocation_and_changes_of_the_way_lose_and_repeat_nothing(factor: int) -> None:
    """Without --deep, only one of the two campaigns runs; they alternate by day."""
    campaigns = (run_through_the_hub, run_with_direct_link)
    for campaign in campaigns if factor > 1 else (campaigns[SEED % len(campaigns)],):
        campaign(factor)
