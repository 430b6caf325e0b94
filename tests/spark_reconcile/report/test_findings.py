"""Counts and ages for the thresholds, of messages of the date and of carried ones."""

from typing import Any

from spark_reconcile.report.findings import Tally
from spark_reconcile.run.limits import VerdictCount
from tests.spark_reconcile.report.examples import findings

NOW = 1_000_000  # milliseconds


def counted(scope: str, verdict: str, messages: int, age_s: int | None, **fields: Any) -> dict[str, Any]:
    oldest_at = None if age_s is None else NOW - age_s * 1000
    return {"scope": scope, "verdict": verdict, "messages": messages, "oldest_at": oldest_at} | fields


def test_the_age_for_a_threshold_is_that_of_the_oldest_message_also_of_a_carried_one() -> None:
    rows = (
        counted("date", "WAITING_OFFLINE", 2, 60, finding="a", turned=0),
        counted("carried", "WAITING_OFFLINE", 3, 900, finding="b", turned=0),
        counted("date", "MATCHED", 5, None, finding="matched", turned=0),
    )
    counts = {count.verdict: count for count in findings(evidence_until=NOW, tally=Tally(rows, {}, {})).counts()}
    assert counts["WAITING_OFFLINE"] == VerdictCount("", "WAITING_OFFLINE", 2, 7, 900)
    assert counts["MATCHED"].age_s == counts["PARKED"].age_s == 0


def test_a_pair_counts_messages_of_the_date_and_the_ages_of_all() -> None:
    rows = [
        counted("carried", "PARKED", 4, 800, pair="1.a>1.b"),
        counted("carried", "WAITING_OFFLINE", 1, 700, pair="1.a>1.b"),
        counted("date", "WAITING_OFFLINE", 2, 50, pair="1.a>1.b"),
        counted("date", "WAITING_OFFLINE", 9, 999, pair="1.b>1.a"),
    ]
    assert findings(evidence_until=NOW, limited_pairs=rows).counts_of("1.a>1.b") == [
        VerdictCount("1.a>1.b", "PARKED", 0, 2, 800),
        VerdictCount("1.a>1.b", "WAITING_OFFLINE", 2, 2, 700),
    ]
