"""Redaction of texts for support: values of secret settings, and what looks like a secret in any text."""

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, unquote, urlsplit

from pydantic import BaseModel, SecretStr

from semq.config.settings import STARS, Settings

SHORTEST = 4  # characters; shorter values would also be found in words, and are covered only where a setting is shown
# What looks like a secret | what replaces it
PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), STARS),
    (re.compile(r"(\w[\w+.-]*://[^\s:/@\"']*):[^\s/@\"']+@"), rf"\1:{STARS}@"),  # password in an address
    (re.compile(r"(?i)\b((?:proxy-)?authorization\"?\s*[:=]\s*\"?)[^\"\r\n]+"), rf"\1{STARS}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {STARS}"),
    (re.compile(r"(/first/)[\w-]+"), rf"\1{STARS}"),  # one-time link of the console
    (
        re.compile(r"(?i)((?:password|passphrase|passwd|secret|token|api_?key)\"?\s*[:=]\s*\"?)[^\s\"',;&}]+"),
        rf"\1{STARS}",
    ),
)


class Redaction:
    """Replaces the secrets of one node in texts."""

    def __init__(self, settings: Settings, more: Iterable[str] = ()) -> None:
        """``more``: further secrets, for instance values of variables."""
        values = {form for secret in (*_secrets(settings), *more) for form in _forms(secret)}
        # The longest first: one secret may be the beginning of another one.
        longest_first = sorted((value for value in values if len(value) >= SHORTEST), key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def redact(self, text: str) -> str:
        """Return the text without secrets."""
        if self._values is not None:
            text = self._values.sub(STARS, text)
        for pattern, replacement in PATTERNS:
            text = pattern.sub(replacement, text)
        return text


def _secrets(value: object) -> Iterator[str]:
    """Yield the values of all secret settings in a section, list or table."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name))
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _secrets(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _secrets(member)


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a text may contain a secret: as it is, in JSON, in an address, its password alone."""
    yield from (secret, quote(secret, safe=""), secret.replace("\\", "\\\\").replace('"', '\\"'))
    if "://" in secret and (password := urlsplit(secret).password):
        yield from (password, unquote(password))
