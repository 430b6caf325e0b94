"""What two institutions have agreed: which documents one may send to the other, how large, how many, sealed or not.

Terms travel from the hub to the sender in its directory (``records.Presence``) and are applied at both: at submit,
where an application can still be told, and at the hub, for a node that does not. Pure values; how fast and how many is
counted by the engine (``semq.engine.agreements``).
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
    """One agreement, as its sender needs it. A bound of 0 is none."""

    types: tuple[Pattern, ...] = (ANY,)  #: ``type``, ``domain/type`` or ``domain/type/subtype``; ``*`` for any part
    bytes_max: Bound = 0  #: of one document, as the application hands it over
    per_minute: Bound = 0  #: documents
    waiting_max: Bound = 0  #: documents without an outcome
    encrypt: bool = False  #: documents must be sealed

    def covers(self, app_key: AppKey) -> bool:
        """Whether these terms are about documents of this type."""
        return any(fits(pattern, app_key) for pattern in self.types)


def applying(agreed: Sequence[Terms], app_key: AppKey) -> Terms | None:
    """The first terms that are about this type of document; None: nothing is agreed about it."""
    return next((terms for terms in agreed if terms.covers(app_key)), None)


def fits(pattern: str, app_key: AppKey) -> bool:
    """Whether a type of document fits a pattern; parts that the pattern does not have do not matter."""
    parts = pattern.split("/")
    named = (app_key.type,) if len(parts) == 1 else (app_key.domain, app_key.type, app_key.subtype)
    return len(parts) <= len(named) and all(part in (ANY, name) for part, name in zip(parts, named, strict=False))
