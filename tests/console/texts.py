"""The texts to translate, in templates, modules and tables."""

import ast
from collections.abc import Iterator
from pathlib import Path

from babel.messages.extract import extract

import semq.console
import semq.web
from semq.console.display import UNITS
from semq.console.words import texts as texts_of_tables
from semq.web.transport.failures import ON_PAGES

CONSOLE, WEB = Path(semq.console.__file__).parent, Path(semq.web.__file__).parent


def in_templates(package: Path) -> Iterator[str]:
    """Yield the texts in ``_()``, ``ngettext()`` and ``{% trans %}``; for a plural, its first form."""
    for path in sorted(package.glob("templates/*.html")):
        with path.open("rb") as stream:
            options = {"extensions": "jinja2.ext.i18n,jinja2.ext.do", "trimmed": "true"}
            for _, forms, _, _ in extract("jinja2", stream, options=options):
                text = forms if isinstance(forms, str) else forms[0]
                if text:
                    yield text


def plurals(package: Path) -> dict[str, str]:
    """Return the plurals: first form | second form."""
    second_forms: dict[str, str] = {}
    for path in sorted(package.glob("templates/*.html")):
        with path.open("rb") as stream:
            options = {"extensions": "jinja2.ext.i18n,jinja2.ext.do", "trimmed": "true"}
            texts = [forms for _, forms, _, _ in extract("jinja2", stream, options=options)]
        second_forms |= {forms[0]: forms[1] for forms in texts if not isinstance(forms, str) and forms[0]}
    for _, node in _calls(package):
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            second_forms[str(node.args[0].value)] = str(node.args[1].value)  # type: ignore[attr-defined]
    return second_forms


def _calls(package: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield name and node of each call of ``_``, ``ngettext``, and ``BadRequest`` for a page, in modules."""
    for path in sorted(package.glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if name in ("_", "ngettext") or (name == "BadRequest" and "pages" in path.parts):
                    yield name, node


def in_modules(package: Path) -> Iterator[str]:
    """Return the texts in ``_()`` and ``ngettext()`` of modules."""
    return (str(node.args[0].value) for _, node in _calls(package))  # type: ignore[attr-defined]


def in_errors() -> Iterator[str]:
    """Yield sentence and remedy of the errors that pages show."""
    for error in ON_PAGES:
        yield from (error().text, error.remedy)


def all_texts(package: Path) -> set[str]:
    """Return all texts of the web process or of the console."""
    looked_up = {*texts_of_tables(), *(words for _, words in UNITS)} if package == CONSOLE else {*in_errors()}
    return {*in_templates(package), *in_modules(package), *looked_up}
