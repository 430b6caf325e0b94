"""Agreements applied to a document: type, size and rate (token buckets).

A full bucket allows the documents of one minute at the sender's node. At the hub it allows those of one day: a node
that was offline sends its accepted documents when it is online again, and a refusal by the hub is final.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from semq.engine import errors
from semq.umx_t.agreement import Terms, first_covering
from semq.umx_t.app_key import AppKey

MINUTE_S, DAY_MINUTES = 60.0, 1440


@dataclass(slots=True)
class Meter:
    """The number of documents that may still be sent now, by the parties and terms."""

    minutes: float  #: a full bucket allows the documents of this number of minutes
    #: Tokens, and the monotonic time at which they were counted.
    _buckets: dict[tuple[str, Terms], tuple[float, float]] = field(default_factory=dict)

    def take(self, parties: str, terms: Terms, now: float) -> bool:
        """Count one document and return True; return False, without counting it, if it exceeds the rate.

        ``parties``: at the sender's node the target, at the hub sender and target; ``now``: monotonic seconds.
        """
        if not terms.per_minute:
            return True
        full = max(terms.per_minute * self.minutes, 1.0)
        tokens, counted_at = self._buckets.get((parties, terms), (full, now))
        tokens = min(full, tokens + (now - counted_at) * terms.per_minute / MINUTE_S)
        may_send = tokens >= 1.0
        self._buckets[parties, terms] = (tokens - 1.0 if may_send else tokens, now)
        return may_send

    def fill(self) -> None:
        """Fill all buckets."""
        self._buckets.clear()


def agreed_terms(agreed: Sequence[Terms], target: str, app_key: AppKey, size: int) -> Terms:
    """Return the terms for a document of this type and size. Raises TypeNotAllowed, DocumentTooLarge."""
    terms = first_covering(agreed, app_key)
    if terms is None:
        raise errors.TypeNotAllowed(target=target, domain=app_key.domain, type=app_key.type)
    if terms.bytes_max and size > terms.bytes_max:
        raise errors.DocumentTooLarge(
            "The agreement with this partner allows smaller documents only (bytes_max).", size=size,
            allowed=terms.bytes_max, target=target,
        ).with_remedy(
            "Split or compress it, or ask the hub's operator to raise bytes_max of the agreement"
            " (`semq definitions export` there)."
        )  # fmt: skip
    return terms
