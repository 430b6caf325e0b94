"""Reports of nodes about their users who receive documents now, passed on to the partners at intervals.

The first report of a node is passed on at once. Of the reports in the following PAUSE_S, only the last one is passed
on, when PAUSE_S is over.
"""

from collections.abc import Callable, Sequence

from semq.engine.core import Core
from semq.engine.hub.sessions import PresentNode
from semq.umx_t.address import Address

PAUSE_S = 5.0  # between two reports of one session that are passed on


class UserReports:
    """The reports of all nodes."""

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
