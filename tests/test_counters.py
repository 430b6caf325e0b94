"""The list of counters and the calls of ``core.count`` agree."""

import ast
from collections.abc import Iterator
from pathlib import Path

from semq.counters import COUNTERS
from semq.store.rows import Event
from semq.umx_t.status import Outcome
from tests.house.sources import ROOT

# Counters whose names are derived from events and outcomes.
COUNTED_EVENTS = {Event.VIOLATION, Event.FORWARDED, Event.DROPPED, Event.REFUSED}
DERIVED = {
    "semq/engine/core.py": {"violation"},
    "semq/engine/hub/forwarding.py": {event.name.lower() for event in COUNTED_EVENTS - {Event.VIOLATION}},
    "semq/engine/sender/outbound.py": {outcome.name.lower() for outcome in Outcome},
}


def test_every_counter_is_listed_and_every_listed_one_is_counted() -> None:
    counted = {name for file in _files() for name in _counted(file)}
    counted |= {name for names in DERIVED.values() for name in names}
    assert counted == set(COUNTERS)


def test_only_listed_modules_derive_names_of_counters() -> None:
    assert {str(file.relative_to(ROOT)) for file in _files() if None in _arguments(file)} == set(DERIVED)


def _files() -> list[Path]:
    tops = ("semq/engine", "semq/service", "local_node", "platform_node")
    return [file for top in tops for file in (ROOT / top).rglob("*.py")]


def _counted(file: Path) -> Iterator[str]:
    return (name for name in _arguments(file) if name is not None)


def _arguments(file: Path) -> set[str | None]:
    """Return the names that a module passes to ``core.count``; None for a name that is not a constant."""
    names: set[str | None] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "count":
            if not _is_core(file.name, node.func.value):
                continue
            argument = node.args[0] if node.args else None
            names.add(str(argument.value) if isinstance(argument, ast.Constant) else None)
    return names


def _is_core(file: str, owner: ast.expr) -> bool:
    names = ("core", "_core", "self") if file == "core.py" else ("core", "_core")
    return getattr(owner, "attr", getattr(owner, "id", "")) in names
