"""From lines to facts: one row per message with the facts of its three ledgers, by one grouping of DataFrames.

Every fact is a minimum, a maximum or a union of bits. So a repeated line changes nothing, and the facts of an open
message can be merged with those of later dates. Texts are compared by their 64-bit hashes.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from semq.engine.uplink import DIRECTLY
from semq.store.rows import Event, Side
from semq.umx_t.pieces import PIECES_USER
from spark_reconcile.days import Window
from spark_reconcile.extracts.events import EVENTS_OF, NOTES, mask
from spark_reconcile.extracts.schema import ARROW_SCHEMA, SPARK_SCHEMA
from spark_reconcile.judgement.situation import ENDINGS, RECORDS

# Bits of ``bad`` and of ``traits``.
OUTSIDE, UNREADABLE = 1, 2
NEVER_COMPLETE = 1  # value of ``carried``: each earlier run lacked a ledger that the message needs
BEST_EFFORT, PROMISED, NO_ACK2, HAS_LK1 = 1, 2, 4, 8
PIECE, BY_DIRECT_LINK = 1 << 16, 1 << 17  # earlier versions used some of the bits in between
TRAITS = BEST_EFFORT | PROMISED | NO_ACK2 | HAS_LK1 | PIECE | BY_DIRECT_LINK
# A copy at the hub sets one bit in each group, chosen by the hash of its LK1. A kept copy is overlooked if released
# copies have set all these bits; for one released copy, the probability is 1 in 16 million.
COPY_GROUPS, COPY_BITS = 8, 8

TEXT_MAX, TEXT_KEPT = 1_000, 200  # longer texts (bytes) are cut to so many characters where they are kept
SIZE_MAX = 2**33  # bytes; no document is larger, and a sum of 10**9 of them fits into 64 bits

LK0_PATTERN = r"^[0-9]{1,3}[.][A-Za-z0-9_-]{1,64}[.][0-9]{1,9}[.][0-9]{1,9}[.][0-9a-f]{1,16}[.][0-9]{1,19}\z"

_S, _H, _R = int(Side.SENDER), int(Side.HUB), int(Side.RECEIVER)
_ACCEPTED = mask(Event.ACCEPTED)
_DECIDED = mask(Event.FORWARDED, Event.STORED, Event.DROPPED, Event.REFUSED)
# events of the hub, which the sender notes, too
CONFIRMED = mask(Event.FORWARDED, Event.STORED)


class Fact(NamedTuple):
    """A column: the SQL of its sum over the coded lines of a message, and the function that merges it (``merge``)
    with the same fact of an earlier run."""

    name: str
    merge: str
    of_lines: str


_COPY = " | ".join(
    f"shiftleft(1L, {COPY_BITS * group} + int(shiftright(xxhash64(lk1), {3 * group}) & {COPY_BITS - 1}))"
    for group in range(COPY_GROUPS)
)
_BY_DIRECT_LINK = (
    f"reason = '{DIRECTLY}' AND (side = {_S} AND bit & {mask(Event.SENT)} <> 0 OR side = {_R} AND bit & {RECORDS} <> 0)"
)
# A document in pieces has an LK0 of the sender's store. The reason in the ACCEPTED lines of the manifest and the pieces
# starts with this LK0. Its incarnation and object id become facts.
_OF_DOCUMENT = (
    f"side = {_S} AND bit & {_ACCEPTED} <> 0 AND reason <> '' "
    f"AND substring_index(reason, '/', 1) RLIKE r'{LK0_PATTERN}'"
)
# Part n of this LK0, counted from 1.
_DOCUMENT_PART = "substring_index(substring_index(substring_index(reason, '/', 1), '.', {0}), '.', -1)".format
# Only the sender decides the class of its messages.
_CLASS = (
    f"if(side = {_S} AND bit & {_ACCEPTED} <> 0, if(save_fwd IN (1, 2), {BEST_EFFORT}, 0) "
    f"| if(save_fwd IN (2, 3), {PROMISED}, 0) | if(NOT ack2, {NO_ACK2}, 0), 0)"
)
_TRAITS = (
    f"{_CLASS} | if(side = {_R} AND bit & {RECORDS} <> 0 AND lk1 <> '', {HAS_LK1}, 0) "
    f"| if(endswith(target, '/{PIECES_USER}') AND bit & {NOTES} = 0, {PIECE}, 0) "
    f"| if({_BY_DIRECT_LINK}, {BY_DIRECT_LINK}, 0)"
)
_BAD = f"if(outside, {OUTSIDE}, 0) | if(bit = 0, {UNREADABLE}, 0)"
# The first bits of the parts of ``ends`` and ``rest``.
_HUB_FROM, _BAD_FROM, _TRAITS_FROM = 32, 32, 34

# A coded line: the name of its message and numbers, because the lines are exchanged between tasks and Spark aggregates
# numbers in hash tables but texts by sorting. By name: SQL from the columns of a line.
CODES = {
    # events of the sender, and of the hub from bit _HUB_FROM on
    "ends": f"CASE side WHEN {_S} THEN if(is_own, bigint(bit), 0L) "
    f"WHEN {_H} THEN shiftleft(bigint(bit), {_HUB_FROM}) ELSE 0L END",
    # events of the receiver, then ``bad``, then ``traits``
    "rest": f"if(side = {_R}, bigint(bit), 0L) | shiftleft(bigint({_BAD}), {_BAD_FROM}) "
    f"| shiftleft(bigint({_TRAITS}), {_TRAITS_FROM})",
    "at": "at",
    # attempt of the sender
    "att": f"if(side = {_S}, greatest(att, 0), NULL)",
    # copies of the hub; a line RELEASED without an LK1 is about all copies
    "copies": f"if(side = {_H} AND bit & {mask(Event.STORED, Event.RELEASED)} <> 0, "
    f"if(lk1 <> '', {_COPY}, if(bit & {mask(Event.RELEASED)} <> 0, -1L, 0L)), 0L)",
    "record": f"if(side = {_R} AND bit & {mask(Event.RECEIVED)} <> 0, xxhash64(node, store, seq), NULL)",
    "digest": f"if(digest <> '' AND (side = {_S} AND bit & {_ACCEPTED} <> 0 OR side = {_H} AND bit & {CONFIRMED} <> 0 "
    f"OR side = {_R} AND bit & {mask(Event.RECEIVED)} <> 0), xxhash64(digest), NULL)",
    "target": f"if(target <> '' AND bit & {NOTES} = 0 AND bit <> 0, xxhash64(substring_index(target, '/', 1)), NULL)",
    "receiving": f"if(side = {_R} AND bit <> 0 AND bit & {NOTES} = 0, xxhash64(node), NULL)",
    "document_inc": f"if({_OF_DOCUMENT}, try_cast(conv({_DOCUMENT_PART(5)}, 16, -10) AS BIGINT), NULL)",
    "document_id": f"if({_OF_DOCUMENT}, try_cast({_DOCUMENT_PART(6)} AS BIGINT), NULL)",
    # limited so that sums cannot overflow
    "size": f"least(greatest(size, 0), {SIZE_MAX})",
}


def _if(side: int, events: int, value: str, otherwise: str = "NULL") -> str:
    """Return SQL for the value of a coded line that is of a side and has one of the events."""
    column, first = {_S: ("ends", 0), _H: ("ends", _HUB_FROM), _R: ("rest", 0)}[side]
    return f"if(({column} & {events << first}L) <> 0L, {value}, {otherwise})"


def _first(side: int, events: int, value: str = "at") -> str:
    return f"min({_if(side, events, value)})"


_FIRST_AT = "if(coalesce(att, 0) <= 1, at, NULL)"  # time of a line of the first attempt
_EVENTS = f"{2**31 - 1}L"

FACTS = (
    # the written events, as bits by event number
    Fact("sender", "bit_or", f"int(bit_or(ends) & {_EVENTS})"),
    Fact("hub", "bit_or", f"int(shiftright(bit_or(ends), {_HUB_FROM}))"),
    Fact("receiver", "bit_or", f"int(bit_or(rest) & {_EVENTS})"),
    Fact("bad", "bit_or", f"int(shiftright(bit_or(rest), {_BAD_FROM}) & {OUTSIDE | UNREADABLE}L)"),
    Fact("traits", "bit_or", f"int(shiftright(bit_or(rest), {_TRAITS_FROM}))"),
    # stored and released copies of the hub
    Fact("stored_copies", "bit_or", f"bit_or({_if(_H, mask(Event.STORED), 'copies', '0L')})"),
    Fact("released_copies", "bit_or", f"bit_or({_if(_H, mask(Event.RELEASED), 'copies', '0L')})"),
    # for a message that an earlier run left open: the end of the last date whose run had all needed ledgers, or
    # NEVER_COMPLETE; 0 for other messages
    Fact("carried", "max", "0L"),
    # whether an earlier run reported an exception
    Fact("reported", "bit_or", "0"),
    # first time of each event, by the clock of the writing node; ``refused_at``, ``sent_at``: of the first attempt
    Fact("accepted_at", "min", _first(_S, _ACCEPTED)),
    Fact("refused_at", "min", _first(_S, mask(Event.REFUSED), _FIRST_AT)),
    Fact("sent_at", "min", _first(_S, mask(Event.SENT), _FIRST_AT)),
    Fact("heard_at", "min", _first(_S, CONFIRMED)),
    Fact("ended_at", "min", _first(_S, ENDINGS)),
    Fact("taken_at", "min", _first(_H, _DECIDED)),
    Fact("hub_sent_at", "min", _first(_H, mask(Event.SENT))),
    Fact("released_at", "min", _first(_H, mask(Event.RELEASED))),
    Fact("recorded_at", "min", _first(_R, RECORDS)),
    Fact("received_last_at", "max", f"max({_if(_R, mask(Event.RECEIVED), 'at')})"),
    Fact("bad_at", "min", f"min(if((rest & {(OUTSIDE | UNREADABLE) << _BAD_FROM}L) <> 0L, at, NULL))"),
    # lowest and highest value of a column: they differ if the lines have several values
    *(
        Fact(f"{name}_{word}", merge, f"{merge}({code})")
        for name, code in (("record", "record"), ("digest", "digest"), ("target", "target"), ("node", "receiving"))
        for word, merge in (("low", "min"), ("high", "max"))
    ),
    # highest attempt of the sender
    Fact("att", "max", "max(att)"),
    # incarnation and object id of the document in pieces to which the message belongs
    Fact("document_inc", "max", "max(document_inc)"),
    Fact("document_id", "max", "max(document_id)"),
    Fact("size", "max", "max(size)"),
)
NAMES = ("lk0", *(fact.name for fact in FACTS))


def read_lines(spark: SparkSession, groups: Mapping[Window, Sequence[str]]) -> DataFrame:
    """Read the lines of all extracts. ``groups``: addresses of files, by the window of their manifest.

    Column ``outside`` marks a line whose time is outside the window. The time is moved to the edge of the window. Only
    the texts by which lines are grouped are cut: facts have hashes of the others.
    """
    parts = [
        spark.read.schema(SPARK_SCHEMA)
        .parquet(*uris)
        .withColumns(
            {
                **{name: F.expr(cut(name)) for name in ("lk0", "target")},
                "outside": F.expr(f"at IS NULL OR at < {window.start} OR at >= {window.end}"),
                "at": F.expr(f"greatest(least(coalesce(at, {window.start}), {window.end - 1}), {window.start})"),
            }
        )
        for window, uris in groups.items()
    ]
    if not parts:
        no_lines = spark.createDataFrame(pa.Table.from_pylist([], ARROW_SCHEMA))
        return no_lines.withColumn("outside", F.lit(False))
    return reduce(DataFrame.unionByName, parts)


def cut(name: str) -> str:
    """Return SQL for the text in a column of lines, cut if it is too long."""
    return f"if(octet_length({name}) > {TEXT_MAX}, left({name}, {TEXT_KEPT}), {name})"


# SQL for the key of a line's message. A line without an LK0 counts as a message of its own.
KEY = "coalesce(nullif(lk0, ''), concat('?', concat_ws('.', node, store, seq)))"


def gather(lines: DataFrame, hubs: Collection[str], carried: DataFrame | None = None) -> DataFrame:
    """Group lines into facts, and merge these with ``carried``, column ``open`` of an earlier run's table of verdicts.

    ``hubs``: the nodes whose lines count for the side of the hub.

    The lines themselves are exchanged between tasks. Sums of each file would be fewer rows, but as many bytes, and cost
    a second aggregation: a ledger has two or three lines of a message.
    """
    codes = {name: F.expr(sql).alias(name) for name, sql in CODES.items()}
    is_own = F.expr("startswith(lk0, concat(node, '.'))")
    with_bits = lines.withColumn("is_own", is_own).withColumn("bit", F.expr(_bit(hubs)))
    coded = with_bits.select(F.expr(KEY).alias("lk0"), *codes.values())
    of_lines = coded.repartition("lk0").groupBy("lk0").agg(*(F.expr(fact.of_lines).alias(fact.name) for fact in FACTS))
    if carried is None:
        return of_lines
    # Facts that the version of that run did not know are null, and bits that it used otherwise are removed.
    read = carried.select(F.from_json("open", of_lines.schema).alias("facts")).select("facts.*")
    known = {fact.name: F.coalesce(fact.name, F.lit(0)) for fact in FACTS if fact.merge == "bit_or"}
    known["traits"] = F.expr(f"coalesce(traits, 0) & {TRAITS}")
    merged = (F.expr(f"{fact.merge}({fact.name})").alias(fact.name) for fact in FACTS)
    of_earlier = read.withColumns(known).groupBy("lk0").agg(*merged).alias("earlier")
    both = of_lines.alias("now").join(of_earlier.hint("shuffle_hash"), "lk0", "full_outer")
    return both.select("lk0", *(F.expr(_merge(fact)).alias(fact.name) for fact in FACTS))


def _merge(fact: Fact) -> str:
    """Return SQL that merges a fact of this run with that of the earlier one; either may be null."""
    now, earlier = f"now.{fact.name}", f"earlier.{fact.name}"
    if fact.merge == "bit_or":
        return f"coalesce({now}, 0) | coalesce({earlier}, 0)"
    return f"{'least' if fact.merge == 'min' else 'greatest'}({now}, {earlier})"  # both ignore nulls


def _bit(hubs: Collection[str]) -> str:
    """Return SQL for the event of a line as a bit; 0 for an unreadable line. ``is_own``: whether its node has sent the
    message.

    A line is unreadable without locator or line number, with an unknown side or event, or if its node may not write it.
    Every sender's ledger may have notes (``events.NOTES``) about messages of other nodes.
    """
    known = {side: str(mask(*events)) for side, events in EVENTS_OF.items()}
    known[Side.SENDER] = f"if(is_own, {known[Side.SENDER]}, {NOTES})"
    named = ", ".join(f"'{node}'" for node in sorted(hubs))
    known[Side.HUB] = f"if(node IN ({named}), {known[Side.HUB]}, 0)" if hubs else "0"
    cases = " ".join(f"WHEN {int(side)} THEN {events}" for side, events in known.items())
    return (
        f"if(lk0 IS NULL OR seq IS NULL OR event IS NULL OR event < 1 OR event > 30, 0, "
        f"shiftleft(1, int(event)) & CASE side {cases} ELSE 0 END)"
    )
