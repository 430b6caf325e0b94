"""Rates: a bucket of requests for each user or token, and a count of failed sign-ins for each address.

Both drop names without recent requests. Memory is bounded by the number of names within a minute, and by NAMES_MAX.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass

from semq.clock import Clock
from semq.web.errors import TooManyRequests

NAMES_MAX = 10_000
REFUSED_STEP_S = 0.5
BEGUN_S = 600.0  # for a sign-in that a provider has to confirm
MINUTE_S = 60.0


def refusal_pause_s(took_s: float) -> float:
    """Return the delay of a refused sign-in that makes its duration a multiple of one step, so that it reveals no
    user names.
    """
    return REFUSED_STEP_S * max(1, math.ceil(took_s / REFUSED_STEP_S)) - took_s


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class Rates:
    """A bucket for each name: it takes ``burst`` requests in a burst, and ``per_s`` requests a second on average."""

    def __init__(self, per_s: float, burst: int, clock: Clock) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, name: str, cost: float = 1.0) -> None:
        """Count one request. Raises TooManyRequests(retry_after_s)."""
        now = self._clock.monotonic()
        bucket = self._buckets.pop(name, None) or _Bucket(float(self._burst), now)
        bucket.level = min(bucket.level + (now - bucket.at) * self._per_s, float(self._burst))
        bucket.at = now
        self._buckets[name] = bucket
        if len(self._buckets) > NAMES_MAX:
            self._buckets.popitem(last=False)  # the least recent user has the fullest bucket
        if bucket.level < cost:
            raise TooManyRequests(retry_after_s=round((cost - bucket.level) / self._per_s, 1))
        bucket.level -= cost

    def spend(self, name: str) -> None:
        """Count one without a refusal."""
        try:
            self.take(name)
        except TooManyRequests:
            pass


class Attempts:
    """Failed sign-ins of each address: after a number of failures in a minute, further sign-ins are refused without a
    check.
    """

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._rates = Rates(per_minute / MINUTE_S, per_minute, clock)

    def check(self, address: str) -> None:
        """Raise TooManyRequests if this address has failed too often."""
        self._rates.take(address, 1.0)
        self._rates.take(address, -1.0)

    def begin(self, address: str) -> None:
        """Count an attempt before its password is checked, so that parallel attempts count. Raises TooManyRequests."""
        self._rates.take(address)

    def succeeded(self, address: str) -> None:
        """Take back an attempt that was counted at its beginning."""
        self._rates.take(address, -1.0)

    def failed(self, address: str) -> None:
        """Count a failure."""
        self._rates.spend(address)
