"""Nodes that are online, as the hub sees them."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from semq.engine.ports import Link
from semq.umx_t.address import Address
from semq.umx_t.records import Presence

INTRODUCTIONS_MAX = 10  # introductions a minute, in one session


@dataclass(slots=True)
class PresentNode:
    """A node that is online."""

    link: Link
    is_here: bool = True  #: at this instance (``instances``)
    partners: Sequence[Address] = ()  #: as last sent to the node
    groups: Sequence[Presence] = ()  #: as last sent to the node
    users_present: frozenset[str] = frozenset()  #: as last reported by the node
    users_passed: frozenset[str] = frozenset()  #: users in the report that was passed on last
    users_passed_at: float = -inf  #: when that report was passed on, monotonic seconds
    #: Messages of class 3 without an Ack2: ident to source, attempt, and time (monotonic seconds); oldest first.
    forwarded: dict[str, tuple[Address, int, float]] = field(default_factory=dict)
    introductions: deque[float] = field(default_factory=lambda: deque(maxlen=INTRODUCTIONS_MAX))

    def admit_introduction(self, now: float) -> bool:
        """Return whether an introduction may be processed now, and if so, count it: each one costs checks of signatures
        and a record to every partner."""
        if len(self.introductions) == INTRODUCTIONS_MAX and now - self.introductions[0] < 60:
            return False
        self.introductions.append(now)
        return True

    def forget(self, idents: Iterable[str]) -> None:
        """Remove messages whose Ack2 has passed."""
        for ident in idents:
            self.forwarded.pop(ident, None)

    def forget_before(self, since: float) -> None:
        """Remove messages sent before a moment, so that messages without an Ack2 do not use up the session's credit."""
        while self.forwarded:
            ident = next(iter(self.forwarded))
            if self.forwarded[ident][2] >= since:
                return
            del self.forwarded[ident]
