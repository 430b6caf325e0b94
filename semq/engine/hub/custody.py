"""Copies that the hub stores: rows of tb_0031 for absent targets, kept until the receiver's Ack.

See PROTOCOL.md section 5.2, H4–H13.

The store is the custodian: Ack-Save leaves after the commit that stores a copy, a copy goes only on evidence of its
receiver, and every acknowledgement must echo the identity of the row (rules R9, R12, R13).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from semq.engine.bodies import decode_envelope, encode_envelope
from semq.engine.core import Core, Step
from semq.engine.errors import Mismatch
from semq.engine.hub.copies import (
    STATUS,
    AnswerCustody,
    AnswerOrPassOn,
    HearAcks,
    HearAnswers,
    HearNoted,
    standing_of,
)
from semq.engine.hub.stores import Stores
from semq.engine.sender.lanes import Lane, Pump
from semq.engine.time.expiry import is_expired
from semq.engine.time.inquiry import Sweep
from semq.engine.time.schedule import Schedule
from semq.engine.tracks import level
from semq.store.rows import Event, Outbound, Reason, Side, Stored
from semq.store.unit import Query, Recovered, Unit, Unsettled
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Envelope, Function, Packet, Primitive
from semq.umx_t.grids import HUB, Held, HubDeed, HubHeard
from semq.umx_t.locator import LK1
from semq.umx_t.records import Answer, Inquiry, Note, Receipt, Role
from semq.umx_t.status import Direction

if TYPE_CHECKING:
    from semq.engine.hub.forwarding import Session
    from semq.engine.hub_engine import Directory

K = TypeVar("K")
Notice = tuple[Address, Receipt]  #: what is told after the commit, and whom: made of a row in ``decide``
Refuse = Callable[[Envelope, Reason], None]


class Holding:
    """The copies in this platform store."""

    def __init__(
        self, core: Core, recovered: Recovered, sessions: Mapping[str, "Session"], directory: "Directory"
    ) -> None:
        self.core = core
        self.directory = directory
        self.stores = Stores(core, recovered)
        self.sessions = sessions
        self.held: dict[str, int] = dict(recovered.backlog)  #: rows by target
        self.by_pair: dict[tuple[str, str], int] = {}  #: rows by source and target; the driver brings what was there
        self._storing: dict[str, int] = {}  #: on their way into the store
        self.sends: dict[int, int] = {}  #: of a row that its target has not recorded
        self.pump = Pump(core, self._room, lambda row: True, self._claim, self._send, self._sent)
        self.schedule = Schedule(core.settings.inquiry_s, core.settings.inquiry_s_max)
        self.sweep = Sweep(core, self.schedule, Unsettled, self._look, lambda: bool(self.sessions), self._after)
        self._asks: list[tuple[Address, Inquiry]] = []
        self._refused: list[Notice] = []
        self.pump.recover(recovered.tracks)
        if self.held:
            self.schedule.make_due(0, recovered.first_id - 1, core.now())

    # --- what the relay asks
    def is_clear(self, dest: str, class3: bool) -> bool:
        """Whether nothing is stored for a target, or on its way into the store; class 1 and 2 promise no order."""
        return not class3 or (not self.held.get(dest) and not self._storing.get(dest))

    def is_full(self, dest: str) -> bool:
        """Whether a target's quota of stored rows is used up."""
        return self.held.get(dest, 0) + self._storing.get(dest, 0) >= self.core.settings.quota_rows

    def expect(self, dest: str) -> None:
        """A message for ``dest`` will be handed to ``store``: nothing may overtake it."""
        self._storing[dest] = self._storing.get(dest, 0) + 1

    def store(self, messages: Sequence[Data], barred: Mapping[int, Reason], refuse: Refuse) -> None:
        """H1 and H4: take custody. Of what is ``barred`` (by place) only a copy that is here already is answered for;
        without one it is handed to ``refuse`` after the commit."""
        self.core.post(_Store(self, messages, barred, refuse))

    def stored(self, messages: Sequence[Data], new: Sequence[str]) -> None:
        """The fate of messages that were expected is decided."""
        for message in messages:
            self._less(self._storing, str(message.envelope.target.node))
        for dest in new:
            self.held[dest] = self.held.get(dest, 0) + 1

    def taken(self, rows: Sequence[Outbound]) -> None:
        """Copies are new in the store: counted by pair, for agreements."""
        for row in rows:
            pair = str(row.lk0.node), row.dest
            self.by_pair[pair] = self.by_pair.get(pair, 0) + 1

    def waiting(self, source: str, dest: str) -> int:
        """How many copies of one node's messages wait here for another."""
        return self.by_pair.get((source, dest), 0)

    def released(self, row: Outbound) -> None:
        """A copy is gone from the store."""
        self._less(self.held, row.dest)
        self._less(self.by_pair, (str(row.lk0.node), row.dest))
        self.landed(row)

    def landed(self, row: Outbound) -> None:
        """A copy is not under way any more."""
        self.sends.pop(row.object_id, None)
        lane = self.pump.lane(row.dest)
        lane.flight.discard(row.object_id)
        self.pump.run(lane)

    @staticmethod
    def _less(counts: dict[K, int], dest: K) -> None:
        counts[dest] = counts.get(dest, 1) - 1
        if counts[dest] <= 0:
            del counts[dest]

    # --- sessions
    def came(self, node: str) -> None:
        """H13: the target is online: what it was sent before is in doubt, what waits goes out."""
        self.schedule.hurry(self.core.now() + self.core.settings.reconnect_spread_s * self.core.clock.random())
        if self.held.get(node):
            self.pump.wake_all(node)  # from the first row on: what was parked is tried again

    def left(self, node: str) -> None:
        """The target is away: nothing is under way to it."""
        self.pump.lane(node).flight.clear()

    def run(self, node: str) -> None:
        """There may be room again for a target."""
        self.pump.run(self.pump.lane(node))

    def _room(self, lane: Lane) -> int:
        session = self.sessions.get(lane.dest)
        if session is None:
            return 0
        return min(session.link.room, self.core.settings.credit_messages - len(lane.flight))

    # --- the way out
    def _claim(self, unit: Unit, row: Outbound, stored: Stored, events: list[Any]) -> Data | None:
        """H5: the attempt is committed, LK1 is set, the transport source is the platform (seed 2.1)."""
        rule = HUB.step(standing_of(row), HubHeard.claim)
        before = row.ss_status
        sends = self.sends.get(row.object_id, 0)
        if sends >= self.core.settings.hub_attempts_max and not row.parked:
            row.parked = True
            unit.change_outbound(row, before)
            unit.ledger.append(self.core.line(Side.HUB, Event.PARKED, row, f"sent {sends} times, never recorded"))
            return None
        self.sends[row.object_id] = sends + 1
        row.ss_status = STATUS[rule.after]
        row.att += 1
        unit.change_outbound(row, before)
        lk1 = self.core.lk1(row.object_id)
        late = not row.void and is_expired(row.expires_at, self.core.now_ms())
        unit.ledger.append(self.core.line(Side.HUB, Event.SENT, row, "late" if late else "", lk1=str(lk1)))
        # What is late ends as any copy does, by its receiver's ledger, which may know it; only its payload stays here.
        envelope = replace(decode_envelope(stored), lk1=lk1, source=self.core.address, late=late)
        return Data(envelope, b"" if late else stored.payload)

    def _send(self, dest: str, frames: list[Data]) -> None:
        session = self.sessions.get(dest)
        if session is not None:
            for frame in frames:
                session.link.send(frame)

    def _sent(self, object_id: int) -> None:
        self.schedule.add(object_id, self.core.now())

    # --- silence
    def _look(self, unit: Unit, query: Query) -> Iterator[tuple[int, bool]]:
        """H10: rows sent to a present target that has not acknowledged; H16: refusals that a sender has not noted."""
        self._asks, self._refused = [], []
        for row in unit.outbound_found(query):
            rule = HUB.step(standing_of(row), HubHeard.ask)
            if rule.deed is HubDeed.refuse:
                self._refused.append(self.refusal(row))
            elif rule.deed is HubDeed.ask_target and row.dest in self.sessions:
                self._asks.append((row.target.node, self._inquiry(row)))
            yield row.object_id, False

    def _inquiry(self, row: Outbound) -> Inquiry:
        return Inquiry(
            semq_id=self.core.home.semq_id, semq_db_id=self.core.home.semq_db_id, ref_id=row.object_id, flag=1,
            role=Role.P, ident=str(row.lk0), sid=row.sid, nonce=row.att, lk1=self.core.lk1(row.object_id),
        )  # fmt: skip

    def _after(self) -> None:
        for target, inquiry in self._asks:
            self.core.count("inquired")
            self.core.mail.add(target, Function.INQUIRIES, Primitive.REQUEST, inquiry)
        self.tell(notice for notice in self._refused if str(notice[0]) in self.sessions)

    # --- what is heard
    def hear_acks(self, source: Address, records: Sequence[Receipt]) -> None:
        """H6: Ack about copies."""
        self._hear_acks(source, [(_copy(r), r.ident, r.dest_ref_id) for r in records])

    def hear_role_r(self, source: Address, records: Sequence[Inquiry]) -> None:
        """H6: a receiver asks whether its Ack was noted; the question itself is an Ack."""
        self._hear_acks(source, [(LK1(*r.lk1), r.ident, r.dest_ref_id) for r in records if r.lk1 is not None])

    def _hear_acks(self, source: Address, acks: Sequence[tuple[LK1, str, int]]) -> None:
        here = [ack for ack in acks if self.stores.is_here(ack[0])]
        if here:
            self.core.post(HearAcks(self, source, here))
        self.stores.hear_acks(source, [ack for ack in acks if not self.stores.is_here(ack[0])])

    def hear_noted(self, source: Address, records: Sequence[Receipt]) -> None:
        """H17: a sender has noted that copies of its messages were refused; those of other stores wait for these."""
        noted = [(_copy(r), r.ident) for r in records if self.stores.is_here(_copy(r))]
        if noted:
            self.core.post(HearNoted(self, source, noted))

    def hear_answers(self, source: Address, records: Sequence[Inquiry]) -> None:
        """H11 and H12: answers to our inquiries; another store asks itself."""
        named = [(LK1(*r.lk1), r) for r in records if r.lk1 is not None]
        here = [pair for pair in named if self.stores.is_here(pair[0])]
        if here:
            self.core.post(HearAnswers(self, source, here))

    def hear_custody(self, source: Address, records: Sequence[Inquiry]) -> None:
        """H9: a sender asks the custodian."""
        named = [(LK1(*r.lk1), r) for r in records if r.lk1 is not None]
        here = [pair for pair in named if self.stores.is_here(pair[0])]
        if here:
            self.core.post(AnswerCustody(self, source, here))
        self.stores.answer_custody(self, source, [pair for pair in named if not self.stores.is_here(pair[0])])

    def hear_inquiries(self, source: Address, target: Address, records: Sequence[Inquiry]) -> None:
        """H7 and H8: a sender asks a target; the hub answers for what it holds, and for targets that are away."""
        if self.held.get(str(target)) or self._storing.get(str(target)):
            self.core.post(AnswerOrPassOn(self, source, target, records))
        else:
            self.pass_on(source, target, records)

    def pass_on(self, source: Address, target: Address, records: Sequence[Inquiry]) -> None:
        """H8: to the target if it is online, else OFFLINE.

        That asks for a copy to be stored, which a target that is none would be refused, again and again: there only
        classes 1 and 2 are answered, which count it and are never sent again.
        """
        session = self.sessions.get(str(target))
        if session is not None:
            session.link.send(Packet(source, target, Function.INQUIRIES, Primitive.REQUEST, records))
            return
        is_served = self.directory.serves(target)
        for record in records:
            if is_served or record.sid < 0:
                self.answer(source, record, Answer.OFFLINE)

    def answer(
        self, source: Address, record: Inquiry, answer: Answer, lk1: LK1 | None = None, *, void: bool = False
    ) -> None:
        """Mail the answer to a sender's inquiry, with its key and nonce echoed."""
        reply = Inquiry(
            semq_id=record.semq_id, semq_db_id=record.semq_db_id, ref_id=record.ref_id, flag=1, role=Role.S,
            ident=record.ident, nonce=record.nonce, lk1=lk1 or record.lk1, answer=answer, void=void,
        )  # fmt: skip
        self.core.mail.add(source, Function.INQUIRIES, Primitive.CONFIRMATION, reply)

    def tell(self, notices: Iterable[Notice]) -> None:
        """Mail what was decided, once it is committed."""
        for node, receipt in notices:
            self.core.mail.add(node, Function.RECEIPTS, Primitive.INDICATION, receipt)

    def custody(self, row: Outbound) -> Notice:
        """Ack-Save: a copy is in this store."""
        lk0 = row.lk0
        return lk0.node, Receipt(
            src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id, flag=Note.STORED,
            ident=str(lk0), att=row.att, lk1=self.core.lk1(row.object_id), void=row.void,
        )  # fmt: skip

    def refusal(self, row: Outbound) -> Notice:
        """The refusal of a copy, for its sender, who answers that it has noted it (H16, H17).

        Made in ``decide``: later work of the same unit may make the row the sender's marker, which nobody refused.
        """
        lk0 = row.lk0
        return lk0.node, Receipt(
            src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id, flag=Note.REFUSED,
            ident=str(lk0), lk1=self.core.lk1(row.object_id), void=row.void, reason=row.reason,
        )  # fmt: skip

    def watch(self, row: Outbound) -> None:
        """A sender does not know of a refusal yet: tell it again until it has noted it."""
        self.schedule.add(row.object_id, self.core.now())


def _copy(record: Receipt) -> LK1:
    return LK1(record.src_semq_id, record.src_semq_db_id, record.src_ref_id)


class _Store(Step):
    def __init__(
        self, holding: Holding, messages: Sequence[Data], barred: Mapping[int, Reason], refuse: Refuse
    ) -> None:
        super().__init__()
        self._holding = holding
        self._core = holding.core
        self._messages = messages
        self._barred = barred
        self._refuse = refuse
        self.needs.relayed.update(message.envelope.ident for message in messages)

    def decide(self, unit: Unit) -> None:
        self._notices: list[Notice] = []
        self._new: list[str] = []
        self._taken: list[Outbound] = []
        self._again: list[Outbound] = []
        self._refused: list[tuple[Envelope, Reason]] = []
        for place, message in enumerate(self._messages):
            row = unit.relayed.get(message.envelope.ident)
            if row is None and place in self._barred:
                self._refused.append((message.envelope, self._barred[place]))
            elif row is None:
                self._notices.append(self._holding.custody(self._insert(unit, message)))
            else:
                self._known(unit, row, message)

    def _insert(self, unit: Unit, message: Data) -> Outbound:
        HUB.step(Held.ABSENT, HubHeard.store)
        envelope, a = message.envelope, message.envelope.attributes
        row = Outbound(
            object_id=self._core.new_id(), direction=Direction.RELAYED, lk0=envelope.lk0, target=envelope.target,
            save_fwd=a.save_fwd, ack2=a.ack2, sid=envelope.sid, app_key=a.app_key, void=envelope.void,
            has_payload=not envelope.void, digest=envelope.digest, size=len(message.body),
            accepted_at=self._core.now_ms(), expires_at=a.expires_at, priority=level(a.priority),
        )  # fmt: skip
        unit.insert_outbound(row, Stored(encode_envelope(envelope), bytes(message.body)))
        unit.relayed[envelope.ident] = row
        lk1 = str(self._core.lk1(row.object_id))
        unit.ledger.append(self._core.line(Side.HUB, Event.STORED, row, lk1=lk1, digest=row.digest, size=row.size))
        self._new.append(row.dest)
        self._taken.append(row)
        return row

    def _known(self, unit: Unit, row: Outbound, message: Data) -> None:
        """H1: one identity is stored once; a void marker takes the place of the payload, or of a refusal."""
        envelope, standing = message.envelope, standing_of(row)
        is_new = envelope.void and (not row.void or standing is Held.REFUSED)
        news = HubHeard.replace if is_new else HubHeard.again
        before = row.ss_status
        rule = HUB.step(standing, news)
        if rule.deed is HubDeed.refuse:
            self._notices.append(self._holding.refusal(row))
            return
        if news is HubHeard.replace:
            row.held, row.reason = False, None
            row.ss_status, row.void, row.has_payload = STATUS[rule.after], True, False
            row.att += 1
            row.size = 0
            self._notices.append(self._holding.custody(row))
            unit.replace_body(row.object_id, Stored(encode_envelope(envelope), b""))
            unit.change_outbound(row, before)
            unit.ledger.append(self._core.line(Side.HUB, Event.VOIDED, row, lk1=str(self._core.lk1(row.object_id))))
            self._again.append(row)
            return
        self._notices.append(self._holding.custody(row))
        is_other = not envelope.void and not row.void and row.digest != envelope.digest
        if envelope.signature and not (is_other or envelope.void or row.void or message.dropped):
            # Signed anew, perhaps since nobody vouches for the older key any more (S16).
            unit.replace_body(row.object_id, Stored(encode_envelope(envelope), bytes(message.body)))
        facts: dict[str, Any] = {"lk1": str(self._core.lk1(row.object_id)), "digest": envelope.digest}
        if is_other:
            error = Mismatch(lk0=envelope.ident, stored=row.digest.hex(), now=envelope.digest.hex())
            line = self._core.line(Side.HUB, Event.MISMATCH, row, str(error)[:500], **facts)
            self._core.note_violation(unit.ledger, str(envelope.lk0.node), line, error)
        else:
            unit.ledger.append(self._core.line(Side.HUB, Event.DUPLICATE, row, **facts))

    def committed(self) -> None:
        holding = self._holding
        holding.stored(self._messages, self._new)
        holding.taken(self._taken)
        self._core.count("stored", len(self._new))
        holding.tell(self._notices)
        for envelope, reason in self._refused:
            self._refuse(envelope, reason)
        for row in self._again:
            holding.pump.lane(row.dest).flight.discard(row.object_id)
            holding.pump.wake(row)
        for dest, source, priority in dict.fromkeys((row.dest, row.source, row.priority) for row in self._taken):
            holding.pump.wake_track(dest, source, priority)

    def failed(self, error: Exception) -> None:
        self._holding.stored(self._messages, [])
