"""Recording of messages at the receiver, exactly once, and their acknowledgement (PROTOCOL.md section 5.3, R1, R2).

One transaction writes the floor, the ledger entry and the row of tb_0030 (rule N1); its commit precedes the
acknowledgements.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from semq.engine.core import Core
from semq.engine.errors import BeyondWindow, DocumentTooLarge, Expired, Mismatch, NotYours
from semq.engine.frames import check_size, document_size
from semq.engine.ports import OpenedPayload, Secrecy
from semq.engine.receiver import ledger
from semq.engine.receiver.attempts import Attempt
from semq.engine.receiver.delivery import AfterDelivery, apply_event, status_without_delivery
from semq.engine.receiver.handover import Handover
from semq.engine.receiver.pieces import (
    NO_PIECES,
    FindPieces,
    PiecesHere,
    check_manifest,
    check_piece,
    counted_size,
    is_manifest,
    is_stored_piece,
)
from semq.engine.stored_envelopes import encode_envelope
from semq.engine.time.expiry import is_expired
from semq.engine.tracks import level
from semq.engine.uplink import DIRECTLY, NodeSessions
from semq.errors import ProtocolViolation, SemqError, Unavailable
from semq.foreign_text import shortened
from semq.seal.errors import OriginUnproved, SignerAwaited, SignerGone
from semq.store.rows import (
    Event,
    InStreamKey,
    LedgerLine,
    Pending,
    Reason,
    Recorded,
    Side,
    Slot,
    Stored,
)
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, RECEIVED_BODIES, Steps, work
from semq.umx_t.address import Address, is_hub
from semq.umx_t.envelope import Body, Data, Envelope, Function, Primitive
from semq.umx_t.errors import HeadersTooLarge
from semq.umx_t.grids import RECEIVER, HandlingEvent, ReceiverDeed, ReceiverEvent
from semq.umx_t.pieces import MANIFEST_MAX, PIECES_USER
from semq.umx_t.records import ANSWER_BY_ARRIVAL, AckFlag, Answer, Receipt
from semq.umx_t.status import AppStatus, Arrival

REPLACED = "An unproved document with other bytes was at the position of this one; this one replaces it."
NOTHING = OpenedPayload(b"", b"")


class Copy(NamedTuple):
    """A message, opened if it has to be recorded, with its entry in the ledger so far."""

    envelope: Envelope
    slot: Slot | None  #: None for classes 1 and 2
    entry: Recorded
    opened: OpenedPayload
    reason: Reason | None = None  #: of a refusal
    replaces_unproved: bool = False  #: an unproved document is recorded at its position


class Receiver:
    """Messages that arrive at this node."""

    def __init__(
        self,
        core: Core,
        secrecy: Secrecy,
        uplink: NodeSessions,
        handover: Handover,
        on_recorded: Callable[[int], None],
        find_pieces: FindPieces,
    ) -> None:
        self.core = core
        self.secrecy = secrecy
        self.uplink = uplink
        self.handover = handover
        self.on_recorded = on_recorded  #: called with the number of each recorded row
        self._find_pieces = find_pieces

    def receive_messages(self, peer: Address, messages: Sequence[Data]) -> None:
        """Record messages of a peer or of this node itself (R1, R2).

        A message whose body is stored ahead, and a manifest, may be recorded after later messages.
        """
        if any(message.envelope.attributes.pieces for message in messages):
            messages = self._without_manifests(peer, messages)
        large = [message for message in messages if self._is_stored_ahead(message)]
        others = [message for message in messages if not self._is_stored_ahead(message)] if large else messages
        if others:
            self.core.post_each(others, partial(self._record, peer), partial(self._record_refused, peer, Attempt()))
        for message in large:
            failed = partial(self._record_refused, peer, Attempt(), [message])
            ahead = [(RECEIVED_BODIES, bytes(message.body))]
            self.core.post(self._record(peer, [message]), ahead=ahead, failed=failed)

    def _record_refused(self, peer: Address, attempt: Attempt, messages: Sequence[Data], error: Exception) -> None:
        """Record a message as rejected if Postgres refuses one of its rows, so that its sender learns the reason.

        If Postgres refuses the rejected message, too, only its position is recorded.
        """
        following = attempt.following(error)
        if len(messages) == 1 and following is not None:
            failed = partial(self._record_refused, peer, following, messages)
            self.core.post(self._record(peer, messages, attempt=following), failed=failed)

    def _without_manifests(self, peer: Address, messages: Sequence[Data]) -> list[Data]:
        """Begin the search for the pieces of each manifest, after which it is recorded; return the other messages."""
        others = []
        for message in messages:
            envelope = message.envelope
            # A longer manifest is refused without a search.
            if is_manifest(envelope) and not envelope.void and len(message.body) <= 2 * MANIFEST_MAX:
                found = partial(self._record_manifest, peer, message)
                self._find_pieces(str(envelope.lk0.node), envelope.attributes.pieces, found)
            else:
                others.append(message)
        return others

    def _record_manifest(self, peer: Address, message: Data, here: PiecesHere) -> None:
        failed = partial(self._record_refused, peer, Attempt(), [message])
        self.core.post(self._record(peer, [message], here), failed=failed)

    def _is_stored_ahead(self, message: Data) -> bool:
        """Whether the body is stored ahead, on another connection. A sealed body is not: it must be opened first."""
        is_large = len(message.body) >= self.core.settings.ahead_bytes and isinstance(message.body, bytes)
        return is_large and message.envelope.is_class3 and not message.envelope.is_sealed

    @work
    def _record(
        self, peer: Address, messages: Sequence[Data], here: PiecesHere = NO_PIECES, attempt: Attempt | None = None
    ) -> Steps:
        """``here``: the pieces of the only message, if it is a manifest. ``attempt``: None for the first."""
        with_slots = _with_slots(messages)
        slots = [slot for _, slot in with_slots if slot is not None]
        unit = yield Needs(
            in_streams={slot.stream for slot in slots},
            recorded=set(slots),
            seen={message.envelope.ident for message, slot in with_slots if slot is None},
        )
        arrivals = _Arrivals(self, peer, unit, here, attempt or Attempt())
        for message, slot in with_slots:
            arrivals.record(message, slot)
        yield COMMITTED
        arrivals.apply()


class _Arrivals:
    """The messages of one piece of work, in its unit."""

    def __init__(self, receiver: Receiver, peer: Address, unit: Unit, here: PiecesHere, attempt: Attempt) -> None:
        self._receiver = receiver
        self.core = receiver.core
        self._secrecy = receiver.secrecy
        self._peer = peer
        self._unit = unit
        self._pieces_here = here  #: the pieces of a manifest
        self._attempt = attempt
        #: copies to acknowledge: envelope, ledger entry, and number of the recorded row (0 for a duplicate)
        self._acks: list[tuple[Envelope, Recorded, int]] = []
        self._rows: list[tuple[Pending, bool]] = []  #: recorded rows, each with a flag: it waits for the application
        self._disbelieved: list[tuple[Envelope, Reason]] = []  #: copies to answer with NOT
        self._raised: dict[InStreamKey, tuple[int, int | None]] = {}  #: raised floors, and ``closed``, by stream
        is_direct = peer != self.core.address and not is_hub(peer)
        self._remark = DIRECTLY if is_direct else ""
        self._at = self.core.now_ms()
        self._handled = AfterDelivery(self._at)

    def record(self, message: Data, slot: Slot | None) -> None:
        """Record a message, or note why it is not recorded."""
        try:
            self._process(message, slot)
        except SignerAwaited as error:
            self._note_awaited(message.envelope, error)
        except SemqError as error:
            if isinstance(error, SignerGone):
                self._disbelieve(message, error)
            self._note(message.envelope, error)

    def _do_deed(self, entry: Recorded, event: ReceiverEvent, copy: Copy) -> None:
        rule = RECEIVER.step(entry.status, event)
        assert rule.deed is not None
        EFFECTS[rule.deed](self, rule.after, copy)

    def _note_awaited(self, envelope: Envelope, error: SignerAwaited) -> None:
        self.core.count("signer_awaited")
        if error.is_first:
            self._unit.ledger.append(self._line(envelope, Event.OPERATOR, error))

    def _line(self, envelope: Envelope, event: Event, error: SemqError) -> LedgerLine:
        return LedgerLine(
            self._at, Side.RECEIVER, event, envelope.ident, str(envelope.target), envelope.att,
            digest=envelope.digest, detail=shortened(str(error), 500),
        )  # fmt: skip

    def _disbelieve(self, message: Data, error: SignerGone) -> None:
        """Answer a copy whose signer has no valid certificate any more.

        A recorded message is acknowledged, unless the copy has another digest. The sender of an unknown message of
        class 3 gets NOT and signs the message again (S16). For classes 1 and 2, which are never sent again, a refusal
        is recorded: otherwise a copy at the hub would never end.
        """
        envelope, reason = message.envelope, (error.code, shortened(error.text, 300))
        entry = ledger.known(self._unit, envelope.lk0, envelope.sid)
        if entry.status is Arrival.NOT and envelope.is_class3:
            self._disbelieved.append((envelope, reason))
        elif entry.status is Arrival.NOT:
            copy = Copy(envelope, None, entry, OpenedPayload(bytes(message.body), b""), reason)
            self._do_deed(entry, ReceiverEvent.unreadable, copy)
        elif not (entry.digest and envelope.digest) or entry.digest == envelope.digest:
            self._acks.append((envelope, entry, 0))

    def _note(self, envelope: Envelope, error: SemqError) -> None:
        """Note a copy that is not recorded, or that replaces an unproved document."""
        event = Event.MISMATCH if isinstance(error, Mismatch) else Event.VIOLATION
        line = self._line(envelope, event, error)
        self.core.count_violation(self._unit.ledger, str(envelope.lk0.node), line, error)

    def _process(self, message: Data, slot: Slot | None) -> None:
        envelope = message.envelope
        self._check_address(envelope)
        if slot is not None:
            self._check_window(envelope, slot.stream)
            entry = ledger.recorded_at(self._unit, slot)
        else:
            entry = ledger.seen(self._unit, envelope.ident)
        replaces_unproved = slot is not None and self._replaces_unproved(message, entry)
        if replaces_unproved:
            entry = ledger.NOT_HERE
        event, opened, reason = self._read(message, entry)
        if slot is not None:  # after _read: an unauthenticated copy must not raise the floor
            self._take_floor(envelope, slot.stream)
        self._do_deed(entry, event, Copy(envelope, slot, entry, opened, reason, replaces_unproved))

    def _record_copy(self, arrival: Arrival, copy: Copy) -> None:
        envelope, slot = copy.envelope, copy.slot
        if slot is not None and copy.replaces_unproved:  # only now: a copy for which ``_read`` raises replaces nothing
            self._unit.replace_recorded(slot)
            self._note(envelope, OriginUnproved(REPLACED, lk0=envelope.ident))
        entry = Recorded(arrival, envelope.digest, copy.reason, copy.opened.is_proved)
        self._acks.append((envelope, entry, self._insert(envelope, slot, entry, copy.opened)))

    def _acknowledge(self, arrival: Arrival, copy: Copy) -> None:
        envelope = copy.envelope
        self.core.count("duplicate")
        if self._attempt.has_rows:
            self._unit.ledger.append(
                LedgerLine(
                    self._at, Side.RECEIVER, Event.DUPLICATE, envelope.ident, str(envelope.target), envelope.att,
                    str(envelope.lk1 or ""),
                )
            )  # fmt: skip
        self._acks.append((envelope, copy.entry, 0))

    def _check_address(self, envelope: Envelope) -> None:
        if envelope.target.node != self.core.address:
            raise NotYours("The message is addressed to another node.", target=str(envelope.target))
        local = self._peer == self.core.address
        if local != (envelope.lk0.node == self.core.address):
            raise NotYours(
                "The LK0 does not fit the session: a node's own messages arrive from itself, all others from a peer.",
                lk0=envelope.ident, peer=str(self._peer),
            )  # fmt: skip
        if envelope.source.node not in (self._peer, envelope.lk0.node):
            raise NotYours("The message comes from a third node.", lk0=envelope.ident, source=str(envelope.source))

    def _replaces_unproved(self, message: Data, entry: Recorded) -> bool:
        """Whether the message has a proved sender, and an unproved document with other bytes is at its position."""
        envelope = message.envelope
        if entry.proved or entry.status not in (Arrival.RECV, Arrival.REJ) or envelope.void or envelope.late:
            return False
        if not entry.digest or entry.digest == envelope.digest:
            return False
        return self._secrecy.check_origin(message) and envelope.lk0.node != self.core.address

    def _check_window(self, envelope: Envelope, key: InStreamKey) -> None:
        stream = self._unit.in_streams.get(key)
        floor = max(stream.floor if stream is not None else 0, envelope.floor)
        if envelope.sid >= floor + self.core.settings.window or envelope.floor > envelope.sid:
            raise BeyondWindow(lk0=envelope.ident, sid=envelope.sid, floor=floor)

    def _take_floor(self, envelope: Envelope, key: InStreamKey) -> None:
        """Take the floor of a message if its sender does not sign. No seal binds the floor, so the floors of a sender
        that signs come from ReAck2."""
        stream = ledger.stream_of(self.core, self._unit, key)
        if envelope.floor > stream.floor and self._secrecy.takes_floor(key.store.node):
            self._unit.raise_floor(stream, envelope.floor)
            self._raised[key] = stream.floor, stream.closed

    def _read(self, message: Data, entry: Recorded) -> tuple[ReceiverEvent, OpenedPayload, Reason | None]:
        """Return the event for the grid, the opened payload, and the reason of a refusal (None: not refused).

        Raises Mismatch if the bytes differ from those recorded or from the digest, NotYours for ``late`` without an
        expiry, and the errors of ``Secrecy`` for a missing or wrong proof.
        """
        envelope, secrecy = message.envelope, self._secrecy
        if envelope.void:
            return ReceiverEvent.marker, NOTHING._replace(is_proved=secrecy.check_marker(envelope)), None
        if entry.status is not Arrival.NOT:
            secrecy.check_origin(message)
            if entry.digest and envelope.digest and entry.digest != envelope.digest:
                raise Mismatch(lk0=envelope.ident, recorded=entry.digest.hex(), now=envelope.digest.hex())
            return ReceiverEvent.payload, NOTHING, None
        if envelope.late:
            if not envelope.attributes.expires_at:
                raise NotYours("A message without an expiry is marked as expired.", lk0=envelope.ident)
            return self._refused(message, (Expired.code, "Its time passed while the hub held it."))
        size, most = document_size(message), self.core.settings.max_document_bytes
        if message.dropped or size > most:
            text = f"The document has {size} bytes; the receiver takes at most {most}."
            return self._refused(message, (DocumentTooLarge.code, text))
        try:
            opened = secrecy.open(envelope, message.body)
        except (ProtocolViolation, Unavailable, SignerGone):
            raise
        except SemqError as error:
            return self._refused(message, (error.code, shortened(error.text, 300)), message.body)
        if not opened.is_proved:
            is_own = self._peer == self.core.address
            opened = opened._replace(is_proved=secrecy.check_origin(message) or is_own)
        if not envelope.is_sealed and opened.digest != envelope.digest:
            raise Mismatch("The payload does not match its digest.", lk0=envelope.ident)
        if reason := self._refusal(envelope, opened):  # only now: the seal proves the attributes
            return self._refused(message, reason)
        return ReceiverEvent.payload, opened, None

    def _refusal(self, envelope: Envelope, opened: OpenedPayload) -> Reason | None:
        """Return why an opened message is refused: it has expired, its headers are too large, or it is a wrong
        piece or manifest; None: it is not."""
        if is_expired(envelope.attributes.expires_at, self._at):
            return Expired.code, "It arrived after its time."
        if self._attempt.reason is not None:
            return self._attempt.reason
        is_piece = envelope.target.user == PIECES_USER
        try:
            check_size(envelope.attributes.user_headers)  # frames with headers nested too deeply are not read
        except SemqError as error:
            return HeadersTooLarge.code, _reason_text(error)
        try:
            if is_piece:
                check_piece(envelope, opened.payload, self._piece_bytes_of(envelope), self.core.settings)
            elif envelope.attributes.pieces:
                check_manifest(envelope, opened.payload, self._pieces_here, self.core.pieces, self.core.settings)
        except SemqError as error:
            return error.code, _reason_text(error)
        return None

    def _piece_bytes_of(self, envelope: Envelope) -> int:
        """Return the bytes counted for the pieces of a message's source, with those that this work records."""
        source = str(envelope.lk0.node)
        new = sum(counted_size(row.size) for row, _ in self._rows if is_stored_piece(row) and row.source == source)
        return self.core.pieces.of(source) + new

    def _refused(self, message: Data, reason: Reason, kept: Body = b"") -> tuple[ReceiverEvent, OpenedPayload, Reason]:
        """Return the refusal of a message, as ``_read`` does; ``kept``: the body to keep. Raises the errors of
        ``check_origin``, because a refusal keeps the position of the message for ever."""
        is_proved = self._secrecy.check_origin(message)
        return ReceiverEvent.unreadable, OpenedPayload(bytes(kept), b"", is_proved), reason

    def _insert(self, envelope: Envelope, slot: Slot | None, entry: Recorded, opened: OpenedPayload) -> int:
        a, ident, target, payload = envelope.attributes, envelope.ident, str(envelope.target), opened.payload
        if slot is not None:
            self._unit.record(slot, entry)
        else:
            # Without the digest: for classes 1 and 2 a copy with other bytes is a duplicate.
            self._unit.note_seen(envelope.lk0, Recorded(entry.status, reason=entry.reason))
        if not self._attempt.has_rows:
            return 0
        if self.core.spans is not None:
            self.core.spans.begin(Side.RECEIVER, envelope, self._at)
        row = Pending(
            bref=self.core.new_id(), lk0=envelope.lk0, sid=envelope.sid, target=envelope.target, save_fwd=a.save_fwd,
            ack2=a.ack2, status=entry.status, lk1=envelope.lk1, prev=envelope.prev, order_key=a.order_key,
            app_key=a.app_key, reason=entry.reason, digest=envelope.digest, size=len(payload), received_at=self._at,
            proved=entry.proved,
            priority=level(a.priority),
        )  # fmt: skip
        event = Event.RECEIVED if entry.status is Arrival.RECV else Event[
            "REJECTED" if entry.status is Arrival.REJ else "CANCELLED"
        ]  # fmt: skip
        if entry.status is not Arrival.RECV and not row.order_key:
            row.app_status = status_without_delivery(row)  # R6; those with an order key end when it is their turn (F3)
        shown = _as_opened(envelope, opened) if entry.status is Arrival.RECV else envelope
        shown = replace(shown, proved=entry.proved)
        self._unit.insert_pending(row, Stored(encode_envelope(shown), payload))
        self._unit.ledger.append(
            LedgerLine(
                self._at, Side.RECEIVER, event, ident, target, envelope.att, str(row.lk1 or ""), a.app_key, row.digest,
                row.size, " ".join(entry.reason or ()) or self._remark,
            )
        )  # fmt: skip
        if row.app_status is AppStatus.NEW and self._receiver.handover.is_given_at_once(self._unit, row):
            apply_event(self._unit, row, HandlingEvent.give, self._handled, content=(shown, payload))
        self._rows.append((row, row.app_status is AppStatus.NEW))
        return row.bref

    def apply(self) -> None:
        """Acknowledge the messages and hand the documents over, after the commit."""
        for envelope, entry, bref in self._acks:
            ack(self.core, self._receiver.uplink.hub, envelope, entry, bref, self._at)
        for envelope, reason in self._disbelieved:
            report_disbelieved(self.core, envelope, reason, self._at)
        self.core.count("received", len(self._rows))
        for row, _ in self._rows:
            if row.target.user == PIECES_USER:
                self.core.pieces.add(row)
            self._receiver.on_recorded(row.bref)
        self._receiver.handover.note_recorded(self._rows, self._handled.given)
        for stream, (floor, closed) in self._raised.items():
            self._receiver.handover.note_floor(stream, floor, closed)


EFFECTS: dict[ReceiverDeed, Callable[[_Arrivals, Arrival, Any], None]] = {
    ReceiverDeed.record: _Arrivals._record_copy,
    ReceiverDeed.acknowledge: _Arrivals._acknowledge,
}


def ack(core: Core, hub: Address | None, envelope: Envelope, entry: Recorded, bref: int, at: int) -> None:
    """Mail Ack if the copy came from a store of the hub, and Ack2 if the message is of class 3 or has @Ack2=1.

    ``bref``: number of the recorded row; 0 for a duplicate (rule N29). ``at``: milliseconds since 1970 UTC.
    """
    lk0, lk1 = envelope.lk0, envelope.lk1
    status = ANSWER_BY_ARRIVAL[entry.status]
    if lk1 is not None and hub is not None:
        receipt = Receipt(
            src_semq_id=lk1.semq_id, src_semq_db_id=lk1.semq_db_id, src_ref_id=lk1.object_id, dest_ref_id=bref,
            ack_flag=AckFlag.TRANSPORT, ident=envelope.ident, status=status,
        )  # fmt: skip
        core.mail.add(hub, Function.RECEIPTS, Primitive.INDICATION, receipt)
    if envelope.is_class3 or envelope.attributes.ack2:
        receipt = Receipt(
            src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id, dest_ref_id=bref,
            ack_flag=AckFlag.END_TO_END, ident=envelope.ident, status=status, reason=entry.reason,
            digest=entry.digest.hex(), at=at, sid=envelope.sid,
        )  # fmt: skip
        core.mail.add(lk0.node, Function.RECEIPTS, Primitive.INDICATION, receipt)


def _reason_text(error: SemqError) -> str:
    return shortened(str(error).removeprefix(f"{error.code} "), 300)


def report_disbelieved(core: Core, envelope: Envelope, reason: Reason, at: int) -> None:
    """Answer NOT to a sender, because the proof of the copy is no longer valid (S16)."""
    lk0 = envelope.lk0
    receipt = Receipt(
        src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id, sid=envelope.sid,
        ack_flag=AckFlag.END_TO_END, ident=envelope.ident, status=Answer.NOT, reason=reason, at=at,
    )  # fmt: skip
    core.mail.add(lk0.node, Function.RECEIPTS, Primitive.INDICATION, receipt)


def _as_opened(envelope: Envelope, opened: OpenedPayload) -> Envelope:
    """Return a sealed envelope for the application: without session key, with the digest of the opened payload."""
    if not envelope.is_sealed:
        return envelope
    return replace(envelope, digest=opened.digest, session_key="")


def _with_slots(messages: Sequence[Data]) -> list[tuple[Data, Slot | None]]:
    """Return each message with its position in the ledger; None for classes 1 and 2."""
    with_slots: list[tuple[Data, Slot | None]] = []
    prefix, stream = None, None  # the key of a stream is built once for adjacent messages
    for message in messages:
        envelope = message.envelope
        if not envelope.is_class3:
            with_slots.append((message, None))
            continue
        lk0 = envelope.lk0
        if stream is None or lk0[:5] != prefix:
            prefix, stream = lk0[:5], InStreamKey(lk0.store, lk0.inc)
        with_slots.append((message, Slot(stream, envelope.sid)))
    return with_slots
