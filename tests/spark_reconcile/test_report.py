"""Words, charts and the spreadsheet file: readable, in Chinese too, and harmless whatever other institutions wrote."""

import csv
import io
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semq.store.rows import Event, Side
from spark_reconcile.days import Calendar
from spark_reconcile.report import charts
from spark_reconcile.report.exceptions import write_csv
from spark_reconcile.report.words import CHINESE, duration, event_words, side_word
from spark_reconcile.schema import EVENTS_OF
from spark_reconcile.storage import Place
from spark_reconcile.verdicts import VERDICT
from tests.spark_reconcile.office import MIDNIGHT

SVG = "{http://www.w3.org/2000/svg}"


def texts(chart: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(chart).iter(f"{SVG}text")]


def test_every_line_that_can_be_written_has_words() -> None:
    for side, events in EVENTS_OF.items():
        for event in events:
            words = event_words(side, event)
            assert words
            assert "unreadable" not in words
    assert event_words(Side.HUB, Event.STORED) != event_words(Side.SENDER, Event.STORED)
    assert event_words(7, 99) == "unreadable: side 7, event 99"
    assert CHINESE.keys() == VERDICT.keys()
    assert (side_word(2), side_word(9), side_word(None)) == ("hub", "?", "?")


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (None, ""),
        (0, "0 s"),
        (59_999, "59 s"),
        (61_000, "1 min 1 s"),
        (3_700_000, "1 h 1 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_durations_are_written_in_two_units(ms: int | None, words: str) -> None:
    assert duration(ms) == words


def test_a_chart_is_real_text_in_chinese_too_and_escapes_what_it_is_given() -> None:
    rows = [{"n": "上海机构", "v": 1200, "k": "exception"}, {"n": "<script>alert(1)</script>", "v": 3, "k": "fine"}]
    chart = charts.bars(rows, "n", "v", 'by "node" <b>', kind="k")
    assert {"上海机构", "<script>alert(1)</script>", "1,200", "3"} <= set(texts(chart))
    assert "<script" not in chart
    assert ET.fromstring(chart).attrib["aria-label"] == 'by "node" <b>'


def test_each_kind_of_chart_shows_its_numbers() -> None:
    days = [{"d": "11-20", "v": 7, "s": "A"}, {"d": "11-21", "v": 9, "s": "B"}]
    assert {"7", "9", "11-20"} <= set(texts(charts.columns(days, "d", "v", "columns")))
    assert {"A", "B", "11-21"} <= set(texts(charts.stacked(days, "d", "v", "s", "stacked")))
    pairs = [{"sender": "1.a", "receiver": "1.b", "exceptions": 4}]
    assert {"1.a", "1.b", "4"} <= set(texts(charts.heat(pairs, "heat")))


def write_exceptions(folder: Path, count: int) -> Place:
    row = {
        "lk0": "=cmd()", "scope": "date", "sender": "1.a", "receiver": "@b", "verdict": "NOT_DELIVERED",
        "finding": "forwarded_to_no_avail", "sender_word": "sent", "hub_word": "forwarded", "receiver_word": "none",
        "accepted_at": MIDNIGHT, "taken_at": None, "recorded_at": None, "ended_at": None, "age_ms": 61_000, "att": 1,
        "size": 5,         "reason": '订单,\n"x"', "app_key_hash": None, "lk1": "-1",
    }  # fmt: skip
    folder.mkdir()
    schema = pa.Table.from_pylist([{**row, "taken_at": 1, "recorded_at": 1, "ended_at": 1, "app_key_hash": ""}]).schema
    for part in range(2):
        rows = [{**row, "att": part * count + number} for number in range(count)]
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"part-{part}.parquet")
    return Place.at(folder)


def test_the_file_keeps_order_and_limit_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    table = write_exceptions(tmp_path / "exceptions.parquet", 20_000)
    target = Place.at(tmp_path / "exceptions.csv")
    written = write_csv(table, target, Calendar("Asia/Shanghai"), rows_max=30_001, sample_max=3)
    assert (written.found, written.written) == (40_000, 30_001)
    assert [row["att"] for row in written.sample["forwarded_to_no_avail"]] == [0, 1, 2]
    content = (tmp_path / "exceptions.csv").read_bytes()
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert [int(row["Attempts"]) for row in rows] == list(range(30_001))
    first = rows[0]
    assert (first["Message (LK0)"], first["Receiver"], first["Stored copy (LK1)"]) == ("'=cmd()", "'@b", "'-1")
    assert first["Accepted"] == "2026-11-20 08:00:00.000"
    assert first["Reason"] == '订单,\n"x"'
    assert first["Age"] == "1 min 1 s"
