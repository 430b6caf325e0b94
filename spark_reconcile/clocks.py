"""How far each node's clock is from the hub's, told from the ledgers themselves, so that a wrong clock is not taken for
loss.

A sender notes when it sent a message and when it heard of it from the hub; the hub's own line lies in between. So half
the way there and back, by the sender's clock, is the hub's time, whatever the sender's clock says (the method of RFC
5905). The same with the receiver's record, between the hub's sending of a copy and its release, or between the sender's
sending and the end-to-end acknowledgement. Each message gives an estimate that is off by at most half of its way there
and back; the mean of that is the precision that the report states. Clocks drift and are put right, and what counts is
how a clock stands where the evidence ends: the median of the last hour is taken, and only where the evidence begins
that of the first one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_reconcile.days import DAY_MS

WAY_MAX_MS = 10_000  # a slower answer says too little
STEP_MS = 10  # estimates are counted in such steps
WRONG_FROM_MS = 2_000  # a person should look after a clock that is so wrong; what is only stated counts from here on
STATED_TO_MS = DAY_MS
ENOUGH = 3  # messages of an hour, so that one absurd line does not set a clock
HOUR_MS = 3_600_000


class Skew(NamedTuple):
    """A node's clock minus the hub's, how many messages say so, of how many, how it stood in the first hour, and how
    exactly it is known."""

    ms: int
    agreeing: int
    of: int
    first_ms: int
    within_ms: int = 0

    @property
    def is_known_to_differ(self) -> bool:
        """Whether the difference is more than what the estimate may be off."""
        return abs(self.ms) > self.within_ms


def estimate(facts: DataFrame, names: DataFrame) -> dict[str, Skew]:
    """The clock of each node that can be told. ``names``: hash, node. A row per node and hour is all that leaves
    Spark."""
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
    told: dict[str, list[Hour]] = {}
    for row in hours.join(F.broadcast(names), "hash").collect():
        way = round(row["way"] / row["messages"])
        told.setdefault(row["node"], []).append(Hour(int(row["h"]), round(row["ms"]), int(row["messages"]), way))
    return {node: latest(hours) for node, hours in sorted(told.items())}


class Hour(NamedTuple):
    """What the messages of one hour say of a clock."""

    hour: int  #: since 1970, of the hub
    ms: int  #: the median
    messages: int
    way_ms: int = 0  #: the mean time there and back


def latest(hours: Sequence[Hour]) -> Skew:
    """The clock as it stands at the end: of the last hour in which enough messages tell it, else of all of them."""
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


# The sender's clock minus the hub's: of a message that was sent once, and whose sender heard of it soon enough.
_BEGUN, _HEARD = "coalesce(sent_at, accepted_at)", "least(heard_at, ended_at)"
_IN_TIME = f"att <= 1 AND taken_at IS NOT NULL AND {_HEARD} - {_BEGUN} BETWEEN 0 AND {WAY_MAX_MS}"
_SENDER_MS = f"(({_BEGUN} + {_HEARD}) / 2 - taken_at)"
# The receiver's minus the hub's: by the hub's own clock for a copy that it kept, else by way of the sender's.
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
    """The skew by which each node's times are corrected, milliseconds: estimated, else as its manifest states it.

    What is only stated, by a node of which no message tells the time, is believed up to a day: more would keep its lost
    messages in flight for longer than until the next run. How exactly it was measured nobody knows: little counts as
    nothing.
    """
    believed = {node: ms for node, ms in stated.items() if WRONG_FROM_MS <= abs(ms) <= STATED_TO_MS}
    told = {node: skew.ms for node, skew in estimated.items() if skew.is_known_to_differ}
    return {**{node: ms for node, ms in believed.items() if node not in estimated}, **told}


def at_first(estimated: Mapping[str, Skew], stated: Mapping[str, int]) -> dict[str, int]:
    """The same of the first hour: by how much the times were wrong with which each node's ledgers begin."""
    return applied({node: skew._replace(ms=skew.first_ms) for node, skew in estimated.items()}, stated)
