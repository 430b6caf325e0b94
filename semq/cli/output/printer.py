"""Output of commands: tables for people, JSON for programs, never mixed; other text goes to standard error.

Only this module of the command line writes to a stream, so that foreign text always passes `semq.foreign_text`: nothing
from a partner or an application reaches a terminal with its control characters.
"""

import logging
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import TextIOWrapper
from typing import Any

from semq.cli.output.table import Column, lines_of
from semq.cli.output.values import lines, plain
from semq.foreign_text import json_text, shown, shown_lines
from semq.moments import in_local

WIDTH = 80  # width of output that is no terminal


class Output:
    """The output of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def data(self, value: Any) -> None:
        """Print one JSON value on a line, uncut."""
        print(json_text(value), flush=True)

    def say(self, data: Any, *lines: str) -> None:
        """Print a result, as JSON or as lines."""
        if self.as_json:
            self.data(data)
            return
        for line in lines:
            self.line(line)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
        """Print a table. Cells that are not texts are put in words. Short columns, for instance names and times, stay
        whole; longer ones are folded to the width of the terminal.
        """
        cells = [[shown(cell if isinstance(cell, str) else plain(cell)) for cell in row] for row in rows]
        if not cells:
            self.talk("nothing")
            return
        is_terminal = sys.stdout.isatty()
        heading, *rest = lines_of(
            columns, cells, shutil.get_terminal_size((WIDTH, 0)).columns if is_terminal else WIDTH
        )
        print(_bold(heading) if is_terminal else heading, *rest, sep="\n", flush=True)

    def facts(self, facts: Mapping[str, object]) -> None:
        """Print names and values, one pair a line; times have their zone."""
        pairs = list(lines(facts))
        longest = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.line(f"{name:<{longest}}  {value}".rstrip())

    def line(self, text: str) -> None:
        """Print one line of data; line breaks in it are escaped."""
        print(shown(text), flush=True)

    def screen(self, lines: Sequence[str]) -> None:
        """Print lines that replace the previous screen on a terminal, cut to its size; in a file or pipe they are
        appended.
        """
        if sys.stdout.isatty():
            width, height = shutil.get_terminal_size((WIDTH, 24))
            cut = [shown(line)[:width] for line in lines[: height - 1]]
            print("\x1b[H\x1b[2J" + "\n".join(cut), flush=True)
        else:
            print(*map(shown, lines), "", sep="\n", flush=True)

    def text(self, text: str, indent: str = "") -> None:
        """Print a text of several lines; with an indent, none of its lines can be mistaken for a line of the
        command.
        """
        for line in shown_lines(text.removesuffix("\n"), len(text)):
            print(f"{indent}{line}", flush=True)

    def raw(self, body: bytes) -> None:
        """Write a body, or a file that a command makes: unchanged into a file or a pipe, escaped on a terminal."""
        if sys.stdout.isatty():
            self.text(body.decode("utf-8", "backslashreplace"))
        else:
            sys.stdout.buffer.write(body)
            sys.stdout.buffer.flush()

    def talk(self, text: str) -> None:
        """Print a line that is neither data nor an error."""
        print(shown(text), file=sys.stderr, flush=True)

    def passing(self, text: str) -> None:
        """Print the current activity on a terminal; the next line replaces it."""
        if sys.stderr.isatty():
            print(f"\r{shown(text)}\x1b[K\r", end="", file=sys.stderr, flush=True)


def _bold(line: str) -> str:
    plain_terminal = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return line if plain_terminal else f"\x1b[1m{line}\x1b[0m"


def escape_unprintable_characters() -> None:
    """Make streams escape characters that their encoding does not have, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class OneLineFormatter(logging.Formatter):
    """A formatter whose messages are one line each, and whose tracebacks are indented: no line can be forged."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the standard library
        record.message = shown(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the same
        return "\n".join(f"    {line}" for line in shown_lines(super().formatException(ei)))


def log_to_terminal() -> None:
    """Write the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def complain(text: str) -> None:
    """Print the reason of a failure, on one line of standard error."""
    print(f"semq: {shown(in_local(' '.join(text.split())))}", file=sys.stderr, flush=True)
