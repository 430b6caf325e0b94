"""How far each node's clock is from the hub's, told from the ledgers themselves, so that a wrong clock is not taken for
loss.

A sender notes when it sent a message and when it heard of it from the hub; the hub's own line lies in between. So half
the way there and back, by the sender's clock, is the hub's time, whatever the sender's clock says (the method of RFC
5905). The same with the receiver's record between sending and the end-to-end acknowledgement. Each message gives an
estimate that is off by at most half of its way there and back; of all estimates of a node the one counts that most
messages agree on, by the second.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window

WAY_MAX_MS = 10_000  # a slower answer says too little
APPLY_FROM_MS = 2_000  # smaller differences are within the error of the method


class Skew(NamedTuple):
    """A node's clock minus the hub's, and how many messages say so, of how many."""

    ms: int
    agreeing: int
    of: int


def estimate(facts: DataFrame, names: DataFrame) -> dict[str, Skew]:
    """The clock of each node that can be told. ``names``: hash, node. One row per node is all that leaves Spark."""
    counted = facts.where(_IN_TIME).groupBy(*(F.expr(what).alias(name) for name, what in _ESTIMATES)).agg(
        F.count("*").alias("messages")
    )  # fmt: skip
    by_hash = counted.selectExpr("messages", "stack(2, sender, sender_s, receiver, receiver_s) AS (hash, seconds)")
    told = _mode(by_hash.where("seconds IS NOT NULL AND hash IS NOT NULL")).join(F.broadcast(names), "hash").collect()
    return {row["node"]: Skew(int(row["seconds"]) * 1000, int(row["agreeing"]), int(row["of"])) for row in told}


# A message that was sent once, and whose sender heard of it from the hub soon enough to tell the time by it.
_IN_TIME = f"att <= 1 AND taken_at IS NOT NULL AND heard_at - sent_at BETWEEN 0 AND {WAY_MAX_MS}"
# The sender's clock minus the hub's; then the receiver's minus the hub's, by way of this same sender's clock.
_SENDER_MS = "((sent_at + heard_at) / 2 - taken_at)"
_RECEIVER_MS = f"(recorded_at - (sent_at + ended_at) / 2 + {_SENDER_MS})"
_ESTIMATES = (
    ("sender", "xxhash64(substring_index(lk0, '.', 2))"),
    ("sender_s", f"bigint(floor({_SENDER_MS} / 1000 + 0.5))"),
    ("receiver", "node_high"),
    (
        "receiver_s",
        f"if(ended_at - sent_at BETWEEN 0 AND {WAY_MAX_MS}, bigint(floor({_RECEIVER_MS} / 1000 + 0.5)), NULL)",
    ),
)


def applied(estimated: Mapping[str, Skew], stated: Mapping[str, int]) -> dict[str, int]:
    """The skew by which each node's times are corrected, milliseconds: estimated, else as its manifest states it."""
    skews = {**stated, **{node: skew.ms for node, skew in estimated.items()}}
    return {node: ms for node, ms in skews.items() if abs(ms) >= APPLY_FROM_MS}


def _mode(estimates: DataFrame) -> DataFrame:
    """The most frequent estimate of each node; of equally frequent ones the smallest correction."""
    counted = estimates.groupBy("hash", "seconds").agg(F.sum("messages").alias("agreeing"))
    ranked = counted.withColumn("of", F.sum("agreeing").over(Window.partitionBy("hash"))).withColumn(
        "rank",
        F.row_number().over(Window.partitionBy("hash").orderBy(F.desc("agreeing"), F.abs("seconds"), F.col("seconds"))),
    )
    return ranked.where("rank = 1").drop("rank")
