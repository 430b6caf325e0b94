"""Verdicts of documents in pieces (PROTOCOL.md section 24): one for the manifest and all pieces of a document together.

Each piece and each manifest is a message with a verdict of its own. The verdict of a document is that of its worst
message, except in two cases (comments in ``write_documents``).
"""

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_reconcile.judgement.verdicts import EXCEPTIONS, VERDICT, VERDICTS
from spark_reconcile.storage import Place
from spark_reconcile.tables import Row, read_batches, rows_of

SHOWN_MAX = 50  # largest number of documents named in summary.json

# Verdicts, the worst first. REFUSED precedes the open ones, because a refused piece ends the document.
_OPEN = [verdict.name for verdict in VERDICTS if verdict.kind == "open"]
_FINE = [verdict.name for verdict in VERDICTS if verdict.kind == "fine" and verdict.name != "MATCHED"]
_WORST_FIRST = (*EXCEPTIONS, *_FINE, *_OPEN, "MATCHED")
_RANK = " ".join(f"WHEN '{verdict}' THEN {rank}" for rank, verdict in enumerate(_WORST_FIRST))


@dataclass(frozen=True, slots=True)
class LargeDocuments:
    """The documents in pieces of a run."""

    counts: tuple[tuple[str, str, int], ...] = ()  #: scope (date or carried), verdict, number of documents
    worst: tuple[Row, ...] = ()  #: at most SHOWN_MAX documents that are not MATCHED

    def verdicts(self, scope: str) -> dict[str, int]:
        """Return the number of documents of a scope by verdict; only verdicts that occur."""
        return {verdict: count for row_scope, verdict, count in self.counts if row_scope == scope}

    def words(self, scope: str) -> str:
        """Return the numbers by verdict as words: ``2 MATCHED, 1 NOT_DELIVERED``; empty if there are none."""
        counts = self.verdicts(scope)
        return ", ".join(f"{counts[name]:,} {name}" for name in VERDICT if name in counts)


def write_documents(verdicts: DataFrame, place: Place) -> LargeDocuments:
    """Write a row for each document in pieces that has a message in the run, the worst documents first.

    Return how many documents have each verdict, and the worst ones.
    """
    # With a delivered manifest, a refused piece does not count: its content was sent again as another message.
    delivered = "count_if(NOT is_piece AND verdict = 'MATCHED') > 0"
    worst = f"min(struct(CASE verdict {_RANK} END AS rank, lk0 AS message))"
    verdict = f"array({', '.join(map(repr, _WORST_FIRST))})[worst.rank]"
    documents = (
        verdicts.where("document <> ''")
        .groupBy("document")
        .agg(
            F.max("scope").alias("scope"),  # 'date' if any of its messages is of the date
            F.min("sender").alias("sender"),
            F.max("receiver").alias("receiver"),
            F.expr("count_if(is_piece)").alias("pieces"),
            F.expr("sum(if(is_piece, size, 0L))").alias("bytes"),
            F.expr("count_if(NOT is_piece)").alias("manifests"),
            F.expr("count_if(verdict <> 'MATCHED')").alias("unmatched"),
            F.expr(f"if({delivered}, {worst} FILTER (WHERE verdict <> 'REFUSED'), {worst})").alias("worst"),
        )
        .withColumns(
            {
                # Only delivered pieces are known: the manifest follows them.
                "verdict": F.expr(f"if(manifests = 0 AND {verdict} = 'MATCHED', 'IN_FLIGHT', {verdict})"),
                "message": F.expr("if(unmatched > 0, worst.message, '')"),
            }
        )
        .orderBy(F.expr(f"CASE verdict {_RANK} END"), "document")
        .drop("worst")
    )
    documents.write.parquet(place.uri, compression="zstd")
    place.make_reproducible()
    counts: Counter[tuple[str, str]] = Counter()
    worst_rows: list[Row] = []
    for batch in read_batches(place):
        for group in pa.table(batch).group_by(["scope", "verdict"]).aggregate([([], "count_all")]).to_pylist():
            counts[group["scope"], group["verdict"]] += group["count_all"]
        unmatched = batch.filter(pc.not_equal(batch["verdict"], "MATCHED"))
        worst_rows += rows_of(unmatched.slice(length=SHOWN_MAX - len(worst_rows)))
    return LargeDocuments(
        tuple((scope, verdict, count) for (scope, verdict), count in sorted(counts.items())), tuple(worst_rows)
    )
