"""The sessions of nodes at all instances of the hub, as known to one instance.

Each instance reports to the others when sessions begin, change and end. To the engine, a session at another instance is
a link (``carried_link``). Sums in each sign of life (``carrier.Alive``) show missed reports.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from semq.engine.core import Core
from semq.engine.hub.carried_link import CarriedLink
from semq.engine.hub.carrier import Alive, Asking, Came, HubCarrier, PresentSessions, StoreName, Went
from semq.engine.hub.forwarding import Relay
from semq.engine.hub.sessions import PresentNode, UserReports
from semq.engine.ports import Directory, Link
from semq.errors import SemqError
from semq.umx_t.address import Address, parse_address
from semq.umx_t.envelope import Packet

ALIVE_S = 5.0  # interval of signs of life
SILENT_S = 16.0  # an instance that is silent for this time is gone


class CarriedHub(Protocol):
    """The part of the hub's engine that ``Fronts`` uses."""

    core: Core
    directory: Directory
    sessions: dict[str, PresentNode]
    relay: Relay
    user_reports: UserReports

    def link_up(self, link: Link) -> None:
        """Begin the session of a node at another instance, the node's *front*."""

    def link_down(self, link: Link) -> None:
        """End the session of a node."""

    def send_waiting(self, link: Link) -> None:
        """Send waiting messages."""

    def waiting(self) -> Iterable[str]:
        """Return the nodes for which copies wait in this store."""

    def receive_checked_packet(self, speaker: Address, packet: Packet) -> None:
        """Process a packet that the speaker's front has checked."""

    def keep_certificates(self, node: Address, certificates: Sequence[str]) -> None:
        """Keep a node's certificates. Raises SemqError if they are refused."""


class Fronts:
    """The sessions of all instances. ``life``: the number of an incarnation of an instance."""

    def __init__(
        self, hub: CarriedHub, store: StoreName, carrier: HubCarrier, end_second: Callable[[Address], None]
    ) -> None:
        self.own: dict[str, Came] = {}  #: sessions here, by node, as reported to the others
        self._hub = hub
        self._core = hub.core
        self._store = store
        self._carrier = carrier
        self._end_second = end_second
        self._reported: dict[int, dict[str, Came]] = {}  #: sessions elsewhere, by life and node
        self._alive_at: dict[int, float] = {}  #: time of the last sign of life, by life
        self._last_session = 0
        self._alive_due = 0.0

    # --- sessions here
    def came(self, link: Link) -> None:
        self._last_session += 1
        node = str(link.peer)
        self.own[node] = Came(
            node, self._last_session, self._core.now_ms(), link.room, self._hub.directory.certificates(link.peer)
        )
        self._carrier.to_all(self.own[node])

    def changed(self, node: Address) -> None:
        """Report changed certificates or users of a node."""
        own = self.own.get(str(node))
        if own is not None:
            certificates = self._hub.directory.certificates(node)
            users = tuple(sorted(self._hub.sessions[own.node].users_present))
            changes = own.changes + 1
            self.own[own.node] = Came(own.node, own.session, own.since_ms, own.room, certificates, users, changes)
            self._carrier.to_all(self.own[own.node])

    def went(self, link: Link) -> None:
        """Report the end of a session here, and use the node's session elsewhere, if there is one."""
        node = str(link.peer)
        own = self.own.pop(node, None)
        if own is not None:
            self._carrier.to_all(Went(node, own.session))
            self._fall_back(node)

    def link(self, life: int, node: str, number: int) -> CarriedLink | None:
        """Return the link to a session elsewhere; None if this engine does not use that session."""
        session = self._hub.sessions.get(node)
        link = session.link if session is not None else None
        is_used = isinstance(link, CarriedLink) and (link.life, link.session) == (life, number)
        return link if is_used and isinstance(link, CarriedLink) else None

    def probe(self, node: Address) -> bool:
        """Return whether a node seems to have a session elsewhere. Send a sign of life to the instance of that session:
        if the instance has ended, the carrier reports it (``note_ended``)."""
        session = self._hub.sessions.get(str(node))
        link = session.link if session is not None else None
        if not isinstance(link, CarriedLink):
            return False
        self._carrier.to_front(link.life, self._sign_of_life())
        return True

    # --- messages of others
    def note_sign_of_life(self, life: int) -> None:
        self._alive_at[life] = self._core.now()

    def receive_came(self, life: int, came: Came) -> None:
        """Note a session that has begun or changed elsewhere; ignore reports older than the known one."""
        reported = self._reported.setdefault(life, {})
        known = reported.get(came.node)
        if known is None or (known.session, known.changes) <= (came.session, came.changes):
            reported[came.node] = came
            self._apply_came(life, came)

    def receive_went(self, life: int, went: Went) -> None:
        self._end_sessions(life, [went.node], lambda came: came.session == went.session)

    def receive_present_sessions(self, life: int, present: PresentSessions) -> None:
        named = set(present.sessions)
        self._end_sessions(life, list(self._reported.get(life, ())), lambda came: came.session not in named)

    def receive_asking(self, life: int, asking: Asking) -> None:
        self._send_sessions(life)

    def introduce(self, life: int) -> None:
        """Prove this instance to one that is not proved here, and ask for its answer, which proves it."""
        self._carrier.to_front(life, Asking(self._store))
        self._send_sessions(life)

    def receive_alive(self, life: int, alive: Alive) -> None:
        """Ask an instance for its sessions if its reports have not all arrived."""
        if (alive.count, alive.total, alive.changes) != _sums(self._reported.get(life, {}).values()):
            self._carrier.to_front(life, Asking(self._store))

    def note_ended(self, life: int) -> None:
        """Note that an instance and its sessions have ended."""
        self._alive_at.pop(life, None)
        self._end_sessions(life, list(self._reported.get(life, ())), lambda came: True)
        self._reported.pop(life, None)

    def note_joined(self) -> None:
        """Exchange reports with the others: the carrier can be used now."""
        self._carrier.to_all(Asking(self._store))
        for came in self.own.values():
            self._carrier.to_all(came)

    def note_cut(self) -> None:
        """End all sessions elsewhere for this engine, because the carrier cannot be used any more."""
        for life in list(self._reported):
            self.note_ended(life)

    # --- time
    def tick(self) -> None:
        """Send a sign of life, and drop instances that send none."""
        now = self._core.now()
        if now >= self._alive_due:
            self._alive_due = now + ALIVE_S
            self._carrier.to_all(self._sign_of_life())
            self._wake_waiting()
        for life in [life for life, at in self._alive_at.items() if at < now - SILENT_S]:
            self.note_ended(life)

    def _wake_waiting(self) -> None:
        """Send copies on links that have room without a new report (``carried_link``)."""
        for node in list(self._hub.waiting()):
            session = self._hub.sessions.get(node)
            if session is not None and isinstance(session.link, CarriedLink) and session.link.room > 0:
                self._hub.send_waiting(session.link)

    @property
    def next_due(self) -> float:
        """When ``tick`` is due, in monotonic seconds."""
        return self._alive_due

    # --- inside
    def _sign_of_life(self) -> Alive:
        return Alive(self._store, *_sums(self.own.values()))

    def _apply_came(self, life: int, came: Came) -> None:
        """Use a session elsewhere, unless the node has one here or a later one elsewhere."""
        peer = parse_address(came.node)
        if came.certificates is not None and not self._introduce(peer, came.certificates):
            return
        present = self._hub.sessions.get(came.node)
        own = self.own.get(came.node)
        if own is not None:
            # Two processes use the node's name, or the older session, which stays, is half-open.
            if (came.since_ms, life) < (own.since_ms, self._core.inc):
                self._end_second(peer)
            else:
                self._carrier.to_front(life, own)
            return
        link = present.link if present is not None else None
        if isinstance(link, CarriedLink):
            if (link.life, link.session) == (life, came.session):
                self._hub.user_reports.note(peer, came.users_present)
                return
            known = self._reported.get(link.life, {}).get(came.node)
            if link.life != life and known is not None and known.since_ms > came.since_ms:
                return
        self._hub.link_up(CarriedLink(self._core, self._carrier, peer, life, came.session, came.room))
        self._hub.user_reports.note(peer, came.users_present)

    def _introduce(self, node: Address, certificates: Sequence[str]) -> bool:
        try:
            self._hub.keep_certificates(node, certificates)
        except SemqError as error:
            self._hub.relay.note_violation(error, str(node))
            return False
        return True

    def _end_sessions(self, life: int, nodes: Iterable[str], is_over: Callable[[Came], bool]) -> None:
        reported = self._reported.get(life, {})
        for node in nodes:
            came = reported.get(node)
            if came is None or not is_over(came):
                continue
            del reported[node]
            link = self.link(life, node, came.session)
            if link is not None:
                self._hub.link_down(link)
                self._fall_back(node)

    def _fall_back(self, node: str) -> None:
        known = [(reported[node].since_ms, life) for life, reported in self._reported.items() if node in reported]
        if known:
            _, life = max(known)
            self._apply_came(life, self._reported[life][node])

    def _send_sessions(self, life: int) -> None:
        for came in self.own.values():
            self._carrier.to_front(life, came)
        self._carrier.to_front(life, PresentSessions(self._store, tuple(came.session for came in self.own.values())))


def _sums(sessions: Collection[Came]) -> tuple[int, int, int]:
    return len(sessions), sum(came.session for came in sessions), sum(came.changes for came in sessions)
