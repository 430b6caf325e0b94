"""Campaigns with the faults of the day: all statements agree about every document."""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.judgement import KINDS
from tests.campaign.traffic import KINDS as TRAFFIC
from tests.prepared.client import command_of

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("CAMPAIGN_SEED", datetime.now(UTC).toordinal()))  # other faults each day
MINUTES, DEEP_MINUTES = 3, 30
ZEROS = ("disagreements", "complaints", *KINDS)
# Faults of short campaigns, which take turns by day.
TURNS = (
    "failpoint,kill,kill twice,kill two,kill postgres,kill both",
    "failpoint,take over,suspend,retire,move,kill,freeze",
    "failpoint,revoke,renew,change ways,cut in a frame,kill",
)


def report_of(*options: str) -> dict[str, Any]:
    """Run a campaign; return its report. The figures ``ZEROS`` must be 0, else pytest shows how to repeat it."""
    print("repeat: ./run campaign", *options)
    program = command_of("tests.campaign", *options, "--json")
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
    assert {name: report[name] for name in ZEROS} == dict.fromkeys(ZEROS, 0), result
    assert campaign.returncode == 0, result
    assert report["faults"] == sum(report["faults_by_kind"].values()) > 0
    return report


def test_all_statements_agree_about_every_document_of_the_day(pytestconfig: pytest.Config) -> None:
    minutes = DEEP_MINUTES if pytestconfig.getoption("deep") else MINUTES
    report = report_of("--minutes", str(minutes), "--seed", str(SEED))
    assert len(report["documents_by_kind"]) > len(TRAFFIC) / 2


def test_all_statements_agree_although_processes_end_at_named_steps() -> None:
    report = report_of("--minutes", "0.5", "--seed", str(SEED), "--faults", TURNS[SEED % len(TURNS)])
    assert report["failpoints"]
