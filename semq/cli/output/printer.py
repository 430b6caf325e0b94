"""Output of commands: tables for people or JSON for programs on standard output, all other text on standard error.

In the command line, only this module and Typer write to a stream. Foreign text therefore always passes
`semq.foreign_text` before it reaches a terminal.
"""

import logging
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import TextIOWrapper

from semq.cli.output.table import lines_of
from semq.cli.output.values import as_text, fact_texts
from semq.foreign_text import json_text, shown, shown_lines
from semq.moments import in_local

WIDTH = 80  # columns, if the output is not a terminal


class Output:
    """The output of one command. ``as_json``: print results as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def data(self, value: object) -> None:
        """Print one JSON value on one line."""
        print(json_text(value), flush=True)

    def result(self, data: object, *lines: str) -> None:
        """Print the result of a command: ``data`` as JSON, or the lines."""
        if self.as_json:
            self.data(data)
            return
        for line in lines:
            self.line(line)

    def table(self, columns: str, rows: Iterable[Sequence[object]]) -> None:
        """Print a table; without rows, the notice "nothing". Long cells are folded to the width of the terminal.

        ``columns``: the headings, separated by commas; ``>`` before a heading aligns its column to the right.
        """
        cells = [[shown(cell if isinstance(cell, str) else as_text(cell)) for cell in row] for row in rows]
        if not cells:
            self.notice("nothing")
            return
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size((WIDTH, 0)).columns if is_terminal else WIDTH
        heads = [(head.removeprefix(">"), ">" if head.startswith(">") else "<") for head in columns.split(", ")]
        heading, *further_lines = lines_of(heads, cells, width)
        print(_bold(heading) if is_terminal else heading, *further_lines, sep="\n", flush=True)

    def rows(self, data: object, columns: str, rows: Iterable[Sequence[object]]) -> None:
        """Print ``data`` as JSON, or the rows as a table."""
        if self.as_json:
            self.data(data)
        else:
            self.table(columns, rows)

    def facts(self, facts: Mapping[str, object]) -> None:
        """Print facts as JSON, or names and values, one pair on each line. Times have an offset from UTC."""
        if self.as_json:
            self.data(facts)
            return
        pairs = list(fact_texts(facts))
        name_width = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.line(f"{name:<{name_width}}  {value}".rstrip())

    def line(self, text: str) -> None:
        """Print one line of data; line breaks in it are escaped."""
        print(shown(text), flush=True)

    def screen(self, lines: Sequence[str]) -> None:
        """Replace the screen of a terminal by these lines, cut to its size; in a file or a pipe, append them."""
        if sys.stdout.isatty():
            width, height = shutil.get_terminal_size((WIDTH, 24))
            cut = [shown(line)[:width] for line in lines[: height - 1]]
            print("\x1b[H\x1b[2J" + "\n".join(cut), flush=True)
        else:
            print(*map(shown, lines), "", sep="\n", flush=True)

    def text(self, text: str, indent: str = "") -> None:
        """Print a text of several lines, each after ``indent``."""
        for line in shown_lines(text.removesuffix("\n"), len(text)):
            print(f"{indent}{line}", flush=True)

    def raw(self, body: bytes) -> None:
        """Write bytes: unchanged into a file or a pipe, escaped on a terminal."""
        if sys.stdout.isatty():
            self.text(body.decode("utf-8", "backslashreplace"))
        else:
            sys.stdout.buffer.write(body)
            sys.stdout.buffer.flush()

    def notice(self, text: str) -> None:
        """Print a line for people on standard error."""
        print(shown(text), file=sys.stderr, flush=True)

    def progress(self, text: str) -> None:
        """Show the current activity on a terminal until the next line replaces it."""
        if sys.stderr.isatty():
            print(f"\r{shown(text)}\x1b[K\r", end="", file=sys.stderr, flush=True)


def _bold(line: str) -> str:
    plain_terminal = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return line if plain_terminal else f"\x1b[1m{line}\x1b[0m"


def escape_unprintable_characters() -> None:
    """Let standard output and error escape characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class OneLineFormatter(logging.Formatter):
    """A formatter that escapes line breaks of messages and indents tracebacks: no log line can be forged."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - name in the standard library
        record.message = shown(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: "logging._SysExcInfoType") -> str:  # noqa: N802 - name in the standard library
        return "\n".join(f"    {line}" for line in shown_lines(super().formatException(ei)))


def log_to_terminal() -> None:
    """Write the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def complain(text: str) -> None:
    """Print the reason of a failure on one line of standard error."""
    print(f"semq: {shown(in_local(' '.join(text.split())))}", file=sys.stderr, flush=True)
