"""Languages of pages: English in the sources, others from .po files that are read at the start.

``semq_language`` is a cookie with the chosen language; without it the browser's Accept-Language decides.
"""

from collections.abc import Iterable
from contextvars import ContextVar
from functools import cache
from io import BytesIO
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations
from starlette.requests import Request

COOKIE = "semq_language"
ENGLISH = "en"
CHOICES = {"en": "English", "zh": "中文"}

_current: ContextVar[str] = ContextVar("semq_web_language", default=ENGLISH)


class Languages:
    """The translations of all pages."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """``folders`` have one .po file for each language, for instance zh.po."""
        self._known: dict[str, NullTranslations] = {}
        for file in (file for folder in folders for file in sorted(folder.glob("*.po"))):
            found = Translations(BytesIO(_compiled(file)))
            if file.stem in self._known:
                found.add_fallback(self._known[file.stem])
            self._known[file.stem] = found

    def gettext(self, text: str) -> str:
        """Return a text in the current language."""
        return str(self._translations().gettext(text))

    def ngettext(self, one: str, many: str, count: int) -> str:
        """Return a text for a number in the current language."""
        return str(self._translations().ngettext(one, many, count))

    def _translations(self) -> NullTranslations:
        return self._known.get(_current.get(), _ENGLISH)


_ENGLISH = NullTranslations()


def use(language: str) -> None:
    """Use a language for the rest of this task."""
    _current.set(language)


def language_of(request: Request) -> str:
    """Return the language for a request."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in CHOICES:
        return chosen
    wanted = request.headers.get("accept-language", "")[:200].lower()
    ordered = sorted((_weighed(part) for part in wanted.split(",")), reverse=True)
    return next((name for _, name in ordered if name in CHOICES), ENGLISH)


def _weighed(part: str) -> tuple[float, str]:
    name, _, rest = part.strip().partition(";q=")
    try:
        weight = float(rest) if rest else 1.0
    except ValueError:
        weight = 0.0
    return weight, name.strip()[:2]


@cache  # a process may have the pages of many nodes
def _compiled(file: Path) -> bytes:
    compiled = BytesIO()
    with file.open("rb") as source:
        write_mo(compiled, read_po(source, locale=file.stem))
    return compiled.getvalue()
