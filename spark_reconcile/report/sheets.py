"""Files for spreadsheets: CSV in UTF-8, with foreign texts protected from conversion.

Spreadsheets convert texts that resemble a formula, a number, a date or a truth value. An apostrophe before the text
prevents the conversion: ``1.10010`` is a node, not 1.1001. If rows were left out, a file beside it, with CUT_NOTE after
the name, states how many rows there are: a line of another form would confuse programs (RFC 4180).
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from semq.foreign_text import in_page
from spark_reconcile.storage import Place

Row = TypeVar("Row")

_BYTE_ORDER_MARK = "\ufeff"
CUT_NOTE = ".cut.txt"
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
    cells: Callable[[Row], Iterable[Any]],
    rows_max: int,
    table_name: str,
) -> SheetSize:
    """Write at most ``rows_max`` of the rows; all are counted. ``table_name``: the Parquet table with all rows."""
    found = written = 0
    with target.writer() as stream:
        text = io.StringIO(newline="")
        text.write(_BYTE_ORDER_MARK)
        sheet = csv.writer(text)
        sheet.writerow(headings)
        for row in rows:
            found += 1
            if found <= rows_max:
                sheet.writerow([cell(value) for value in cells(row)])
                written += 1
            if text.tell() > _BLOCK:
                stream.write(text.getvalue().encode())
                text.seek(0)
                text.truncate()
        stream.write(text.getvalue().encode())
    if written < found:
        note = f"{target.name} has the first {written:,} of {found:,} rows; all of them are in {table_name}.\n"
        replace(target, path=f"{target.path}{CUT_NOTE}").write(note.encode())
    return SheetSize(found, written)


def cell(value: Any) -> Any:
    """Return a value as written to the file, with an apostrophe before a text that a spreadsheet would convert."""
    if not isinstance(value, str):
        return value
    text = in_page(value)
    is_formula = text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA)
    return f"'{text}" if is_formula or _CONVERTED.fullmatch(text) else text
