"""Agreements: types, sizes and numbers of the documents that one institution may send to another, and whether the
documents must be sealed.

The hub sends the terms to the sender's node (``records.Presence``). The sender's node applies them at a submission. The
hub applies them, too, to documents that pass through it, because a node could ignore its terms.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from semq.umx_t.app_key import AppKey

ANY = "*"
Pattern = Annotated[str, Meta(pattern=r"^[^\x00]{1,200}\Z")]
Limit = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Terms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One agreement, as the sender's node needs it. A limit of 0 means no limit."""

    types: tuple[Pattern, ...] = (ANY,)  #: ``type``, ``domain/type`` or ``domain/type/subtype``; ``*`` for any part
    bytes_max: Limit = 0  #: size limit of one document, as submitted by the application
    per_minute: Limit = 0  #: number of documents
    waiting_max: Limit = 0  #: number of documents without a final outcome
    encrypt: bool = False  #: documents must be sealed

    def covers(self, app_key: AppKey) -> bool:
        """Return whether these terms apply to documents of this type."""
        return any(matches(pattern, app_key) for pattern in self.types)


def first_covering(agreed: Sequence[Terms], app_key: AppKey) -> Terms | None:
    """Return the first terms that cover this type of document, or None."""
    return next((terms for terms in agreed if terms.covers(app_key)), None)


def matches(pattern: str, app_key: AppKey) -> bool:
    """Return whether a type of document matches a pattern. A domain or subtype that the pattern lacks may have any
    value.
    """
    parts = pattern.split("/")
    values = (app_key.type,) if len(parts) == 1 else (app_key.domain, app_key.type, app_key.subtype)
    return len(parts) <= len(values) and all(part in (ANY, value) for part, value in zip(parts, values, strict=False))


def agreed_text(terms: Terms) -> str:
    """Return terms in one line, for people: ``order, trade/invoice; 60 per minute; up to 1000 bytes; sealed``."""
    parts = [", ".join(terms.types)]
    parts += [f"{terms.per_minute} per minute"] if terms.per_minute else []
    parts += [f"up to {terms.bytes_max} bytes"] if terms.bytes_max else []
    parts += [f"up to {terms.waiting_max} waiting"] if terms.waiting_max else []
    parts += ["sealed"] if terms.encrypt else []
    return "; ".join(parts)
