"""The texts to translate, in templates, modules and tables."""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from babel.messages.extract import extract

import semq.console
import semq.web
import spark_reconcile
from semq.console.words import texts as texts_of_console
from semq.web.transport.failures import ON_PAGES
from spark_reconcile.judgement.verdicts import FINDINGS, SUBMIT_AGAIN, VERDICTS
from spark_reconcile.report.banner import ANALYSTS_STEP, OUTCOMES, UNKNOWN_STEPS
from spark_reconcile.report.figures import FOUND_NOW, KNOWN_BEFORE, OF_THIS_DATE
from spark_reconcile.report.words import EVENTS, STATE_WORDS
from spark_reconcile.report.work import REPAIR_TEXT
from spark_reconcile.sources.inputs import STATES, THE_HUB, UNKNOWN_STORE


def texts_of_reports() -> Iterator[str]:
    """Yield the texts of the tables of the reconciliation."""
    for verdict in VERDICTS:
        yield from (verdict.word, verdict.owner, verdict.meaning, verdict.next_step)
    yield from (meaning for meaning, _, _ in FINDINGS.values())
    yield from (heading for _, _, heading in OUTCOMES.values())
    yield from (state.meaning for state in STATES)
    yield from EVENTS.values()
    yield from (words for of_side in STATE_WORDS.values() for words in of_side.values())
    yield from UNKNOWN_STEPS.values()
    yield from (OF_THIS_DATE, FOUND_NOW, KNOWN_BEFORE, SUBMIT_AGAIN, REPAIR_TEXT, THE_HUB, UNKNOWN_STORE, ANALYSTS_STEP)
    yield from ("sender", "hub", "receiver", "analyst", "both ends")


CONSOLE, WEB = Path(semq.console.__file__).parent, Path(semq.web.__file__).parent
RECONCILIATION = Path(spark_reconcile.__file__).parent
TEMPLATES = {CONSOLE: "templates/*.html", WEB: "templates/*.html", RECONCILIATION: "report/*.html"}
TABLES: dict[Path, Callable[[], Iterable[str]]] = {
    CONSOLE: texts_of_console,
    RECONCILIATION: texts_of_reports,
    WEB: lambda: in_errors(),
}


def in_templates(package: Path) -> Iterator[str]:
    """Yield the texts in ``_()``, ``ngettext()`` and ``{% trans %}``; for a plural, its first form."""
    for path in sorted(package.glob(TEMPLATES[package])):
        with path.open("rb") as stream:
            options = {"extensions": "jinja2.ext.i18n,jinja2.ext.do", "trimmed": "true"}
            for _, forms, _, _ in extract("jinja2", stream, options=options):
                text = forms if isinstance(forms, str) else forms[0]
                if text:
                    yield text


def plurals(package: Path) -> dict[str, str]:
    """Return the plurals: first form | second form."""
    second_forms: dict[str, str] = {}
    for path in sorted(package.glob(TEMPLATES[package])):
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
    """Return all texts of the web process, of the console or of the reports of the reconciliation."""
    return {*in_templates(package), *in_modules(package), *TABLES[package]()} - {""}
