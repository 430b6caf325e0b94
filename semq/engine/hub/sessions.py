"""Nodes that are online, as the hub sees them, and their reports about the users who receive documents now."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf

from msgspec import Struct, field

from semq.engine.core import Core
from semq.engine.ports import Link
from semq.umx_t.address import Address
from semq.umx_t.records import Presence

PAUSE_S = 5.0  # between two reports of one session that are passed on
INTRODUCTIONS_MAX = 10  # introductions a minute, in one session


class PresentNode(Struct):
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


class UserReports:
    """The reports of all nodes, passed on to the partners.

    The first report of a node is passed on at once. Of the reports in the following PAUSE_S, only the last one is
    passed on, when PAUSE_S is over.
    """

    def __init__(self, core: Core, sessions: dict[str, PresentNode], pass_on: Callable[[PresentNode], None]) -> None:
        self._core = core
        self._sessions = sessions
        self._pass_on = pass_on
        self._waiting: set[str] = set()  #: nodes with a report to be passed on

    def note(self, node: Address, present: Sequence[str]) -> None:
        session = self._sessions.get(str(node))
        if session is None or session.users_present == set(present):
            return
        session.users_present = frozenset(present)
        self._waiting.add(str(node))
        self.tick()

    def tick(self) -> None:
        """Pass on the reports that are due; drop those of ended sessions."""
        now = self._core.now()
        for node in tuple(self._waiting):
            session = self._sessions.get(node)
            if session is not None and self._due(session) > now:
                continue
            self._waiting.remove(node)
            if session is not None:
                session.users_passed_at = now
                self._pass_on(session)

    @property
    def next_due(self) -> float | None:
        """When ``tick`` is due, in monotonic seconds; None if no report waits."""
        if not self._waiting:
            return None
        waiting = (self._sessions[node] for node in self._waiting if node in self._sessions)
        return min(map(self._due, waiting), default=None)

    @staticmethod
    def _due(session: PresentNode) -> float:
        return session.users_passed_at + PAUSE_S
