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
    """The clock of each node that can be told. ``names``: hash, node. A few numbers per node are all that leaves Spark.
    """
    senders = _mode(
        facts.where(_answered("heard_at", "taken_at")).select(
            F.expr("substring_index(lk0, '.', 2)").alias("node"),
            F.expr("floor(((sent_at + heard_at) / 2 - taken_at) / 1000 + 0.5)").alias("seconds"),
        )
    )
    receivers = _mode(
        facts.where(_answered("ended_at", "recorded_at"))
        .withColumn("node", F.expr("substring_index(lk0, '.', 2)"))
        .join(F.broadcast(senders.select("node", F.col("seconds").alias("theirs"))), "node")
        .drop("node")
        .join(F.broadcast(names), F.col("node_high") == F.col("hash"))
        .select(
            "node", F.expr("theirs + floor((recorded_at - (sent_at + ended_at) / 2) / 1000 + 0.5)").alias("seconds")
        )
    )
    found: dict[str, Skew] = {}
    for row in [
        *receivers.collect(),
        *senders.collect(),
    ]:  # one row per node; what it said as a sender comes last and counts
        found[row["node"]] = Skew(int(row["seconds"]) * 1000, int(row["agreeing"]), int(row["of"]))
    return found


def applied(estimated: Mapping[str, Skew], stated: Mapping[str, int]) -> dict[str, int]:
    """The skew by which each node's times are corrected, milliseconds: estimated, else as its manifest states it."""
    skews = {**stated, **{node: skew.ms for node, skew in estimated.items()}}
    return {node: ms for node, ms in skews.items() if abs(ms) >= APPLY_FROM_MS}


def _answered(back: str, between: str) -> str:
    return f"att <= 1 AND {between} IS NOT NULL AND {back} - sent_at BETWEEN 0 AND {WAY_MAX_MS}"


def _mode(estimates: DataFrame) -> DataFrame:
    """The most frequent estimate of each node; of equally frequent ones the smallest correction."""
    counted = estimates.groupBy("node", "seconds").agg(F.count("*").alias("agreeing"))
    ranked = counted.withColumn("of", F.sum("agreeing").over(Window.partitionBy("node"))).withColumn(
        "rank",
        F.row_number().over(Window.partitionBy("node").orderBy(F.desc("agreeing"), F.abs("seconds"), F.col("seconds"))),
    )
    return ranked.where("rank = 1").drop("rank")
