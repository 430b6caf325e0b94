"""Agreements between two institutions: which documents one may send to the other, of what size, how many, sealed or
not.

The hub sends the terms to the sender in its directory (``records.Presence``). Both apply them: the sender at submit,
where the application can still be informed, and the hub, for a node that does not apply them. Pure values;
``semq.engine.agreements`` counts rates and numbers.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from semq.umx_t.app_key import AppKey

ANY = "*"
Pattern = Annotated[str, Meta(pattern=r"^[^\x00]{1,200}\Z")]
Bound = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Terms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One agreement, as its sender needs it. A bound of 0 means no bound."""

    types: tuple[Pattern, ...] = (ANY,)  #: ``type``, ``domain/type`` or ``domain/type/subtype``; ``*`` for any part
    bytes_max: Bound = 0  #: size limit of one document, as submitted by the application
    per_minute: Bound = 0  #: documents
    waiting_max: Bound = 0  #: documents without a final outcome
    encrypt: bool = False  #: documents must be sealed

    def covers(self, app_key: AppKey) -> bool:
        """Return whether these terms apply to documents of this type."""
        return any(fits(pattern, app_key) for pattern in self.types)


def applying(agreed: Sequence[Terms], app_key: AppKey) -> Terms | None:
    """Return the first terms that apply to this type of document, or None if nothing is agreed about it."""
    return next((terms for terms in agreed if terms.covers(app_key)), None)


def fits(pattern: str, app_key: AppKey) -> bool:
    """Return whether a type of document matches a pattern; parts that the pattern lacks match anything."""
    parts = pattern.split("/")
    named = (app_key.type,) if len(parts) == 1 else (app_key.domain, app_key.type, app_key.subtype)
    return len(parts) <= len(named) and all(part in (ANY, name) for part, name in zip(parts, named, strict=False))


def agreed_text(terms: Terms) -> str:
    """Return terms in one line, for people: ``order, trade/invoice; 60 per minute; up to 1000 bytes; sealed``."""
    parts = [", ".join(terms.types)]
    parts += [f"{terms.per_minute} per minute"] if terms.per_minute else []
    parts += [f"up to {terms.bytes_max} bytes"] if terms.bytes_max else []
    parts += [f"up to {terms.waiting_max} waiting"] if terms.waiting_max else []
    parts += ["sealed"] if terms.encrypt else []
    return "; ".join(parts)
