"""The stages of a run that read rows: lines, or a table of an earlier stage. Most write a table."""

from collections.abc import Collection, Iterable
from datetime import date, timedelta
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as Over

from semq.engine.uplink import DIRECTLY
from semq.store.rows import Event, Side
from spark_reconcile.days import Calendar, Window
from spark_reconcile.extracts.events import NOTES, mask
from spark_reconcile.judgement import assessment
from spark_reconcile.judgement import facts as lines_to_facts
from spark_reconcile.judgement.verdicts import EXCEPTIONS, FINDINGS, VERDICTS
from spark_reconcile.run.readings import SUMS
from spark_reconcile.sources.inputs import THE_HUB, UNKNOWN_STORE
from spark_reconcile.spark.session import small_table
from spark_reconcile.storage import Place

OTHER_DATES = ("earlier", "later", "none")  # scopes that a run only counts (``assessment.dated``)
ABSENCES_MAX = 10_000  # absent ledgers that a run names; lines of one institution can name any number of nodes
FEW = 500_000  # number of exceptions that fit into the memory of every executor
_OPEN = [verdict.name for verdict in VERDICTS if verdict.kind == "open"]
_RANK = " ".join(f"WHEN '{verdict.name}' THEN {rank}" for rank, verdict in enumerate(VERDICTS))
_SIDE = " ".join(f"WHEN '{finding}' THEN '{side}'" for finding, (_, side, _) in FINDINGS.items() if side)
_DEED = " ".join(f"WHEN '{finding}' THEN '{deed}'" for finding, (_, _, deed) in FINDINGS.items() if deed)

# The numbers by which pairs are sorted, each with the condition for the messages that it counts.
_WORST = (
    ("exceptions", f"verdict IN ({', '.join(map(repr, EXCEPTIONS))})"),
    ("unsettled", f"verdict IN ({', '.join(map(repr, _OPEN))})"),
    ("total", "true"),
)
_LK1 = r"^[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,19}\z"
_NOT_BY_HUB = f"reason = '{DIRECTLY}' OR startswith(lk0, concat(node, '.')) OR startswith(lk0, '2.')"
_NOTES = ", ".join(str(int(event)) for event in Event if mask(event) & NOTES)


def survey(lines: DataFrame, window: Window, place: Place) -> None:
    """Write the numbers of lines by ledger, side, event, target node, store of the copy, date (this or another), and
    ``relayed`` (false for a line RECEIVED of a message that did not pass through the hub)."""
    on_date = F.expr(f"at >= {window.start} AND at < {window.end}").alias("on_date")
    # The store of the hub with a copy, according to another node. The cheap tests come first.
    names_copy = f"lk1 <> '' AND side <> {int(Side.HUB)} AND event NOT IN ({_NOTES}) AND lk1 RLIKE r'{_LK1}'"
    copies_in = F.expr(f"if({names_copy}, substring_index(lk1, '.', 2), '')").alias("copies_in")
    relayed = F.expr(f"NOT coalesce(event = {int(Event.RECEIVED)} AND ({_NOT_BY_HUB}), false)").alias("relayed")
    counted = lines.groupBy("node", "store", "side", "event", "target", copies_in, on_date, relayed).agg(
        F.count("*").alias("lines"), F.expr("count_if(outside)").alias("outside")
    )
    # The user is removed from the target here, not earlier, because there are fewer rows than lines.
    _write(counted.withColumn("target", F.expr("substring_index(target, '/', 1)")), place, is_published=False)


def names(spark: SparkSession, nodes: Iterable[str], carried: DataFrame | None) -> DataFrame:
    """Return a table of nodes in lines and carried messages, and of their hashes in facts."""
    names = set(nodes)
    if carried is not None:
        names |= {row["receiver"] for row in carried.select("receiver").where("receiver <> ''").distinct().collect()}
    table = small_table(spark, [(node,) for node in sorted(names)], node=pa.string())
    return table.select(F.expr("xxhash64(node)").alias("hash"), "node")


def facts(
    lines: DataFrame, hubs: Collection[str], carried: DataFrame | None, window: Window, place: Place
) -> tuple[DataFrame, dict[str, int]]:
    """Write a row for each message with scope date, carried or near; return the table, and the number of messages in
    each other scope.
    """
    counts = Observation()
    all_messages = assessment.dated(lines_to_facts.gather(lines, hubs, carried), window).observe(counts, *_by_scope())
    # Equal inputs must make equal files.
    to_judge = all_messages.where("scope IN ('date', 'carried', 'near')").sortWithinPartitions("born_at", "lk0")
    staged = _stage(to_judge, place, is_published=False)
    return staged, {scope: int(counts.get[scope]) for scope in OTHER_DATES}


def _by_scope() -> list[Column]:
    return [F.count_if(F.col("scope") == scope).alias(scope) for scope in OTHER_DATES]


def verdicts(judged: DataFrame, window: Window, oldest_at: int, place: Place) -> tuple[DataFrame, dict[str, int]]:
    """Write the verdict of each message. Return the table, and the numbers of messages of other dates by scope.

    ``oldest_at``: messages born earlier are not carried further.
    """
    counts = Observation()
    staged = _stage(assessment.verdicts(judged.observe(counts, *_by_scope()), window, oldest_at), place)
    return staged, {scope: int(counts.get[scope]) for scope in OTHER_DATES}


def open_messages(spark: SparkSession, place: Place) -> DataFrame:
    """Return the messages that an earlier run left open. ``place``: the verdicts of that run."""
    return read(spark, place).where("open IS NOT NULL").select("receiver", "open")


def cells(verdicts: DataFrame, place: Place) -> DataFrame:
    """Write counts by scope, pair, verdict, finding, latency and age; return the table."""
    return _stage(assessment.cells(verdicts), place, is_published=False)


def pairs(cells: DataFrame, place: Place) -> None:
    """Write counts by pair, scope and verdict: the rows of a pair together, the worst pair first."""
    summed = (F.expr(f"{merge}({name})").alias(name) for merge, name in SUMS)
    by_pair = cells.groupBy("scope", "sender", "receiver", "verdict").agg(*summed)
    pair = Over.partitionBy("sender", "receiver")
    sums = {name: F.sum(F.expr(f"if({condition}, messages, 0)")).over(pair) for name, condition in _WORST}
    worst: list[Column | str] = [F.desc(name) for name in sums]
    order = [*worst, "sender", "receiver", F.desc("scope"), F.expr(f"CASE verdict {_RANK} END")]
    _write(by_pair.withColumns(sums).orderBy(*order).drop(*sums), place)


# Lines ACCEPTED are left out: their reason is the name of a document in pieces.
_REASON = f"max(if(event = {int(Event.ACCEPTED)}, NULL, reason))"


def exception_lines(lines: DataFrame, verdicts: DataFrame, exceptions: int, place: Place) -> DataFrame:
    """Write the ledger lines of the exceptions; return the table. ``exceptions``: number of exceptions."""
    names = _of_exceptions(verdicts).select("lk0")
    story_lines = lines.select(F.expr(lines_to_facts.KEY).alias("lk0"), *_STORY_COLUMNS)
    if exceptions <= FEW:  # Spark overestimates the size of the table
        names = F.broadcast(names)
    selected = story_lines.join(names, "lk0", "leftsemi")
    texts = {
        name: F.expr(f"make_valid_utf8({lines_to_facts.cut(name)})") for name in ("lk1", "digest", "reason", *_APP_KEY)
    }
    return _stage(selected.withColumns(texts), place, is_published=False)


_APP_KEY = ("app_key_hash", "app_domain", "app_type", "app_subtype")  # parts of an AppKey that may be in extracts
_STORY_COLUMNS = ("at", "outside", "side", "event", "node", "store", "seq", "att", "lk1", "digest", "reason", *_APP_KEY)
# The digests that the two ends noted; a sender that has several is told apart by the lines of the story.
_DIGESTS = {
    f"{side.name.lower()}_digest": f"max(if(side = {int(side)} AND event = {int(event)}, nullif(digest, ''), NULL))"
    for side, event in ((Side.SENDER, Event.ACCEPTED), (Side.RECEIVER, Event.RECEIVED))
}


def exceptions(verdicts: DataFrame, exception_lines: DataFrame, exceptions: int, place: Place) -> DataFrame:
    """Write the exceptions with details from the lines, in the report's order; return the table.

    ``exceptions``: number of exceptions.
    """
    details = (
        exception_lines.groupBy("lk0")
        .agg(F.expr(_REASON).alias("reason"), *(F.max(F.expr(f"nullif({name}, '')")).alias(name) for name in _APP_KEY),
             F.max(F.expr("nullif(lk1, '')")).alias("lk1"),
             *(F.expr(digest).alias(name) for name, digest in _DIGESTS.items()))
    )  # fmt: skip
    described = (
        _of_exceptions(verdicts)
        .join(details, "lk0", "left")
        .withColumns({"side": F.expr(f"CASE finding {_SIDE} END"), "deed": F.expr(f"CASE finding {_DEED} END")})
    )
    order = (F.expr(f"CASE verdict {_RANK} END"), "finding", "sender", "receiver", "lk0")
    if exceptions <= FEW:  # a sort of several partitions reads and joins everything twice, first for a sample
        return _stage(described.repartition(1).sortWithinPartitions(*order), place)
    return _stage(described.orderBy(*order), place)


def _of_exceptions(verdicts: DataFrame) -> DataFrame:
    return verdicts.where(F.col("verdict").isin(*EXCEPTIONS)).drop("open")


def _stage(frame: DataFrame, place: Place, *, is_published: bool = True) -> DataFrame:
    _write(frame, place, is_published=is_published)
    return frame.sparkSession.read.schema(frame.schema).parquet(place.uri_to_read)


def _write(frame: DataFrame, place: Place, *, is_published: bool = True) -> None:
    """Write a table. ``is_published``: whether the table stays in the folder of the run."""
    if is_published:
        frame.write.parquet(place.uri, compression="zstd")
        place.make_reproducible()
    else:
        # Better compression costs more time than it saves. Dictionaries save nothing: most values differ.
        frame.write.option("parquet.enable.dictionary", "false").parquet(place.uri, compression="snappy")


def read(spark: SparkSession, place: Place) -> DataFrame:
    """Return a table that an earlier run wrote."""
    return spark.read.parquet(place.uri_to_read)


class Absence(NamedTuple):
    """A missing ledger that should mention messages on a business date."""

    name: str  #: the ledger if messages name it, else the node, THE_HUB or UNKNOWN_STORE
    day: date
    messages: int  #: number of messages without a verdict


def absences(
    verdicts: DataFrame, unserved: Collection[str], calendar: Calendar, day: date, carry_days: int
) -> list[Absence]:
    """Return the missing ledgers that prevent verdicts, by name and date; at most ABSENCES_MAX, with the most messages.

    ``unserved``: see ``readings.Survey``. ``carry_days``: highest age of a carried message.
    """
    is_unserved = f"receiver IN ({', '.join(map(repr, sorted(unserved)))})" if unserved else "false"
    name = (
        "CASE finding WHEN 'sender_source_missing' THEN substring_index(lk0, '.', 4) "
        f"WHEN 'hub_source_missing' THEN if({is_unserved}, '{UNKNOWN_STORE}', '{THE_HUB}') "
        "WHEN 'receiver_source_missing' THEN receiver END"
    )
    days = [day + timedelta(days=step) for step in range(-carry_days - 2, 3)]
    starts = ", ".join(f"{calendar.window(each_day).start}L" for each_day in days)
    # The index in ``days`` of the date of ``absent_at``.
    number = f"greatest(size(filter(array({starts}), start -> start <= absent_at)), 1) - 1"
    rows = (
        verdicts.where("verdict = 'SOURCE_MISSING'")
        .groupBy(F.expr(name).alias("name"), F.expr(number).alias("number"))
        .agg(F.count("*").alias("messages"))
        .orderBy(F.desc("messages"), "number", "name")
        .limit(ABSENCES_MAX)
        .collect()
    )
    return sorted(Absence(row["name"], days[row["number"]], row["messages"]) for row in rows)
