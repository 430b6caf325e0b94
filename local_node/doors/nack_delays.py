"""Delays of nacks: a publisher that repeats a nacked document at once is slowed down.

The nacks of one user and target are delayed by ``FIRST_S``, twice as long after each further round, up to
``LONGEST_S``. An accepted document, or ``FORGET_S`` without a nack, starts again. The delayed documents count as being
published, so that a client that does not wait for its confirms is no longer read at the limit of its connection.
"""

from collections.abc import Callable

from semq.broker.timers import Timers
from semq.umx_t.address import Address

FIRST_S = 0.05
LONGEST_S = 5.0
FORGET_S = 30.0
ROUNDS_MAX = 10_000  # remembered pairs of user and target


class _Round:
    """The nacks that are sent at the same time."""

    __slots__ = ("at", "delay_s")

    def __init__(self) -> None:
        self.at = float("-inf")
        self.delay_s = 0.0


class NackDelays:
    """The delays of all publishers."""

    def __init__(self, timers: Timers, now: Callable[[], float]) -> None:
        """``now``: the clock of ``timers``."""
        self._timers = timers
        self._now = now
        self._rounds: dict[tuple[str, Address], _Round] = {}

    def delay(self, user: str, node: Address, nack: Callable[[], None]) -> None:
        """Call ``nack`` after the delay of this user and target."""
        now = self._now()
        current = self._rounds.pop((user, node), None)
        if current is None or now - current.at > FORGET_S:
            current = _Round()
        if now >= current.at:
            current.delay_s = min(2 * current.delay_s or FIRST_S, LONGEST_S)
            current.at = now + current.delay_s
        if len(self._rounds) >= ROUNDS_MAX:
            del self._rounds[next(iter(self._rounds))]
        self._rounds[user, node] = current
        self._timers.at(current.at, nack)

    def note_accepted(self, user: str, node: Address) -> None:
        """Note that a document of this user to this target is accepted."""
        if self._rounds:
            self._rounds.pop((user, node), None)
