"""Two nights: verdicts of documents in pieces, and messages that are carried to the second night."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from semq.store.rows import Event, Side
from spark_reconcile.run import runs
from spark_reconcile.run.diff import diff
from spark_reconcile.run.job import RunResult
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from tests.spark_reconcile.date_verdicts import judge
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HOUR, MIDNIGHT, Office, OfficeMessage, StandingClock
from tests.spark_reconcile.run.test_job import NEXT, reconcile

# Names of documents, with another incarnation than their messages, as after a restart of the sender.
DOCUMENT = "1.a.1.1.3f29.{}".format
LOST = "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 S:FORWARDED@46"
# Lines of the next date, by which a message stored on the first date is delivered.
RELEASED = " ".join(
    f"{step}c"
    for step in (
        f"H:SENT@{15 * HOUR}", f"R:RECEIVED@{16 * HOUR}", f"H:RELEASED@{16 * HOUR}", f"R:PLATFORM_ACKED@{16 * HOUR}",
        f"S:DELIVERED@{20 * HOUR}", f"R:SENDER_ACKED@{20 * HOUR}",
    )
)  # fmt: skip
REFUSED = "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:REJECTED@40 S:FORWARDED@46 S:REJECTED@90 R:SENDER_ACKED@120"


def lines_of_document(
    office: Office, number: int, pieces: list[str], manifest: str = "", at: int = 3 * HOUR, first: int = 0
) -> list[dict[str, Any]]:
    """Return the lines of a document, from the course of each piece and of its manifest (empty: none).

    ``first``: index of the first of these messages in the document.
    """
    lines = []
    courses = [*((course, f"/{piece}") for piece, course in enumerate(pieces)), *([(manifest, "")] if manifest else [])]
    for index, (course, piece) in enumerate(courses, first):
        message_lines = office.lines_of(OfficeMessage(100 * number + index, at=at), course)
        for line in message_lines:
            if piece:
                line["target"] = f"{str(line['target']).partition('/')[0]}/_pieces"
            if (line["side"], line["event"]) == (Side.SENDER, Event.ACCEPTED):
                line["reason"] = DOCUMENT(number) + piece
        lines += message_lines
    return lines


def verdicts(folder: Path) -> dict[str, str]:
    rows = pq.read_table(folder / "documents.parquet").to_pylist()
    return {row["document"]: row["verdict"] for row in rows}


@dataclass
class Nights:
    """The runs of two dates, each over the extracts of its date only."""

    settings: ReconcileSettings
    first_run: RunResult
    second_run: RunResult

    @property
    def first(self) -> Path:
        return Path(self.first_run.report).parent

    @property
    def second(self) -> Path:
        return Path(self.second_run.report).parent


# Documents whose messages are of both dates
LATE, OPEN = 7, 8
# Messages that are no pieces: one with lines before and after midnight, one that waits until the second date, one that
# never arrives.
CROSSING, WAITING, MISSING = OfficeMessage(11, at=24 * HOUR - 30), OfficeMessage(12), OfficeMessage(13)


@pytest.fixture(scope="module")
def nights(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """Publish the runs of two dates.

    The first date has six documents in pieces, a document in a single message, three messages with an unreadable name
    of a document, the first messages of LATE and OPEN, and CROSSING, WAITING and MISSING.
    """
    office = Office(tmp_path_factory.mktemp("documents"), StandingClock())
    settings = msgspec.structs.replace(office.settings, days_before=0, days_after=0)
    unreadable = [office.lines_of(OfficeMessage(number, at=HOUR), FORWARD_COURSE) for number in (1, 2, 3)]
    crossing = office.lines_of(CROSSING, FORWARD_COURSE)
    names = ("1.a.1.1.zz.5/1", f"1.a.1.1.3f.{'9' * 19}", "SEMQ-1101")
    for message_lines, name in zip(unreadable, names, strict=True):
        message_lines[0]["reason"] = name
    office.deliver([
        *(line for message_lines in unreadable for line in message_lines),
        *lines_of_document(office, 1, [FORWARD_COURSE, FORWARD_COURSE], FORWARD_COURSE),
        *lines_of_document(office, 2, [FORWARD_COURSE, LOST]),
        *lines_of_document(office, 3, [FORWARD_COURSE, FORWARD_COURSE], LOST),
        *lines_of_document(office, 4, [FORWARD_COURSE, REFUSED]),
        # the refused piece was sent again
        *lines_of_document(office, 5, [FORWARD_COURSE, REFUSED, FORWARD_COURSE], FORWARD_COURSE),
        *lines_of_document(office, 6, [FORWARD_COURSE, FORWARD_COURSE]),
        *office.lines_of(OfficeMessage(9, at=3 * HOUR), FORWARD_COURSE),  # a document in one message
        *lines_of_document(office, LATE, [FORWARD_COURSE, LOST], at=24 * HOUR - 60_000),
        *lines_of_document(office, OPEN, [FORWARD_COURSE], at=HOUR),
        *(line for line in crossing if line["at"] < MIDNIGHT + 24 * HOUR),
        *office.lines_of(WAITING, "S:ACCEPTED@0 S:SENT@3 H:STORED@24c S:STORED@46c"),
        *office.lines_of(MISSING, "S:ACCEPTED@0 S:SENT@3"),
    ])  # fmt: skip
    today = reconcile(settings, spark, office.clock)
    lost = OfficeMessage(100 * LATE + 1, at=25 * HOUR)
    later_lines = office.lines_of(lost, "R:RECEIVED@0 S:DELIVERED@10 R:SENDER_ACKED@20")
    for line in later_lines:
        line["target"] = f"{str(line['target']).partition('/')[0]}/_pieces"
    later_lines += lines_of_document(office, OPEN, [], FORWARD_COURSE, at=26 * HOUR, first=1)
    later_lines += [line for line in crossing if line["at"] >= MIDNIGHT + 24 * HOUR]
    later_lines += office.lines_of(WAITING, RELEASED)
    later_lines += office.lines_of(OfficeMessage(14, at=26 * HOUR), FORWARD_COURSE)
    assert min(int(line["at"]) for line in later_lines) >= MIDNIGHT + 24 * HOUR
    office.deliver(later_lines, NEXT)
    tomorrow = reconcile(settings, spark, office.clock, day=NEXT)
    return Nights(settings, today, tomorrow)


def test_a_document_has_the_verdict_of_its_worst_message(nights: Nights) -> None:
    assert verdicts(nights.first) == {
        DOCUMENT(1): "MATCHED",
        DOCUMENT(2): "NOT_DELIVERED",
        DOCUMENT(3): "NOT_DELIVERED",
        DOCUMENT(4): "REFUSED",
        DOCUMENT(5): "MATCHED",
        DOCUMENT(6): "IN_FLIGHT",
        DOCUMENT(LATE): "IN_FLIGHT",
        DOCUMENT(OPEN): "IN_FLIGHT",
    }
    summary = json.loads((nights.first / "summary.json").read_text())
    found = summary["documents_in_pieces"]
    assert found["verdicts"] == {"IN_FLIGHT": 3, "MATCHED": 2, "NOT_DELIVERED": 2, "REFUSED": 1}
    assert found["worst"][0] == {
        "document": DOCUMENT(2), "scope": "date", "sender": "1.a", "receiver": "1.b", "pieces": 2, "bytes": 2000,
        "manifests": 0, "unmatched": 1, "verdict": "NOT_DELIVERED", "message": OfficeMessage(201).lk0,
    }  # fmt: skip
    messages, pieces = 3 + 3 + 2 + 3 + 2 + 4 + 2 + 1 + 2 + 1 + 3, 2 + 2 + 2 + 2 + 3 + 2 + 2 + 1
    assert (summary["messages"], summary["pieces"]) == (messages, pieces)
    assert [pair["pieces"] for pair in summary["pairs"]] == [pieces]
    rows = pq.read_table(nights.first / "verdicts.parquet").to_pylist()
    assert {row["lk0"] for row in rows if row["is_piece"]} == {
        OfficeMessage(100 * document + index).lk0
        for document, count in ((1, 2), (2, 2), (3, 2), (4, 2), (5, 3), (6, 2), (LATE, 2), (OPEN, 1))
        for index in range(count)
    }
    with_unreadable_name = {OfficeMessage(number).lk0 for number in (1, 2, 3)}
    assert [row["verdict"] for row in rows if row["lk0"] in with_unreadable_name] == ["MATCHED"] * 3
    page = (nights.first / "report.html").read_text()
    assert f"{messages - pieces} documents and {pieces} pieces of large ones" in page
    assert "2 MATCHED, 3 IN_FLIGHT, 1 REFUSED, 2 NOT_DELIVERED" in page
    assert f"; <code><bdi>{OfficeMessage(201).lk0}</bdi></code>" in page


def test_a_document_is_judged_again_with_its_messages_of_the_next_date(nights: Nights) -> None:
    rows = {row["document"]: row for row in pq.read_table(nights.second / "documents.parquet").to_pylist()}
    assert (rows[DOCUMENT(LATE)]["scope"], rows[DOCUMENT(LATE)]["unmatched"]) == ("carried", 0)
    assert (rows[DOCUMENT(OPEN)]["scope"], rows[DOCUMENT(OPEN)]["verdict"]) == ("date", "MATCHED")


def test_open_messages_are_judged_again_until_they_are_settled(nights: Nights, spark: SparkSession) -> None:
    first = {row["lk0"]: row["verdict"] for row in pq.read_table(nights.first / "verdicts.parquet").to_pylist()}
    assert [first[message.lk0] for message in (CROSSING, WAITING, MISSING)] == [
        "IN_FLIGHT", "WAITING_OFFLINE", "MISSING_AT_HUB",
    ]  # fmt: skip
    second = nights.second_run
    # OfficeMessage 14 and the manifest of OPEN
    assert {name: count for name, count in second.verdicts.items() if count} == {"MATCHED": 2}
    # MATCHED: CROSSING, WAITING and the lost piece of LATE. NOT_DELIVERED: the lost messages of documents 2 and 3.
    assert second.carried == {"MATCHED": 3, "MISSING_AT_HUB": 1, "NOT_DELIVERED": 2}
    assert second.outcome == "met"  # exceptions that an earlier run has reported do not count again

    # the first date again, with the extracts of the second
    settings = msgspec.structs.replace(nights.settings, days_after=1)
    again, _ = judge(settings, DAY, StandingClock(), spark)
    reports = Place.at(nights.settings.reports)
    difference = diff(spark, runs.find(reports, DAY, nights.first_run.run), again)
    assert {(move["old"], move["new"]): move["messages"] for move in difference["moves"]} == {
        ("IN_FLIGHT", "MATCHED"): 2,
        ("WAITING_OFFLINE", "MATCHED"): 1,
    }
    moved = {OfficeMessage(100 * LATE + 1).lk0, CROSSING.lk0, WAITING.lk0}
    assert {row["lk0"] for row in difference["sample"]} == moved
    page = Path(second.report).read_text()
    assert "Documents and verdicts by business date" in page
    assert "carried from an earlier date" in page
