"""The translated texts: of templates and modules of the web process and the console, and texts of tables."""

import ast
from collections.abc import Iterator
from pathlib import Path

from babel.messages.extract import extract

import semq.console
import semq.web
from semq.console.display import UNITS
from semq.console.words import texts

CONSOLE, WEB = Path(semq.console.__file__).parent, Path(semq.web.__file__).parent


def in_templates(room: Path) -> Iterator[str]:
    """Return the texts in ``_()``, ``ngettext()`` and ``{% trans %}``; for a plural, its first form."""
    for path in sorted(room.glob("templates/*.html")):
        with path.open("rb") as stream:
            options = {"extensions": "jinja2.ext.i18n,jinja2.ext.do", "trimmed": "true"}
            for _, found, _, _ in extract("jinja2", stream, options=options):
                text = found if isinstance(found, str) else found[0]
                if text:
                    yield text


def plurals(room: Path) -> dict[str, str]:
    """Return the texts for a number: the first form and the second one."""
    found: dict[str, str] = {}
    for path in sorted(room.glob("templates/*.html")):
        with path.open("rb") as stream:
            options = {"extensions": "jinja2.ext.i18n,jinja2.ext.do", "trimmed": "true"}
            result = [one for _, one, _, _ in extract("jinja2", stream, options=options) if not isinstance(one, str)]
            found |= {one[0]: one[1] for one in result if one[0]}
    for _, node in _calls(room):
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            found[str(node.args[0].value)] = str(node.args[1].value)  # type: ignore[attr-defined]
    return found


def _calls(room: Path) -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(room.glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if name in ("_", "ngettext"):
                    yield name, node


def in_modules(room: Path) -> Iterator[str]:
    """Return the texts in ``_()`` and ``ngettext()``."""
    return (str(node.args[0].value) for _, node in _calls(room))  # type: ignore[attr-defined]


def every(room: Path) -> set[str]:
    """Return all texts."""
    looked_up = {*texts(), *(words for _, words in UNITS)} if room == CONSOLE else set()
    return {*in_templates(room), *in_modules(room), *looked_up}
