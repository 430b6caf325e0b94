"""Files for spreadsheets: texts that are not converted, and cut files."""

import csv
import io
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pandas as pd
import polars as pl
import pytest

from spark_reconcile.report import sheets
from spark_reconcile.report.sheets import CUT_NOTE, cell, write_sheet
from spark_reconcile.storage import Place


@pytest.mark.parametrize(
    "text",
    [
        # formulas
        "=cmd()", "+1", "-1", "@SUM(A1)", " =1+1", "\t=1", "\r=1", "\n=1", "＝1+1", "－1", " \xa0=1", "\u3000+1",
        "1.10010", "10008", "1,5", "12e45", "1.e5", "1.2E-7", "1.100.001", "1,234,567", "5%", "0" * 32,  # numbers
        "1,234.50", "1.234,50", "1'234.5", ".5", ",5", "1,234.5e3", "5 %",
        "1.1.5", "11-20", "2026-11-20", "20/11/26", "12:30", "12:30:59", " 1.1.5 ",  # dates and times
        "1-May", "1 may 2026", "MAR1", "Sep-26", "2026/Dec/1", "June 3, 2026", "11月20日", "2026年11月20日",
        "TRUE", "false",  # truth values
    ],
)  # fmt: skip
def test_values_that_a_spreadsheet_would_convert_are_marked_as_text(text: str) -> None:
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize(
    "text",
    [
        "1.10008.1.1.627d4722441c28d5.1099511627777", "1.10008>1.56001", "2.hub", "1.a", "上海凌云贸易", "SEMQ-1101",
        "2026-11-20 08:00:00.000+08:00", "1 h 5 min", "0a" * 16, "semq msg trace 1.1", "", "a\nb", 'say "x"',
        "may", "MARKET1", "1 maybe", "truth", "5 min",
    ],
)  # fmt: skip
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert cell(text) == text


def test_numbers_stay_numbers_and_invisible_characters_are_replaced() -> None:
    assert (cell(-5), cell(0.25), cell(None)) == (-5, 0.25, None)
    assert cell("a\x00b\x07") == "a\ufffdb\ufffd"


def write(target: Path, count: int, rows_max: int) -> tuple[list[list[str]], tuple[int, int]]:
    sheet = write_sheet(
        Place.at(target), ["Name", "Number"], range(count), lambda n: [f"数据 {n}, a", n], rows_max, "x.parquet"
    )
    content = target.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))), sheet


def test_a_complete_file_has_no_note(tmp_path: Path) -> None:
    rows, sheet = write(tmp_path / "x.csv", 3, rows_max=3)
    assert {file.name for file in tmp_path.iterdir()} == {"x.csv", "x.xlsx"}
    assert rows == [["Name", "Number"], *([f"数据 {n}, a", f"{n}"] for n in range(3))]
    assert sheet == (3, 3)
    assert write(tmp_path / "x.csv", 0, rows_max=3) == ([["Name", "Number"]], (0, 0))


def test_a_note_beside_a_cut_file_names_the_total(tmp_path: Path) -> None:
    rows, sheet = write(tmp_path / "x.csv", 100_000, rows_max=99_998)
    assert sheet == (100_000, 99_998)
    assert len(rows) == 1 + 99_998
    assert rows[-1] == ["数据 99997, a", "99997"]
    note = (tmp_path / f"x.csv{CUT_NOTE}").read_text()
    assert note == "x.csv has the first 99,998 of 100,000 rows; all of them are in x.parquet.\n"


def test_other_programs_read_a_cut_file_with_their_own_defaults(tmp_path: Path) -> None:
    texts = ['say "x"', "a\nb", "a, b", "数据", "=1+1", ""] * 50
    file = tmp_path / "x.csv"
    write_sheet(Place.at(file), ["Name", "Number"], range(400), lambda n: [texts[n % 300], n], 300, "x.parquet")
    expected = [(cell(text) or None, number) for number, text in enumerate(texts)]
    query = f"SELECT Name, Number FROM '{file}' ORDER BY Number"
    assert duckdb.connect().execute(query).fetchall() == expected
    assert list(pl.read_csv(file).iter_rows()) == expected
    frame = pd.read_csv(file)
    assert list(zip(frame["Name"].where(frame["Name"].notna(), None), frame["Number"], strict=True)) == expected


def test_a_workbook_has_the_same_rows_with_texts_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "XLSX_ROWS_MAX", 4)
    values: list[list[Any]] = [["=1+1", 1.5], ["1.10010", -2], ["数据\x07", None], ["", 0], ["beyond", 9]]
    write_sheet(Place.at(tmp_path / "x.csv"), ["Name", "Number"], values, lambda row: row, 10, "x.parquet")
    note = "x.xlsx has the first 4 of 5 rows; all of them are in x.parquet.\n"
    assert {file.name: file.read_text() for file in tmp_path.glob("*.cut.txt")} == {f"x.xlsx{CUT_NOTE}": note}
    first = (tmp_path / "x.xlsx").read_bytes()
    rows = list(openpyxl.load_workbook(tmp_path / "x.xlsx").active.iter_rows(values_only=True))
    assert rows == [("Name", "Number"), ("=1+1", 1.5), ("1.10010", -2), ("数据\ufffd", None), ("", 0)]
    write_sheet(Place.at(tmp_path / "x.csv"), ["Name", "Number"], values, lambda row: row, 10, "x.parquet")
    assert (tmp_path / "x.xlsx").read_bytes() == first
