"""Direct sessions of pairs of local nodes."""

from itertools import combinations
from typing import TYPE_CHECKING

from tests.simulation.network import SimLink, SimSession

if TYPE_CHECKING:
    from tests.simulation.host import Host, LocalHost
    from tests.simulation.world import World


class DirectPair:
    """Two local nodes; the first one dials the second one."""

    def __init__(self, world: "World", dialler: "LocalHost", listener: "LocalHost") -> None:
        self._world = world
        self.ends = dialler, listener
        self.session: SimSession | None = None
        self._dialling = False

    def dial(self) -> None:
        if not self._dialling:
            self._dialling = True
            self._world.time.after(self._world.chance.uniform(0.05, self._world.plan.redial_s), self._dial)

    def _dial(self) -> None:
        self._dialling = False
        if self.session is not None:
            return
        has_hub = self._world.plan.has_hub  # with a hub, an offline node keeps its direct sessions
        if not all(end.is_up() and (has_hub or not end.is_offline) for end in self.ends):
            self.dial()
            return
        self.session = SimSession(self._world, *self.ends)
        self._world.time.after(self._world.latency_s(), self.session.begin)

    def note_end(self, session: SimSession) -> None:
        """Dial again if this was the session of the pair."""
        if self.session is session:
            self.session = None
            self.dial()

    def cut_session_of(self, host: "LocalHost") -> None:
        session = self.session
        if host in self.ends and session is not None:
            notice_s = self._world.notice_s()
            session.cut(*((0.0, notice_s) if host is self.ends[0] else (notice_s, 0.0)))
            self.note_end(session)


class DirectPairs:
    """All pairs of a run; none unless its plan has the kind ``direct``."""

    def __init__(self, world: "World") -> None:
        hosts = world.locals if "direct" in world.plan.kinds else []
        self.all = [DirectPair(world, *pair) for pair in combinations(hosts, 2)]

    def dial(self) -> None:
        for pair in self.all:
            pair.dial()

    def heal(self) -> None:
        for pair in self.all:
            if pair.session is not None and (pair.session.dialler_end.stalled or pair.session.listener_end.stalled):
                pair.session.cut(0.1, 0.1)
        self.dial()

    def cut_sessions_of(self, host: "LocalHost") -> None:
        for pair in self.all:
            pair.cut_session_of(host)

    def note_end(self, session: SimSession) -> bool:
        """Dial again after the end of a direct session; return whether the session was a direct one."""
        for pair in self.all:
            pair.note_end(session)
        return is_direct(session)

    def link_between(self, receiver: "Host", sender: "Host") -> SimLink | None:
        """Return the receiver's end of the direct session of two nodes; None if they have no session."""
        for pair in self.all:
            if {*pair.ends} == {receiver, sender} and pair.session is not None and not pair.session.is_cut:
                session = pair.session
                return session.dialler_end if receiver is session.dialler else session.listener_end
        return None


def is_direct(session: SimSession) -> bool:
    """Whether a session has a local node at both ends."""
    return session.listener.own_store.type == session.dialler.own_store.type
