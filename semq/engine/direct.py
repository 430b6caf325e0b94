"""The rights of a partner in a direct session (PROTOCOL.md section 26): it speaks for itself only, to this node only.

The session proves the partner's name; ``secrecy.testimony`` and ``receiver.recording`` check signatures as for frames
that come by way of the hub.
"""

from collections.abc import Callable, Sequence

from semq.engine.core import Core
from semq.engine.errors import IntroducedTooOften, NotYours
from semq.engine.hub.speakers import message_fault
from semq.engine.ports import Link, Secrecy
from semq.engine.uplink import NodeSessions
from semq.errors import SemqError
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.records import Presence

INTRODUCTIONS_MAX = 10  # introductions in one session
RECORDS_MAX = 2  # records of one packet: an introduction, and the start that the partner has seen
CERTIFICATES_MAX = 16  # certificates in one introduction


class DirectSessions:
    """The rights of partners in their direct sessions."""

    def __init__(
        self,
        core: Core,
        secrecy: Secrecy,
        violation: Callable[..., object],
        learn: Callable[[str, Sequence[str]], None],
        note_start_seen: Callable[[Presence, Address], None],
        uplink: NodeSessions,
        *,
        has_hub: bool,
    ) -> None:
        self._core = core
        self._uplink = uplink
        self._has_hub = has_hub
        self._secrecy = secrecy
        self._violation = violation
        self._learn = learn  #: called with the certificates of a partner
        self._note_start_seen = note_start_seen  #: called with a record about this node, and its speaker
        self._introductions: dict[Address, int] = {}  #: number of introductions in the present session, by partner
        self._shown: dict[Address, Sequence[str]] = {}  #: own certificates that the present session has carried

    def session_began(self, link: Link, certificates: Sequence[str]) -> None:
        self._introductions[link.peer] = 0
        self.introduce_again(link.peer, certificates)

    def introduce_again(self, peer: Address, certificates: Sequence[str]) -> None:
        """Send this node's certificates to a partner.

        If one of two sessions has ended, it may have been half-open, and have lost those of the other one."""
        self._shown.pop(peer, None)
        self.introduce(peer, certificates)

    def introduce(self, peer: Address, certificates: Sequence[str]) -> None:
        """Send this node's certificates to a partner, unless this session has carried them.

        A node accepts INTRODUCTIONS_MAX introductions in one session."""
        if certificates and self._shown.get(peer) != certificates:
            self._shown[peer] = certificates
            record = Presence(node=str(self._core.address), online=True, certificates=tuple(certificates))
            self._core.mail.add(peer, Function.PRESENCE, Primitive.INDICATION, record)

    def permitted(self, peer: Address, frames: Sequence[Frame]) -> list[Frame]:
        """Process introductions, note forbidden frames as violations, and return the other frames."""
        kept: list[Frame] = []
        for frame in frames:
            error = self._fault(peer, frame)
            if error is not None:
                self._violation(peer, error, frame.envelope.ident if isinstance(frame, Data) else "")
            elif isinstance(frame, Packet) and frame.function is Function.PRESENCE:
                self._introduced(peer, frame)
            else:
                kept.append(frame)
        return kept

    @staticmethod
    def _fault(peer: Address, frame: Frame) -> SemqError | None:
        if isinstance(frame, Data):
            return message_fault(peer, frame.envelope)
        if frame.source.node != peer:
            return NotYours(source=str(frame.source), peer=str(peer))
        return None

    def _introduced(self, peer: Address, packet: Packet) -> None:
        self._introductions[peer] = self._introductions.get(peer, 0) + 1
        if self._introductions[peer] > INTRODUCTIONS_MAX:
            self._violation(peer, IntroducedTooOften(peer=str(peer)))
            return
        node = str(peer)
        for record in packet.records[:RECORDS_MAX]:
            if record.node == str(self._core.address) and (record.start_seen or record.last_seen):
                self._note_start_seen(record, peer)
            elif record.node != node:
                self._violation(peer, NotYours("A partner introduces another node.", peer=node))
            elif certificates := self._acceptable(node, (record.certificates or ())[:CERTIFICATES_MAX]):
                self._learn(node, certificates)

    def _acceptable(self, node: str, introduced: tuple[str, ...]) -> tuple[str, ...]:
        """Return the certificates to learn from an introduction; none if the hub's directory decides.

        A node without a hub learns all. A node with a hub learns all if it has never known a certificate of the
        partner; while it has no session with the hub, it adds the successors of the known ones.
        """
        known = self._secrecy.known(node)
        if not self._has_hub or known is None:
            return introduced
        new = () if self._uplink.is_up else self._secrecy.successors(node, introduced)
        return (*new, *known) if new else ()
