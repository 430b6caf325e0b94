"""Expiry of documents (@ExpiresAt; PROTOCOL.md section 12)."""

from semq.engine.errors import Expired
from semq.store.rows import Reason


def is_expired(expires_at: int, now_ms: int) -> bool:
    """Whether the time has passed; both in milliseconds since 1970 UTC, ``expires_at`` 0 for never."""
    return 0 < expires_at <= now_ms


def says_expired(reason: Reason | None) -> bool:
    """Whether the reason of a refusal is that the time has passed."""
    return reason is not None and reason[0] == Expired.code
