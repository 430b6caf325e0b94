"""The limits of the evidence: no message near them is called lost, counted twice or omitted."""

import io
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from semq.clock import SystemClock
from semq.engine.uplink import DIRECTLY
from semq.store.rows import Event, Side
from spark_reconcile import nightly
from spark_reconcile.extracts.manifest import canonical
from spark_reconcile.progress import Progress
from spark_reconcile.run import runs
from spark_reconcile.run.job import RunRequest, RunResult, run
from spark_reconcile.run.readings import UNSERVED_MIN
from spark_reconcile.run.runs import Run
from spark_reconcile.sources import gaps
from spark_reconcile.sources.evidence import Evidence, carried_run, collect_evidence
from spark_reconcile.storage import Place
from tests.spark_reconcile.date_verdicts import judge, missing_ledgers
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HOUR, HUB, MIDNIGHT, STORE_COURSE, Office, OfficeMessage

NEXT, BEFORE = DAY + timedelta(days=1), DAY - timedelta(days=1)
LATE, MINUTE = 24 * HOUR, 60_000
SKEW = {"1.fast": HOUR, "1.slow": -HOUR, "1.ahead": 40}  # milliseconds by which clocks are fast


def reconcile(office: Office, spark: SparkSession, day: Any) -> tuple[RunResult, dict[str, tuple[str, str]]]:
    """Move the clock by a day, and run a date. Return the result, and scope and verdict of each message."""
    office.advance(1)
    result = run(office.settings, RunRequest(day), office.clock, Progress(SystemClock(), io.StringIO()), spark)
    rows = pq.read_table(Path(result.report).parent / "verdicts.parquet").to_pylist()
    return result, {row["lk0"]: (row["scope"], row["verdict"]) for row in rows}


def test_over_two_nights_only_lost_and_forged_messages_are_exceptions(office: Office, spark: SparkSession) -> None:
    for number in range(4):  # messages from which the clocks are estimated
        for place, node in enumerate(("1.fast", "1.slow", "1.b")):
            office.write(OfficeMessage(number, node, "1.a", 22 * HOUR + number * MINUTE), FORWARD_COURSE, SKEW)
            office.write(
                OfficeMessage(100 * place + number, "1.a", node, 22 * HOUR + number * MINUTE), FORWARD_COURSE, SKEW
            )
        # The clock of 1.reset was an hour slow until noon.
        office.write(
            OfficeMessage(300 + number, "1.a", "1.reset", 8 * HOUR + number * MINUTE),
            FORWARD_COURSE,
            {"1.reset": -HOUR},
        )
        office.write(OfficeMessage(310 + number, "1.a", "1.reset", 22 * HOUR + number * MINUTE), FORWARD_COURSE)
    sent = "S:ACCEPTED@0 S:SENT@3"
    lost = office.write(OfficeMessage(20, "1.a", "1.b", LATE - 5 * MINUTE), sent)
    lost_at_noon = office.write(OfficeMessage(21, "1.a", "1.b", 12 * HOUR), sent)
    # By their sender's clock, these are of the next date; of the second one, the sender's first lines are missing.
    tomorrow = office.write(OfficeMessage(22, "1.fast", "1.b", LATE - 30 * MINUTE), FORWARD_COURSE, SKEW)
    headless = office.write(
        OfficeMessage(35, "1.fast", "1.b", LATE - 30 * MINUTE),
        FORWARD_COURSE.removeprefix("S:ACCEPTED@0 S:SENT@3 "),
        SKEW,
    )
    ahead = office.write(OfficeMessage(23, "1.ahead", "1.b", LATE - 30), FORWARD_COURSE, SKEW)
    crossing = office.write(OfficeMessage(24, "1.a", "1.b", LATE - 30), FORWARD_COURSE)
    # By their receivers' slow clocks, these are recorded on the previous date, which has no extract.
    early = office.write(OfficeMessage(25, "1.a", "1.slow", 30 * MINUTE), FORWARD_COURSE, SKEW)
    reset = office.write(OfficeMessage(28, "1.a", "1.reset", 30 * MINUTE), FORWARD_COURSE, {"1.reset": -HOUR})
    # This one is given to the application after midnight by the receiver's clock.
    given = office.write(
        OfficeMessage(29, "1.a", "1.slow", 30 * MINUTE),
        "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:RECEIVED@40 R:GIVEN@3000000 R:DONE@3000050", SKEW,
    )  # fmt: skip
    absent = office.write(OfficeMessage(26, "1.a", "1.gone", 9 * HOUR), FORWARD_COURSE)
    forged = office.write(OfficeMessage(27, "1.a", "1.b", LATE - 2_000), "H:FORWARDED@24 R:RECEIVED@40")
    for number in range(30, 34):
        for node in ("1.fast", "1.b", "1.gone"):
            office.write(OfficeMessage(number, node, "1.a", LATE + 9 * HOUR), FORWARD_COURSE, SKEW)

    office.extract(only=[name for name in office.lines if name != "1.gone"])
    office.advance(1)
    first, judged = judge(office.settings, DAY, office.clock, spark)
    rows = pq.read_table(first.verdicts.path).to_pylist()
    found = {row["lk0"]: (row["scope"], row["verdict"]) for row in rows}
    assert [found.get(message.lk0) for message in (lost, lost_at_noon, tomorrow, headless, ahead, crossing, early, absent, forged)] == [
        ("date", "IN_FLIGHT"), ("date", "MISSING_AT_HUB"), None, None, ("date", "IN_FLIGHT"), ("date", "IN_FLIGHT"),
        ("date", "SOURCE_MISSING"), ("date", "SOURCE_MISSING"), ("date", "IN_FLIGHT"),
    ]  # fmt: skip
    assert found[reset.lk0] == found[given.lk0] == ("date", "SOURCE_MISSING")
    counts = Counter(verdict for _, verdict in found.values())
    assert (counts["MATCHED"], counts["STATE_CONTRADICTION"]) == (32, 0)
    assert judged.other_dates == {"earlier": 0, "later": 2, "none": 0}
    # The last two are missing for the previous date.
    assert missing_ledgers(judged, office.settings) == ["1.gone", "1.reset.1.1", "1.slow.1.1"]

    office.extract(NEXT)
    second, found = reconcile(office, spark, NEXT)
    assert [found.get(message.lk0) for message in (lost, lost_at_noon, tomorrow, headless, ahead, crossing, early, absent, forged)] == [
        ("carried", "MISSING_AT_HUB"), ("carried", "MISSING_AT_HUB"), ("date", "MATCHED"), ("date", "MATCHED"), ("date", "MATCHED"),
        ("carried", "MATCHED"), ("carried", "SOURCE_MISSING"), ("carried", "SOURCE_MISSING"),
        ("carried", "UNKNOWN_ORIGIN"),
    ]  # fmt: skip
    summary = json.loads((Path(second.report).parent / "summary.json").read_text())
    assert summary["other_dates"] == {"earlier": counts["MATCHED"], "later": 0, "none": 0}
    # Thresholds do not count exceptions that the first run has reported.
    assert {(breach["verdict"], breach["found"]) for breach in second.breaches} == {
        ("MISSING_AT_HUB", 1),
        ("UNKNOWN_ORIGIN", 1),
    }


def test_a_document_that_is_recorded_again_on_the_next_date_is_found_once(office: Office, spark: SparkSession) -> None:
    message = office.write(OfficeMessage(1, at=23 * HOUR), FORWARD_COURSE)
    office.extract()
    _, found = reconcile(office, spark, DAY)
    assert found == {message.lk0: ("date", "MATCHED")}
    office.add("1.b", message, Side.RECEIVER, Event.RECEIVED, 2 * HOUR)
    for number in range(2):
        office.write(OfficeMessage(2 + number, at=(number + 1) * LATE + HOUR), FORWARD_COURSE)
    office.extract(NEXT)
    second, found = reconcile(office, spark, NEXT)
    assert found[message.lk0] == ("carried", "DUPLICATE_DELIVERED")
    assert [(breach["verdict"], breach["found"]) for breach in second.breaches] == [("DUPLICATE_DELIVERED", 1)]
    office.extract(NEXT + timedelta(days=1))
    third, found = reconcile(office, spark, NEXT + timedelta(days=1))
    assert (message.lk0 in found, third.outcome) == (False, "met")


def test_a_message_that_the_hub_refused_needs_no_ledger_of_its_target(office: Office, spark: SparkSession) -> None:
    """The case of a restored sender: nobody can deliver the ledger of a target that does not exist."""
    office.write(OfficeMessage(1), FORWARD_COURSE)
    refused = office.write(OfficeMessage(2, "1.a", "1.nobody"), "H:REFUSED@24")
    lost = office.write(OfficeMessage(3, "1.a", "1.nobody"), "H:FORWARDED@24")
    office.extract(only=["1.a", "1.b", HUB])
    _, found = reconcile(office, spark, DAY)
    assert found[refused.lk0] == ("date", "UNKNOWN_ORIGIN")
    assert found[lost.lk0] == ("date", "SOURCE_MISSING")


def test_a_message_whose_last_line_is_in_an_absent_extract_is_no_exception(office: Office, spark: SparkSession) -> None:
    # 1.a notes the ends after midnight.
    sent = office.write(OfficeMessage(1, "1.a", "1.b", LATE - 30), FORWARD_COURSE)
    received = office.write(OfficeMessage(2, "1.b", "1.a", LATE - 100), FORWARD_COURSE)
    refused = office.write(
        OfficeMessage(3, "1.a", "1.b", LATE - 30), "S:ACCEPTED@0 S:SENT@3 H:REFUSED@24 S:REJECTED@46"
    )
    known = office.write(OfficeMessage(4, "1.a", "1.b", 9 * HOUR), FORWARD_COURSE.replace("S:DELIVERED@90 ", ""))
    messages = (sent, received, refused, known)
    office.write(OfficeMessage(5, at=LATE + HOUR), FORWARD_COURSE)

    def verdicts(day: date, only: list[str] | None = None) -> tuple[list[str], list[str]]:
        office.advance(1)
        office.extract(day, only)
        run, judged = judge(office.settings, day, office.clock, spark)
        found = {row["lk0"]: row["verdict"] for row in pq.read_table(run.verdicts.path).to_pylist()}
        return [found[message.lk0] for message in messages], missing_ledgers(judged, office.settings)

    assert verdicts(DAY) == (["IN_FLIGHT"] * 3 + ["ACK_NOT_RETURNED"], [])
    assert verdicts(NEXT, ["1.b", HUB]) == (["SOURCE_MISSING"] * 3 + ["ACK_NOT_RETURNED"], ["1.a.1.1"])
    office.extract(NEXT, ["1.a"])
    assert verdicts(NEXT + timedelta(days=1)) == (["MATCHED", "MATCHED", "REFUSED", "ACK_NOT_RETURNED"], [])


# ---------------------------------------------------------------- the evidence of each node


def context_of(office: Office, first: dict[str, int] | None = None) -> Any:
    """Return the judgement context with the clock of 1.a five seconds fast. ``first``: by how many
    milliseconds the clock of each node was fast in the first hour."""
    evidence: Evidence = collect_evidence(office.settings, DAY, allow_partial=True)
    return evidence.judgement_context({"1.a": 5_000}, {"1.a": 5_000} if first is None else first)


def test_evidence_reaches_as_far_as_extracts_follow_each_other_without_a_gap(office: Office) -> None:
    office.write(OfficeMessage(1, at=HOUR), STORE_COURSE)
    office.advance(2)
    for day in (BEFORE, DAY, NEXT):
        office.extract(day)
    by_node = {ledger.node: ledger for ledger in context_of(office).ledgers}
    assert {ledger.skew for ledger in by_node.values()} == {0, 5_000}
    for ledger in by_node.values():
        assert (ledger.since, ledger.watermark) == (MIDNIGHT - 24 * HOUR, MIDNIGHT + 48 * HOUR)
    (office.folder("1.a", BEFORE) / "_manifest.json").unlink()
    (office.folder(HUB, NEXT) / "_manifest.json").unlink()
    context = context_of(office)
    by_node = {ledger.node: ledger for ledger in context.ledgers}
    assert (by_node["1.a"].since, by_node["1.b"].since) == (MIDNIGHT, MIDNIGHT - 24 * HOUR)
    assert (context.hub_since, context.hub_watermark) == (MIDNIGHT - 24 * HOUR, MIDNIGHT + 24 * HOUR)
    assert context.hub_complete
    assert context.incomplete == frozenset()


def test_evidence_begins_later_if_a_clock_was_slow_in_the_first_hour(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    for first, later in (({}, 5_000), ({"1.a": -HOUR}, HOUR + 5_000), ({"1.a": HOUR}, 0), ({"1.b": -HOUR}, 5_000)):
        by_node = {ledger.node: ledger for ledger in context_of(office, first).ledgers}
        assert (by_node["1.a"].since - MIDNIGHT, by_node["1.a"].skew) == (later, 5_000), first
        assert by_node["1.b"].since - MIDNIGHT == (HOUR if "1.b" in first else 0)


def test_a_node_with_an_absent_ledger_is_incomplete(office: Office) -> None:
    lines = office.lines_of(OfficeMessage(1), FORWARD_COURSE)
    other = [{**line, "store": "2.1"} for line in lines if line["node"] in ("1.b", HUB)]
    office.deliver([*lines, *other])
    assert (context_of(office).hub_complete, context_of(office).incomplete) == (True, frozenset())
    for node in ("1.b", HUB):
        part = next(Path(office.extracts.path).rglob(f"ledger={node}.2.1/part-*"))
        part.write_bytes(part.read_bytes()[:-1])
    context = context_of(office)
    assert (context.hub_complete, context.incomplete) == (False, {"1.b", HUB})


def test_the_hub_is_recognised_by_the_role_of_its_ledger(office: Office) -> None:
    office.write(replace(OfficeMessage(1), sender=HUB), FORWARD_COURSE)
    office.extract()
    assert collect_evidence(office.settings, DAY).hubs == {HUB}


def test_messages_of_other_dates_are_counted_and_latencies_are_right_despite_wrong_clocks(
    office: Office, spark: SparkSession
) -> None:
    """A message without a line of its sender may be of another date, if the sender's clock is wrong."""
    skew = {"1.p": -900, "1.q": 1_100, "1.r": 40}
    timed = [
        office.write(
            OfficeMessage(number, sender, receiver, 9 * HOUR + number * MINUTE),
            FORWARD_COURSE if number else FORWARD_COURSE.replace("S:DELIVERED@90 R:SENDER_ACKED@120", ""), skew,
        ).lk0
        for number in range(5)
        for sender, receiver in (("1.p", "1.q"), ("1.q", "1.r"), ("1.r", "1.p"))
    ]  # fmt: skip
    # The clock of the receiver went back for a moment, so that it has recorded the message before it was accepted.
    stepped = office.write(OfficeMessage(9, "1.p", "1.q", 10 * HOUR), FORWARD_COURSE, {**skew, "1.q": -8_900}).lk0
    for number in range(4):
        office.write(OfficeMessage(number, "1.fast", "1.b", 9 * HOUR), FORWARD_COURSE, SKEW)
        office.write(OfficeMessage(10 + number, "1.slow", "1.b", 9 * HOUR), FORWARD_COURSE, SKEW)
    # By the clocks of their senders, these two messages are of the next date and of the date before.
    office.write(OfficeMessage(20, "1.fast", "1.b", LATE - 30 * MINUTE), "H:FORWARDED@24 R:RECEIVED@40")
    office.write(OfficeMessage(21, "1.slow", "1.b", 30 * MINUTE), "H:FORWARDED@24 R:RECEIVED@40")
    office.write(OfficeMessage(22, "1.a", "1.b", -HOUR), "R:GIVEN@7200000")
    office.write(OfficeMessage(23, "1.a", "1.b", LATE - 30), "S:ACCEPTED@40 H:FORWARDED@60")
    office.extract()
    office.extract(NEXT)
    run, judged = judge(office.settings, DAY, office.clock, spark)
    assert judged.other_dates == {"earlier": 2, "later": 2, "none": 0}
    latencies = {row["lk0"]: row["latency_ms"] for row in pq.read_table(run.verdicts.path).to_pylist()}
    assert len(latencies) == 8 + len(timed) + 1
    assert latencies[stepped] == 0
    assert all(abs(latencies[lk0] - 40) <= 50 for lk0 in timed)  # each was recorded after 40 ms


# ---------------------------------------------------------------- earlier runs, and extracts made too early


def publish(office: Office, day: date, hours: int = 36, carried_from: str = "") -> Run:
    """Publish a run without messages, which began ``hours`` after the beginning of its date."""
    reports = Place.at(office.settings.reports)
    office.clock.now = datetime.combine(day, time(), UTC) + timedelta(hours=hours)
    published = runs.begin(reports, day, office.clock, "ab" * 32)
    published.verdicts.make()
    (published.place / runs.SUMMARY).write(canonical({"fingerprint": published.name}))
    runs.finish(published, {"carried_from": carried_from})
    runs.point_to(reports, published)
    return published


def missing_runs(office: Office, day: date) -> list[tuple[str, str]]:
    evidence = collect_evidence(office.settings, day, allow_partial=True)
    absent = [(source.source, source.note) for source in evidence.sources if source.state == "NOT_RUN"]
    assert evidence.is_partial or not absent
    assert set(gaps.missing(evidence.sources, [])) >= {name for name, _ in absent}
    return absent


def test_missing_runs_of_earlier_dates_are_reported(office: Office) -> None:
    days = [DAY + timedelta(days=step) for step in range(5)]
    assert missing_runs(office, DAY) == []
    first = publish(office, DAY)
    assert missing_runs(office, days[1]) == []
    assert carried_run(office.settings, days[1]) == carried_run(office.settings, days[2]) == first
    repair = "Repair: semq reconcile backfill --from 2026-11-21 --to 2026-11-23"
    assert missing_runs(office, days[3]) == [("the run of 2026-11-21", repair)]
    assert carried_run(office.settings, days[3]) is None
    for day in days[1:3]:
        publish(office, day)
    assert missing_runs(office, days[3]) == []
    assert missing_runs(office, DAY) == []


def late(office: Office, day: date) -> list[tuple[date, str, str]]:
    evidence = collect_evidence(office.settings, day, allow_partial=True)
    found = [source for source in evidence.sources if source.state == "LATE"]
    assert evidence.is_partial or not found
    assert set(gaps.missing(evidence.sources, [])) >= {source.source for source in found}
    return [(source.day, source.source, source.note) for source in found]


def test_an_extract_that_the_run_of_its_date_lacked_is_late(office: Office) -> None:
    def run_of_day() -> None:
        sources = [source.facts() for source in collect_evidence(office.settings, DAY, allow_partial=True).sources]
        (publish(office, DAY).place / runs.SUMMARY).write(canonical({"sources": sources}))

    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.write(OfficeMessage(2, sender="1.c"), FORWARD_COURSE)
    office.extract(only=["1.b", HUB])
    office.advance(-1)
    office.extract(only=["1.c"])  # before the end of the date
    office.advance(1)
    run_of_day()
    office.extract(NEXT)
    assert late(office, NEXT) == []
    office.extract()
    repair = "Repair: semq reconcile backfill --from 2026-11-20 --to 2026-11-21"
    assert late(office, NEXT) == [(DAY, "1.a.1.1", repair), (DAY, "1.c.1.1", repair)]
    run_of_day()
    assert late(office, NEXT) == []
    office.advance(1)
    office.extract()  # a complete extract again, which cannot have other lines
    assert late(office, NEXT) == []


def test_a_run_that_began_before_the_end_of_its_date_is_not_final(office: Office) -> None:
    before = publish(office, BEFORE)
    publish(office, DAY, hours=12)
    assert carried_run(office.settings, NEXT) == before
    repair = "Repair: semq reconcile backfill --from 2026-11-20 --to 2026-11-21"
    assert missing_runs(office, NEXT) == [("the run of 2026-11-20", repair)]
    final = publish(office, DAY, hours=24)
    assert carried_run(office.settings, NEXT) == final
    assert missing_runs(office, NEXT) == []


def test_a_date_is_run_again_if_its_run_is_not_final_or_an_earlier_date_was_run_since(office: Office) -> None:
    settings = office.settings
    assert not nightly.is_up_to_date(settings, DAY)
    publish(office, DAY, hours=12)
    assert not nightly.is_up_to_date(settings, DAY)
    first = publish(office, DAY)
    assert nightly.is_up_to_date(settings, DAY)
    publish(office, NEXT)  # carries no run
    assert not nightly.is_up_to_date(settings, NEXT)
    publish(office, NEXT, carried_from=first.name)
    assert nightly.is_up_to_date(settings, NEXT)
    publish(office, DAY, hours=60)
    assert not nightly.is_up_to_date(settings, NEXT)


def test_an_extract_made_before_the_end_of_its_date_makes_a_later_run_partial(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.clock.now -= timedelta(days=1)
    office.extract(only=["1.b"])
    office.advance(1)
    office.extract(only=["1.a", HUB])
    late, early = (collect_evidence(office.settings, DAY, is_over=is_over) for is_over in (True, False))
    assert (late.is_partial, late.early) == (True, ["1.b.1.1"])
    assert (early.is_partial, early.early) == (False, [])
    assert late.fingerprint != early.fingerprint


# ---------------------------------------------------------------- a store of the hub without extracts


def through_second_store(office: Office, messages: list[OfficeMessage], course: str) -> list[dict[str, Any]]:
    """Return the lines of nodes about messages relayed by a second store of the hub."""
    lines = [line for message in messages for line in office.lines_of(message, course) if line["side"] != Side.HUB]
    return [{**line, "lk1": str(line["lk1"]).replace("1.1.", "2.1.", 1)} for line in lines]


def test_a_store_of_the_hub_without_extracts_causes_no_exceptions(office: Office, spark: SparkSession) -> None:
    lines = [line for number in range(3) for line in office.lines_of(OfficeMessage(number), FORWARD_COURSE)]
    lines += through_second_store(office, [OfficeMessage(10 + number) for number in range(4)], FORWARD_COURSE)
    lines += through_second_store(office, [OfficeMessage(20 + number) for number in range(2)], STORE_COURSE)
    # This one was first sent directly.
    stored = through_second_store(office, [OfficeMessage(30)], "S:ACCEPTED@0 S:SENT@3 S:SENT@900000 S:STORED@900100c")
    lines += [{**line, "reason": DIRECTLY} if line["seq"] == stored[1]["seq"] else line for line in stored]
    office.deliver(lines)
    office.advance(1)
    run, judged = judge(office.settings, DAY, office.clock, spark)
    assert Counter(pq.read_table(run.verdicts.path)["verdict"].to_pylist()) == {"MATCHED": 3, "SOURCE_MISSING": 7}
    assert missing_ledgers(judged, office.settings) == [f"{HUB}.2.1"]


def test_a_node_with_direct_links_only_does_not_hide_what_the_hub_lost(office: Office, spark: SparkSession) -> None:
    course = "S:ACCEPTED@0 S:SENT@3 R:RECEIVED@40 S:DELIVERED@90 R:SENDER_ACKED@120"
    lines = office.lines_of(OfficeMessage(1), FORWARD_COURSE)
    for number in range(UNSERVED_MIN):
        direct = office.lines_of(OfficeMessage(100 + number, "1.a", "1.d"), course)
        direct += office.lines_of(OfficeMessage(number, "1.d", "1.d"), course)
        lines += [{**line, "reason": DIRECTLY} if line["lk0"].startswith("1.a.") else line for line in direct]
    lost = OfficeMessage(1, "1.b", "1.d")
    office.deliver([*lines, *office.lines_of(lost, "S:ACCEPTED@0 S:SENT@3 S:FORWARDED@50")])
    run, judged = judge(office.settings, DAY, office.clock, spark)
    found = {row["lk0"]: row["verdict"] for row in pq.read_table(run.verdicts.path).to_pylist()}
    assert found.pop(lost.lk0) == "MISSING_AT_HUB"
    assert set(found.values()) == {"MATCHED"}
    assert missing_ledgers(judged, office.settings) == []


def test_nodes_of_an_absent_hub_store_cause_no_exceptions_and_an_invented_copy_hides_no_exception(
    office: Office, spark: SparkSession
) -> None:
    """Extracts of two stores of the hub are delivered."""
    lines = [line for number in range(3) for line in office.lines_of(OfficeMessage(number), FORWARD_COURSE)]
    lines += [{**line, "store": "2.1"} for line in lines if line["node"] == HUB]
    elsewhere = [OfficeMessage(10 + number, "1.x", "1.y", at=HOUR * 9 + number * 1000) for number in range(30)]
    lines += through_second_store(office, elsewhere, FORWARD_COURSE)
    # The delivered stores have lines about 1.b, so a message that is absent there is a contradiction.
    lines += through_second_store(office, [OfficeMessage(50)], FORWARD_COURSE)
    # Also a contradiction: only the receiver's line of this message names a copy, in a third store.
    lines += [{**line, "lk1": "9.9.1"} if line["node"] == "1.b" else line
              for line in through_second_store(office, [OfficeMessage(51)], FORWARD_COURSE)]  # fmt: skip
    office.deliver(lines)
    result, found = reconcile(office, spark, DAY)
    assert {name: count for name, count in result.verdicts.items() if count} == {
        "MATCHED": 3, "SOURCE_MISSING": 30, "STATE_CONTRADICTION": 2,
    }  # fmt: skip
    assert {found[OfficeMessage(number).lk0] for number in (50, 51)} == {("date", "STATE_CONTRADICTION")}
    assert result.missing == ["a store of the hub"]
    later = DAY + timedelta(days=5)
    office.write(OfficeMessage(2, at=5 * LATE + HOUR), FORWARD_COURSE)
    office.advance(5)
    office.extract(later, only=["1.a", "1.b", HUB])
    absent = [source.source for source in collect_evidence(office.settings, later).sources if source.state == "MISSING"]
    assert absent == [f"{HUB}.2.1"]
