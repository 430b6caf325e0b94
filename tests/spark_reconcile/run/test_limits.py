"""Thresholds and plausibility: exceeded limits with their values, and unusual numbers of messages."""

import pytest

from spark_reconcile.run.limits import Breach, VerdictCount, breaches, plausibility
from spark_reconcile.settings import Limit


def test_each_exceeded_threshold_is_a_breach_of_its_kind() -> None:
    counts = [
        VerdictCount("", "A", 3, 1000, 50),
        VerdictCount("", "B", 0, 1000),
        VerdictCount("1.a>1.b", "A", 3, 10, 5),
        VerdictCount("1.b>1.a", "A", 0, 10, 60),  # a carried message only
    ]
    limits = {"A": Limit(max_count=2, max_rate=0.01, max_age_s=49), "B": Limit(max_count=0, max_rate=0.0, max_age_s=0)}
    assert breaches(counts, limits) == [
        Breach("", "A", "max_count", 3, 2, 3, 1000),
        Breach("", "A", "max_age_s", 50, 49, 3, 1000),
        Breach("1.a>1.b", "A", "max_count", 3, 2, 3, 10),
        Breach("1.a>1.b", "A", "max_rate", 0.3, 0.01, 3, 10),
        Breach("1.b>1.a", "A", "max_age_s", 60, 49, 0, 10),
    ]


def test_a_rate_is_not_rounded_to_its_limit() -> None:
    (breach,) = breaches([VerdictCount("", "A", 1_000_001, 10**9)], {"A": Limit(max_rate=0.001)})
    assert breach.found > breach.accepted


def test_exceptions_of_earlier_dates_exceed_a_rate_on_a_date_without_messages() -> None:
    limits = {"A": Limit(max_rate=0.001)}
    assert breaches([VerdictCount("", "A", 5, 0)], limits) == [Breach("", "A", "max_rate", 1.0, 0.001, 5, 0)]
    assert breaches([VerdictCount("", "A", 0, 0, 50)], limits) == []


def test_a_verdict_without_a_limit_causes_no_breach() -> None:
    assert breaches([VerdictCount("", "MATCHED", 10**9, 10**9)], {}) == []


@pytest.mark.parametrize(
    ("messages", "earlier", "believed"),
    [
        (100, [100, 110, 90], True),
        (49, [100, 100], False),
        (201, [100, 100], False),
        (0, [], False),
        (0, [100, 100], False),
        (0, [0, 0], True),
        (5, [0, 0], True),
        (1, [1000], True),
        (0, [1000], False),
    ],
)
def test_unusual_volumes_are_implausible(messages: int, earlier: list[int], believed: bool) -> None:
    found = plausibility(messages, earlier, 0.5, 2.0)
    assert found.believed is believed
    assert bool(found.why) is not believed


def test_large_usual_numbers_are_written_out() -> None:
    why = plausibility(1, [1_234_567, 1_234_568], 0.5, 2.0).why
    assert why == "far fewer documents than the 1,234,567.5 usual on this weekday"
    assert plausibility(1, [1_000_000] * 2, 0.5, 2.0).usual_text == "1,000,000"
    assert plausibility(0, [], 0.5, 2.0).usual_text == "–"
