"""Texts of nodes with values in them (details of checks, terms, changes), in the language of a page.

In English they are shown as they are. Otherwise each part is compared with the texts of ``words``, whose values may be
such texts or quote errors (``web.pages.error_words``).
"""

import re

from markupsafe import Markup

from semq.console.words import CHANGES, CHECK_DETAILS, TERMS
from semq.foreign_text import shown
from semq.translations import ENGLISH, language
from semq.web.pages.error_texts import pattern_of
from semq.web.pages.error_words import Translate, coded, in_words

TABLE = (*CHECK_DETAILS, *TERMS, *CHANGES)
# Between two parts of a detail
BETWEEN = re.compile(
    r"; (?=[^ ;]+: |SEMQ-\d|documents |partners |replaced |Postgres |\d+ |up to |sealed$|the node waits |\S+ \(role )"
    r"|, (?=[\d.]+: [\d.]+ days|documents submitted )"
)
PARTS_MAX, NESTED_MAX = 250, 5  # parts of a detail; texts within texts
NAMED = re.compile(r"(?!SEMQ-)(?P<name>[^ ;]+): (?P<rest>.+)")


def detail_words(_: Translate, detail: str) -> Markup:
    """Return a detail as HTML."""
    text = shown(detail)
    if language() == ENGLISH or not text:
        return in_words(_, text)
    return Markup("；").join(_part(_, part) for part in _parts(text))


def _parts(text: str) -> list[str]:
    """Split a detail where no bracket is open: the facts of an error are in brackets."""
    parts: list[str] = []
    for part in BETWEEN.split(text, PARTS_MAX):
        if parts and parts[-1].count("(") > parts[-1].count(")"):
            parts[-1] += f"; {part}"
        else:
            parts.append(part)
    return parts


def _part(_: Translate, text: str, nested_max: int = NESTED_MAX) -> Markup:
    if not nested_max:
        return in_words(_, text)
    if named := NAMED.fullmatch(text):
        return Markup("{}{}{}").format(named["name"], _(": "), _part(_, named["rest"], nested_max - 1))
    for words in TABLE:
        if found := pattern_of(words).fullmatch(text):
            parts = {name: _part(_, value, nested_max - 1) for name, value in found.groupdict().items()}
            return coded(_(words)) % parts
    return in_words(_, text)
