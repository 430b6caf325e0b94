"""Translations of texts: English ones are in the sources, others in .po files. The language is that of the task."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path

ENGLISH = "en"
# Language | its name
CHOICES = {"en": "English", "zh": "中文"}

_current: ContextVar[str] = ContextVar("semq_language", default=ENGLISH)


class Languages:
    """The translations of some texts."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """``folders``: each has .po files, for instance zh.po."""
        self._by_language: dict[str, NullTranslations] = {}
        for file in (file for folder in folders for file in sorted(folder.glob("*.po"))):
            translations = copy(_translations_in(file))
            if file.stem in self._by_language:
                translations.add_fallback(self._by_language[file.stem])
            self._by_language[file.stem] = translations

    def gettext(self, text: str) -> str:
        return str(self._translations().gettext(text)) if text else ""  # that of an empty text is the head of the file

    def ngettext(self, singular: str, plural: str, count: int) -> str:
        """Return the text for a number; ``%(num)s`` is replaced by the number, with separators."""
        return self._translations().ngettext(singular, plural, count).replace("%(num)s", thousands(count))

    def _translations(self) -> NullTranslations:
        return self._by_language.get(_current.get(), _ENGLISH)


@cache  # a process may have the pages of many nodes
def _translations_in(file: Path) -> GNUTranslations:
    return GNUTranslations(BytesIO(_compiled(file)))


_ENGLISH = NullTranslations()


def thousands(number: float | str) -> str:
    """Return a number with separators (1,234,567); a text as it is."""
    return number if isinstance(number, str) else f"{number:,}"


def language() -> str:
    """Return the language of this task."""
    return _current.get()


def use(language: str) -> None:
    """Use a language for the rest of this task."""
    _current.set(language)


@contextmanager
def used(language: str) -> Iterator[None]:
    """Use a language for the block."""
    token = _current.set(language)
    try:
        yield
    finally:
        _current.reset(token)


def _compiled(file: Path) -> bytes:
    from babel.messages.mofile import write_mo  # not at import: most commands print English only
    from babel.messages.pofile import read_po

    compiled = BytesIO()
    with file.open("rb") as source:
        write_mo(compiled, read_po(source, locale=file.stem))
    return compiled.getvalue()
