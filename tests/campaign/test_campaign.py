"""A campaign of a few minutes with the faults of the day: all statements agree about every document."""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.traffic import KINDS
from tests.prepared.client import command_of

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("SEMQ_CAMPAIGN_SEED", datetime.now(UTC).toordinal()))  # other faults each day
MINUTES, DEEP_MINUTES = 3, 30
AGREED = (
    "disagreements", "lost", "duplicated", "reordered", "false_outcomes", "verdict_disagreements", "other",
    "complaints",
)  # fmt: skip


def test_all_statements_agree_about_every_document_of_the_day(pytestconfig: pytest.Config) -> None:
    minutes = DEEP_MINUTES if pytestconfig.getoption("deep") else MINUTES
    options = ["--minutes", str(minutes), "--seed", str(SEED)]
    print("repeat: ./run campaign", *options)
    command = command_of("tests.campaign", *options, "--json")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe) as campaign:
        try:
            printed, logged = campaign.communicate()
        except BaseException:
            campaign.terminate()  # it ends its nodes and their servers
            raise
    result = logged.decode(errors="replace")
    assert printed, result
    report: dict[str, Any] = json.loads(printed.decode().splitlines()[-1])
    assert {name: report[name] for name in AGREED} == dict.fromkeys(AGREED, 0), result
    assert campaign.returncode == 0, result
    assert len(report["documents_by_kind"]) > len(KINDS) / 2
    assert report["faults"] == sum(report["faults_by_kind"].values()) > 0
