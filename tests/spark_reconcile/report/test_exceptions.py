"""exceptions.csv: order, limit, and a next command in every row; the choice of messages with a story."""

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_reconcile.report.exceptions import PER_PAIR, Exceptions, write_exceptions
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import MIDNIGHT

SETTINGS = ReconcileSettings(zone="Asia/Shanghai", csv_rows_max=3_001, stories_max=3, names={"1.10": "上海凌云贸易"})
ROW: dict[str, Any] = {
    "lk0": "1.10.1.1.3f2a.7", "scope": "date", "sender": "1.10", "receiver": "@b", "verdict": "NOT_DELIVERED",
    "finding": "forwarded_to_no_avail", "sender_word": "sent", "hub_word": "forwarded", "receiver_word": "none",
    "accepted_at": MIDNIGHT, "taken_at": 1, "recorded_at": 1, "ended_at": 1, "age_ms": 61_000, "att": 1,
    "size": 5, "reason": '订单,\n"x"', "app_key_hash": "", "lk1": "1.1.5", "sender_digest": "0a" * 32, "receiver_digest": "0b" * 32,
}  # fmt: skip
SCHEMA = pa.Table.from_pylist([ROW]).schema


def write(folder: Path, parts: list[list[dict[str, Any]]], pairs: tuple[str, ...] = ()) -> Exceptions:
    table = folder / "exceptions.parquet"
    table.mkdir()
    for number, rows in enumerate(parts):
        pq.write_table(pa.Table.from_pylist([{**ROW, **row} for row in rows], SCHEMA), table / f"part-{number}.parquet")
    target = Place.at(folder / "exceptions.csv")
    return write_exceptions(Place.at(table), target, SETTINGS, "2026-11-20", "2.hub", pairs)


def read(folder: Path) -> list[dict[str, str]]:
    content = (folder / "exceptions.csv").read_bytes().decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(content, newline="")))


def test_the_file_is_ordered_and_limited_and_the_first_messages_of_a_finding_have_stories(tmp_path: Path) -> None:
    halves = [[{"att": part * 2_000 + number} for number in range(2_000)] for part in range(2)]
    written = write(tmp_path, halves)
    assert written.sheet == (4_000, 3_001)
    assert [row["att"] for row in written.sample] == [0, 1, 2]
    rows = read(tmp_path)
    assert [int(row["Attempts"]) for row in rows] == list(range(3_001))


def test_a_row_has_owner_time_and_next_command(tmp_path: Path) -> None:
    write(
        tmp_path, [[{"taken_at": None, "age_ms": None, "app_key_hash": None}, {"scope": "carried", "reason": "=1+1"}]]
    )
    first, second = read(tmp_path)
    assert (first["Pair"], first["Sender"], first["Sender name"], first["Receiver"]) == (
        "1.10>@b", "'1.10", "上海凌云贸易", "'@b",
    )  # fmt: skip
    assert (first["Message (LK0)"], first["Stored copy (LK1)"], first["AppKey hash"]) == (
        "1.10.1.1.3f2a.7",
        "'1.1.5",
        "",
    )
    assert (first["Accepted"], first["Taken by the hub"]) == ("2026-11-20 08:00:00.000+08:00", "")
    assert (first["Reason"], second["Reason"]) == ('订单,\n"x"', "'=1+1")
    assert (first["Age"], first["Age (s)"], second["Age"], second["Age (s)"]) == ("", "", "1 min 1 s", "61")
    assert (first["From an earlier date"], second["From an earlier date"]) == ("", "yes")
    assert first["Owner"] == "hub"
    assert (first["At"], first["Command"]) == ("'1.10", "semq msg inquire 1.10.1.1.3f2a.7 --config FILE")


def test_the_stories_of_a_pair_have_as_many_findings_as_possible(tmp_path: Path) -> None:
    findings = [f"finding_{number}" for number in range(4)]
    rows = [{"finding": name, "receiver": to, "att": n} for name in findings for to in ("1.x", "1.y") for n in range(9)]
    written = write(tmp_path, [rows], pairs=("1.10>1.y", "1.10>1.none"))
    sample = [(row["finding"], row["receiver"], row["att"]) for row in written.sample]
    of_y = [(name, number) for name, to, number in sample if to == "1.y"]
    assert [(name, number) for name, to, number in sample if to == "1.x"] == [
        (f, n) for f in findings for n in range(3)
    ]
    assert len(of_y) == PER_PAIR
    assert {name for name, _ in of_y} == set(findings)
    assert sample == sorted(sample)
