"""What commands print: tables of 80 columns for people, JSON for programs; never mixed, and talk goes to standard
error.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 80  # where the output is no terminal

Column = tuple[str, str]  # heading, and < > for the side to which it is set


class Output:
    """Where one command prints."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH, soft_wrap=False)

    def data(self, value: Any) -> None:
        """One JSON value on a line; nothing is cut."""
        print(json.dumps(value, ensure_ascii=False, default=str), flush=True)

    def say(self, data: Any, *lines: str) -> None:
        """An answer, as JSON or in lines for people."""
        if self.as_json:
            self.data(data)
            return
        for line in lines:
            self.line(line)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
        """A table for people."""
        drawn = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for heading, side in columns:
            drawn.add_column(heading, justify="right" if side == ">" else "left", overflow="fold")
        for row in rows:
            drawn.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
        if drawn.row_count:
            self._console.print(drawn)
        else:
            self.talk("nothing")

    def facts(self, facts: Mapping[str, object]) -> None:
        """Names and values, one pair a line; long values are not cut."""
        longest = max(map(len, facts), default=0)
        for name, value in facts.items():
            print(f"{name:<{longest}}  {'' if value is None else value}".rstrip())

    def line(self, text: str) -> None:
        """One line of data for people."""
        print(text, flush=True)

    def talk(self, text: str) -> None:
        """What is neither data nor an error."""
        print(text, file=sys.stderr, flush=True)


def moment(milliseconds: object) -> str:
    """A time for people: local, to the second."""
    if not isinstance(milliseconds, int | float) or not milliseconds:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def brief(milliseconds: object) -> str:
    """A time for a table: the time of day if it is today, the date otherwise."""
    told = moment(milliseconds)
    today = datetime.now().astimezone().strftime("%Y-%m-%d")
    return told.removeprefix(today + " ") if told.startswith(today) else told[:10]


def size(octets: object) -> str:
    """A number of octets for people."""
    if not isinstance(octets, int | float):
        return ""
    for unit in ("B", "KiB", "MiB"):
        if octets < 1024:
            return f"{octets:.0f} {unit}" if unit == "B" else f"{octets:.1f} {unit}"
        octets /= 1024
    return f"{octets:.1f} GiB"
