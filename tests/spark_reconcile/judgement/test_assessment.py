"""Spark and the oracle agree on the verdicts of random ledgers; ages with a wrong clock."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from semq.engine.uplink import DIRECTLY
from semq.store.rows import Event, Side
from spark_reconcile.days import Window
from spark_reconcile.extracts.schema import ARROW_SCHEMA
from spark_reconcile.judgement import assessment, facts
from spark_reconcile.judgement.assessment import EvidenceCoverage, JudgementContext
from spark_reconcile.judgement.verdicts import RULES
from spark_reconcile.run import stages
from tests.depth import deeper
from tests.spark_reconcile.office import FORWARD_COURSE, HOUR, HUB, MIDNIGHT, STORE_COURSE
from tests.spark_reconcile.oracle import OracleLine, OracleWorld, opinion

DAY = Window(MIDNIGHT, MIDNIGHT + 24 * HOUR)
YOUNG_MS = 900_000
COURSES = [
    FORWARD_COURSE,
    STORE_COURSE,
    "S:ACCEPTED@0 S:SENT@3 H:REFUSED@24 S:REJECTED@46",
    "S:ACCEPTED@0 S:SENT@3 H:DROPPED@24 S:DROPPED@46",
    "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:REJECTED@40 S:FORWARDED@46 S:REJECTED@90 R:SENDER_ACKED@120",
    "S:ACCEPTED@0 S:SENT@3 S:VOIDED@9 H:FORWARDED@24 R:CANCELLED@40 S:CANCELLED@90 R:SENDER_ACKED@120",
    "S:REFUSED@0",
    "S:ACCEPTED@0 S:VOIDED@9 S:CANCELLED@10",
    "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:REJECTED@40 S:FORWARDED@46",
    "S:ACCEPTED@0 S:SENT@3d S:SENT@9000 S:STORED@9020c",
    "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:RECEIVED@40 S:DELIVERED@90 R:SENDER_ACKED@120 R:RECEIVED@50000000",
    "S:ACCEPTED@0 S:SENT@3d R:RECEIVED@10d S:DELIVERED@20 R:SENDER_ACKED@30",
    "S:ACCEPTED@0 S:SENT@3d S:SENT@9000 H:STORED@9020c H:SENT@9030 R:RECEIVED@9040 H:RELEASED@9050 S:DELIVERED@9060",
    "S:ACCEPTED@0",
    "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:RECEIVED@40 R:GIVEN@41 R:PARKED@999 S:UNKNOWN@5000",
    "S:ACCEPTED@0 S:SENT@3 H:STORED@24c H:PARKED@70000 S:LOST@80000",
    "S:ACCEPTED@0 S:SENT@3 H:STORED@24c H:OPERATOR@70000 H:REFUSED@70000 S:REJECTED@70020 H:RELEASED@70040",
    "S:ACCEPTED@0 S:SENT@3 H:STORED@24c H:OPERATOR@70000 H:REFUSED@70000 S:UNKNOWN@70020 H:RELEASED@70040",
    "S:ACCEPTED@0 S:SENT@3 H:STORED@24c H:SENT@60000 R:RECEIVED@60010 H:OPERATOR@70000 H:REFUSED@70000 S:DELIVERED@80000",
]
SIDES = {"S": Side.SENDER, "H": Side.HUB, "R": Side.RECEIVER}
NODES = ["1.a", "1.b", "1.c", "1.away", HUB]


def invent(dice: Random) -> tuple[str, list[dict[str, Any]]]:
    """Invent a message; return its sender and the lines of a course, some of them removed, added or changed."""
    sender = dice.choice(NODES)
    receiver = dice.choice(NODES[:4] if dice.random() < 0.8 else NODES)
    born = int(MIDNIGHT + dice.choice([1, 10, 10, 10, 10, 23.9, 24.5, -3]) * HOUR)
    save_fwd = dice.choice([None, 3, 3, 1, 2])
    steps = [_step(text) for text in dice.choice(COURSES).split()]
    steps = [step for step in steps if dice.random() < 0.85]
    for _ in range(dice.choice([0, 0, 1, 2])):
        steps.append((dice.choice([1, 1, 2, 3, 3]), int(dice.choice(list(Event))), dice.choice([5, 60, 70_000]), ""))
    if dice.random() < 0.05:
        steps.append((dice.randrange(6), dice.randrange(40), 50, ""))
    differs = dice.random() < 0.1
    return sender, [
        {"node": dice.choice(NODES[:3]) if dice.random() < 0.02 else {2: HUB, 3: receiver}.get(side, sender),
         "at": born + after, "side": side, "event": event,
         "target": dice.choice([receiver, receiver, f"{receiver}/buyer", ""]) if dice.random() < 0.99 else "1.c",
         "att": int(event == Event.SENT), "lk1": dice.choice(["1.1.7"] * 9 + ["1.2.8", ""]) if "c" in marks else "",
         "reason": DIRECTLY if "d" in marks else "",
         "digest": "y" if differs and side == Side.RECEIVER else "x",
         "save_fwd": save_fwd if event == Event.ACCEPTED or dice.random() < 0.05 else None,
         "ack2": dice.choice([True, False, None]) if event == Event.ACCEPTED or dice.random() < 0.05 else None,
         "outside": dice.random() < 0.01}
        for side, event, after, marks in steps
    ]  # fmt: skip


def _step(text: str) -> tuple[int, int, int, str]:
    """Return side, event, time and marks of a step. Mark c: a stored copy; d: a direct link."""
    side, _, event_and_time = text.partition(":")
    event, _, time = event_and_time.partition("@")
    return int(SIDES[side]), int(Event[event]), int(time.rstrip("cd")), time.lstrip("0123456789")


COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(params=["compiled", "interpreted"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session with the settings for large (compiled) or for small inputs (interpreted)."""
    before = {name: spark.conf.get(name) for name in COMPILED}
    for name, value in COMPILED.items():
        if request.param == "compiled":
            spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        spark.conf.set(name, str(old))


@pytest.mark.parametrize(
    ("hub_delivered", "has_hub"), [(True, True), (False, True), (False, False)], ids=["hub", "hub_missing", "no_hub"]
)
def test_spark_and_oracle_agree_on_all_messages(session: SparkSession, hub_delivered: bool, has_hub: bool) -> None:
    present = {"1.a", "1.b", "1.c", *([HUB] if hub_delivered else [])}
    marks = {"1.a": DAY.end, "1.b": DAY.end - 2 * HOUR, "1.c": DAY.end + HOUR, HUB: DAY.end}
    world = OracleWorld(
        DAY.start, DAY.end, YOUNG_MS, {name: marks[name] for name in present},
        DAY.end if hub_delivered or not has_hub else None, has_hub=has_hub,
    )  # fmt: skip
    ledgers = tuple(EvidenceCoverage(name, "1.1", marks[name]) for name in sorted(present))
    is_complete = hub_delivered or not has_hub
    context = JudgementContext(DAY, YOUNG_MS, ledgers, is_complete, DAY.end if is_complete else 2**62, has_hub=has_hub)

    # Without shrinking, which takes minutes for a small gain, and with fixed seeds, so that chance decides nothing.
    @settings(max_examples=1, derandomize=True, phases=(Phase.generate,))
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        dice = Random(seed)
        rows: list[dict[str, Any]] = []
        stories: dict[str, list[OracleLine]] = {}
        world.outside.clear()
        for number in range(deeper(2000, 4000)):
            sender, fields = invent(dice)
            lk0 = f"{sender}.broken.{number}" if dice.random() < 0.01 else f"{sender}.1.1.3f.{number}"
            for line in fields:
                row = {**line, "lk0": lk0, "store": "1.1", "seq": len(rows) + 1}
                rows.append(row)
                if row["outside"]:
                    world.outside.add(row["seq"])
                values = {name: value for name, value in row.items() if name not in ("outside", "store")}
                stories.setdefault(lk0, []).append(OracleLine(**values))
        judged = _judge(session, rows, context)
        expected = {lk0: opinion(lines, world) for lk0, lines in stories.items()}
        wrong = [
            (lk0, expected[lk0], judged[lk0], stories[lk0]) for lk0 in expected if judged[lk0][:2] != expected[lk0]
        ]
        assert not wrong, f"{len(wrong)} differ, such as {wrong[0]}"
        assert judged.keys() == expected.keys()

    check()


def _judge(
    spark: SparkSession, rows: list[dict[str, Any]], context: JudgementContext
) -> dict[str, tuple[str, str, str]]:
    """Return scope, verdict (empty if the message does not belong to the date) and finding of each message."""
    judged = _judged(spark, rows, context).select("lk0", "scope", "row").collect()
    return {
        row["lk0"]: (row["scope"], RULES[row["row"]].verdict if row["scope"] == "date" else "",
                     RULES[row["row"]].finding)
        for row in judged
    }  # fmt: skip


def _judged(spark: SparkSession, rows: list[dict[str, Any]], context: JudgementContext) -> DataFrame:
    schema = ARROW_SCHEMA.append(pa.field("outside", pa.bool_()))
    lines = spark.createDataFrame(pa.Table.from_pylist(rows, schema))
    nodes = {str(row[name]) for row in rows for name in ("node", "source", "target") if row.get(name)}
    names = stages.names(spark, nodes, None)
    dated = assessment.dated(facts.gather(lines, {HUB}), context.window)
    return assessment.judged(spark, dated, names, context)


def test_the_age_is_the_time_since_the_birth_by_the_hubs_clock(spark: SparkSession) -> None:
    fast_ms = HOUR  # the sender's clock minus the hub's
    line = {"node": "1.a", "store": "1.1", "seq": 1, "at": MIDNIGHT + 10 * HOUR, "side": int(Side.SENDER),
            "lk0": "1.a.1.1.3f.1", "target": "1.b", "save_fwd": 3, "outside": False}  # fmt: skip
    rows = [
        {**line, "event": int(Event.ACCEPTED)},
        {**line, "event": int(Event.REFUSED), "lk0": "1.a.1.1.3f.2", "seq": 2},
    ]
    ledgers = (
        EvidenceCoverage("1.a", "1.1", DAY.end + fast_ms, fast_ms),
        EvidenceCoverage("1.b", "1.1", DAY.end),
        EvidenceCoverage(HUB, "1.1", DAY.end),
    )
    context = JudgementContext(DAY, YOUNG_MS, ledgers, hub_complete=True, hub_watermark=DAY.end)
    verdicts = assessment.verdicts(_judged(spark, rows, context), DAY, DAY.start).select("lk0", "age_ms").collect()
    assert {row["lk0"]: row["age_ms"] for row in verdicts} == {"1.a.1.1.3f.1": 15 * HOUR, "1.a.1.1.3f.2": 15 * HOUR}
