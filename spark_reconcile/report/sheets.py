"""Files for spreadsheets: CSV in UTF-8, with foreign texts protected from conversion, and the same rows as .xlsx.

Spreadsheets convert texts that resemble a formula, a number, a date or a truth value. An apostrophe before the text
prevents the conversion: ``1.10010`` is a node, not 1.1001. If rows were left out, a file beside it, with CUT_NOTE after
the name, states how many rows there are: a line of another form would confuse programs (RFC 4180).
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import xlsxwriter

from semq.foreign_text import in_page
from spark_reconcile.storage import Place

Row = TypeVar("Row")

_BYTE_ORDER_MARK = "\ufeff"
CUT_NOTE = ".cut.txt"
XLSX_ROWS_MAX = 100_000  # more rows would take minutes; the .csv has them
_CREATED = datetime(2000, 1, 1, tzinfo=UTC)
_BLOCK = 1 << 20
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")  # including full-width characters
_NUMBER = r"(\d+[.,]?\d*|[.,]\d+|\d{1,3}([.,' ]\d{3})+([.,]\d*)?)(e[+-]?\d+)?\s?%?"
_DATE = r"\d{1,4}[-./:]\d{1,5}([-./:]\d{1,5})?"
_MONTH = (
    "(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?"
    "|dec(ember)?)"
)
_DATE_WITH_MONTH = (
    rf"\d{{1,4}}[-./ ]?{_MONTH}([-./, ]*\d{{1,4}})?|{_MONTH}[-./ ]?\d{{1,4}}([-./, ]+\d{{1,4}})?"
    r"|(\d{2,4}年)?\d{1,2}月(\d{1,2}日)?"
)
_CONVERTED = re.compile(rf"\s*({_NUMBER}|{_DATE}|{_DATE_WITH_MONTH}|true|false)\s*", re.IGNORECASE)


class SheetSize(NamedTuple):
    """The numbers of rows of a table and of its file, which is cut at ``csv_rows_max``."""

    found: int  #: rows of the table
    written: int  #: rows of the file


def write_sheet(
    target: Place,
    headings: Sequence[str],
    rows: Iterable[Row],
    cells: Callable[[Row], Iterable[object]],
    rows_max: int,
    table_name: str,
) -> SheetSize:
    """Write at most ``rows_max`` of the rows; all are counted. ``table_name``: the Parquet table with all rows."""
    found = written = 0
    with _Workbook(target, headings) as workbook, target.writer() as stream:
        text = io.StringIO(newline="")
        text.write(_BYTE_ORDER_MARK)
        sheet = csv.writer(text)
        sheet.writerow(headings)
        for row in rows:
            found += 1
            if found <= rows_max:
                values = list(cells(row))
                sheet.writerow([cell(value) for value in values])
                written += 1
                workbook.add(written, values)
            if text.tell() > _BLOCK:
                stream.write(text.getvalue().encode())
                text.seek(0)
                text.truncate()
        stream.write(text.getvalue().encode())
    for file, rows_in_it in ((target, written), (workbook.target, min(written, XLSX_ROWS_MAX))):
        if rows_in_it < found:
            note = f"{file.name} has the first {rows_in_it:,} of {found:,} rows; all of them are in {table_name}.\n"
            replace(file, path=f"{file.path}{CUT_NOTE}").write(note.encode())
    return SheetSize(found, written)


class _Workbook:
    """The rows as .xlsx, at most XLSX_ROWS_MAX; a program that reads it needs no protection of texts."""

    def __init__(self, target: Place, headings: Sequence[str]) -> None:
        self.target = replace(target, path=f"{target.path.removesuffix('.csv')}.xlsx")
        self._content = io.BytesIO()
        self._book = xlsxwriter.Workbook(self._content, {"constant_memory": True})
        self._book.set_properties({"created": _CREATED})  # equal inputs make equal files
        self._sheet = self._book.add_worksheet()
        self._sheet.freeze_panes(1, 0)
        self._sheet.autofilter(0, 0, XLSX_ROWS_MAX, len(headings) - 1)
        for column, heading in enumerate(headings):
            self._sheet.set_column(column, column, max(len(heading) + 2, 14))
            self._sheet.write_string(0, column, heading)

    def add(self, number: int, values: Sequence[object]) -> None:
        if number > XLSX_ROWS_MAX:
            return
        for column, value in enumerate(values):
            if isinstance(value, str):
                self._sheet.write_string(number, column, in_page(value))
            elif value is not None:
                self._sheet.write_number(number, column, value)

    def __enter__(self) -> "_Workbook":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._book.close()
        if error is None:
            self.target.write(self._content.getvalue())


def cell(value: object) -> object:
    """Return a value as written to the file, with an apostrophe before a text that a spreadsheet would convert."""
    if not isinstance(value, str):
        return value
    text = in_page(value)
    is_formula = text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA)
    return f"'{text}" if is_formula or _CONVERTED.fullmatch(text) else text
