"""The difference between each node's clock and the hub's, estimated so that a wrong clock does not look like loss.

A sender records when it sent a message and when the hub answered. As in RFC 5905, the hub's own line is assumed to lie
in the middle of this round trip. The receiver's line is assumed to lie in the middle between the hub's sending of a
copy and its release, or between the sender's sending and the end-to-end acknowledgement. The error of an estimate is at
most half its round trip. Clocks drift and are corrected: the median of the last hour is used for the end of the
ledgers, that of the first hour for their beginning.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_reconcile.days import DAY_MS

ROUND_TRIP_MAX_MS = 10_000  # estimates from longer round trips are too imprecise
STEP_MS = 10  # estimates are rounded to this step
WRONG_FROM_MS = 2_000  # from this difference on, an operator should correct the clock
STATED_MAX_MS = DAY_MS  # larger differences stated in manifests are not used
HOUR_MESSAGES_MIN = 3  # with fewer messages, a single wrong line could decide
HOUR_MS = 3_600_000


class Skew(NamedTuple):
    """The estimate of a node's clock minus the hub's, in milliseconds."""

    ms: int
    agreeing: int  #: messages of hours whose estimate differs from ``ms`` by less than WRONG_FROM_MS
    of: int  #: messages of all hours
    first_ms: int  #: estimate of the first hour
    within_ms: int = 0  #: half the mean round trip, and half a step: the error is seldom larger

    @property
    def is_known_to_differ(self) -> bool:
        """Whether the difference exceeds ``within_ms``."""
        return abs(self.ms) > self.within_ms


def estimate(facts: DataFrame, names: DataFrame) -> dict[str, Skew]:
    """Estimate the clock of each node with suitable messages. ``names``: nodes and their hashes."""
    counted = (
        facts.where(_IS_USABLE)
        .selectExpr(*(f"{expression} AS {name}" for name, expression in _ESTIMATES))
        .selectExpr(
            "stack(2, sender, sender_ms, sender_way, sender_h, receiver, receiver_ms, receiver_way, receiver_h) "
            "AS (hash, ms, way, h)"
        )
        .where("ms IS NOT NULL AND hash IS NOT NULL")
        .groupBy("hash", "h", F.expr(f"bigint(floor(ms / {STEP_MS} + 0.5)) * {STEP_MS}").alias("ms"))
        .agg(F.count("*").alias("messages"), F.sum("way").alias("way"))
    )
    hours = counted.groupBy("hash", "h").agg(
        F.expr("percentile(ms, 0.5, messages)").alias("ms"),
        F.sum("messages").alias("messages"),
        F.sum("way").alias("way"),
    )
    node_of = {row["hash"]: row["node"] for row in names.collect()}
    by_node: dict[str, list[ClockHour]] = {}
    for row in hours.collect():
        if row["hash"] not in node_of:
            continue
        hour = ClockHour(int(row["h"]), round(row["ms"]), int(row["messages"]), round(row["way"] / row["messages"]))
        by_node.setdefault(node_of[row["hash"]], []).append(hour)
    return {node: skew_of(hours_of) for node, hours_of in sorted(by_node.items())}


class ClockHour(NamedTuple):
    """The estimate of a clock from the messages of one hour."""

    hour: int  #: hours since 1970, by the hub's clock
    ms: int  #: median of the estimates
    messages: int
    round_trip_ms: int = 0  #: mean of the round trips


def skew_of(hours: Sequence[ClockHour]) -> Skew:
    """Return the estimate of the last hour with HOUR_MESSAGES_MIN messages; if there is none, of all messages."""
    usable = [hour for hour in hours if hour.messages >= HOUR_MESSAGES_MIN]
    messages = sum(hour.messages for hour in hours)
    if usable:
        first_ms, ms, round_trip_ms = min(usable).ms, max(usable).ms, max(usable).round_trip_ms
    else:
        estimates = sorted(hour.ms for hour in hours for _ in range(hour.messages))
        first_ms = ms = estimates[len(estimates) // 2]
        round_trip_ms = sum(hour.round_trip_ms * hour.messages for hour in hours) // messages
    agreeing = sum(hour.messages for hour in hours if abs(hour.ms - ms) < WRONG_FROM_MS)
    return Skew(ms, agreeing, messages, first_ms, (round_trip_ms + STEP_MS) // 2)


# The sender's clock minus the hub's, from messages that were sent once and answered soon enough.
_BEGUN, _HEARD = "coalesce(sent_at, accepted_at)", "least(heard_at, ended_at)"
_IN_TIME = f"att <= 1 AND taken_at IS NOT NULL AND {_HEARD} - {_BEGUN} BETWEEN 0 AND {ROUND_TRIP_MAX_MS}"
_SENDER_MS = f"(({_BEGUN} + {_HEARD}) / 2 - taken_at)"
# The receiver's clock minus the hub's: directly from a stored copy, otherwise through the sender's clock.
_KEPT = f"released_at - hub_sent_at BETWEEN 0 AND {ROUND_TRIP_MAX_MS}"
_ACKED = f"{_IN_TIME} AND ended_at - {_BEGUN} BETWEEN 0 AND {ROUND_TRIP_MAX_MS}"
_RECEIVER_MS = (
    f"if({_KEPT}, recorded_at - (hub_sent_at + released_at) / 2, "
    f"if({_ACKED}, recorded_at - ({_BEGUN} + ended_at) / 2 + {_SENDER_MS}, NULL))"
)
_IS_USABLE = f"{_IN_TIME} OR {_KEPT}"
# Columns: ``ms`` is the estimate, ``way`` the round trip, ``h`` the hour since 1970.
_ESTIMATES = (
    ("sender", "xxhash64(substring_index(lk0, '.', 2))"),
    ("sender_ms", f"if({_IN_TIME}, {_SENDER_MS}, NULL)"),
    ("sender_way", f"{_HEARD} - {_BEGUN}"),
    ("sender_h", f"taken_at div {HOUR_MS}"),
    ("receiver", "node_high"),
    ("receiver_ms", _RECEIVER_MS),
    ("receiver_way", f"if({_KEPT}, released_at - hub_sent_at, ended_at - {_BEGUN} + {_HEARD} - {_BEGUN})"),
    ("receiver_h", f"coalesce(released_at, taken_at) div {HOUR_MS}"),
)


def corrections(estimated: Mapping[str, Skew], stated: Mapping[str, int]) -> dict[str, int]:
    """Return, for each node whose times need a correction, its clock minus the hub's in milliseconds.

    An estimate is used if it exceeds its ``within_ms``. Without an estimate, the value in the manifest (``stated``) is
    used, with two exceptions. Values above STATED_MAX_MS are ignored, because with them a lost message would still be
    IN_FLIGHT in the next run. Values below WRONG_FROM_MS are ignored, because their precision is unknown.
    """
    from_estimates = {node: skew.ms for node, skew in estimated.items() if skew.is_known_to_differ}
    from_manifests = {
        node: ms for node, ms in stated.items() if node not in estimated and WRONG_FROM_MS <= abs(ms) <= STATED_MAX_MS
    }
    return from_manifests | from_estimates


def first_corrections(estimated: Mapping[str, Skew], stated: Mapping[str, int]) -> dict[str, int]:
    """Return the corrections for the beginning of each node's ledgers."""
    return corrections({node: skew._replace(ms=skew.first_ms) for node, skew in estimated.items()}, stated)
