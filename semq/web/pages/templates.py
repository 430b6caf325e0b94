"""Templates of pages: Jinja2 with escaping, errors for unknown names, translations and filters."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import structlog
from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined, TemplateError
from jinja2.bccache import Bucket
from markupsafe import Markup

from semq.foreign_text import shown
from semq.moments import milliseconds, moment_text, utc_text
from semq.translations import Languages, thousands
from semq.web.access.csrf import FIELD
from semq.web.pages.error_words import coded, foreign

log = structlog.get_logger("semq.web")


class CompiledTemplates(BytecodeCache):
    """Compiled templates, shared by all environments of this process."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if code := self._codes.get((bucket.key, bucket.checksum)):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._codes[bucket.key, bucket.checksum] = bucket.bytecode_to_string()


_COMPILED = CompiledTemplates()


def environment(folders: Sequence[Path], languages: Languages) -> Environment:
    """Return the environment of all templates; a template in an earlier folder takes precedence."""
    templates = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", "jinja2.ext.do"],
        auto_reload=False,
        bytecode_cache=_COMPILED,
    )
    templates.policies["ext.i18n.trimmed"] = True  # a text of several lines is one of the translations, too
    templates.install_gettext_callables(languages.gettext, languages.ngettext, newstyle=True)  # type: ignore[attr-defined]
    templates.filters |= {"safe_text": safe_text, "moment": moment, "at": at, "node_name": node_name, "coded": coded}
    templates.filters |= {"thousands": thousands, "foreign": lambda value: foreign(safe_text(value))}
    return templates


async def compile_all(templates: Environment) -> None:
    """Compile all templates: else the first visitor of each page waits. A faulty one is logged; only its page fails."""
    for name in templates.list_templates(["html"]):
        try:
            await asyncio.to_thread(templates.get_template, name)
        except (TemplateError, OSError, UnicodeDecodeError):
            log.exception("template_faulty", template=name)


def safe_text(value: object) -> str:
    """Return foreign text in one line, with invisible characters escaped."""
    return "" if value is None else shown(str(value))


def moment(value: object) -> str:
    """Return a time (a datetime, or milliseconds since 1970) as text in UTC; an empty text without a time."""
    if value is None or value == "":
        return ""
    return moment_text(value) if isinstance(value, int) else utc_text(value)  # type: ignore[arg-type]


def at(value: object, *, exact: bool = False) -> Markup:
    """Return a time in UTC as an HTML element; a value that is no time as text; nothing for None or an empty text.

    ``exact``: with milliseconds.
    """
    try:
        text = utc_text(milliseconds_of(value), exact=exact) if value not in (None, "") else ""
    except (ValueError, OverflowError, TypeError):
        return Markup.escape(shown(str(value)))
    if not text:
        return Markup("")
    words = text.replace("T", " ").replace("+00:00", " UTC")
    return Markup('<time datetime="{}">{}</time>').format(text, words)


def milliseconds_of(value: object) -> float:
    """Return a time (a datetime, milliseconds, or a text in ISO 8601) in milliseconds since 1970 UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).timestamp() * 1000
    return value if isinstance(value, int | float) else milliseconds(str(value))


def node_name(address: object) -> str:
    """Return the address of an institution without its type: 10008 for 1.10008."""
    return str(address or "").removeprefix("1.")


def token_field(token: str) -> Markup:
    """Return the hidden field of a form with its token (``access.csrf``)."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, token)
