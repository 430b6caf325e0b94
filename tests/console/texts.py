"""The texts to translate, in templates, modules and tables."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from babel.messages.extract import extract

import semq.console
import semq.web
import spark_reconcile
from semq.cli.reference.error_codes import PACKAGES, all_errors
from semq.console.words import texts as texts_of_console
from semq.web.pages.error_texts import PARTS, WITH_VALUES
from spark_reconcile.judgement.verdicts import FINDINGS, SUBMIT_AGAIN, VERDICTS
from spark_reconcile.report.banner import ANALYSTS_STEP, OUTCOMES
from spark_reconcile.report.figures import FOUND_NOW, KNOWN_BEFORE, OF_THIS_DATE
from spark_reconcile.report.words import EVENTS, STATE_WORDS
from spark_reconcile.report.work import EXTRACT_TEXT, LATE_LEDGER, LATE_TEXT, NO_LEDGER, REPAIR_TEXT, UNKNOWN_STEPS
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
    yield from (EXTRACT_TEXT, LATE_LEDGER, LATE_TEXT, NO_LEDGER)
    yield from ("sender", "hub", "receiver", "analyst", "both ends")


CONSOLE, WEB = Path(semq.console.__file__).parent, Path(semq.web.__file__).parent
RECONCILIATION = Path(spark_reconcile.__file__).parent
ROOT = WEB.parents[1]
TEMPLATES = {CONSOLE: "templates/*.html", WEB: "templates/*.html", RECONCILIATION: "report/*.html"}
TABLES: dict[Path, Callable[[], Iterable[str]]] = {
    CONSOLE: texts_of_console,
    RECONCILIATION: texts_of_reports,
    WEB: lambda: {*sentences(), *texts_of_errors()},
}
GETTEXT = ("_", "ngettext")
# Modules whose texts of single errors no page shows, or only beside the sentence of their code
WITHOUT_PAGES = (
    "semq/amqp", "semq/broker", "semq/carrier", "semq/cli", "semq/demo", "semq/installation", "semq/legacy",
    "semq/web/api", "spark_reconcile",
)  # fmt: skip
QUOTING = re.compile(r"\b(?:fault|error|answer)\b")  # values that are texts of others


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
    for text, node in _calls(package):
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            second_forms[text] = str(node.args[1].value)
    return second_forms


def _calls(package: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield text and node of each call of ``_`` and ``ngettext`` in modules."""
    for path in sorted(package.glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and _name(node) in ("_", "ngettext")
                and isinstance(node.args[0], ast.Constant)
            ):
                yield str(node.args[0].value), node


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def in_modules(package: Path) -> Iterator[str]:
    """Return the texts in ``_()`` and ``ngettext()`` of modules."""
    return (text for text, _ in _calls(package))


def sentences() -> dict[str, str]:
    """Return sentence and remedy of every error; the keys are those of the translations."""
    rows = all_errors()
    remedies = {f"{row['code']} remedy": row["remedy"] for row in rows}
    return {row["code"]: row["meaning"] for row in rows} | remedies


def texts_of_errors() -> Iterator[str]:
    """Yield the texts of single errors, and the remedies that replace those of their classes, in modules with pages."""
    yield from (str(text.value) for text in _texts_of_errors() if isinstance(text, ast.Constant))
    yield from (*WITH_VALUES, *PARTS)


def errors_with_values() -> Iterator[tuple[str, str]]:
    """Yield each f-string that is the text of an error: its source, and an example of the text.

    Left out are those that quote a fault, and those with hardly a word of their own.
    """
    for text in _texts_of_errors():
        if isinstance(text, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else ast.unparse(part) for part in text.values]
            is_value = [not isinstance(part, ast.Constant) for part in text.values]
            own = " ".join(part for part, is_one in zip(parts, is_value, strict=True) if not is_one)
            values = " ".join(part for part, is_one in zip(parts, is_value, strict=True) if is_one)
            if len(re.findall("[a-z]{2,}", own)) > 2 and not QUOTING.search(values):
                shown = ((_example(part) if is_one else part) for part, is_one in zip(parts, is_value, strict=True))
                yield ast.unparse(text), "".join(shown)


def _example(value: str) -> str:
    """Return an example of a value: those that end a sentence may be its end."""
    return "." if "hint" in value or "did_you_mean" in value else "x"


@cache
def _texts_of_errors() -> list[ast.Constant | ast.JoinedStr]:
    """Return the first arguments of errors; of a variable, all texts that its module gives to it."""
    texts: list[ast.Constant | ast.JoinedStr] = []
    names = {row["name"] for row in all_errors()} | {"with_remedy", "fits_several"}
    for package in PACKAGES:
        for path in sorted((ROOT / package).glob("**/*.py")):
            if any(path.is_relative_to(ROOT / folder) for folder in WITHOUT_PAGES):
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            given: dict[str, list[ast.expr]] = {}
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    given.setdefault(node.targets[0].id, []).append(node.value)
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and node.args and _name(node) in names:
                    for text in _alternatives(node.args[0]):
                        values = given.get(text.id, []) if isinstance(text, ast.Name) else [text]
                        found = (each for value in values for each in _alternatives(value))
                        texts += (each for each in found if isinstance(each, ast.Constant | ast.JoinedStr))
    return texts


def _alternatives(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the values that an expression may have: those of ``a if b else c`` and ``a or b``."""
    parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else getattr(value, "values", ())
    if isinstance(value, ast.IfExp | ast.BoolOp):
        yield from (each for part in parts for each in _alternatives(part))
    else:
        yield value


def all_texts(package: Path) -> set[str]:
    """Return all texts of the web process, of the console or of the reports of the reconciliation."""
    return {*in_templates(package), *in_modules(package), *TABLES[package]()} - {""}
