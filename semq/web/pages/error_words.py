"""Errors in the language of a page. In English they are shown as they are written.

In another language a page shows the sentence and the remedy of an error's code and, closed, the exact text, which
support needs. The translations have both under the code (``SEMQ-1207``, ``SEMQ-1207 remedy``), because the web process
does not have the class: most errors are raised by other processes, and many are read as texts from a row. The text of a
single error (``SemqError(text)``), and a remedy that replaces that of the class, have translations under themselves.
"""

import re
from collections.abc import Callable, Mapping

from markupsafe import Markup
from msgspec import Struct

from semq.errors import SemqError, fact_text
from semq.foreign_text import SHOWN_MAX, shortened, shown
from semq.translations import ENGLISH, language
from semq.web.pages.error_texts import translation

Translate = Callable[[str], str]
CODE = re.compile(r"SEMQ-\d{4}")
# The text of an error (``SemqError.__str__`` or ``advice``) with what stands before it
QUOTED = re.compile(
    r"(?P<before>.*?)(?P<code>SEMQ-\d{4})(?:[: ]+(?P<text>.*?))?(?: \((?P<facts>\w+=.*)\))?(?: — (?P<remedy>.*))?"
)
WORDS = re.compile(r"[A-Za-z]{2} [A-Za-z]{2}")


class ErrorWords(Struct, frozen=True):
    """An error for a page of its own."""

    code: str
    sentence: str
    remedy: str
    facts: Mapping[str, str]
    exact: str  #: complete text in English; empty: the rest says all of it


def words_of(_: Translate, error: SemqError) -> ErrorWords:
    """Return the words of an error."""
    sentence = sentence_of(_, error.code, error.text) or error.text
    remedy = remedy_of(_, error.code, error.remedy) or error.remedy
    exact = "" if (sentence, remedy) == (error.text, error.remedy) else shown(error.advice())
    facts = {name: fact_text(value) for name, value in error.facts.items()}
    return ErrorWords(error.code, sentence, remedy, facts, exact)


def sentence_of(_: Translate, code: str, text: str) -> str:
    """Return the translation of the text of an error, else that of the sentence of its code, else an empty text."""
    return _translation(_, text) or _translation(_, code)


def remedy_of(_: Translate, code: str, remedy: str) -> str:
    """Return the translation of a remedy, else that of the remedy of its code, else an empty text."""
    return _translation(_, remedy) or _translation(_, f"{code} remedy")


def _translation(_: Translate, text: str) -> str:
    """Return a translation, or an empty text."""
    translated = translation(_, text) if language() != ENGLISH else ""
    return translated if translated != text else ""


def in_words(_: Translate, value: object, length_max: int = SHOWN_MAX) -> Markup:
    """Return a text that may quote an error as HTML. ``length_max``: characters of one without a translation."""
    text = shown(str(value or ""))
    if language() == ENGLISH:
        return Markup(CODE.sub(r"<code>\g<0></code>", str(coded(shortened(text, length_max)))))
    if not CODE.match(text) and (translated := _translation(_, text)):
        return coded(translated)
    found = QUOTED.fullmatch(text)
    if found is None or not (sentence := sentence_of(_, found["code"], found["text"] or "")):
        return foreign(shortened(text, length_max))
    before = found["before"] if " " not in found["before"].rstrip() else ""
    parts: dict[str, object] = {
        "before": before, "code": found["code"], "sentence": sentence,
        "facts": Markup(' <span class="code" lang="en">{}</span>').format(found["facts"]) if found["facts"] else "",
        "remedy": Markup(" {}").format(coded(remedy_of(_, found["code"], found["remedy"]))) if found["remedy"] else "",
        "exact": exact_text(_, text) if found["text"] or before != found["before"] else "",
    }  # fmt: skip
    return Markup("{before}<code>{code}</code> {sentence}{facts}{remedy}{exact}").format(**parts)


def foreign(text: str) -> Markup:
    """Return a text without a translation, as one of a person; if it seems to be English, as such."""
    return Markup('<span lang="en">{}</span>').format(text) if WORDS.search(text) else Markup.escape(text)


def exact_text(_: Translate, text: str) -> Markup:
    """Return the exact text of an error, closed."""
    return Markup(' <details class="exact"><summary>{}</summary><span lang="en">{}</span></details>').format(
        _("Exact text"), text
    )


def coded(text: str) -> Markup:
    """Return a text as HTML, in which parts between backticks are code."""
    parts = [Markup.escape(shown(part)) for part in str(text).split("`")]
    elements = [Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)]
    return Markup("").join(elements)
