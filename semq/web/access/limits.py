"""Limits of the requests of each user or token, and of failed sign-ins from each address."""

import hashlib
import hmac
import math
from collections import OrderedDict
from contextlib import suppress

from msgspec import Struct

from semq.clock import Clock, draw_secret
from semq.transport.peer import network_of
from semq.web.errors import TooManyRequests

NAMES_FACTOR = 10  # failed sign-ins of an address as any user, as a multiple of those as one user
NAMES_MAX = 10_000  # users, tokens or addresses in memory; above it, the one that was idle longest is forgotten
REFUSED_STEP_S = 0.5  # the duration of a refused sign-in is a multiple of this step
OIDC_SIGN_IN_S = 600.0  # longest sign-in through a provider
MINUTE_S = 60.0


def refusal_pause_s(took_s: float) -> float:
    """Return the delay (s) of the answer to a refused sign-in that has taken ``took_s`` so far.

    The whole duration, a multiple of REFUSED_STEP_S, does not reveal whether the user exists.
    """
    return REFUSED_STEP_S * max(1, math.ceil(took_s / REFUSED_STEP_S)) - took_s


class _Bucket(Struct):
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


class Attempts:
    """Failed sign-ins as one user from each address; for IPv6, from its network.

    After ``per_minute`` failures in a minute, further sign-ins as this user from this address are refused without a
    check; after NAMES_FACTOR times as many from the address, as any user. Passwords that were right before are always
    checked (``remember``), so that guesses do not keep out others behind the same proxy.
    """

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._by_name = Rates(per_minute / MINUTE_S, per_minute, clock)
        most = per_minute * NAMES_FACTOR
        self._by_address = Rates(most / MINUTE_S, most, clock)
        self._key = draw_secret(hashlib.blake2b.MAX_KEY_SIZE)
        self._right: OrderedDict[str, bytes] = OrderedDict()  #: user | hash of the password that was right last

    def begin(self, address: str, name: str = "") -> None:
        """Count an attempt before its password is checked, so that parallel attempts are limited, too.

        Raises TooManyRequests.
        """
        network = network_of(address)
        self._by_address.count(network)
        try:
            self._by_name.count(self._at(network, name))
        except TooManyRequests:
            self._by_address.count(network, -1.0)
            raise

    def succeeded(self, address: str, name: str = "") -> None:
        """Take back an attempt that ``begin`` has counted."""
        network = network_of(address)
        self._by_address.count(network, -1.0)
        self._by_name.count(self._at(network, name), -1.0)

    def check(self, address: str, name: str = "") -> None:
        """Raise TooManyRequests if a user has failed too often at this address."""
        self.begin(address, name)
        self.succeeded(address, name)

    def failed(self, address: str, name: str = "") -> None:
        """Count a failure that ``begin`` has not counted."""
        with suppress(TooManyRequests):
            self.begin(address, name)

    def remember(self, name: str, password: str) -> None:
        """Note that a password was right."""
        self._right.pop(name, None)
        self._right[name] = self._hash(password)
        if len(self._right) > NAMES_MAX:
            self._right.popitem(last=False)

    def knows(self, name: str, password: str) -> bool:
        """Whether a password was right when this user signed in last."""
        return name in self._right and hmac.compare_digest(self._right[name], self._hash(password))

    def _at(self, network: str, name: str) -> str:
        """Return a user at a network as a short text: anybody may give names as long as the head of a request."""
        return f"{network} {self._hash(name).hex()}"

    def _hash(self, password: str) -> bytes:
        return hashlib.blake2b(password.encode("utf-8", "surrogatepass"), key=self._key).digest()
