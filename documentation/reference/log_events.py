"""All events of the log: read from the calls of the loggers in the sources."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from documentation.reference.cells import code, plain, table
from documentation.reference.log_meanings import MEANINGS
from documentation.sources import ROOT

LEVELS = ("debug", "info", "warning", "error", "critical", "exception")
PACKAGES = ("semq", "local_node", "platform_node", "spark_reconcile")


class LogEvent(NamedTuple):
    """An event that one module logs."""

    name: str
    level: str
    facts: tuple[str, ...]


INTRODUCTION = """\
A node writes one JSON object a line on standard error (`[log] format`): `event`, `level`, `timestamp`, `node`, and the
facts below. `error` has a code, which `semq errors lookup` explains.
"""


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield INTRODUCTION
    rows: dict[tuple[str, str], dict[str, None]] = {}  # event and level | facts, each once
    for event in events():
        rows.setdefault((event.name, event.level), {}).update(dict.fromkeys(event.facts))
    found = sorted(rows.items())
    yield from table(
        ("event", "level", "meaning", "facts"),
        ((code(name), level, plain(MEANINGS[name]), ", ".join(map(code, facts))) for (name, level), facts in found),
    )


@cache
def events() -> tuple[LogEvent, ...]:
    """Return all events, as often as they are logged."""
    return tuple(
        event
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        for event in _events_of(file.read_text("utf-8"))
    )


def _events_of(text: str) -> Iterator[LogEvent]:
    if "structlog.get_logger" not in text:
        return
    module = ast.parse(text)
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
            continue
        names = list(_names(node.args[0])) if node.args else []
        facts = tuple(keyword.arg for keyword in node.keywords if keyword.arg and keyword.arg != "exc_info")
        level = "error" if node.func.attr == "exception" else node.func.attr
        yield from (LogEvent(name, level, facts) for name in names)


def _names(argument: ast.expr) -> Iterator[str]:
    """Yield the names of events in an argument: a text, or one of two texts."""
    match argument:
        case ast.Constant(value=str(name)):
            yield name
        case ast.IfExp(body=body, orelse=orelse):
            yield from _names(body)
            yield from _names(orelse)
