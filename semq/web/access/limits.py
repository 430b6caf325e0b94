"""Limits of the requests of each user or token, and of failed sign-ins from each address."""

import math
from collections import OrderedDict
from dataclasses import dataclass

from semq.clock import Clock
from semq.web.errors import TooManyRequests

NAMES_MAX = 10_000  # users, tokens or addresses in memory; above it, the one that was idle longest is forgotten
REFUSED_STEP_S = 0.5  # the duration of a refused sign-in is a multiple of this step
OIDC_SIGN_IN_S = 600.0  # longest sign-in through a provider
MINUTE_S = 60.0


def refusal_pause_s(took_s: float) -> float:
    """Return the delay (s) of the answer to a refused sign-in that has taken ``took_s`` so far.

    The whole duration, a multiple of REFUSED_STEP_S, does not reveal whether the user exists.
    """
    return REFUSED_STEP_S * max(1, math.ceil(took_s / REFUSED_STEP_S)) - took_s


@dataclass(slots=True)
class _Bucket:
    level: float  #: number of requests that it still admits
    updated_at: float


class Rates:
    """A bucket for each name: it admits ``burst`` requests at once, and ``per_s`` requests a second on average."""

    def __init__(self, per_s: float, burst: int, clock: Clock) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def count(self, name: str, cost: float = 1.0) -> None:
        """Count a request as ``cost`` requests. Raises TooManyRequests(retry_after_s).

        A negative ``cost`` takes back requests that were counted.
        """
        now = self._clock.monotonic()
        bucket = self._buckets.pop(name, None) or _Bucket(float(self._burst), now)
        bucket.level = min(bucket.level + (now - bucket.updated_at) * self._per_s, float(self._burst))
        bucket.updated_at = now
        self._buckets[name] = bucket
        if len(self._buckets) > NAMES_MAX:
            self._buckets.popitem(last=False)
        if bucket.level < cost:
            raise TooManyRequests(retry_after_s=round((cost - bucket.level) / self._per_s, 1))
        bucket.level -= cost

    def count_if_admitted(self, name: str) -> None:
        """Count one request if the bucket admits it; never raise."""
        try:
            self.count(name)
        except TooManyRequests:
            pass


class Attempts:
    """Failed sign-ins of each address.

    After ``per_minute`` failures in a minute, further sign-ins from the address are refused without a check.
    """

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._rates = Rates(per_minute / MINUTE_S, per_minute, clock)

    def check(self, address: str) -> None:
        """Raise TooManyRequests if this address has failed too often."""
        self._rates.count(address, 1.0)
        self._rates.count(address, -1.0)

    def begin(self, address: str) -> None:
        """Count an attempt before its password is checked, so that parallel attempts are limited, too.

        Raises TooManyRequests.
        """
        self._rates.count(address)

    def succeeded(self, address: str) -> None:
        """Take back an attempt that ``begin`` has counted."""
        self._rates.count(address, -1.0)

    def failed(self, address: str) -> None:
        """Count a failure that ``begin`` has not counted."""
        self._rates.count_if_admitted(address)
