"""Agreements applied to a document: type, size and rate (token buckets).

A full bucket allows the documents of one minute at the sender's node. At the hub it allows those of one day: a node
that was offline sends its accepted documents when it is online again, and a refusal by the hub is final.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from semq.engine import errors
from semq.umx_t.agreement import Terms, first_covering
from semq.umx_t.app_key import AppKey

MINUTE_S, DAY_MINUTES = 60.0, 1440
KEPT_MIN = 1024  # with fewer buckets none is forgotten


class Meter(Struct):
    """The number of documents that may still be sent now, by parties and terms."""

    minutes: float  #: a full bucket allows as many documents as the agreement allows in this number of minutes
    #: Tokens, and the monotonic time at which they were counted.
    _buckets: dict[tuple[str, Terms], tuple[float, float]] = field(default_factory=dict)
    _kept_max: int = KEPT_MIN  #: with this number of buckets, the full ones are forgotten

    def take(self, parties: str, terms: Terms, now: float) -> bool:
        """Count one document and return True; return False, without counting it, if it exceeds the rate.

        ``parties``: the target (at the sender's node), or sender and target (at the hub). ``now``: monotonic seconds.
        """
        if not terms.per_minute:
            return True
        if len(self._buckets) >= self._kept_max and (parties, terms) not in self._buckets:
            self._forget_full(now)
        tokens = self._tokens(parties, terms, now)
        may_send = tokens >= 1.0
        self._buckets[parties, terms] = (tokens - 1.0 if may_send else tokens, now)
        return may_send

    def give_back(self, parties: str, terms: Terms, now: float) -> None:
        """Undo ``take`` for a document that is refused for another reason."""
        if terms.per_minute:
            tokens = self._tokens(parties, terms, now)
            self._buckets[parties, terms] = (min(self._full(terms), tokens + 1.0), now)

    def _tokens(self, parties: str, terms: Terms, now: float) -> float:
        full = self._full(terms)
        tokens, counted_at = self._buckets.get((parties, terms), (full, now))
        return min(full, tokens + (now - counted_at) * terms.per_minute / MINUTE_S)

    def _full(self, terms: Terms) -> float:
        return max(terms.per_minute * self.minutes, 1.0)

    def _forget_full(self, now: float) -> None:
        """Forget the full buckets: a party without a bucket has a full one."""
        # Otherwise each pair would have a bucket: the number of pairs is the square of the number of institutions.
        for key in list(self._buckets):
            if self._tokens(*key, now) >= self._full(key[1]):
                del self._buckets[key]
        # The next call waits for twice as many buckets, so that the average cost of one bucket is constant.
        self._kept_max = max(KEPT_MIN, 2 * len(self._buckets))

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
