"""From facts to verdicts, in Spark: business date, words of each side (``situation``), row of the grid (``verdicts``).

Ages and the remark *young* use the hub's clock.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from semq.store.rows import Event
from spark_reconcile.days import DAY_MS, Window
from spark_reconcile.extracts.events import NOTES, mask
from spark_reconcile.judgement.facts import (
    BEST_EFFORT,
    BY_DIRECT_LINK,
    CONFIRMED,
    HAS_LK1,
    LK0_PATTERN,
    NAMES,
    NEVER_COMPLETE,
    NO_ACK2,
    OUTSIDE,
    PIECE,
    PROMISED,
    UNREADABLE,
)
from spark_reconcile.judgement.situation import (
    ENDINGS,
    HUB_BIT,
    HUB_WORDS,
    HUBS,
    RECEIVER_BIT,
    RECEIVER_WORDS,
    RECEIVERS,
    RECORDS,
    REMARK_BIT,
    REMARKS,
    SENDER_WORDS,
    SENDERS,
    SideWord,
    bit,
)
from spark_reconcile.judgement.verdicts import RULES, VERDICT, Verdict
from spark_reconcile.spark.session import small_table

# Upper bounds of the buckets of latencies and ages, in milliseconds; a further bucket has what exceeds the last one.
LATENCIES = (100, 1_000, 5_000, 15_000, 60_000, 300_000, 3_600_000, 21_600_000, 86_400_000)
AGES = (900_000, 3_600_000, 14_400_000, 86_400_000, 3 * 86_400_000, 7 * 86_400_000, 30 * 86_400_000)


FAR = 2**62  #: later than any time in a ledger
MARGIN_MS = 5_000  # allowance for the error of a corrected clock and the time between two nodes


class EvidenceCoverage(NamedTuple):
    """The period that the extracts of a ledger cover without a gap: ms since 1970 UTC, by the node's clock."""

    node: str
    store: str
    watermark: int  #: end of the period
    skew: int = 0  #: the node's clock minus the hub's, in milliseconds
    since: int = -FAR  #: start of the period


class JudgementContext(NamedTuple):
    """The data common to all messages of a run."""

    window: Window  #: the business date
    young_ms: int  #: time after its last step for which a message is *young*
    ledgers: tuple[EvidenceCoverage, ...]  #: the ledgers with a used extract of the business date
    #: whether all known ledgers of the hub were delivered; false if none is known, true without a hub
    hub_complete: bool
    hub_watermark: int  #: earliest end of the evidence of the hub's ledgers; FAR without one
    hub_since: int = -FAR  #: latest start of the evidence of the hub's ledgers
    incomplete: frozenset[str] = frozenset()  #: nodes with a known ledger that is missing
    unserved: frozenset[str] = (
        frozenset()
    )  #: nodes that no line of the hub mentions, though they recorded many messages
    has_hub: bool = True


def dated(facts: DataFrame, window: Window) -> DataFrame:
    """Add to the facts the birth of each message and its ``scope``: date, carried, earlier, later, none or near.

    ``carried``: an earlier run left the message open. ``none``: all lines are notes. ``near``: the sender's first lines
    are missing and the birth is close to the date; ``judged`` decides by the sender's clock.
    """
    return facts.withColumn("born_at", _born()).withColumn("scope", _scope(window))


def judged(spark: SparkSession, facts: DataFrame, names: DataFrame, context: JudgementContext) -> DataFrame:
    """Add to the dated facts both nodes, a word for each side, and ``row``, the index of the row of the grid."""
    # Spark analyses the whole plan at each call, so independent columns are added by one call.
    timed = _with_coverage(spark, facts, names, context).withColumns(
        {
            "begun_at": _begun(),
            "last_step_at": _last_step(),
            "end_at": F.expr(f"least(sender_mark, receiver_mark, {context.hub_watermark})"),
        }
    )
    described = timed.withColumns({"scope": _scope_by_clocks(context.window), **_situation_columns(context)})
    return described.withColumn("picture", _picture()).withColumn("row", _row())


def _with_coverage(spark: SparkSession, facts: DataFrame, names: DataFrame, context: JudgementContext) -> DataFrame:
    """Add the names of both nodes, their clock differences, and the periods of their ledgers by the hub's clock.

    Difference and period are null if the ledger was not delivered.
    """
    ledgers: list[tuple[str, int, int, int]] = []
    nodes: dict[str, tuple[int, int, int]] = {}  # the period that all ledgers of a node have in common
    for ledger in context.ledgers:
        since, mark = ledger.since - ledger.skew, ledger.watermark - ledger.skew
        ledgers.append((f"{ledger.node}.{ledger.store}", ledger.skew, since, mark))
        if ledger.node not in context.incomplete:
            _, node_since, node_mark = nodes.get(ledger.node, (ledger.skew, since, mark))
            nodes[ledger.node] = ledger.skew, max(since, node_since), min(mark, node_mark)
    senders = small_table(
        spark, ledgers, ledger=pa.string(), **{f"sender_{name}": pa.int64() for name in ("skew", "since", "mark")}
    )
    receivers = small_table(
        spark,
        [(node, *numbers) for node, numbers in nodes.items()],
        receiver_node=pa.string(),
        **{f"receiver_{name}": pa.int64() for name in ("skew", "since", "mark")},
    )
    targets = names.select(F.col("hash").alias("target"), F.col("node").alias("receiver_node")).join(
        F.broadcast(receivers), "receiver_node", "left"
    )
    return (
        facts.withColumns(
            {
                "ledger": F.expr("substring_index(lk0, '.', 4)"),
                "sender_node": F.expr("substring_index(lk0, '.', 2)"),
                "target": F.coalesce("target_high", "node_high"),
            }
        )
        .join(F.broadcast(senders), "ledger", "left")
        .join(F.broadcast(targets), "target", "left")
    )


def _born() -> Column:
    """Return SQL for the birth: the time of acceptance, else of refusal, else of the first sending.

    Else, if the sender's first lines are missing or the message is carried: the time at which the hub took it, or at
    which the receiver recorded it if that is earlier; not if the hub has only lines of later steps, because it then
    took the message on an earlier date. Else the time of the first unusable line. Null without any of these times: the
    message belongs to an earlier date.
    """
    taken_earlier = f"(hub & {~NOTES}) <> 0 AND taken_at IS NULL AND carried = 0"
    first_sight = f"if({taken_earlier}, NULL, least(taken_at, recorded_at))"
    first_sent = f"if({_SILENT}, NULL, sent_at)"
    without_sender = f"if({_SILENT} OR {_HEADLESS} OR carried > 0, {first_sight}, NULL)"
    return F.expr(f"coalesce(accepted_at, refused_at, {first_sent}, {without_sender}, bad_at)")


_SILENT = f"(sender & {~NOTES}) = 0"  # the sender has no line about the message
_BEGINS = mask(Event.ACCEPTED, Event.REFUSED, Event.SENT, Event.AGAIN, Event.VOIDED)
# The sender's first lines are missing, and the hub took the message: its birth then comes from hub or receiver. Without
# a birth it would be ignored.
_HEADLESS = f"((sender & {_BEGINS}) = 0 AND taken_at IS NOT NULL)"
# SQL for the time, by the hub's clock, from which on each side should have a line about the message.
_DUE_AT = {"sender": "begun_at", "hub": "begun_at", "receiver": "coalesce(hub_sent_at, taken_at, begun_at)"}


def _begun() -> Column:
    """Return SQL for the time of acceptance, else of the first sending, else of the first line of hub or receiver.

    It is by the hub's clock.
    """
    return F.expr(
        "coalesce(coalesce(accepted_at, sent_at) - coalesce(sender_skew, 0), "
        "least(taken_at, recorded_at - coalesce(receiver_skew, 0)))"
    )


def _last_step() -> Column:
    of_sender = ", ".join(f"{name} - coalesce(sender_skew, 0)" for name in ("accepted_at", "sent_at", "ended_at"))
    return F.expr(
        f"greatest({of_sender}, taken_at, hub_sent_at, released_at, recorded_at - coalesce(receiver_skew, 0))"
    )


def _scope(window: Window) -> Column:
    close_to_date = f"born_at BETWEEN {window.start - DAY_MS} AND {window.end + DAY_MS}"
    near = f"({_SILENT} OR {_HEADLESS}) AND carried = 0 AND {close_to_date}"
    return F.expr(
        f"CASE WHEN born_at IS NULL AND carried = 0 AND (sender | hub | receiver) & {~NOTES} = 0 THEN 'none' "
        f"WHEN {near} THEN 'near' WHEN born_at >= {window.end} THEN 'later' WHEN born_at >= {window.start} THEN 'date' "
        f"WHEN carried > 0 THEN 'carried' ELSE {_earlier(window)} END"
    )


def _scope_by_clocks(window: Window) -> Column:
    """Return SQL for the final scope. The first line of hub or receiver, in the sender's time, decides ``near``."""
    at = "coalesce(begun_at + coalesce(sender_skew, 0), born_at)"
    return F.expr(
        f"CASE WHEN scope <> 'near' THEN scope WHEN {at} >= {window.end} THEN 'later' "
        f"WHEN {at} >= {window.start} THEN 'date' ELSE {_earlier(window)} END"
    )


def _earlier(window: Window) -> str:
    """Return SQL for the scope of an earlier message that no run left open: carried if received again on this date."""
    again = f"record_low <> record_high AND received_last_at BETWEEN {window.start} AND {window.end - 1}"
    return f"if({again}, 'carried', 'earlier')"


def _situation_columns(context: JudgementContext) -> dict[str, Column]:
    # A ledger without a line about the message counts as missing in three cases: it was not delivered; every earlier
    # run lacked a needed ledger; or its period begins after the time at which it should have a line and, for a carried
    # message, after the last date whose run had all needed ledgers. The hub's ledger also counts as missing for the
    # receivers in ``unserved``.
    absent = _absent(context)
    unserved = ", ".join(f"'{node}'" for node in sorted(context.unserved))
    never = f"carried = {NEVER_COMPLETE}"
    sender_missing = f"{never} OR {absent['sender']}"
    hub_missing = f"{never} OR {absent['hub']}"
    hub_missing += f" OR coalesce(receiver_node IN ({unserved}), false)" if unserved else ""
    receiver_missing = f"target IS NOT NULL AND ({never} OR {absent['receiver']})"
    conditions = _remarks(context)
    remarks = (f"if(coalesce({conditions[remark]}, false), {bit(REMARKS, remark)}, 0)" for remark in REMARKS)
    return {
        "sender_says": F.expr(_words("sender", SENDER_WORDS, SENDERS, _torn(), sender_missing)),
        "hub_says": F.expr(_words("hub", HUB_WORDS, HUBS, _direct(context), hub_missing)),
        "receiver_says": F.expr(_words("receiver", RECEIVER_WORDS, RECEIVERS, _mixed(), receiver_missing)),
        "remarks": F.expr(" | ".join(remarks)),
    }


def _absent(context: JudgementContext) -> dict[str, str]:
    """Return by side the SQL condition that its ledger was not delivered, or begins after a line would be due."""
    begin = {"sender": "sender_since", "hub": str(context.hub_since), "receiver": "receiver_since"}
    later = {side: f"greatest({_DUE_AT[side]}, nullif(carried, 0)) < {since}" for side, since in begin.items()}
    return {
        "sender": f"(sender_mark IS NULL OR {later['sender']})",
        "hub": f"({later['hub']})" if context.hub_complete else "true",
        "receiver": f"(receiver_mark IS NULL OR {later['receiver']})",
    }


def _picture() -> Column:
    words = (f"shiftleft(1L, {side}_says + {first})" for side, first in _FIRST_BITS)
    return F.expr(f"{' | '.join(words)} | shiftleft(bigint(remarks), {REMARK_BIT})")


_FIRST_BITS = (("sender", 0), ("hub", HUB_BIT), ("receiver", RECEIVER_BIT))


def _row() -> Column:
    """Return SQL for the first matching row of the grid; -1, which cannot occur, would fail the run."""
    rows = " ".join(f"WHEN picture & {rule.asked}L = {rule.wanted}L THEN {row}" for row, rule in enumerate(RULES))
    return F.expr(f"CASE {rows} ELSE -1 END")


def _words(column: str, words: Sequence[SideWord], names: Sequence[str], special: str, missing: str) -> str:
    """Return SQL for the index in ``names`` of the word for one side, from its bits in ``column``.

    ``special``: condition of the word at index 2, which has priority. ``missing``: condition of the word at index 1.
    """

    def case(word: SideWord) -> str:
        tests = ((word.shown_by, "<>"), (word.unless, "="), (word.needs, "<>"))
        shown = " AND ".join(f"({column} & {bits}) {sign} 0" for bits, sign in tests if bits)
        return f"WHEN {shown} THEN {names.index(word.name)}"

    by_lines = " ".join(case(word) for word in words if not word.is_by_absence)
    by_absence = " ".join(case(word) for word in words if word.is_by_absence)
    return f"(CASE WHEN {special} THEN 2 {by_lines} WHEN {missing} THEN 1 {by_absence} ELSE 0 END)"


def _torn() -> str:
    return f"bit_count(sender & {ENDINGS}) > 1 AND (sender & {mask(Event.OPERATOR)}) = 0"


def _mixed() -> str:
    return f"bit_count(receiver & {RECORDS}) > 1"


def _direct(context: JudgementContext) -> str:
    """Return the SQL condition that the hub has no part in a message.

    The message stays within one node, goes to or from the hub itself, or has no line of the hub and (if there is a hub)
    used a direct link only: a hub that has confirmed the message to its sender has a part in it.
    """
    only_link = f"hub = 0 AND traits & {BY_DIRECT_LINK} <> 0 AND (sender & {CONFIRMED}) = 0"
    by_link = only_link if context.has_hub else "hub = 0"
    return f"{by_link} OR {_NOT_RELAYED}"


_NOT_RELAYED = "coalesce(sender_node = receiver_node OR receiver_node LIKE '2.%', false) OR sender_node LIKE '2.%'"


def _remarks(context: JudgementContext) -> dict[str, str]:
    sender_acked, platform_acked = mask(Event.SENDER_ACKED), mask(Event.PLATFORM_ACKED)
    return {
        "unreadable": f"bad & {UNREADABLE} <> 0",
        "out_of_range": f"bad & {OUTSIDE} <> 0",
        "locator": f"NOT lk0 RLIKE r'{LK0_PATTERN}'",
        "mismatch": f"(hub | receiver) & {mask(Event.MISMATCH)} <> 0 OR digest_low <> digest_high",
        "twice": "record_low <> record_high",
        "astray": "node_low <> target OR node_high <> target",
        "two_targets": "target_low <> target_high",
        "young": f"last_step_at > end_at - {context.young_ms}",
        "best_effort": f"traits & {BEST_EFFORT} <> 0",
        "promised": f"traits & {PROMISED} <> 0",
        "untold": f"traits & {BEST_EFFORT} <> 0 AND traits & {NO_ACK2} <> 0",
        "owes": f"receiver & {RECORDS} <> 0 AND ("
        f"traits & {BEST_EFFORT} = 0 AND receiver & {sender_acked} = 0 OR "
        f"traits & {HAS_LK1} <> 0 AND receiver & {platform_acked} = 0)",
        "kept": f"stored_copies & ~released_copies <> 0 AND NOT ({_direct(context)})",
        "ahead": f"begun_at > sender_mark - {MARGIN_MS}",
        "no_hub": "false" if context.has_hub else "true",
        **{f"{side}_away": f"carried > 0 AND reported = 0 AND {absent}" for side, absent in _absent(context).items()},
        "unsent": f"(sender & {CONFIRMED | mask(Event.SENT)}) = 0",
    }


def cells(rows: DataFrame) -> DataFrame:
    """Count the messages of each combination of scope, pair, verdict, finding, latency and age."""
    return rows.groupBy(
        "scope",
        "sender",
        "receiver",
        "verdict",
        "finding",
        _bucket(F.col("latency_ms"), LATENCIES).alias("latency"),
        _bucket(F.col("age_ms"), AGES).alias("age"),
    ).agg(
        F.count("*").alias("messages"),
        F.min("born_at").alias("oldest_at"),
        F.sum("size").alias("bytes"),
        F.expr("sum(greatest(att - 1, 0))").alias("resends"),
        F.expr("count_if(turned)").alias("turned"),
        F.expr("count_if(is_piece)").alias("pieces"),
    )


def _latency() -> Column:
    """Return SQL for the latency from acceptance to record, by corrected clocks; null if either time is unknown.

    It is at least 0. If the outcome is DELIVERED, it is at most the time from acceptance to outcome, which the sender's
    clock alone has measured.
    """
    between = "(recorded_at - coalesce(receiver_skew, 0)) - (accepted_at - coalesce(sender_skew, 0))"
    until_outcome = f"if((sender & {ENDINGS}) = {mask(Event.DELIVERED)}, greatest(ended_at - accepted_at, 0L), NULL)"
    # greatest() and least() ignore nulls.
    return F.expr(f"if({between} IS NULL, NULL, greatest(least({between}, {until_outcome}), 0L))")


def _absent_at() -> Column:
    """Return SQL for the time from which on an absent ledger should have a line, by the clock of its node.

    Null if no ledger is absent.
    """
    skews = {"sender": "coalesce(sender_skew, 0)", "hub": "0", "receiver": "coalesce(receiver_skew, 0)"}
    rows = " ".join(
        f"WHEN row = {number} THEN greatest(coalesce({_DUE_AT[side]}, born_at), nullif(carried, 0)) + {skews[side]}"
        for number, rule in enumerate(RULES)
        for side in skews
        if rule.finding == f"{side}_source_missing"
    )
    return F.expr(f"CASE {rows} END")


def _bucket(value: Column, bounds: Sequence[int]) -> Column:
    """Return the index of the first bound that the value does not exceed; null if the value is null."""
    result = F.lit(len(bounds))
    for index, bound in reversed(list(enumerate(bounds))):
        result = F.when(value <= F.lit(bound), index).otherwise(result)
    return F.when(value.isNotNull(), result)


def verdicts(judged_facts: DataFrame, window: Window, oldest_at: int) -> DataFrame:
    """Return one row for each message of the date and each carried message.

    ``turned``: whether a carried message, which no earlier run reported, is now an exception. ``open``: the facts for
    the run of the next date, as JSON, because a struct would cost one null per fact of nearly every message; null if
    the verdict is final or the message was born before ``oldest_at``.
    """
    source_missing = _is(lambda verdict: verdict.name == "SOURCE_MISSING")
    updated = {
        "carried": F.expr(f"if({source_missing}, greatest(carried, {NEVER_COMPLETE}L), {window.end}L)"),
        "reported": F.expr(f"reported | if({_IS_EXCEPTION}, 1, 0)"),
    }  # fmt: skip
    facts = (updated[name].alias(name) if name in updated else F.col(name) for name in NAMES)
    is_open = f"{_is(lambda verdict: verdict.carried)} AND born_at >= {oldest_at}"
    open_facts = F.when(F.expr(is_open), F.to_json(F.struct(*facts)))
    # An unreadable locator may contain any bytes; readers need valid UTF-8.
    readable = f"if({_is(lambda verdict: verdict.name == 'QUARANTINED')}, make_valid_utf8({{0}}), {{0}})".format
    return judged_facts.where("scope IN ('date', 'carried')").select(
        F.expr(readable("lk0")).alias("lk0"),
        "scope",
        F.expr(readable("sender_node")).alias("sender"),
        F.coalesce("receiver_node", F.lit("")).alias("receiver"),
        _name_at([rule.verdict for rule in RULES], "row").alias("verdict"),
        _name_at([rule.finding for rule in RULES], "row").alias("finding"),
        _name_at(SENDERS, "sender_says").alias("sender_word"),
        _name_at(HUBS, "hub_says").alias("hub_word"),
        _name_at(RECEIVERS, "receiver_says").alias("receiver_word"),
        "born_at",
        "accepted_at",
        "taken_at",
        "recorded_at",
        "ended_at",
        F.expr(f"greatest(end_at - {_BORN_AT_HUB_TIME}, 0)").alias("age_ms"),
        _latency().alias("latency_ms"),
        _absent_at().alias("absent_at"),
        F.coalesce("att", F.lit(0)).alias("att"),
        F.coalesce("size", F.lit(0)).alias("size"),
        F.expr(f"traits & {PIECE} <> 0").alias("is_piece"),
        F.expr(f"if(document_id IS NULL OR document_inc IS NULL, '', {_document(readable('lk0'))})").alias("document"),
        F.expr(f"scope = 'carried' AND reported = 0 AND {_IS_EXCEPTION}").alias("turned"),
        open_facts.alias("open"),
    )


# SQL for the birth by the hub's clock.
_BORN_AT_HUB_TIME = "coalesce(begun_at, born_at - coalesce(sender_skew, 0))"


def _document(lk0: str) -> str:
    """Return SQL for the name of the document in pieces, which has the first four parts of ``lk0``."""
    return f"concat(substring_index({lk0}, '.', 4), '.', lower(hex(document_inc)), '.', document_id)"


def _is(condition: Callable[[Verdict], bool]) -> str:
    rows = ", ".join(str(row) for row, rule in enumerate(RULES) if condition(VERDICT[rule.verdict]))
    return f"row IN ({rows})"


_IS_EXCEPTION = _is(lambda verdict: verdict.kind == "exception")


def _name_at(names: Sequence[str], number: str) -> Column:
    listed = ", ".join(f"'{name}'" for name in names)
    return F.expr(f"array({listed})[{number}]")
