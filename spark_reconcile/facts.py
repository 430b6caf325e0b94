"""From lines to facts: one row per message with what its three ledgers say, by one grouping and nothing but DataFrames.

Every fact is a minimum, a maximum or a union of bits, so a line that is delivered twice changes nothing and facts of
different dates can be merged: that is how open messages are carried from one night to the next. Texts are compared by
64-bit hashes, because Spark groups numbers in hash tables but texts by sorting; the hash decides equality of digests
and targets within one message only, never identity. A message is identified by its whole LK0.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from semq.store.rows import Event, Side
from spark_reconcile.days import Window
from spark_reconcile.schema import ARROW_SCHEMA, EVENTS_OF, NOTES, SPARK_SCHEMA, mask
from spark_reconcile.situation import ENDINGS, RECORDS

# Bits of ``bad`` and of ``traits``.
OUTSIDE, UNREADABLE = 1, 2
UNHEARD = 1  # of ``carried``: a ledger was absent whenever it was judged
BEST_EFFORT, PROMISED, NO_ACK2, HAS_LK1 = 1, 2, 4, 8
TRAITS = BEST_EFFORT | PROMISED | NO_ACK2 | HAS_LK1
# A copy at the hub sets one bit in each of these groups, chosen by the hash of its LK1. A copy that is kept is hidden
# only where others have set the same bit in every group: by one other copy once in 16 million. None is ever accused
# for that.
COPY_GROUPS, COPY_BITS = 8, 8

# Texts of which every line is compared; what is longer is cut, so that a bomb of them costs nothing.
TEXTS = ("lk0", "target", "lk1", "digest", "reason", "app_key_hash", "app_domain", "app_type", "app_subtype")
TEXT_MAX = 1_000  # octets
SIZE_MAX = 2**40  # bytes; no document is larger

_S, _H, _R = int(Side.SENDER), int(Side.HUB), int(Side.RECEIVER)
_BORN = mask(Event.ACCEPTED)
_TAKEN = mask(Event.FORWARDED, Event.STORED, Event.DROPPED, Event.REFUSED)
_HEARD = mask(Event.FORWARDED, Event.STORED)


class Fact(NamedTuple):
    """A column of the facts: how lines are merged into it, and what one line contributes (null: nothing)."""

    name: str
    merge: str
    line: str


def _when(side: int, events: int, value: str) -> str:
    return f"if(side = {side} AND (bit & {events}) <> 0, {value}, NULL)"


_RECORD = "xxhash64(node, store, seq)"
_COPY = " | ".join(
    f"shiftleft(1L, {COPY_BITS * group} + int(shiftright(copy, {3 * group}) & {COPY_BITS - 1}))"
    for group in range(COPY_GROUPS)
)
_FIRST_AT = "if(coalesce(att, 0) <= 1, at, NULL)"  # of the first attempt
_DIGEST = (
    f"if(digest <> '' AND (side = {_S} AND bit & {mask(Event.ACCEPTED)} <> 0 OR side = {_H} AND bit & {_HEARD} <> 0 "
    f"OR side = {_R} AND bit & {mask(Event.RECEIVED)} <> 0), xxhash64(digest), NULL)"
)
_TARGET = f"if(target <> '' AND bit & {NOTES} = 0 AND bit <> 0, xxhash64(substring_index(target, '/', 1)), NULL)"

FACTS = (
    # what was written at least once, as bits by event number
    Fact("sender", "bit_or", f"if(side = {_S}, bit, 0)"),
    Fact("hub", "bit_or", f"if(side = {_H}, bit, 0)"),
    Fact("receiver", "bit_or", f"if(side = {_R}, bit, 0)"),
    Fact("bad", "bit_or", f"if(outside, {OUTSIDE}, 0) | if(bit = 0, {UNREADABLE}, 0)"),
    Fact(
        "traits",
        "bit_or",
        f"if(save_fwd IN (1, 2), {BEST_EFFORT}, 0) | if(save_fwd IN (2, 3), {PROMISED}, 0) "
        f"| if(NOT ack2, {NO_ACK2}, 0) | if(side = {_R} AND bit & {RECORDS} <> 0 AND lk1 <> '', {HAS_LK1}, 0)",
    ),
    # the copies that the hub has stored, and those that it has let go: all of them, where a line does not say which
    Fact("stored_copies", "bit_or", f"if(side = {_H} AND bit & {mask(Event.STORED)} <> 0 AND lk1 <> '', {_COPY}, 0L)"),
    Fact(
        "released_copies",
        "bit_or",
        f"if(side = {_H} AND bit & {mask(Event.RELEASED)} <> 0, if(lk1 <> '', {_COPY}, -1L), 0L)",
    ),
    # what earlier runs knew of a message that they left open: up to when its ledgers were heard, 0 if there was no run;
    # and whether they have reported it as an exception
    Fact("carried", "max", "0L"),
    Fact("reported", "bit_or", "0"),
    # when it happened first, by the clock of the node that wrote it
    Fact("accepted_at", "min", _when(_S, _BORN, "at")),
    Fact("refused_at", "min", _when(_S, mask(Event.REFUSED), _FIRST_AT)),
    Fact("sent_at", "min", _when(_S, mask(Event.SENT), _FIRST_AT)),
    Fact("heard_at", "min", _when(_S, _HEARD, "at")),
    Fact("ended_at", "min", _when(_S, ENDINGS, "at")),
    Fact("taken_at", "min", _when(_H, _TAKEN, "at")),
    Fact("hub_sent_at", "min", _when(_H, mask(Event.SENT), "at")),
    Fact("released_at", "min", _when(_H, mask(Event.RELEASED), "at")),
    Fact("recorded_at", "min", _when(_R, RECORDS, "at")),
    Fact("bad_at", "min", "if(outside OR bit = 0, at, NULL)"),
    # lowest and highest: different if there is more than one
    Fact("record_low", "min", _when(_R, mask(Event.RECEIVED), _RECORD)),
    Fact("record_high", "max", _when(_R, mask(Event.RECEIVED), _RECORD)),
    Fact("digest_low", "min", _DIGEST),
    Fact("digest_high", "max", _DIGEST),
    Fact("target_low", "min", _TARGET),
    Fact("target_high", "max", _TARGET),
    Fact("node_low", "min", _when(_R, RECORDS, "xxhash64(node)")),
    Fact("node_high", "max", _when(_R, RECORDS, "xxhash64(node)")),
    # of what a ledger may claim only what can be added up
    Fact("att", "max", f"if(side = {_S}, greatest(att, 0), NULL)"),
    Fact("size", "max", f"least(greatest(size, 0), {SIZE_MAX})"),
)
NAMES = ("lk0", *(fact.name for fact in FACTS))


def read_lines(spark: SparkSession, groups: Mapping[Window, Sequence[str]]) -> DataFrame:
    """The lines of all extracts; ``outside``: not within the window that the manifest states.

    Such times are moved into the window, so that the message belongs to the date of the extract in which it was found.
    """
    parts = [
        spark.read.schema(SPARK_SCHEMA)
        .parquet(*uris)
        .withColumns(
            {name: F.expr(f"if(octet_length({name}) > {TEXT_MAX}, left({name}, 200), {name})") for name in TEXTS}
        )
        .withColumn("outside", F.expr(f"at IS NULL OR at < {window.start} OR at >= {window.end}"))
        .withColumn("at", F.expr(f"greatest(least(coalesce(at, {window.start}), {window.end - 1}), {window.start})"))
        for window, uris in groups.items()
    ]
    if not parts:
        nothing = spark.createDataFrame(pa.Table.from_pylist([], ARROW_SCHEMA))
        return nothing.withColumn("outside", F.lit(False))
    return reduce(DataFrame.unionByName, parts)


# The message that a line speaks of; one that does not say it counts as a message of its own.
KEY = "coalesce(nullif(lk0, ''), concat('?', concat_ws('.', node, store, seq)))"


def gather(lines: DataFrame, hubs: Collection[str], carried: DataFrame | None = None) -> DataFrame:
    """The facts of all messages in some lines, merged with those that an earlier run left open.

    ``hubs``: the platform's nodes, whose lines as hub count.
    """
    read = lines.withColumns({"bit": F.expr(_bit(hubs)), "copy": F.expr("xxhash64(lk1)")})
    single = read.select(
        F.expr(KEY).alias("lk0"),
        *(F.expr(fact.line).alias(fact.name) for fact in FACTS),
    )
    if carried is not None:
        single = single.unionByName(_as_now(carried))
    return single.groupBy("lk0").agg(*(F.expr(f"{fact.merge}({fact.name})").alias(fact.name) for fact in FACTS))


def _as_now(carried: DataFrame) -> DataFrame:
    """Carried facts of an earlier version of these rules, which may lack a fact, as those of this one."""
    lacking = [fact for fact in FACTS if fact.name not in carried.columns]
    neutral = {fact.name: F.expr("0L" if fact.merge == "bit_or" else "NULL") for fact in lacking}
    return carried.withColumns({**neutral, "traits": F.expr(f"traits & {TRAITS}")}).select(*NAMES)


def _bit(hubs: Collection[str]) -> str:
    """The event as a bit; 0 if the line cannot be read.

    That is: no locator or number, a side or event that schema version 1 does not know, or the line of a node that may
    not write it. Remarks on messages of others may stand in any sender's ledger.
    """
    known = {side: str(mask(*events)) for side, events in EVENTS_OF.items()}
    known[Side.SENDER] = f"if(startswith(lk0, concat(node, '.')), {known[Side.SENDER]}, {NOTES})"
    named = ", ".join(f"'{node}'" for node in sorted(hubs))
    known[Side.HUB] = f"if(node IN ({named}), {known[Side.HUB]}, 0)" if hubs else "0"
    cases = " ".join(f"WHEN {int(side)} THEN {events}" for side, events in known.items())
    return (
        f"if(lk0 IS NULL OR seq IS NULL OR event IS NULL OR event < 1 OR event > 30, 0, "
        f"shiftleft(1, int(event)) & CASE side {cases} ELSE 0 END)"
    )
