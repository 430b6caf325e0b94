"""All events of the log: read from the calls of the loggers in the sources."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from documentation.reference.cells import code, plain, table
from documentation.sources import ROOT

LEVELS = ("debug", "info", "warning", "error", "critical", "exception")
PACKAGES = ("semq", "local_node", "platform_node", "spark_reconcile")


class LogEvent(NamedTuple):
    """An event that one module logs."""

    name: str
    level: str
    facts: tuple[str, ...]
    subject: str  #: the first sentence of the module's docstring


INTRODUCTION = """\
A node writes one JSON object a line on standard error (`[log] format`): `event`, `level`, `timestamp`, `node`, and the
facts below. *About* is what the part of the node that logs the event is for. `error` has a code and a remedy.
"""


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield INTRODUCTION
    rows: dict[tuple[str, str, str], str] = {}
    for event in events():
        facts = ", ".join(map(code, event.facts))
        rows.setdefault((event.name, event.level, facts), event.subject)
    yield from table(
        ("event", "level", "facts", "about"),
        ((code(name), level, facts, plain(subject)) for (name, level, facts), subject in sorted(rows.items())),
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
    subject = " ".join((ast.get_docstring(module) or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
            continue
        names = list(_names(node.args[0])) if node.args else []
        facts = tuple(keyword.arg for keyword in node.keywords if keyword.arg and keyword.arg != "exc_info")
        level = "error" if node.func.attr == "exception" else node.func.attr
        yield from (LogEvent(name, level, facts, subject) for name in names)


def _names(argument: ast.expr) -> Iterator[str]:
    """Yield the names of events in an argument: a text, or one of two texts."""
    match argument:
        case ast.Constant(value=str(name)):
            yield name
        case ast.IfExp(body=body, orelse=orelse):
            yield from _names(body)
            yield from _names(orelse)
