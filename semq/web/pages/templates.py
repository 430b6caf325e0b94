"""Templates of pages: Jinja2 with escaping always on, strict names, translations, and filters for foreign text."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from semq.foreign_text import in_page, shown
from semq.moments import moment_text, utc_text
from semq.web.access.csrf import FIELD
from semq.web.pages.languages import Languages


def environment(folders: Sequence[Path], languages: Languages) -> Environment:
    """Return the environment of all templates; those of an earlier folder come first."""
    made = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", "jinja2.ext.do"],
        auto_reload=False,
    )
    made.install_gettext_callables(languages.gettext, languages.ngettext, newstyle=True)  # type: ignore[attr-defined]
    made.filters["safe_text"] = safe_text
    made.filters["moment"] = moment
    return made


def safe_text(value: object) -> str:
    """Return foreign text in one line, with invisible characters escaped."""
    return "" if value is None else shown(str(value))


def moment(value: object) -> str:
    """Return a time, or milliseconds since 1970 UTC, in UTC."""
    if value is None or value == "":
        return ""
    return moment_text(value) if isinstance(value, int) else utc_text(value)  # type: ignore[arg-type]


def field(token: str) -> Markup:
    """Return the hidden field of a form."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, token)


def finished(page: str) -> str:
    """Return a rendered page without invisible characters."""
    return in_page(page)
