"""Forwarding of messages for online targets, immediately and from memory (PROTOCOL.md H1–H4, H14, H15).

A class-3 message is forwarded only while no copy for its target waits in the store, so that it overtakes no stored
message (break B18), and no refused copy of its sender, which may be one of this message. A message that cannot be
forwarded goes to ``custody``; one of class 1 is dropped.
"""

from collections import deque
from collections.abc import Sequence

from semq.engine.agreements import Meter
from semq.engine.core import Core, with_marker_note
from semq.engine.errors import DocumentTooLarge, Expired, QuotaReached, TooFast
from semq.engine.frames import document_size
from semq.engine.hub.custody import Custody
from semq.engine.hub.sessions import PresentNode
from semq.engine.hub.speakers import message_fault
from semq.engine.ports import Directory, takes_datagrams
from semq.engine.time.expiry import is_expired
from semq.errors import SemqError
from semq.foreign_text import shortened
from semq.store.rows import Event, LedgerLine, Reason, Side
from semq.umx_t.address import Address
from semq.umx_t.agreement import Terms
from semq.umx_t.envelope import Data, Envelope, Function, Packet, Primitive
from semq.umx_t.records import HubFlag, Receipt
from semq.umx_t.status import SaveFwd


class ForwardNotes:
    """Messages passed on to present nodes, and the time at which each Ack-Fwd (a mere hint) is due. Volatile.

    An Ack-Fwd is not sent if the Ack2 of its message passes first (H3 and H14).
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._held: dict[str, tuple[Envelope, Address]] = {}  #: messages by ident, with their target
        self._dues: deque[tuple[float, str, int]] = deque()  #: monotonic seconds, ident, attempt; earliest first

    def hold(self, envelope: Envelope) -> None:
        self._held[envelope.ident] = envelope, envelope.target.node
        self._dues.append((self._core.now() + self._core.settings.forward_note_s, envelope.ident, envelope.att))

    def drop(self, ident: str, node: Address) -> None:
        """Do not send the Ack-Fwd of a message, because the Ack2 of ``node`` has passed or its session has ended."""
        held = self._held.get(ident)
        if held is not None and held[1] == node:
            del self._held[ident]

    @property
    def next_due(self) -> float | None:
        """When the next Ack-Fwd is due, in monotonic seconds; None if none is held."""
        while self._dues and not self._is_held(*self._dues[0][1:]):
            self._dues.popleft()
        return self._dues[0][0] if self._dues else None

    def tick(self) -> None:
        now = self._core.now()
        while (due := self.next_due) is not None and due <= now:
            envelope, _ = self._held.pop(self._dues.popleft()[1])
            self._core.mail.add(*forward_note(envelope, HubFlag.FORWARDED))

    def _is_held(self, ident: str, att: int) -> bool:
        held = self._held.get(ident)
        return held is not None and held[0].att == att  # a later attempt has its own due time


def forward_note(
    envelope: Envelope, note: HubFlag, reason: Reason | None = None
) -> tuple[Address, Function, Primitive, Receipt]:
    """Return a report to the sender of a message that the hub has not stored, as arguments of ``Mail.add``."""
    lk0 = envelope.lk0
    receipt = Receipt(
        src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id, flag=note,
        ident=envelope.ident, att=envelope.att, reason=reason,
    )  # fmt: skip
    return lk0.node, Function.RECEIPTS, Primitive.INDICATION, receipt


LATER_CODES = (QuotaReached.code, TooFast.code)  # refusals by a limit: the hub may accept the same message later
# If this many copies of a pair (source and target) are stored, and documents of the pair are refused, no further void
# marker is accepted either. Of a pair without an agreement, this many markers are accepted at once. That is enough: the
# messages of such a pair that the hub has forwarded without storing them are at most those under way
# (``EngineSettings.flight``).
MARKERS_MAX = 4096
ENDING = Terms(per_minute=60)  # further markers of a pair without an agreement


class Relay:
    """Passes messages from the session of their sender to the session of their target."""

    def __init__(self, core: Core, sessions: dict[str, PresentNode], custody: Custody, directory: Directory) -> None:
        self.core = core
        self.sessions = sessions
        self.custody = custody
        self.directory = directory
        self.notes = ForwardNotes(core)
        self._markers = Meter(MARKERS_MAX / ENDING.per_minute)  #: of pairs without an agreement
        self._lines: list[LedgerLine] = []
        self._at = 0  # arrival of the present messages, in milliseconds since 1970 UTC

    def receive_messages(self, peer: Address, messages: Sequence[Data]) -> None:
        """Forward, store or refuse messages of one node, in order."""
        to_store: list[tuple[Data, Reason | None]] = []
        self._at = self.core.now_ms()
        for message in messages:
            envelope = message.envelope
            fault = message_fault(peer, envelope)
            if self.core.spans is not None and fault is None:
                self.core.spans.begin(Side.HUB, envelope, self._at)
            if fault is not None:
                self.note_violation(fault, str(peer), envelope)
            elif (reason := self._refusal(message)) is not None:
                if self._may_be_held(envelope, reason):
                    to_store.append((message, reason))
                else:
                    self._refuse(envelope, reason)
            elif self._forward(envelope, message):
                pass
            elif envelope.attributes.save_fwd is SaveFwd.DROP:
                self._discard(envelope)
            else:
                self.custody.expect(str(envelope.target.node))
                to_store.append((message, None))
        if to_store:
            self.custody.store(to_store, self._refuse)

    def _refusal(self, message: Data) -> Reason | None:
        envelope = message.envelope
        if envelope.void and not message.dropped and self.directory.serves(envelope.target.node):
            # A marker must reach the receiver's ledger, even if the document itself would be refused.
            return self._excess_of_markers(envelope)
        reason = self.directory.refuse(envelope, message.size, self.custody.waiting)
        size, most = document_size(message), self.core.settings.max_document_bytes
        if reason is None and (message.dropped or size > most):
            return DocumentTooLarge.code, f"The document has {size} bytes; the hub carries at most {most}."
        if reason is None and is_expired(envelope.attributes.expires_at, self._at):
            return Expired.code, "The document had expired when it arrived at the hub."
        if reason is None and self.custody.is_full(str(envelope.target.node)):
            return QuotaReached.code, "Too many documents wait for this partner at the hub."
        return reason

    def _excess_of_markers(self, envelope: Envelope) -> Reason | None:
        """Return the reason to drop a void marker that replaces no copy; None to forward or store it."""
        source, target = envelope.lk0.node, envelope.target.node
        copies = self.custody.waiting(str(source), str(target))
        if self.directory.may_send(source, target):
            terms = self.directory.terms(source, target) or ()
            is_beyond = copies >= MARKERS_MAX and any(0 < each.waiting_max <= copies for each in terms)
        else:
            is_within_rate = self._markers.take(f"{source} {target}", ENDING, self.core.now())
            is_beyond = copies >= MARKERS_MAX or not is_within_rate
        if is_beyond or self.custody.is_full(str(target)):
            return QuotaReached.code, "Too many void markers for this partner."
        return None

    def _is_for_later(self, envelope: Envelope, reason: Reason) -> bool:
        """Whether a message is dropped without an answer, so that its sender asks and sends it again.

        A refusal of a later attempt, or of a void marker, could end a message that the receiver already has."""
        return reason[0] in LATER_CODES and (envelope.void or envelope.att > 1)

    def _may_be_held(self, envelope: Envelope, reason: Reason) -> bool:
        """Whether the store may already hold a copy: the hub does not refuse a message in its custody (H1)."""
        if envelope.attributes.save_fwd is SaveFwd.DROP or (envelope.void and not self._is_for_later(envelope, reason)):
            return False
        return not self._is_clear(envelope)

    def _is_clear(self, envelope: Envelope) -> bool:
        return self.custody.is_clear(str(envelope.lk0.node), str(envelope.target.node))

    def _refuse(self, envelope: Envelope, reason: Reason) -> None:
        if self._is_for_later(envelope, reason):
            self.core.count("beyond_limit")
            return
        self.core.mail.add(*forward_note(envelope, HubFlag.REFUSED, reason))
        self._line(envelope, Event.REFUSED, f"{reason[0]} {reason[1]}")

    def _forward(self, envelope: Envelope, message: Data) -> bool:
        """H3: pass a message on. Return False if that is not possible now."""
        session = self.sessions.get(str(envelope.target.node))
        if session is None or message.is_bare or (envelope.is_class3 and not self._is_clear(envelope)):
            return False
        has_room = session.link.room > 0 and self._has_credit(session)
        if not has_room and not (envelope.attributes.is_best_effort and takes_datagrams(session.link)):
            return False
        if envelope.is_class3:
            session.forwarded.pop(envelope.ident, None)  # a repeated message becomes the newest
            session.forwarded[envelope.ident] = (envelope.lk0.node, envelope.att, self.core.now())
        session.link.send(message)
        if envelope.is_class3 or envelope.attributes.ack2:
            self.notes.hold(envelope)
        self._line(envelope, Event.FORWARDED, with_marker_note("", envelope.void))
        return True

    def _has_credit(self, session: PresentNode) -> bool:
        if len(session.forwarded) < self.core.settings.credit_messages:
            return True
        session.forget_before(self.core.now() - self.core.settings.inquiry_s)
        return len(session.forwarded) < self.core.settings.credit_messages

    def _discard(self, envelope: Envelope) -> None:
        """H2: drop a message of class 1, which is never stored."""
        if envelope.attributes.ack2:
            self.core.mail.add(*forward_note(envelope, HubFlag.DISCARDED))
        self._line(envelope, Event.DROPPED)

    def acknowledged(self, session: PresentNode, idents: Sequence[str]) -> None:
        """H14: note that the Ack2 of these messages has passed: they need no Ack-Fwd any more."""
        session.forget(idents)
        for ident in idents:
            self.notes.drop(ident, session.link.peer)

    def report(self, session: PresentNode) -> None:
        """H15: report the unanswered forwards of an ended session to their senders (rule N27b)."""
        for ident, (source, att, _) in session.forwarded.items():
            self.notes.drop(ident, session.link.peer)
            receipt = Receipt(flag=HubFlag.FORWARD_FAILED, ident=ident, att=att)
            self.core.mail.add(source, Function.RECEIPTS, Primitive.INDICATION, receipt)
        session.forwarded.clear()

    def pass_on(self, packet: Packet) -> None:
        """H14: pass a packet to a node, or drop it if the node is offline."""
        session = self.sessions.get(str(packet.target.node))
        if session is not None:
            session.link.send(packet)

    # --- ledger lines about messages without a row
    def _line(self, envelope: Envelope, event: Event, detail: str = "") -> None:
        self._add(
            LedgerLine(
                self._at, Side.HUB, event, envelope.ident, str(envelope.target), envelope.att,
                digest=envelope.digest, detail=detail,
            )
        )  # fmt: skip
        self.core.count(event.name.lower())

    def note_violation(self, error: SemqError, peer: str, envelope: Envelope | None = None, ident: str = "") -> None:
        """Note a violation in the ledger: about a message, or about a record named by ``ident``."""
        lk0, target = (envelope.ident, str(envelope.target)) if envelope else (ident, peer)
        line = LedgerLine(self.core.now_ms(), Side.HUB, Event.VIOLATION, lk0, target, detail=shortened(str(error), 500))
        lines: list[LedgerLine] = []
        self.core.count_violation(lines, peer, line, error)
        self._add(*lines)

    def _add(self, *lines: LedgerLine) -> None:
        if lines and not self._lines:
            self.core.mail.schedule_flush()
        self._lines.extend(lines)

    def flush(self) -> None:
        if self._lines:
            self.core.note_lines(self._lines, later=True)
            self._lines = []
