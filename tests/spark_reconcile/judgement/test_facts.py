"""Unusual and impossible lines among ordinary ones, judged in one run."""

from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from semq.engine.uplink import DIRECTLY
from semq.store.rows import Event, Side
from spark_reconcile.judgement.facts import SIZE_MAX, gather, read_lines
from tests.spark_reconcile.date_verdicts import judge
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HOUR, STORE_COURSE, Office, OfficeMessage, StandingClock

Lines = list[dict[str, Any]]
COPIES = 150  # messages with a second copy at the hub


def change(line: int, **fields: object) -> Callable[[Lines], None]:
    return lambda lines: lines[line].update(fields)


def without(line: int) -> Callable[[Lines], None]:
    return lambda lines: lines[line].clear()


def written_by(side: Side, node: str) -> Callable[[Lines], None]:

    def move(lines: Lines) -> None:
        for line in lines:
            if line["side"] == side:
                line["node"] = node

    return move


def nothing(lines: Lines) -> None:
    """Leave the lines as they are."""


def twice_in_two_stores(lines: Lines) -> None:
    lines[3]["seq"] = 77_777
    lines.append({**lines[3], "store": "2.1"})


def second_copy(*events: Event, lk1: str = "2.1.99") -> Callable[[Lines], None]:
    """Return a change that adds lines of the hub with these events for another copy."""

    def add(lines: Lines) -> None:
        first = next(line for line in lines if line["side"] == Side.HUB)
        lines.extend({**first, "event": int(event), "lk1": lk1, "seq": 70_000 + event} for event in events)

    return add


def written_by_another(side: Side, event: Event, **fields: object) -> Callable[[Lines], None]:
    """Return a change that adds a line of an institution that has no part in the message."""

    def add(lines: Lines) -> None:
        other = {"node": "1.c", "side": int(side), "event": int(event), "seq": 80_000, "digest": "", **fields}
        lines.append({**lines[0], "save_fwd": None, "ack2": None, **other})

    return add


def directly(lines: Lines) -> None:
    next(line for line in lines if line["event"] == Event.SENT)["reason"] = DIRECTLY


def directly_in_class_2(lines: Lines) -> None:
    lines[0]["save_fwd"] = 2
    directly(lines)


PARKED = f"{FORWARD_COURSE} R:PARKED@500"
LOST = "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 S:FORWARDED@46"
EXPIRED = "S:ACCEPTED@0 S:VOIDED@9 S:SENT@10 H:FORWARDED@24 R:CANCELLED@40 S:REJECTED@90 R:SENDER_ACKED@120"
# Verdict (empty: the message is not of the date), course, change of its lines. The lines of FORWARD_COURSE are:
# 0 S:ACCEPTED, 1 S:SENT, 2 H:FORWARDED, 3 R:RECEIVED, 4 S:FORWARDED, 5 S:DELIVERED, 6 R:SENDER_ACKED.
CASES: dict[str, tuple[str, str, Callable[[Lines], None]]] = {
    "expired, and ended by a void marker": ("REFUSED", EXPIRED, nothing),
    "turned away, with a null attempt": ("REFUSED", "S:REFUSED@0", change(0, att=None)),
    "nulls instead of empty texts": ("MATCHED", STORE_COURSE, change(0, att=None, lk1=None, size=None, reason=None)),
    "no ACCEPTED line": ("MATCHED", FORWARD_COURSE, without(0)),
    "no line but SENT": ("MISSING_AT_HUB", "S:SENT@0", nothing),
    "no line of its sender but DELIVERED": ("MATCHED", FORWARD_COURSE.replace("S:ACCEPTED@0 S:SENT@3 ", ""), nothing),
    "a later attempt of an earlier date": ("", FORWARD_COURSE.replace("S:ACCEPTED@0 ", ""), change(0, att=2)),
    "no FORWARDED line": ("STATE_CONTRADICTION", FORWARD_COURSE, without(2)),
    "no RECEIVED line": ("STATE_CONTRADICTION", FORWARD_COURSE, without(3)),
    "no DELIVERED line": ("ACK_NOT_RETURNED", FORWARD_COURSE, without(5)),
    "no SENDER_ACKED line": ("REACK_NOT_RETURNED", FORWARD_COURSE, without(6)),
    "recorded by a node that is not the target": (
        "STATE_CONTRADICTION",
        FORWARD_COURSE,
        written_by(Side.RECEIVER, "1.c"),
    ),
    "lines of the sender in the ledger of another node": (
        "QUARANTINED",
        FORWARD_COURSE,
        written_by(Side.SENDER, "1.c"),
    ),
    "lines of the hub in the ledger of an institution": ("QUARANTINED", FORWARD_COURSE, written_by(Side.HUB, "1.c")),
    "recorded in two stores under one number": ("DUPLICATE_DELIVERED", FORWARD_COURSE, twice_in_two_stores),
    "without a line of its sender": ("UNKNOWN_ORIGIN", "H:FORWARDED@24 R:RECEIVED@40", nothing),
    "two copies at the hub, both released": ("MATCHED", STORE_COURSE, second_copy(Event.STORED, Event.RELEASED)),
    "two copies at the hub, one released": ("ACK_NOT_RETURNED", STORE_COURSE, second_copy(Event.STORED)),
    "released by a line without LK1": ("MATCHED", STORE_COURSE, second_copy(Event.RELEASED, lk1="")),
    "forwarded, and also stored": ("ACK_NOT_RETURNED", FORWARD_COURSE, second_copy(Event.STORED)),
    "released, and never stored": ("MATCHED", STORE_COURSE.replace("H:STORED@24c ", ""), nothing),
    "given to the application without a record": ("STATE_CONTRADICTION", f"{LOST} R:GIVEN@41 R:DONE@50", nothing),
    "parked without a record": ("STATE_CONTRADICTION", f"{LOST} R:PARKED@50", nothing),
    "parked, requeued, given and not yet done": (
        "PARKED",
        f"{FORWARD_COURSE} R:PARKED@500 R:OPERATOR@600 R:GIVEN@601",
        nothing,
    ),
    "parked, requeued and done": (
        "MATCHED",
        f"{FORWARD_COURSE} R:PARKED@500 R:OPERATOR@600 R:GIVEN@601 R:DONE@700",
        nothing,
    ),
    "class 2, cancelled before it was sent": ("MATCHED", "S:ACCEPTED@0 S:CANCELLED@4", change(0, save_fwd=2)),
    "class 1, expired before it was sent": ("REFUSED", "S:ACCEPTED@0 S:REJECTED@4", change(0, save_fwd=1)),
    "class 2, stored by the hub, then expired without a trace": (
        "STATE_CONTRADICTION",
        "S:ACCEPTED@0 S:SENT@3 S:STORED@20 S:REJECTED@4000000",
        change(0, save_fwd=2),
    ),
    "class 2, forwarded by the hub, then expired without a trace": (
        "STATE_CONTRADICTION",
        "S:ACCEPTED@0 S:SENT@3 S:FORWARDED@20 S:REJECTED@4000000",
        change(0, save_fwd=2),
    ),
    "class 2, sent directly, then expired without a trace": (
        "STATE_CONTRADICTION",
        "S:ACCEPTED@0 S:SENT@3 S:REJECTED@400",
        directly_in_class_2,
    ),
    "class 1, cancelled after it was sent": (
        "STATE_CONTRADICTION",
        "S:ACCEPTED@0 S:SENT@3 S:CANCELLED@4",
        change(0, save_fwd=1),
    ),
    "class 3, cancelled, and the marker never arrived": (
        "STATE_CONTRADICTION",
        "S:ACCEPTED@0 S:VOIDED@3 S:CANCELLED@4",
        nothing,
    ),
    "class 2 without a receipt, rejected by its receiver": (
        "REFUSED",
        "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:REJECTED@40",
        change(0, save_fwd=2, ack2=False),
    ),
    "lost, and another institution states class 1": (
        "NOT_DELIVERED",
        LOST,
        written_by_another(Side.SENDER, Event.VIOLATION, save_fwd=1, ack2=False),
    ),
    "lost, and another institution states class 1 for the receiver": (
        "STATE_CONTRADICTION",
        LOST,
        written_by_another(Side.RECEIVER, Event.GIVEN, save_fwd=1, ack2=False),
    ),
    "parked, and another institution says that it is done": (
        "STATE_CONTRADICTION",
        PARKED,
        written_by_another(Side.RECEIVER, Event.DONE),
    ),
    "two outcomes, and another institution notes an operator's act": (
        "STATE_CONTRADICTION",
        f"{FORWARD_COURSE} S:REJECTED@95",
        written_by_another(Side.SENDER, Event.OPERATOR),
    ),
    "sent directly, then stored, and the hub has no line": (
        "MISSING_AT_HUB",
        "S:ACCEPTED@0 S:SENT@3 S:SENT@900000 S:STORED@900100c",
        directly,
    ),
    "no number": ("QUARANTINED", FORWARD_COURSE, change(5, seq=None)),
    "no time": ("QUARANTINED", FORWARD_COURSE, change(2, at=None)),
    "an absurd time": ("QUARANTINED", FORWARD_COURSE, change(3, at=2**63 - 1)),
    "an unknown event": ("QUARANTINED", FORWARD_COURSE, change(4, event=17)),
    "an absurd size and attempt": ("MATCHED", FORWARD_COURSE, change(0, size=2**63 - 1, att=-(2**31))),
    "a locator that ends with a line feed": ("QUARANTINED", "S:ACCEPTED@0", change(0, lk0="1.a.1.1.3f.7\n")),
    "a locator of 100,000 digits": ("QUARANTINED", "S:ACCEPTED@0", change(0, lk0="1.a." + "9" * 100_000)),
    "a locator that is not UTF-8": ("QUARANTINED", "S:ACCEPTED@0", change(0, lk0=b"1.a.\xff")),
    "a reason that is not UTF-8": ("QUARANTINED", FORWARD_COURSE, change(2, reason=b"\xc3\x28", event=99)),
    "a target that is not UTF-8": ("STATE_CONTRADICTION", FORWARD_COURSE, change(2, target=b"1.b\xff")),
    "an empty locator": ("QUARANTINED", "S:ACCEPTED@0", change(0, lk0="", seq=88_888)),
    "an attempt of an earlier date that is delivered": ("", "H:SENT@0 R:RECEIVED@9 H:RELEASED@20", nothing),
    "a copy that arrives again": ("", "R:DUPLICATE@0", nothing),
}


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Judge all cases and some ordinary messages together; return the verdicts by locator."""
    office = Office(tmp_path_factory.mktemp("planted"), StandingClock())
    all_lines: Lines = []
    for number in range(3):
        all_lines += office.lines_of(OfficeMessage(number + 900), FORWARD_COURSE)
        all_lines += office.lines_of(OfficeMessage(number + 950, "1.c", "1.b"), STORE_COURSE)
    for number, (_, course, plant) in enumerate(CASES.values()):
        lines = office.lines_of(OfficeMessage(number, at=3 * HOUR + number * 60_000), course)
        plant(lines)
        all_lines += filter(None, lines)
    for number in range(COPIES):
        lines = office.lines_of(OfficeMessage(5_000 + number, at=4 * HOUR + number * 60_000), STORE_COURSE)
        second_copy(Event.STORED, lk1=f"2.1.{number}")(lines)
        all_lines += lines
    office.deliver(all_lines)
    run, _ = judge(office.settings, DAY, office.clock, spark)
    rows = pq.read_table(run.verdicts.path).to_pylist()
    assert len({row["lk0"] for row in rows}) == len(rows)
    return {row["lk0"]: row["verdict"] for row in rows}


# Cases whose message has another name in the verdicts than the LK0 of its OfficeMessage.
NAMES = {"a locator that ends with a line feed": "1.a.1.1.3f.7\n", "a locator of 100,000 digits": "1.a." + "9" * 196,
         "a locator that is not UTF-8": "1.a.\ufffd", "an empty locator": "?1.a.1.1.88888"}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_case_has_the_expected_verdict(verdicts: dict[str, str], case: str) -> None:
    lk0 = NAMES.get(case, OfficeMessage(list(CASES).index(case)).lk0)
    assert verdicts.get(lk0, "") == CASES[case][0]


def test_a_kept_copy_is_found_although_another_copy_was_released(verdicts: dict[str, str]) -> None:
    assert {verdicts[OfficeMessage(5_000 + number).lk0] for number in range(COPIES)} == {"ACK_NOT_RETURNED"}


def test_ordinary_messages_beside_the_cases_are_matched(verdicts: dict[str, str]) -> None:
    daily = [verdicts[OfficeMessage(number + 900).lk0] for number in range(3)]
    daily += [verdicts[OfficeMessage(number + 950, "1.c", "1.b").lk0] for number in range(3)]
    assert daily == ["MATCHED"] * 6


def test_messages_that_an_older_version_left_open_are_carried_on(spark: SparkSession) -> None:
    """Facts of an older version have no columns for copies, but additional traits."""
    nothing = read_lines(spark, {})
    now = gather(nothing, {"2.hub"})
    old = now.drop("stored_copies", "released_copies")
    values = [
        "'1.a.1.1.3f.7' AS lk0",
        "12345 AS traits",
        *(f"0 AS {name}" for name in old.columns[1:] if name != "traits"),
    ]
    carried = spark.sql(f"SELECT to_json(struct({', '.join(values)})) AS open")
    (row,) = gather(nothing, {"2.hub"}, carried).collect()
    assert (row["lk0"], row["traits"], row["stored_copies"], row["released_copies"]) == (
        "1.a.1.1.3f.7",
        12345 & 15,
        0,
        0,
    )


def test_the_sizes_of_a_billion_documents_can_be_added() -> None:
    assert 10**9 * SIZE_MAX < 2**63
