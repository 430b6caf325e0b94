"""Clocks: told from the ledgers to the second, whatever single messages say."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_reconcile import clocks, stages
from spark_reconcile.clocks import Skew, applied

NODES = ["1.a", "1.b", "1.c", "2.hub"]


def message(
    number: int, sender: str, receiver: int, skew: dict[str, int], way: int = 40, **other: int | None
) -> dict[str, object]:
    mine, theirs = skew.get(sender, 0), skew.get(NODES[receiver], 0)
    return {"lk0": f"{sender}.1.1.3f.{number}", "att": 1, "sent_at": 1_000_000 + mine, "taken_at": 1_000_000 + way,
            "heard_at": 1_000_000 + 2 * way + mine, "recorded_at": 1_000_000 + 2 * way + theirs,
            "ended_at": 1_000_000 + 4 * way + mine, "node": NODES[receiver], **other}  # fmt: skip


@pytest.mark.parametrize("skew", [{}, {"1.a": 3_600_000}, {"1.a": -3_600_000, "1.b": 90_000, "1.c": 5_000}])
def test_the_clock_that_most_messages_agree_on_counts(spark: SparkSession, skew: dict[str, int]) -> None:
    rows = [message(number, "1.a", 1, skew) for number in range(5)]
    rows += [message(10 + number, "1.b", 2, skew, way=900) for number in range(3)]
    rows += [
        message(20, "1.a", 1, {"1.a": 77_000}),  # one message says something else
        message(21, "1.a", 1, {"1.a": 500_000}, att=2),  # sent again: says nothing
        message(22, "1.a", 1, {"1.a": 500_000}, way=9_000),  # too slow to tell
        message(23, "1.c", 0, {"1.c": 500_000}, heard_at=None),
        message(24, "1.b", 2, skew, ended_at=None),
        message(25, "1.b", 2, skew, recorded_at=None, node=None),
    ]
    names = stages.names(spark, NODES, None)
    facts = spark.createDataFrame(
        pa.Table.from_pylist(
            [{name: value for name, value in row.items() if name != "node"} | {"at_node": row["node"]} for row in rows]
        )
    ).selectExpr("*", "if(at_node IS NULL, NULL, xxhash64(at_node)) AS node_high")
    found = clocks.estimate(facts, names)
    assert {node: one.ms for node, one in found.items()} == {node: skew.get(node, 0) for node in ("1.a", "1.b", "1.c")}
    assert found["1.a"].agreeing == 5
    assert found["1.a"].of == 6


def test_an_estimate_counts_before_what_a_manifest_states() -> None:
    stated = {"1.a": 60_000, "1.b": 60_000, "1.c": 1_999}
    assert applied({"1.a": Skew(3_600_000, 5, 5), "1.d": Skew(1_000, 5, 5)}, stated) == {
        "1.a": 3_600_000,
        "1.b": 60_000,
    }
