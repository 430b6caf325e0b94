"""A campaign of a few minutes with the faults of the day: all statements agree about every document."""

import os
from datetime import UTC, datetime

import pytest

from tests.campaign.judgement import KINDS
from tests.campaign.traffic import KINDS as TRAFFIC
from tests.crash.test_campaign import report_of

SEED = int(os.environ.get("SEMQ_CAMPAIGN_SEED", datetime.now(UTC).toordinal()))  # other faults each day
MINUTES, DEEP_MINUTES = 3, 30


def test_all_statements_agree_about_every_document_of_the_day(pytestconfig: pytest.Config) -> None:
    minutes = DEEP_MINUTES if pytestconfig.getoption("deep") else MINUTES
    zeros = ("disagreements", "complaints", *KINDS)
    report = report_of("campaign", zeros, "--minutes", str(minutes), "--seed", str(SEED))
    assert len(report["documents_by_kind"]) > len(TRAFFIC) / 2
    assert report["faults"] == sum(report["faults_by_kind"].values()) > 0
