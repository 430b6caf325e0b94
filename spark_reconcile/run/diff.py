"""Differences between two runs of one business date: the messages whose verdict or finding differs.

Runs differ because evidence arrived later, an extract was made again, or the rules changed.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_reconcile.run.runs import Facts, Run
from spark_reconcile.run.stages import read

SAMPLE = 50  # messages
ABSENT = "-"  # verdict and finding of a message that a run does not contain


def diff(spark: SparkSession, old: Run, new: Run) -> Facts:
    """Return both runs, the number of changed messages by old and new verdict, and up to SAMPLE examples.

    If only the finding has changed, both verdicts are the same.
    """
    changed = changed_verdicts(spark, old, new)
    moves = changed.groupBy("old", "new").agg(F.count("*").alias("messages"))
    rows = sorted((row.asDict() for row in moves.collect()), key=lambda row: (-row["messages"], row["old"], row["new"]))
    examples = changed.orderBy("old", "new", "lk0").limit(SAMPLE).collect()
    return {
        "business_date": new.day.isoformat(),
        "old": _described(old),
        "new": _described(new),
        "changed": sum(row["messages"] for row in rows),
        "moves": rows,
        "sample": [row.asDict() for row in examples],
    }


def changed_verdicts(spark: SparkSession, old: Run, new: Run) -> DataFrame:
    """Return the messages of the date whose verdict or finding differs between the runs."""
    before, after = _verdicts(spark, old, "old"), _verdicts(spark, new, "new")
    both = before.join(after, "lk0", "full_outer").select(
        "lk0",
        F.coalesce("new_sender", "old_sender").alias("sender"),
        F.coalesce("new_receiver", "old_receiver").alias("receiver"),
        *(F.coalesce(name, F.lit(ABSENT)).alias(name) for name in ("old", "new", "old_finding", "new_finding")),
    )
    return both.where("old <> new OR old_finding <> new_finding")


def _verdicts(spark: SparkSession, run: Run, prefix: str) -> DataFrame:
    return (
        read(spark, run.verdicts)
        .where("scope = 'date'")
        .select(
            "lk0",
            F.col("verdict").alias(prefix),
            *(F.col(name).alias(f"{prefix}_{name}") for name in ("finding", "sender", "receiver")),
        )
    )


def _described(run: Run) -> Facts:
    result = run.result
    return {"run": run.name, **{name: result.get(name) for name in ("outcome", "messages", "verdicts", "fingerprint")}}
