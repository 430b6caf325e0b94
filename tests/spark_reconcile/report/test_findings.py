"""Counts and ages for the thresholds, of messages of the date and of carried ones."""

from spark_reconcile.report.figures import FindingCount
from spark_reconcile.report.findings import Tally
from spark_reconcile.run.limits import VerdictCount
from spark_reconcile.run.readings import PairCount
from tests.spark_reconcile.report.examples import findings

NOW = 1_000_000  # milliseconds


def test_the_age_for_a_threshold_is_that_of_the_oldest_message_also_of_a_carried_one() -> None:
    rows = (
        FindingCount("date", "WAITING_OFFLINE", "a", 2, oldest_at=NOW - 60_000),
        FindingCount("carried", "WAITING_OFFLINE", "b", 3, oldest_at=NOW - 900_000),
        FindingCount("date", "MATCHED", "matched", 5),
    )
    counts = {count.verdict: count for count in findings(evidence_until=NOW, tally=Tally(rows, {}, {})).counts()}
    assert counts["WAITING_OFFLINE"] == VerdictCount("", "WAITING_OFFLINE", 2, 7, 900)
    assert counts["MATCHED"].age_s == counts["PARKED"].age_s == 0


def test_a_pair_counts_messages_of_the_date_and_the_ages_of_all() -> None:
    rows = [
        PairCount("1.a>1.b", "PARKED", "carried", 4, NOW - 800_000),
        PairCount("1.a>1.b", "WAITING_OFFLINE", "carried", 1, NOW - 700_000),
        PairCount("1.a>1.b", "WAITING_OFFLINE", "date", 2, NOW - 50_000),
        PairCount("1.b>1.a", "WAITING_OFFLINE", "date", 9, NOW - 999_000),
    ]
    assert findings(evidence_until=NOW, limited_pairs=rows).counts_of("1.a>1.b") == [
        VerdictCount("1.a>1.b", "PARKED", 0, 2, 800),
        VerdictCount("1.a>1.b", "WAITING_OFFLINE", 2, 2, 700),
    ]
