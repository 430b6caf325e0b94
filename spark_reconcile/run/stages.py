"""The stages of a run that touch rows: each reads what an earlier one staged, and writes one table. Called by ``job``
in order.

The driver gets only counts, node names and a bounded sample of exceptions.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as Over

from semq.store.rows import Event, Side
from spark_reconcile.days import Calendar, Window
from spark_reconcile.extracts.schema import NOTES, mask
from spark_reconcile.judgement import assessment
from spark_reconcile.judgement import facts as lines_to_facts
from spark_reconcile.judgement.verdicts import EXCEPTIONS, FINDINGS, VERDICTS
from spark_reconcile.sources.inputs import THE_HUB, UNKNOWN_STORE
from spark_reconcile.spark.session import small_table
from spark_reconcile.storage import Place

STORY_LINES = 40
OTHER_DATES = ("earlier", "later", "none")
KNOWN_BY_HEART = 500_000  # number of message names that fit into every executor
_OPEN = [verdict.name for verdict in VERDICTS if verdict.kind == "open"]
_RANK = " ".join(f"WHEN '{verdict.name}' THEN {rank}" for rank, verdict in enumerate(VERDICTS))
_SIDE = " ".join(f"WHEN '{finding}' THEN '{side}'" for finding, (_, side, _) in FINDINGS.items() if side)
_DEED = " ".join(f"WHEN '{finding}' THEN '{deed}'" for finding, (_, _, deed) in FINDINGS.items() if deed)

# The order of pairs, and their names.
_WORST = (
    ("wrong", f"verdict IN ({', '.join(map(repr, EXCEPTIONS))})"),
    ("unsettled", f"verdict IN ({', '.join(map(repr, _OPEN))})"),
    ("total", "true"),
)
_PAIR = "concat(sender, '>', receiver)"
_LK1 = r"^[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,19}\z"
_REMARKS = ", ".join(str(int(event)) for event in Event if mask(event) & NOTES)


def survey(lines: DataFrame, window: Window, place: Place) -> DataFrame:
    """Count the lines of each node, by side, event and target: its traffic, and which nodes take part."""
    on_date = F.expr(f"at >= {window.start} AND at < {window.end}").alias("on_date")
    # The store of the hub that held a copy, according to other nodes; most lines name none, and need no search.
    names_copy = f"lk1 <> '' AND side <> {int(Side.HUB)} AND event NOT IN ({_REMARKS}) AND lk1 RLIKE r'{_LK1}'"
    copies_in = F.expr(f"if({names_copy}, substring_index(lk1, '.', 2), '')").alias("copies_in")
    counted = lines.groupBy("node", "store", "side", "event", "target", copies_in, on_date).agg(
        F.count("*").alias("lines"), F.expr("count_if(outside)").alias("outside")
    )
    # Only the node of a target counts. Its user is removed here, from a few thousand rows instead of all lines.
    return _stage(counted.withColumn("target", F.expr("substring_index(target, '/', 1)")), place, kept=False)


def who_takes_part(survey: DataFrame) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the nodes that any line names, and the lines of the date by node, store, side and event."""
    named = survey.select("node").union(survey.select("target")).where("node <> ''").distinct()
    counted = survey.where("on_date").groupBy("node", "store", "side", "event").agg(
        F.sum("lines").alias("lines"), F.sum("outside").alias("outside")
    )  # fmt: skip
    rows = counted.unionByName(named, allowMissingColumns=True).collect()
    lines = [row.asDict() for row in rows if row["lines"] is not None]
    return (
        sorted({row["node"] for row in rows}),
        sorted(lines, key=lambda row: [str(value) for value in row.values()]),
    )


UNSERVED_MIN = 20  # records of a node, of which none is known to the hub


def hub_traces(survey: DataFrame, hubs: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the traces of missing ledgers of the hub in others: stores of copies that two or more nodes name, such as
    1.1; and nodes with many records that the hub's lines do not mention.
    """
    stores = (
        survey.where("copies_in <> ''")
        .groupBy("copies_in")
        .agg(F.count_distinct("node").alias("nodes"))
        .where("nodes > 1")
    )
    counted = survey.where("on_date").selectExpr(
        "node", "target", f"side = {int(Side.HUB)} AND event NOT IN ({_REMARKS}) AS by_hub",
        f"side = {int(Side.RECEIVER)} AND event = {int(Event.RECEIVED)} AS is_record", "lines",
    )  # fmt: skip
    of_hub = {row["target"] for row in counted.where("by_hub").select("target").distinct().collect()}
    recorded = counted.where("is_record").groupBy("node").agg(F.sum("lines").alias("lines")).collect()
    much = {row["node"] for row in recorded if row["lines"] >= UNSERVED_MIN} - set(hubs)
    # Lines of the hub without a target may be about any node.
    unserved = much - of_hub if of_hub and not of_hub & {"", None} else set()
    return {row["copies_in"] for row in stores.collect()}, unserved


def names(spark: SparkSession, nodes: Iterable[str], carried: DataFrame | None) -> DataFrame:
    """Return nodes with their hash in the facts: those of the lines and those of carried messages."""
    known = set(nodes)
    if carried is not None:
        rows = carried.select("receiver_node").where("receiver_node <> ''").distinct().collect()
        known |= {row["receiver_node"] for row in rows}
    table = small_table(spark, [(node,) for node in sorted(known)], node=pa.string())
    return table.select(F.expr("xxhash64(node)").alias("hash"), "node")


def facts(
    lines: DataFrame, hubs: Collection[str], carried: DataFrame | None, window: Window, place: Place
) -> tuple[DataFrame, dict[str, int]]:
    """Write one row per message of the date, and per carried one; return the numbers of other messages in the lines, by
    their scope.
    """
    others = Observation()
    all_messages = assessment.dated(lines_to_facts.gather(lines, hubs, carried), window).observe(others, *_by_scope())
    # In the order of time: so that equal inputs give equal files, of the verdicts too, which are written in this order.
    mine = all_messages.where("scope IN ('date', 'carried', 'near')").sortWithinPartitions("born_at", "lk0")
    staged = _stage(mine, place, kept=False)
    return staged, {scope: int(others.get[scope]) for scope in OTHER_DATES}


def _by_scope() -> list[Column]:
    return [F.count_if(F.col("scope") == scope).alias(scope) for scope in OTHER_DATES]


def verdicts(judged: DataFrame, window: Window, oldest_at: int, place: Place) -> tuple[DataFrame, dict[str, int]]:
    """Write the verdict of each message, for the report and the run of the next date; return the numbers of messages
    that their senders' clocks put on other dates, by their scope.
    """
    others = Observation()
    staged = _stage(assessment.verdicts(judged.observe(others, *_by_scope()), window, oldest_at), place)
    return staged, {scope: int(others.get[scope]) for scope in OTHER_DATES}


def left_open(spark: SparkSession, place: Place) -> DataFrame:
    """The facts of the messages that an earlier run left open, from its verdicts."""
    return read(spark, place).where("open IS NOT NULL").select("open.*")


def cells(verdicts: DataFrame, place: Place) -> DataFrame:
    """Counts by pair and finding."""
    return _stage(assessment.cells(verdicts), place, kept=False)


def pairs(cells: DataFrame, place: Place) -> DataFrame:
    """Messages by pair and verdict, the rows of a pair together; the pair with the most exceptions (of all dates)
    first, then the one with the most open messages.
    """
    summed = (F.expr(f"{merge}({name})").alias(name) for merge, name in _SUMS)
    by_pair = cells.groupBy("scope", "sender", "receiver", "verdict").agg(*summed)
    pair = Over.partitionBy("sender", "receiver")
    sums = {name: F.sum(F.expr(f"if({which}, messages, 0)")).over(pair) for name, which in _WORST}
    worst: list[Column | str] = [F.desc(name) for name in sums]
    order = [*worst, "sender", "receiver", F.desc("scope"), F.expr(f"CASE verdict {_RANK} END")]
    return _stage(by_pair.withColumns(sums).orderBy(*order).drop(*sums), place)


_SUMS = (
    ("sum", "messages"),
    ("min", "oldest_at"),
    ("sum", "bytes"),
    ("sum", "resends"),
    ("sum", "turned"),
    ("sum", "pieces"),
)


# The reason of a line ACCEPTED is the name of a document in pieces.
_REASON = f"max(if(event = {int(Event.ACCEPTED)}, NULL, reason))"


def their_lines(lines: DataFrame, verdicts: DataFrame, exceptions: int, place: Place) -> DataFrame:
    """Write the lines of the messages that need an act."""
    wrong = _by_heart(verdicts.where(F.col("verdict").isin(*EXCEPTIONS)).select("lk0"), exceptions)
    named = lines.withColumn("lk0", F.expr(lines_to_facts.KEY)).select("lk0", *_STORY_COLUMNS)
    theirs = named.join(wrong, "lk0", "leftsemi")
    texts = {name: F.expr(f"make_valid_utf8({name})") for name in ("lk1", "reason", *_APP_KEY)}
    return _stage(theirs.withColumns(texts), place, kept=False)


_APP_KEY = ("app_key_hash", "app_domain", "app_type", "app_subtype")  # parts of a business key that may be in extracts
_STORY_COLUMNS = ("at", "outside", "side", "event", "node", "store", "seq", "att", "lk1", "reason", *_APP_KEY)


def exceptions(verdicts: DataFrame, their_lines: DataFrame, place: Place) -> DataFrame:
    """Write the exceptions with the details that only the lines have, in the order of the report."""
    wrong = verdicts.where(F.col("verdict").isin(*EXCEPTIONS))
    details = (
        their_lines.groupBy("lk0")
        .agg(F.expr(_REASON).alias("reason"), *(F.max(F.expr(f"nullif({name}, '')")).alias(name) for name in _APP_KEY),
             F.max(F.expr("nullif(lk1, '')")).alias("lk1"))
    )  # fmt: skip
    described = wrong.join(details, "lk0", "left").withColumns(
        {"side": F.expr(f"CASE finding {_SIDE} END"), "deed": F.expr(f"CASE finding {_DEED} END")}
    )
    return _stage(described.orderBy(F.expr(f"CASE verdict {_RANK} END"), "finding", "sender", "receiver", "lk0"), place)


def stories(their_lines: DataFrame, lk0s: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The lines of some messages in the order of time, at most STORY_LINES of each and one more, which says that there
    are more."""
    if not lk0s:
        return {}
    numbered = their_lines.where(F.col("lk0").isin(list(lk0s))).withColumn(
        "number", F.row_number().over(Over.partitionBy("lk0").orderBy("at", "side", "node", "store", "seq"))
    )
    rows = (
        numbered.where(F.col("number") <= STORY_LINES + 1)
        .select("lk0", "number", "at", "outside", "side", "event", "node", "store", "seq", "att", "lk1", "reason")
        .collect()
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted((row.asDict() for row in rows), key=lambda row: (row["lk0"], row["number"])):
        found.setdefault(row.pop("lk0"), []).append(row)
    return found


def profile(cells: DataFrame) -> list[dict[str, Any]]:
    """All counts without the pairs: by scope, finding, latency and age. A few hundred rows, however many messages."""
    summed = cells.groupBy("scope", "verdict", "finding", "latency", "age").agg(
        *(F.expr(f"{merge}({name})").alias(name) for merge, name in _SUMS)
    )
    return [row.asDict() for row in summed.collect()]


def drill(cells: DataFrame, names: Sequence[str]) -> list[dict[str, Any]]:
    """All counts of some pairs, by finding, latency and age: what the page shows of each."""
    named = cells.where(F.expr(_PAIR).isin(list(names)))
    return [row.asDict() for row in named.collect()] if names else []


def of_pairs(pairs: DataFrame, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """The counts of the pairs that have thresholds of their own."""
    named = pairs.where("scope = 'date'").withColumn("pair", F.expr(_PAIR))
    rows = named.where(F.col("pair").isin(list(wanted))).select("pair", "verdict", "messages", "oldest_at").collect()
    return sorted((row.asDict() for row in rows), key=lambda row: (row["pair"], row["verdict"]))


def _by_heart(messages: DataFrame, count: int) -> DataFrame:
    """Return messages for a join. Few are broadcast explicitly: the planner knows the size of all verdicts only."""
    return F.broadcast(messages) if count <= KNOWN_BY_HEART else messages


def _stage(frame: DataFrame, place: Place, *, kept: bool = True) -> DataFrame:
    # Temporary tables are compressed lightly: a better compression would cost more time than it saves.
    if kept:
        frame.write.parquet(place.uri, compression="zstd")
        place.number_parts()
    else:
        # Nearly all values of a column of facts are different: a dictionary of them is work for nothing.
        frame.write.option("parquet.enable.dictionary", "false").parquet(place.uri, compression="snappy")
    return frame.sparkSession.read.schema(frame.schema).parquet(place.uri)


def read(spark: SparkSession, place: Place) -> DataFrame:
    """A table that an earlier run wrote."""
    return spark.read.parquet(place.uri)


class Absence(NamedTuple):
    """A missing ledger that should mention some messages: its node, and the business date."""

    name: str  #: name of the ledger, if messages name it; else of the node, or THE_HUB
    day: date
    messages: int


def absences(
    verdicts: DataFrame, unserved: Collection[str], calendar: Calendar, day: date, carry_days: int
) -> list[Absence]:
    """Return the missing ledgers that prevent verdicts: a row for each absent ledger, or node, and date. ``unserved``:
    see ``hub_traces``.
    """
    of_unknown = f"receiver IN ({', '.join(map(repr, sorted(unserved)))})" if unserved else "false"
    who = (
        "CASE finding WHEN 'sender_source_missing' THEN substring_index(lk0, '.', 4) "
        f"WHEN 'hub_source_missing' THEN if({of_unknown}, '{UNKNOWN_STORE}', '{THE_HUB}') "
        "WHEN 'receiver_source_missing' THEN receiver END"
    )
    days = [day + timedelta(days=step) for step in range(-carry_days - 2, 3)]
    starts = ", ".join(f"{calendar.window(one).start}L" for one in days)
    number = f"greatest(size(filter(array({starts}), start -> start <= absent_at)), 1) - 1"
    rows = (
        verdicts.where("verdict = 'SOURCE_MISSING'")
        .groupBy(F.expr(who).alias("name"), F.expr(number).alias("number"))
        .agg(F.count("*").alias("messages"))
        .collect()
    )
    return sorted(Absence(row["name"], days[row["number"]], row["messages"]) for row in rows)
