"""The invariants of PROTOCOL.md section 6, checked at every step against the oracle's own records."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from semq.engine.errors import Expired
from semq.engine.hub.copy_acts import NOBODY
from semq.engine.ports import AppEvent, Delivery
from semq.engine.sender.endings import says_returned
from semq.errors import BadInput
from semq.seal.origin import VERSION
from semq.store.rows import Event, Outbound, OutStreamKey, Pending, Side
from semq.store.unit import Unit
from semq.umx_t.envelope import Data, Envelope, Frame, Function, Packet, Primitive
from semq.umx_t.locator import LK0, Pos, parse_lk0
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, Receipt
from semq.umx_t.status import AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus
from tests.memory_store.tables import Tables
from tests.simulation.application import POISON, REFUSED, REFUSED_AT_TIMES, PlannedDocument
from tests.simulation.disturbances.faults import HELL_ONLY
from tests.simulation.documents.groups import GroupRecords
from tests.simulation.documents.pieces import piece_or_document
from tests.simulation.documents.schedule import ScheduleRecords
from tests.simulation.oracle import truth
from tests.simulation.oracle.messages import BackupRecord, SimulatedMessage, SourceStream, backup_of
from tests.simulation.oracle.truth import is_correction, is_true, recv_contradicts_outcome, was_corrected

if TYPE_CHECKING:
    from tests.simulation.host import Host, LocalHost
    from tests.simulation.world import World

CONTINUES = "continues as "  # in the line of a message that another one continues
ORIGIN = f"{VERSION}."  # the beginning of signatures of documents, not of markers
SENT_MAX = 16  # transmissions of a payload after the last fault
SENT_MAX_WITH_KEYS = 80  # the delays of S16 last up to 300 s, in which the hub repeats its copy
ON_COPIES = (Event.VOIDED, Event.REFUSED, Event.RELEASED)
RECORDED = {Answer.RECV: Arrival.RECV, Answer.REJ: Arrival.REJ, Answer.VOID: Arrival.VOID}


class InvariantBroken(AssertionError):
    """An invariant does not hold. ``kind``: ``lost``, ``duplicated`` or ``violations``."""

    def __init__(self, rule: str, text: str, kind: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.kind = kind


class Oracle:
    def __init__(self, world: "World") -> None:
        self.world = world
        self.messages: dict[LK0, SimulatedMessage] = {}
        self.by_token: dict[str, SimulatedMessage] = {}
        self.answered: set[str] = set()  #: tokens of submissions whose result was reported to the application
        self.streams: dict[tuple[str, OutStreamKey], SourceStream] = {}
        self.orders: dict[tuple[str, str, str], list[SimulatedMessage]] = {}
        self.frames = 0
        self.submission_numbers: dict[str, list[int]] = {}  #: by token: running numbers of its submissions
        self.held: dict[tuple[int, int], set[LK0]] = {}  #: by process and life: all copies ever in its store
        self.schedule, self.groups = ScheduleRecords(self), GroupRecords(self)
        self.restored_or_lost: set[str] = set()  #: stores of the hub that were restored or lost

    # --- what processes and applications do
    def opened(self, host: "Host") -> None:
        """Note the copies in a store that a process opens."""
        rows = host.tables.outbound.values()
        self.held[id(host), host.life] = {row.lk0 for row in rows if row.direction is Direction.RELAYED}

    def submitted(self, documents: Sequence[PlannedDocument]) -> None:
        """Note that an application submits documents in this order."""
        for document in documents:
            times = self.submission_numbers.setdefault(document.token, [])
            times.append(sum(map(len, self.submission_numbers.values())))

    # --- reports to applications
    def promised(self, host: "LocalHost", document: PlannedDocument, lk0: LK0) -> None:
        """Note that an application has learned the acceptance of a document."""
        self.answered.add(document.token)
        a = document.attributes
        if lk0 not in self.messages and a.save_fwd is not SaveFwd.MUST:
            # A message without a row is first seen here.
            message = self._register(lk0, host.name, document.target, a.save_fwd, a.ack2, a.order_key, document.payload)
            message.expires_at = a.expires_at
        messages = self.groups.messages(lk0)
        self.demand(bool(messages), "I1", "accepted before it was committed", lk0)
        for message in messages:
            message.promised = True
            self.demand(message.payload == document.payload, "I1", "a token answers with another document", lk0)
            order_key = f"@Fixed/{message.user}".rstrip("/") if a.fixed else a.order_key
            self.demand(message.order_key == order_key, "ORDER", "in another sequence", lk0)

    def turned_away(self, document: PlannedDocument, error: BadInput) -> None:
        """Note that an application has learned the refusal of a document."""
        self.answered.add(document.token)
        message = self.by_token.get(document.token)
        self.demand(message is None or message.forgotten, "I6", f"refused although accepted: {document.token} {error}")
        self.demand(isinstance(error, Expired), "I6", f"refused without a reason: {document.token} {error}")

    def cancelling(self, lk0: LK0) -> None:
        if lk0 in self.messages:
            self.messages[lk0].cancelled = True

    def reported(self, host: "LocalHost", event: AppEvent) -> None:
        """Check that the outcome in an event is committed."""
        message = self.messages.get(event.lk0) if event.lk0 is not None else None
        if message is None or event.kind not in ("delivered", "failed"):
            return
        outcome = message.outcome.name if message.outcome else ""
        holds = event.outcome == outcome or was_corrected(message, event.outcome)
        self.demand(holds, "I6", f"reported {event.outcome}, committed {outcome}", event.lk0)

    def given(self, host: "LocalHost", delivery: Delivery) -> None:
        lk0 = delivery.envelope.lk0
        message = self.messages.get(lk0)
        self.world.trace("given", host.name, f"{lk0} redelivered={delivery.redelivered}")
        self.demand(message is not None, "I1", "given, but nobody sent it", lk0)
        assert message is not None
        self.demand(message.dest == host.name, "I1", "given to another node", lk0)
        self.demand(message.recorded is Arrival.RECV, "I1", "given, but not recorded", lk0)
        self.demand(delivery.payload == message.payload, "I1", "given with other bytes", lk0)
        repeated = message.deliveries > 0 and not message.dest_restored
        self.demand(delivery.redelivered or not repeated, "I1", "given twice without a flag", lk0, "duplicated")
        if message.deliveries == 0 and message.order_key:
            self._check_order(message)
        message.deliveries += 1

    def _check_order(self, message: SimulatedMessage) -> None:
        if message.forgotten:
            return
        missing = truth.missing_before(message, self.orders[message.source, message.dest, message.order_key])
        self.demand(not missing, "ORDER", f"{message.lk0} given before {[str(m.lk0) for m in missing]}")

    # --- what is about to be durable
    def commits(self, host: "Host", unit: Unit) -> None:
        mismatches = [line.lk0 for line in unit.ledger if line.event is Event.MISMATCH]
        self.demand(not mismatches, "I1", "copies of one message differ", mismatches)
        self._acted(host, unit)
        if unit.new_outbound:
            self._stored(host, unit)
        self.schedule.commits(host, unit)
        if len(unit.new_outbound) > 1:
            self._check_submission_order(unit)
        for object_id in unit.changed_outbound:
            row = unit.outbound[object_id]
            if row.direction is Direction.OWN:
                self._changed(row)
        for row, _ in unit.deleted_outbound.values():
            if row.direction is Direction.OWN:
                self._changed(row)  # it may have ended in this unit
            self._deleted_outbound(row)
        for pending in unit.new_pending.values():
            self._recorded(host, pending, unit)
        for bref, status in unit.changed_app_status.items():
            self._handled(unit, host, bref, status)
        self._noted(host, unit)
        for bref in unit.deleted_pending:
            stored_pending = host.tables.pending.get(bref)
            if stored_pending is not None:
                self._deleted_pending(stored_pending)

    def _stored(self, host: "Host", unit: Unit) -> None:
        for line in unit.ledger:
            if line.event is Event.OPERATOR and line.detail.startswith(CONTINUES):
                self._message(parse_lk0(line.lk0)).continued = True
        for row in unit.new_outbound.values():
            if row.direction is Direction.OWN:
                self._accepted(host, row, unit)
            else:
                self._message(row.lk0).custody.add(host.tables.store_uuid)
                self.held[id(host), host.life].add(row.lk0)
        self.groups.commits(unit)

    def _accepted(self, host: "Host", row: Outbound, unit: Unit) -> None:
        lk0 = row.lk0
        body = unit.new_bodies[row.object_id]
        self.demand(lk0 not in self.messages or not row.sid >= 0, "I1", "a name given out twice", lk0)
        message = self._register(lk0, host.name, row.target.id, row.save_fwd, row.ack2, row.order_key, body.payload)
        message.sid, message.user, message.group = row.sid, row.target.user, row.group.lk0 if row.group else ""
        message.expires_at = row.expires_at
        if "pieces" in self.world.plan.kinds:
            message.pieces = piece_or_document(body)
        if row.token:
            known = self.by_token.get(row.token)
            is_new = known is None or known.forgotten or known.continued or self.groups.are_together(known, message)
            self.demand(is_new, "I1", "a token accepted twice", row.token, "duplicated")
            self.by_token[row.token] = message
        if row.sid >= 0:
            stream = self.streams.setdefault((host.name, OutStreamKey(row.dest, lk0.inc)), SourceStream())
            self.demand(row.sid == stream.next_sid, "F", f"position {row.sid}, expected {stream.next_sid}", lk0)
            stream.next_sid += 1
            if row.order_key:
                self._ordered(message, row)
        if row.outcome is not None:
            self._ended(message, row)

    def _ordered(self, message: SimulatedMessage, row: Outbound) -> None:
        """ORDER: a document names its predecessor with this order key."""
        order = self.orders.setdefault((message.source, message.dest, row.order_key), [])
        if not any(earlier.source_restored for earlier in order):
            before = Pos(order[-1].lk0.inc, order[-1].sid) if order else None
            self.demand(row.prev == before, "ORDER", f"{row.lk0} follows {row.prev}, not {before}")
        order.append(message)

    def _check_submission_order(self, unit: Unit) -> None:
        """ORDER: documents accepted in one unit keep the order of their submissions."""
        rows = [row for row in unit.new_outbound.values() if row.order_key and row.token in self.submission_numbers]
        rows = [row for row in rows if row.token not in self.schedule.tokens]
        for one, other in truth.reordered(rows, self.submission_numbers):
            self.demand(False, "ORDER", f"{one.lk0} accepted before {other.lk0}, submitted after it")

    def _noted(self, host: "Host", unit: Unit) -> None:
        """R3, R4: a receiver notes ReAck after the deletion of the copy, and ReAck2 after the sender has an outcome."""
        for bref in unit.platform_acked & host.tables.pending.keys():
            row = host.tables.pending[bref]
            for hub_store in self.world.hub_stores:
                tables, store = hub_store.tables, hub_store.own_store
                copy = tables.outbound.get(row.lk1.object_id) if row.lk1 is not None else None
                is_there = row.lk1 is not None and row.lk1[:2] == (store.semq_id, store.semq_db_id)
                is_excused = tables.store_uuid in self.restored_or_lost
                holds = not is_there or copy is None or copy.lk0 != row.lk0 or is_excused
                self.demand(holds, "H6", f"ReAck for {row.lk1}, which its own store still holds", row.lk0)
        for bref in unit.sender_acked & host.tables.pending.keys():
            message = self._message(host.tables.pending[bref].lk0)
            known = bool(message.outcomes_ever) or message.source_restored or message.forgotten
            self.demand(known, "S5", "ReAck2, but its sender has no outcome", message)

    def _register(
        self, lk0: LK0, source: str, dest: str, save_fwd: SaveFwd, ack2: bool, order_key: str, payload: bytes
    ) -> SimulatedMessage:
        message = self.messages.get(lk0)
        if message is None:
            message = SimulatedMessage(lk0, source, dest, save_fwd, ack2, order_key, payload, -1, len(self.messages))
            message.poison = payload[:1] == POISON
            self.messages[lk0] = message
        return message

    def _changed(self, row: Outbound) -> None:
        message = self._message(row.lk0)
        self._climbed(message, row)
        if row.outcome is not None and message.outcome is not row.outcome:
            self._ended(message, row)
        if message.is_class3 and not row.has_payload and not row.void:
            holds = not row.ack2 and (bool(message.custody) or message.recorded is not None)
            self.demand(holds, "I2", "payload dropped without custody", row.lk0, "lost")
        if message.is_class3 and row.void and row.outcome is None:
            allowed = message.may_void or message.may_be_refused or (row.lost and message.may_be_lost)
            self.demand(allowed, "I2", "became void although nobody asked", row.lk0, "lost")

    def _climbed(self, message: SimulatedMessage, row: Outbound) -> None:
        """Statuses only rise; only class 3 returns to SS_INIT, and never after an outcome."""
        returns = row.ss_status is SendStatus.SS_INIT and message.is_class3 and message.outcome is None
        rises = row.ss_status >= message.status or returns or message.source_restored
        self.demand(rises, "I6", f"{message.status.name} became {row.ss_status.name}", message)
        message.status = row.ss_status

    def _ended(self, message: SimulatedMessage, row: Outbound) -> None:
        """I4 and I6: an outcome is true when it is committed; only a correction or a restored source changes it."""
        outcome, lk0 = row.outcome, row.lk0
        assert outcome is not None
        before = message.outcome
        may_change = before is None or message.source_restored or is_correction(message, row)
        self.demand(may_change, "I6", f"{before} became {outcome}", lk0)
        self.demand(is_true(message, outcome, row, self._may_double), "I6", f"{outcome.name} is not true", message)
        message.outcome = outcome
        message.outcomes_ever.add(outcome)
        if row.sid >= 0:
            self.streams[message.source, OutStreamKey(row.dest, lk0.inc)].settle(row.sid)

    def _deleted_outbound(self, row: Outbound) -> None:
        message = self.messages.get(row.lk0)
        if message is None:
            return
        if row.direction is Direction.RELAYED:
            # A receiver that has not recorded the message answers SETTLED in three cases: the only copy was refused and
            # the sender restored; the sender gave the message up; the first of two doubled frames was refused.
            refused = message.source_restored or message.returned or message.doubled
            outcomes = message.outcomes_ever
            refused = (refused and Outcome.REJECTED in outcomes) or Outcome.UNKNOWN in outcomes
            known = bool(message.recorded_ever) or refused or message.refused_without_notice
            known = known or self._is_returned(message, row)
            self.demand(known, "I2", "the hub's row deleted before it was recorded", row.lk0, "lost")
            return
        silent = row.save_fwd is SaveFwd.STORE and not row.ack2
        self.demand(row.outcome is not None or silent, "I2", "row deleted before its end", row.lk0, "lost")

    def _acted(self, host: "Host", unit: Unit) -> None:
        """Note refusals by an operator of the hub."""
        voided: set[str] = set()  # copies that became markers in this unit
        for line in unit.ledger:
            if line.side is not Side.HUB or line.event not in ON_COPIES or not line.lk1:
                continue  # refused on arrival: no copy was stored
            message = self._message(parse_lk0(line.lk0))
            if line.event is Event.VOIDED:
                voided.add(line.lk1)
            elif line.event is Event.REFUSED:
                stored = host.tables.outbound.get(int(line.lk1.rpartition(".")[2]))
                was_void = stored.void if stored is not None else message.lk0 in truth.new_markers(unit)
                self.returns(message.lk0, void=was_void or line.lk1 in voided)
            elif line.detail == NOBODY:
                message.refused_without_notice = True

    def returns(self, lk0: LK0, *, void: bool) -> None:
        """Note that an operator of the hub refuses a copy of the payload, or of the marker (``void``)."""
        message = self._message(lk0)
        message.returned = True
        message.refused_as.add(void)

    def _is_returned(self, message: SimulatedMessage, row: Outbound) -> bool:
        """Whether an operator has refused the copy, and its sender has stored the refusal."""
        source = self.world.host(message.source).tables.outbound.get(row.lk0.object_id)
        knows = source is None or source.lk0 != row.lk0 or source.outcome is not None or source.void
        return says_returned(row.reason) and (knows or message.source_restored)

    def _recorded(self, host: "Host", row: Pending, unit: Unit) -> None:
        """I1: recorded once, with the right bytes and status."""
        message = self._message(row.lk0)
        self.world.trace("recorded", host.name, f"{row.lk0} {row.status.name}")
        self.demand(message.dest == host.name, "I1", f"recorded at {host.name}", message)
        twice = message.recorded is not None
        self.demand(not twice, "I1", "recorded twice", message, "duplicated")
        payload = unit.new_pending_bodies[row.bref].payload
        match row.status:
            case Arrival.RECV:
                self.demand(payload == message.payload and not message.poison, "I1", "other bytes", message)
                in_time = not 0 < message.expires_at <= row.received_at
                self.demand(in_time, "EXPIRY", "recorded as received after its time", message)
                holds = not recv_contradicts_outcome(message, self._may_double)
                self.demand(holds, "I6", f"recorded after it was reported {message.outcome}", message)
                self.world.pieces.check_recorded(host, message)
            case Arrival.REJ:
                has_expired = 0 < message.expires_at <= max(row.received_at, self.world.now_ms)
                allowed = message.poison or has_expired or self.world.pieces.may_refuse(message)
                # A message of class 3 is signed and sent again instead.
                allowed = allowed or (not message.is_class3 and self._may_be_disbelieved(message))
                self.demand(allowed, "I6", "refused although readable", message)
            case Arrival.VOID:
                allowed = message.may_void or message.may_be_refused or message.may_be_lost
                self.demand(allowed, "I6", "void although nobody asked", message, "lost")
            case _:
                self.demand(False, "I1", f"recorded as {row.status}", message)
        message.recorded = row.status
        message.recorded_ever.add(row.status)
        if row.app_status is not AppStatus.NEW:
            message.done = True

    def _may_be_disbelieved(self, message: SimulatedMessage) -> bool:
        """Whether a copy of a message was signed with a key that is not trusted any more."""
        return self.world.keys is not None and not self.world.host(message.source).credentials.trusts(message.signers)

    def _handled(self, unit: Unit, host: "Host", bref: int, status: AppStatus) -> None:
        row = unit.pending.get(bref) or host.tables.pending.get(bref)
        if row is not None:
            message = self._message(row.lk0)
            message.done = status is not AppStatus.NEW
            message.parked = message.parked or status is AppStatus.PARKED
            holds = message.deliveries > 0 or message.recorded is not Arrival.RECV or message.is_piece
            self.demand(holds, "I1", "done, not given", message)
            if message.is_piece:
                self.world.pieces.check_end(host, unit, message)

    def _deleted_pending(self, row: Pending) -> None:
        message = self._message(row.lk0)
        read = row.status is not Arrival.RECV or (message.done and (message.deliveries > 0 or message.is_piece))
        self.demand(read, "I2", "tb_0030 row deleted before the application had it", message, "lost")

    # --- received and sent frames
    def received(self, host: "Host", frames: Sequence[Frame]) -> None:
        """Note messages that arrive at the hub. An attempt that arrives twice was doubled by the network."""
        for frame in frames if host.own_store.type != 1 else ():
            if isinstance(frame, Data) and not frame.envelope.void:
                message, att = self._message(frame.envelope.lk0), frame.envelope.att
                message.doubled = message.doubled or att in message.attempts
                message.attempts.add(att)

    def sent(self, host: "Host", frame: Frame) -> None:
        """Check a sent frame: acknowledgements leave after the commit that makes them true."""
        if isinstance(frame, Packet) and frame.function is Function.PRESENCE:
            return
        self.frames += 1
        if isinstance(frame, Data):
            self._sent_message(host, frame)
        elif frame.source.node == host.address and not host.passes_on:
            self.stated(host, frame)

    def _sent_message(self, host: "Host", frame: Data) -> None:
        envelope = frame.envelope
        a = envelope.attributes
        own = envelope.lk0.node == host.address
        if own:
            message = self._register(
                envelope.lk0, host.name, envelope.target.id, a.save_fwd, a.ack2, a.order_key, bytes(frame.body)
            )
            message.barred = message.barred or a.content_type in (REFUSED, REFUSED_AT_TIMES)
            message.expires_at = a.expires_at
            message.copies_sent += 1
            is_repeat = not message.is_class3 and message.copies_sent > 1 and not message.source_restored
            self.demand(not is_repeat, "I5", f"class {a.save_fwd:d} sent again", envelope.lk0, "duplicated")
            self._check_floor(host.name, str(envelope.target.node), envelope.lk0.inc, envelope.floor)
        else:
            message = self._message(envelope.lk0)
        if not self.world.faults.active and not envelope.void:
            message.sent_after_faults += 1
            most = SENT_MAX if self.world.keys is None else SENT_MAX_WITH_KEYS
            self.demand(message.sent_after_faults <= most, "I5", "sent again and again", message)
        if envelope.signature:
            message.signers.add(envelope.signature.removeprefix(ORIGIN).partition(".")[0])
        if frame.bare:
            holds = own and not frame.body and not message.ack2 and bool(message.custody)
            self.demand(holds, "S16", "a signature without the payload", message)
        else:
            self._check_bytes(message, envelope, bytes(frame.body))

    def _check_bytes(self, message: SimulatedMessage, envelope: Envelope, body: bytes) -> None:
        if envelope.void:
            self.demand(body == b"", "I6", "a void marker with a payload", message)
        elif envelope.late:
            holds = body == b"" and 0 < message.expires_at <= self.world.now_ms
            self.demand(holds, "EXPIRY", "its payload is held back, and its time has not passed", message)
        else:
            self.demand(body == message.payload, "I1", "sent with other bytes", message)

    def stated(self, host: "Host", packet: Packet) -> None:
        for record in packet.records:
            if isinstance(record, Receipt):
                self._sent_receipt(host, packet, record)
            elif isinstance(record, Inquiry) and record.answer is Answer.CUSTODY:
                self._check_held(host, record.ident)
            elif isinstance(record, Inquiry) and host.own_store.type == 1:
                answer = record.answer if packet.primitive is Primitive.CONFIRMATION else record.status
                if answer is not None:
                    self._check_said(host, record.ident, answer)

    def _sent_receipt(self, host: "Host", packet: Packet, record: Receipt) -> None:
        if packet.primitive is Primitive.INDICATION and record.ack_flag is not None and record.status is not None:
            self._check_said(host, record.ident, record.status)
        if record.flag is HubFlag.REFUSED and record.lk1 is not None:
            message = self._message(parse_lk0(record.ident))
            holds = record.void in message.refused_as and says_returned(record.reason)
            self.demand(holds, "H16", f"a refusal that nobody decided, void={record.void} {record.reason}", message)
        if record.flag is HubFlag.STORED:
            self._check_held(host, record.ident)
        if packet.primitive is Primitive.RESPONSE and record.ack_flag is AckFlag.END_TO_END:
            for inc, (floor, _) in (record.floors or {}).items():
                self._check_floor(host.name, str(packet.target.node), int(inc, 16), floor)

    def _check_held(self, host: "Host", ident: str) -> None:
        """Check that a process states custody only of copies that were in its store."""
        lk0 = parse_lk0(ident)
        self.demand(lk0 in self.held[id(host), host.life], "I2", f"{host.name} says falsely that it holds", lk0)

    def _check_said(self, host: "Host", ident: str, answer: Answer) -> None:
        if answer not in RECORDED and answer is not Answer.SETTLED:
            return
        message = self._message(parse_lk0(ident))
        if answer is Answer.SETTLED:
            stream = self.streams[message.source, OutStreamKey(f"1.{message.dest}", message.lk0.inc)]
            self.demand(message.sid < stream.floor, "F", f"{host.name} says SETTLED, it is not", message)
            return
        is_recorded = RECORDED[answer] in message.recorded_ever and message.dest == host.name
        self.demand(is_recorded, "I4", f"{host.name} says {answer.name}, but has not committed it", message)

    def _check_floor(self, source: str, dest: str, inc: int, floor: int) -> None:
        stream = self.streams.get((source, OutStreamKey(dest, inc)))
        true_floor = stream.floor if stream else 0
        self.demand(floor <= true_floor, "F", f"{source} says floor {floor}, true is {true_floor}, to", dest, "lost")

    # --- disasters
    def backup(self, tables: Tables) -> BackupRecord:
        return backup_of(self.messages.values(), self.world.host_of(tables).name)

    def restored(self, tables: Tables, record: BackupRecord) -> None:
        host = self.world.host_of(tables)
        self.schedule.restored(host)
        held = {row.lk0 for row in tables.outbound.values() if row.direction is Direction.RELAYED}
        undone = {row.lk0 for row in tables.pending.values() if row.app_status is AppStatus.NEW}
        for message in self.messages.values():
            if host.own_store.type != 1:
                self.restored_or_lost.add(tables.store_uuid)
                message.copy_lost = message.copy_lost or (
                    tables.store_uuid in message.custody and message.lk0 not in held
                )
                continue
            message.note_restored(host.name, record, undone)

    # --- helpers
    @property
    def _may_double(self) -> bool:
        """Whether frames may arrive twice."""
        return not self.world.plan.kinds.isdisjoint(HELL_ONLY)

    def _message(self, lk0: LK0) -> SimulatedMessage:
        message = self.messages.get(lk0)
        self.demand(message is not None, "I1", "nobody accepted", lk0)
        assert message is not None
        return message

    def demand(self, holds: bool, rule: str, text: str, about: object = "", kind: str = "violations") -> None:
        """Raise ``InvariantBroken`` unless a condition holds. ``about``: the message or value in question."""
        if not holds:
            raise InvariantBroken(rule, f"{text}: {about}", kind)
