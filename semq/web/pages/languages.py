"""Languages of pages: English texts are in the sources, translations in .po files."""

from collections.abc import Iterable
from contextvars import ContextVar
from copy import copy
from functools import cache
from io import BytesIO
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations
from starlette.requests import Request

COOKIE = "semq_language"
ENGLISH = "en"
# Language | its name
CHOICES = {"en": "English", "zh": "中文"}

_current: ContextVar[str] = ContextVar("semq_web_language", default=ENGLISH)


class Languages:
    """The translations of all pages."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """``folders``: each has .po files, for instance zh.po."""
        self._by_language: dict[str, NullTranslations] = {}
        for file in (file for folder in folders for file in sorted(folder.glob("*.po"))):
            translations = copy(_translations_in(file))
            if file.stem in self._by_language:
                translations.add_fallback(self._by_language[file.stem])
            self._by_language[file.stem] = translations

    def gettext(self, text: str) -> str:
        return str(self._translations().gettext(text))

    def ngettext(self, singular: str, plural: str, count: int) -> str:
        return str(self._translations().ngettext(singular, plural, count))

    def _translations(self) -> NullTranslations:
        return self._by_language.get(_current.get(), _ENGLISH)


@cache  # a process may have the pages of many nodes
def _translations_in(file: Path) -> Translations:
    return Translations(BytesIO(_compiled(file)))


_ENGLISH = NullTranslations()


def use(language: str) -> None:
    """Use a language for the rest of this task."""
    _current.set(language)


def language_of(request: Request) -> str:
    """Return the language in the cookie; without one, the language in CHOICES that the browser prefers, or English."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in CHOICES:
        return chosen
    accepted = request.headers.get("accept-language", "")[:200].lower()
    acceptable = [choice for choice in map(_weighed, accepted.split(",")) if choice[0] > 0 and choice[1] in CHOICES]
    return max(acceptable, key=lambda choice: choice[0], default=(0.0, ENGLISH))[1]  # the first of equal weights


def _weighed(part: str) -> tuple[float, str]:
    """Return weight and language of a part of Accept-Language, for instance zh-CN;q=0.8. Weight 0: not acceptable."""
    name, _, parameter = part.partition(";")
    key, _, weight_text = parameter.partition("=")
    try:
        weight = float(weight_text) if key.strip() == "q" else 1.0
    except ValueError:
        weight = 0.0
    return weight, name.strip().partition("-")[0]


def _compiled(file: Path) -> bytes:
    compiled = BytesIO()
    with file.open("rb") as source:
        write_mo(compiled, read_po(source, locale=file.stem))
    return compiled.getvalue()
