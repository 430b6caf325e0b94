"""One verdict for the manifest and all pieces of a document, from the ledgers to summary, page and table."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from semq.store.rows import Event, Side
from tests.spark_reconcile.office import FORWARD_COURSE, HOUR, MIDNIGHT, Office, OfficeMessage, StandingClock
from tests.spark_reconcile.run.test_job import NEXT, reconcile

# Names of documents. Their incarnation differs from that of their messages, as after a restart of the sender.
DOCUMENT = "1.a.1.1.3f29.{}".format
LOST = "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 S:FORWARDED@46"
REFUSED = "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:REJECTED@40 S:FORWARDED@46 S:REJECTED@90 R:SENDER_ACKED@120"


def written(
    office: Office, number: int, pieces: list[str], manifest: str = "", at: int = 3 * HOUR
) -> list[dict[str, Any]]:
    """Return the lines of a document, from the course of each piece, and of its manifest (empty: no manifest)."""
    lines = []
    courses = [*((course, f"/{piece}") for piece, course in enumerate(pieces)), *([(manifest, "")] if manifest else [])]
    for place, (course, piece) in enumerate(courses):
        message_lines = office.lines_of(OfficeMessage(100 * number + place, at=at), course)
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
    """The folders of the runs of two dates, each over the extracts of its date only."""

    first: Path
    second: Path


# Documents whose messages are of both dates
LATE, OPEN = 7, 8


@pytest.fixture(scope="module")
def nights(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """On the first date there are six documents in pieces, with or without a manifest, one document in a single message,
    three messages whose document has an unreadable name, and the first messages of LATE and OPEN.
    """
    office = Office(tmp_path_factory.mktemp("documents"), StandingClock())
    settings = msgspec.structs.replace(office.settings, days_before=0, days_after=0)
    unreadable = [office.lines_of(OfficeMessage(number, at=HOUR), FORWARD_COURSE) for number in (1, 2, 3)]
    names = ("1.a.1.1.zz.5/1", f"1.a.1.1.3f.{'9' * 19}", "SEMQ-1101")
    for message_lines, name in zip(unreadable, names, strict=True):
        message_lines[0]["reason"] = name
    office.deliver([
        *(line for message_lines in unreadable for line in message_lines),
        *written(office, 1, [FORWARD_COURSE, FORWARD_COURSE], FORWARD_COURSE),
        *written(office, 2, [FORWARD_COURSE, LOST]),
        *written(office, 3, [FORWARD_COURSE, FORWARD_COURSE], LOST),
        *written(office, 4, [FORWARD_COURSE, REFUSED]),
        # the refused piece was sent again
        *written(office, 5, [FORWARD_COURSE, REFUSED, FORWARD_COURSE], FORWARD_COURSE),
        *written(office, 6, [FORWARD_COURSE, FORWARD_COURSE]),
        *office.lines_of(OfficeMessage(9, at=3 * HOUR), FORWARD_COURSE),  # a document in one message
        *written(office, LATE, [FORWARD_COURSE, LOST], at=24 * HOUR - 60_000),
        *written(office, OPEN, [FORWARD_COURSE], at=HOUR),
    ])  # fmt: skip
    today = reconcile(settings, spark, office.clock)
    lost = OfficeMessage(100 * LATE + 1, at=25 * HOUR)
    later_lines = office.lines_of(lost, "R:RECEIVED@0 S:DELIVERED@10 R:SENDER_ACKED@20")
    for line in later_lines:
        line["target"] = f"{str(line['target']).partition('/')[0]}/_pieces"
    later_lines += written(office, OPEN, [], FORWARD_COURSE, at=26 * HOUR)
    assert min(int(line["at"]) for line in later_lines) >= MIDNIGHT + 24 * HOUR
    office.deliver(later_lines, NEXT)
    tomorrow = reconcile(settings, spark, office.clock, day=NEXT)
    return Nights(Path(today.report).parent, Path(tomorrow.report).parent)


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
    messages, pieces = 3 + 3 + 2 + 3 + 2 + 4 + 2 + 1 + 2 + 1, 2 + 2 + 2 + 2 + 3 + 2 + 2 + 1
    assert (summary["messages"], summary["pieces"]) == (messages, pieces)
    assert [pair["pieces"] for pair in summary["pairs"]] == [pieces]
    rows = pq.read_table(nights.first / "verdicts.parquet").to_pylist()
    assert {row["lk0"] for row in rows if row["is_piece"]} == {
        OfficeMessage(100 * document + place).lk0
        for document, count in ((1, 2), (2, 2), (3, 2), (4, 2), (5, 3), (6, 2), (LATE, 2), (OPEN, 1))
        for place in range(count)
    }
    with_unreadable_name = {OfficeMessage(number).lk0 for number in (1, 2, 3)}
    assert [row["verdict"] for row in rows if row["lk0"] in with_unreadable_name] == ["MATCHED"] * 3
    page = (nights.first / "report.html").read_text()
    assert f"{messages - pieces} documents and {pieces} pieces of large ones" in page
    assert "2 MATCHED, 3 IN_FLIGHT, 1 REFUSED, 2 NOT_DELIVERED" in page
    assert f"see message <code><bdi>{OfficeMessage(201).lk0}</bdi></code>" in page


def test_a_document_is_judged_again_with_its_messages_of_the_next_date(nights: Nights) -> None:
    rows = {row["document"]: row for row in pq.read_table(nights.second / "documents.parquet").to_pylist()}
    assert (rows[DOCUMENT(LATE)]["scope"], rows[DOCUMENT(LATE)]["unmatched"]) == ("carried", 0)
    assert (rows[DOCUMENT(OPEN)]["scope"], rows[DOCUMENT(OPEN)]["verdict"]) == ("date", "MATCHED")
