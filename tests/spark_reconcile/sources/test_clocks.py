"""Clocks are estimated from the ledgers, within the stated error."""

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_reconcile.run import stages
from spark_reconcile.sources import clocks
from spark_reconcile.sources.clocks import ClockHour, Skew, corrections, first_corrections, skew_of

HOUR = clocks.HOUR_MS
NAMES = ("lk0", "att", "accepted_at", "sent_at", "heard_at", "ended_at", "taken_at", "hub_sent_at", "released_at",
         "recorded_at")  # fmt: skip
# Milliseconds by which the clock of each node is fast, at noon and an hour later.
SKEWS = {"1.fast": (HOUR, HOUR), "1.slow": (-HOUR, -HOUR), "1.right": (0, 0), "1.set": (HOUR, 0), "1.kept": (-HOUR, -HOUR),
         "1.few": (90_000, 90_000), "1.plain": (5_000, 5_000)}  # fmt: skip


def message(
    number: int, sender: str, receiver: str, later: int = 0, way: int = 40, **changes: int | None
) -> dict[str, object]:
    """Return the facts of a message, by the clocks of its parties.

    ``later``: hours after noon at which it is sent, 0 or 1. ``way``: milliseconds from one node to the next.
    ``changes``: facts that replace the calculated ones.
    """
    at, sender_ms, receiver_ms = (12 + later) * HOUR, SKEWS[sender][later], SKEWS[receiver][later]
    facts = {"lk0": f"{sender}.1.1.3f.{number}", "att": 1, "accepted_at": at - 2 + sender_ms,
             "sent_at": at + sender_ms, "taken_at": at + way, "heard_at": at + 2 * way + sender_ms,
             "recorded_at": at + 2 * way + receiver_ms, "ended_at": at + 4 * way + sender_ms, "hub_sent_at": None,
             "released_at": None, "node": receiver}  # fmt: skip
    return {**facts, **changes}


def test_clocks_are_calculated_from_the_messages_of_the_last_hour(spark: SparkSession) -> None:
    rows = [message(number, "1.fast", "1.slow", later=number % 2) for number in range(10)]
    rows += [message(100 + number, "1.set", "1.right", later=number % 2, way=900) for number in range(10)]
    rows += [message(200 + number, "1.few", "1.right", later=number % 2) for number in range(2)]
    # The sender has noted no answer of the hub, so the end-to-end acknowledgement is used.
    rows += [message(300 + number, "1.plain", "1.right", heard_at=None, sent_at=None) for number in range(3)]
    # The hub stores the messages to 1.kept, and releases them when they are acknowledged.
    stored: dict[str, Any] = {
        "ended_at": None,
        "hub_sent_at": 20 * HOUR,
        "recorded_at": 19 * HOUR + 30,
        "released_at": 20 * HOUR + 60,
    }
    rows += [message(400 + number, "1.right", "1.kept", **stored) for number in range(3)]
    contradicting = {"taken_at": 13 * HOUR + 77_000}
    rows += [
        message(500, "1.fast", "1.slow", later=1, **contradicting),  # one message contradicts the others
        message(501, "1.fast", "1.slow", later=1, **contradicting, att=2),  # not used, because it was sent again
        # Not used, because its round trip is too long.
        message(502, "1.fast", "1.slow", later=1, **contradicting, way=9_000),
        message(503, "1.fast", "1.slow", **contradicting, heard_at=None, ended_at=None),
        message(504, "1.fast", "1.slow", recorded_at=None, node=None),
    ]
    schema = pa.schema([(name, pa.string() if name in ("lk0", "node") else pa.int64()) for name in (*NAMES, "node")])
    facts = spark.createDataFrame(pa.Table.from_pylist(rows, schema)).selectExpr("*", "xxhash64(node) AS node_high")
    estimated_clocks = clocks.estimate(facts, stages.names(spark, SKEWS, None))
    for node, (_, after) in SKEWS.items():
        assert abs(estimated_clocks[node].ms - after) <= estimated_clocks[node].within_ms, node
    assert estimated_clocks["1.fast"].within_ms < 100 < estimated_clocks["1.set"].within_ms < 1000
    assert (estimated_clocks["1.fast"].agreeing, estimated_clocks["1.fast"].of) == (12, 12)
    assert (estimated_clocks["1.set"].agreeing, estimated_clocks["1.set"].of) == (5, 10)


def test_a_single_wrong_line_does_not_decide_a_clock() -> None:
    assert skew_of([ClockHour(9, 0, 50, 40), ClockHour(10, HOUR, 2, 90)]) == Skew(0, 50, 52, 0, 25)
    assert skew_of([ClockHour(9, 0, 2, 40), ClockHour(10, HOUR, 1, 100)]) == Skew(0, 2, 3, 0, 35)
    assert skew_of([ClockHour(10, HOUR, 3, 40), ClockHour(9, 0, 50)]) == Skew(HOUR, 3, 53, 0, 25)
    assert skew_of([ClockHour(8, 60_000, 2), ClockHour(9, -HOUR, 3), ClockHour(10, 0, 3, 40)]) == Skew(
        0, 3, 8, -HOUR, 25
    )


def test_a_difference_below_its_error_counts_as_zero() -> None:
    estimated = {"1.a": Skew(40, 9, 9, 0, 50), "1.b": Skew(-60, 9, 9, -40, 50)}
    assert corrections(estimated, {"1.a": 90_000}) == {"1.b": -60}
    assert first_corrections(estimated, {}) == {}


def test_an_estimate_replaces_the_value_of_a_manifest_and_impossible_values_are_ignored() -> None:
    stated = {"1.a": 60_000, "1.b": 60_000, "1.c": 1_999, "1.e": 25 * HOUR, "1.f": -25 * HOUR}
    estimated = {"1.a": Skew(3_600_000, 5, 5, 0), "1.d": Skew(1_000, 5, 5, -7_000)}
    assert corrections(estimated, stated) == {"1.a": 3_600_000, "1.b": 60_000, "1.d": 1_000}
    assert first_corrections(estimated, stated) == {"1.b": 60_000, "1.d": -7_000}
