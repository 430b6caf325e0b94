"""The comparison of the reconciliation as plain SQL, in the dialects of DuckDB and Postgres.

The facts, and the words for the situation at each side, are those of the job; the same grid judges them. Wrong clocks,
carried messages and missing sources are left out, because the generated ledgers have none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from semq.store.rows import Event, Side
from spark_reconcile.days import Window
from spark_reconcile.extracts.events import EVENTS_OF, mask
from spark_reconcile.judgement.facts import BEST_EFFORT, HAS_LK1, NO_ACK2, PROMISED
from spark_reconcile.judgement.situation import (
    ENDINGS,
    HUB_SHIFT,
    HUB_WORDS,
    HUBS,
    RECEIVER_SHIFT,
    RECEIVER_WORDS,
    RECEIVERS,
    RECORDS,
    REMARK_SHIFT,
    REMARKS,
    SENDER_WORDS,
    SENDERS,
    SideWord,
)

YOUNG_MS = 900_000  # age of the last step below which a message counts as young


@dataclass(frozen=True, slots=True)
class Dialect:
    """The parts of SQL in which the two dialects differ."""

    hashed: Callable[[str], str]  #: 64-bit hash of a text
    set_bits: Callable[[str], str]  #: number of set bits of a number


DUCKDB = Dialect(lambda text: f"hash({text})", lambda number: f"bit_count({number})")
POSTGRES = Dialect(lambda text: f"hashtextextended({text}, 0)", lambda number: f"bit_count(({number})::bit(32))")


def facts_sql(source: str, window: Window, dialect: Dialect) -> str:
    """Return SQL for one row per message, from a table of lines."""
    allowed = " ".join(f"WHEN {side:d} THEN {mask(*events)}" for side, events in EVENTS_OF.items())
    readable = "lk0 IS NOT NULL AND event BETWEEN 1 AND 30"
    bit = f"CASE WHEN {readable} THEN (1 << event::int) & (CASE side {allowed} ELSE 0 END) ELSE 0 END"
    columns = ", ".join(f"{merge}({value}) AS {name}" for name, merge, value in _facts(dialect))
    return f"""SELECT lk0, {columns} FROM (
        SELECT *, {bit} AS bit, ("at" < {window.start} OR "at" >= {window.end})::int AS outside FROM {source}
    ) AS lines GROUP BY lk0"""


def _facts(dialect: Dialect) -> Sequence[tuple[str, str, str]]:
    """Return the columns of the facts: name, aggregate function, SQL for the value of one line."""
    sender, hub, receiver = Side.SENDER, Side.HUB, Side.RECEIVER
    hub_lines = mask(Event.FORWARDED, Event.STORED)

    def when(side: Side, events: int, value: str) -> str:
        return f"CASE WHEN side = {side:d} AND bit & {events} <> 0 THEN {value} END"

    states_digest = (
        f"side = {sender:d} AND bit & {mask(Event.ACCEPTED)} <> 0 OR side = {hub:d} AND bit & {hub_lines} <> 0 "
        f"OR side = {receiver:d} AND bit & {mask(Event.RECEIVED)} <> 0"
    )
    digest = f"CASE WHEN digest <> '' AND ({states_digest}) THEN {dialect.hashed('digest')} END"
    target = f"CASE WHEN target <> '' THEN {dialect.hashed(_node('target'))} END"
    record = when(receiver, mask(Event.RECEIVED), dialect.hashed("node || '.' || seq"))
    traits = (f"(CASE WHEN save_fwd IN (1, 2) THEN {BEST_EFFORT} ELSE 0 END) | (CASE WHEN save_fwd > 1 THEN {PROMISED} "
              f"ELSE 0 END) | (CASE WHEN ack2 THEN 0 WHEN NOT ack2 THEN {NO_ACK2} ELSE 0 END) | (CASE WHEN "
              f"side = {receiver:d} AND bit & {RECORDS} <> 0 AND lk1 <> '' THEN {HAS_LK1} ELSE 0 END)")  # fmt: skip
    taken = mask(Event.FORWARDED, Event.STORED, Event.DROPPED, Event.REFUSED)
    return (
        ("sender", "bit_or", f"CASE WHEN side = {sender:d} THEN bit ELSE 0 END"),
        ("hub", "bit_or", f"CASE WHEN side = {hub:d} THEN bit ELSE 0 END"),
        ("receiver", "bit_or", f"CASE WHEN side = {receiver:d} THEN bit ELSE 0 END"),
        ("bad", "bit_or", "outside | (CASE WHEN bit = 0 THEN 2 ELSE 0 END)"),
        ("traits", "bit_or", traits),
        ("accepted_at", "min", when(sender, mask(Event.ACCEPTED), '"at"')),
        ("sent_at", "min", when(sender, mask(Event.SENT), '"at"')),
        ("ended_at", "min", when(sender, ENDINGS, '"at"')),
        ("taken_at", "min", when(hub, taken, '"at"')),
        ("hub_sent_at", "min", when(hub, mask(Event.SENT), '"at"')),
        ("released_at", "min", when(hub, mask(Event.RELEASED), '"at"')),
        ("recorded_at", "min", when(receiver, RECORDS, '"at"')),
        ("record_low", "min", record),
        ("record_high", "max", record),
        ("digest_low", "min", digest),
        ("digest_high", "max", digest),
        ("target_low", "min", target),
        ("target_high", "max", target),
        ("node_low", "min", when(receiver, RECORDS, dialect.hashed("node"))),
        ("node_high", "max", when(receiver, RECORDS, dialect.hashed("node"))),
    )


def _node(address: str) -> str:
    return f"split_part({address}, '/', 1)"


def situation_sql(window: Window, dialect: Dialect) -> str:
    """Return SQL for the packed situation of a row of facts."""
    torn = f"{dialect.set_bits(f'sender & {ENDINGS}')} > 1"
    mixed = f"{dialect.set_bits(f'receiver & {RECORDS}')} > 1"
    parts = [
        _words("sender", SENDER_WORDS, SENDERS, torn),
        f"({_words('hub', HUB_WORDS, HUBS, 'false')} << {HUB_SHIFT})",
        f"({_words('receiver', RECEIVER_WORDS, RECEIVERS, mixed)} << {RECEIVER_SHIFT})",
    ]
    remarks = _remarks(window)
    parts += [
        f"(CASE WHEN {remarks[remark]} THEN {1 << index + REMARK_SHIFT} ELSE 0 END)"
        for index, remark in enumerate(REMARKS)
        if remark in remarks
    ]
    return " | ".join(parts)


def _words(column: str, words: Sequence[SideWord], names: Sequence[str], special: str) -> str:
    """Return SQL for the index in ``names`` of the word for one side. ``special``: condition of the word at index 2."""
    rows = " ".join(
        f"WHEN {column} & {word.shown_by} <> 0"
        + (f" AND {column} & {word.unless} = 0" if word.unless else "")
        + (f" AND {column} & {word.needs} <> 0" if word.needs else "")
        + f" THEN {names.index(word.name)}"
        for word in words
    )
    return f"(CASE WHEN {special} THEN 2 {rows} ELSE 0 END)"


def _remarks(window: Window) -> dict[str, str]:
    steps = "greatest(accepted_at, sent_at, ended_at, taken_at, hub_sent_at, released_at, recorded_at)"
    sender_acked, platform_acked = mask(Event.SENDER_ACKED), mask(Event.PLATFORM_ACKED)
    return {
        "unreadable": "bad & 2 <> 0",
        "out_of_range": "bad & 1 <> 0",
        "mismatch": f"((hub | receiver) & {mask(Event.MISMATCH)} <> 0 OR digest_low <> digest_high)",
        "twice": "record_low <> record_high",
        "astray": "(node_low <> target_high OR node_high <> target_high)",
        "two_targets": "target_low <> target_high",
        "young": f"{steps} > {window.end - YOUNG_MS}",
        "best_effort": f"traits & {BEST_EFFORT} <> 0",
        "promised": f"traits & {PROMISED} <> 0",
        "untold": f"(traits & {BEST_EFFORT} <> 0 AND traits & {NO_ACK2} <> 0)",
        "owes": f"(receiver & {RECORDS} <> 0 AND (traits & {BEST_EFFORT} = 0 AND receiver & {sender_acked} = 0 "
        f"OR traits & {HAS_LK1} <> 0 AND receiver & {platform_acked} = 0))",
    }
