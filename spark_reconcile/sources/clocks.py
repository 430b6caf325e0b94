"""The difference between each node's clock and the hub's, estimated from the ledgers, so that a wrong clock does not
look like loss.

A sender records when it sent a message and when the hub answered; the hub's own line lies between the two. The middle
of the round trip by the sender's clock is therefore the hub's time (the method of RFC 5905). The same holds for the
receiver's record, between the hub's sending of a copy and its release, or between the sender's sending and the
end-to-end acknowledgement. The error of each estimate is at most half its round trip; the report states the mean of
that. Clocks drift and are corrected: the median of the last hour is used, and that of the first hour only for the
beginning of the evidence.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_reconcile.days import DAY_MS

WAY_MAX_MS = 10_000  # longer round trips are too imprecise
STEP_MS = 10  # estimates are rounded to this step
WRONG_FROM_MS = (
    2_000  # an operator should correct a clock above this; a difference that is only stated counts from here on
)
STATED_TO_MS = DAY_MS
ENOUGH = 3  # messages per hour, so that a single wrong line does not decide
HOUR_MS = 3_600_000


class Skew(NamedTuple):
    """A node's clock minus the hub's: estimate, messages used, all messages, first hour, precision."""

    ms: int
    agreeing: int
    of: int
    first_ms: int
    within_ms: int = 0

    @property
    def is_known_to_differ(self) -> bool:
        """Whether the difference exceeds the error of the estimate."""
        return abs(self.ms) > self.within_ms


def estimate(facts: DataFrame, names: DataFrame) -> dict[str, Skew]:
    """Estimate the clock of each node, where possible. ``names``: hash, node.

    Spark returns one row per node and hour.
    """
    counted = (
        facts.where(_TELLS)
        .selectExpr(*(f"{what} AS {name}" for name, what in _ESTIMATES))
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
    by_node: dict[str, list[Hour]] = {}
    for row in hours.join(F.broadcast(names), "hash").collect():
        way = round(row["way"] / row["messages"])
        by_node.setdefault(row["node"], []).append(Hour(int(row["h"]), round(row["ms"]), int(row["messages"]), way))
    return {node: latest(hours_of) for node, hours_of in sorted(by_node.items())}


class Hour(NamedTuple):
    """The estimate of a clock from the messages of one hour."""

    hour: int  #: hours since 1970, by the hub's clock
    ms: int  #: the median
    messages: int
    way_ms: int = 0  #: the mean round trip


def latest(hours: Sequence[Hour]) -> Skew:
    """Return the clock at the end: of the last hour with enough messages, else of all messages."""
    enough = [one for one in hours if one.messages >= ENOUGH]
    of = sum(one.messages for one in hours)
    if enough:
        first, ms, way = min(enough).ms, max(enough).ms, max(enough).way_ms
    else:
        every = sorted(one.ms for one in hours for _ in range(one.messages))
        first = ms = every[len(every) // 2]
        way = sum(one.way_ms * one.messages for one in hours) // of
    agreeing = sum(one.messages for one in hours if abs(one.ms - ms) < WRONG_FROM_MS)
    return Skew(ms, agreeing, of, first, (way + STEP_MS) // 2)


# The sender's clock minus the hub's: from messages that were sent once and answered soon enough.
_BEGUN, _HEARD = "coalesce(sent_at, accepted_at)", "least(heard_at, ended_at)"
_IN_TIME = f"att <= 1 AND taken_at IS NOT NULL AND {_HEARD} - {_BEGUN} BETWEEN 0 AND {WAY_MAX_MS}"
_SENDER_MS = f"(({_BEGUN} + {_HEARD}) / 2 - taken_at)"
# The receiver's minus the hub's: directly for a stored copy, otherwise through the sender's clock.
_KEPT = f"released_at - hub_sent_at BETWEEN 0 AND {WAY_MAX_MS}"
_ACKED = f"{_IN_TIME} AND ended_at - {_BEGUN} BETWEEN 0 AND {WAY_MAX_MS}"
_RECEIVER_MS = (
    f"if({_KEPT}, recorded_at - (hub_sent_at + released_at) / 2, "
    f"if({_ACKED}, recorded_at - ({_BEGUN} + ended_at) / 2 + {_SENDER_MS}, NULL))"
)
_TELLS = f"{_IN_TIME} OR {_KEPT}"
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


def applied(estimated: Mapping[str, Skew], stated: Mapping[str, int]) -> dict[str, int]:
    """Return the correction of each node's times in milliseconds: the estimate, else the value of its manifest.

    A value of the manifest is used up to one day, because a larger one would keep lost messages in flight beyond the
    next run. Its precision is unknown, so small values count as zero.
    """
    believed = {node: ms for node, ms in stated.items() if WRONG_FROM_MS <= abs(ms) <= STATED_TO_MS}
    shifts = {node: skew.ms for node, skew in estimated.items() if skew.is_known_to_differ}
    return {**{node: ms for node, ms in believed.items() if node not in estimated}, **shifts}


def at_first(estimated: Mapping[str, Skew], stated: Mapping[str, int]) -> dict[str, int]:
    """Return the corrections of the first hour, which apply to the beginning of each node's ledgers."""
    return applied({node: skew._replace(ms=skew.first_ms) for node, skew in estimated.items()}, stated)
