"""When a document is too old to be delivered (@ExpiresAt; PROTOCOL.md section 12).

Every node judges by its own clock and lets nothing pass that has expired by it: the sender withdraws it, the hub
refuses it or, if it has stored it, sends all but its payload, the receiver does not record it as received. Asked by
``receiver.recording``, ``hub.forwarding``, ``hub.custody`` and ``outbound``.
"""

from semq.engine.errors import Expired
from semq.store.rows import Reason


def is_expired(expires_at: int, now_ms: int) -> bool:
    """Whether the time has passed; both in milliseconds since 1970 UTC, ``expires_at`` 0 for never."""
    return 0 < expires_at <= now_ms


def says_expired(reason: Reason | None) -> bool:
    """Whether a message is, or is to be, refused because its time has passed."""
    return reason is not None and reason[0] == Expired.code
