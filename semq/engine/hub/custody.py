"""Copies that the hub stores: rows of tb_0031 for absent targets, kept until the receiver's Ack.

See PROTOCOL.md section 5.2, H4–H13.

The store is the custodian: Ack-Save leaves after the commit that stores a copy, a copy goes only on evidence of its
receiver, and every acknowledgement must echo the identity of the row (rules N9, N12, N13).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from semq.engine.core import Core
from semq.engine.hub.copies import AnswerCustody, AnswerOrPassOn, HearAcks, HearCopyAnswers, HearNoted, OnCopies
from semq.engine.hub.deeds import Ack, AfterCopies, answered, apply, hear, standing_of
from semq.engine.hub.stores import Stores
from semq.engine.sender.lanes import Lane, Pump
from semq.engine.time.inquiry import Sweep
from semq.engine.time.schedule import Schedule
from semq.store.rows import Event, Outbound, Reason, Side, Stored
from semq.store.unit import Query, Recovered, Unit, Unsettled
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Envelope, Function, Packet, Primitive
from semq.umx_t.grids import Held, HubHeard
from semq.umx_t.locator import LK1
from semq.umx_t.records import Answer, Inquiry, Receipt

if TYPE_CHECKING:
    from semq.engine.hub.forwarding import PresentNode
    from semq.engine.hub_engine import Directory

K = TypeVar("K")
Refuse = Callable[[Envelope, Reason], None]


class Holding:
    """The copies in this platform store."""

    def __init__(
        self, core: Core, recovered: Recovered, sessions: Mapping[str, "PresentNode"], directory: "Directory"
    ) -> None:
        self.core = core
        self.directory = directory
        self.stores = Stores(core, recovered)
        self.sessions = sessions
        self.held: dict[str, int] = dict(recovered.backlog)  #: rows by target
        self.by_pair: dict[tuple[str, str], int] = {}  #: rows by source and target; the driver brings what was there
        self._storing: dict[str, int] = {}  #: on their way into the store
        self.sends: dict[int, int] = {}  #: of a row that its target has not recorded
        self.pump = Pump(core, self)
        self.schedule = Schedule(core.settings.inquiry_s, core.settings.inquiry_s_max)
        self.sweep = Sweep(core, self.schedule, Unsettled, self._look, lambda: bool(self.sessions), self._settle)
        self._after = AfterCopies()
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

    def stored(self, messages: Sequence[Data], new: Sequence[Outbound]) -> None:
        """The fate of messages that were expected is decided; copies are counted also by pair, for agreements."""
        for message in messages:
            self._less(self._storing, str(message.envelope.target.node))
        for row in new:
            pair = str(row.lk0.node), row.dest
            self.held[row.dest] = self.held.get(row.dest, 0) + 1
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

    def went(self, node: str) -> None:
        """The target is away: nothing is under way to it."""
        self.pump.lane(node).flight.clear()

    def run(self, node: str) -> None:
        """There may be room again for a target."""
        self.pump.run(self.pump.lane(node))

    def room(self, lane: Lane) -> int:
        session = self.sessions.get(lane.dest)
        if session is None:
            return 0
        return min(session.link.room, self.core.settings.credit_messages - len(lane.flight))

    # --- the way out
    def may_claim(self, row: Outbound) -> bool:
        return True

    def claim(self, unit: Unit, row: Outbound, stored: Stored, events: list[Any]) -> Data | None:
        """H5, unless it was sent too often for this session of its target: then it is parked (section 12)."""
        sends = self.sends.get(row.object_id, 0)
        if sends >= self.core.settings.hub_attempts_max and not row.parked:
            row.parked = True
            unit.change_outbound(row, row.ss_status)
            unit.ledger.append(self.core.line(Side.HUB, Event.PARKED, row, f"sent {sends} times, never recorded"))
            return None
        self.sends[row.object_id] = sends + 1
        after = AfterCopies()
        hear(self, unit, row, HubHeard.claim, after, stored)
        return after.frames[0]

    def send(self, dest: str, frames: list[Data]) -> None:
        session = self.sessions.get(dest)
        if session is not None:
            for frame in frames:
                session.link.send(frame)

    def left(self, row: Outbound) -> None:
        """Never: a copy stays until its receiver has it."""

    def sent(self, object_id: int) -> None:
        self.schedule.add(object_id, self.core.now())

    # --- silence
    def _look(self, unit: Unit, query: Query) -> Iterator[tuple[int, bool]]:
        """H10: rows sent to a present target that has not acknowledged; H16: refusals that a sender has not noted."""
        self._after = AfterCopies()
        for row in unit.outbound_found(query):
            hear(self, unit, row, HubHeard.ask, self._after)
            yield row.object_id, False

    def _settle(self) -> None:
        apply(self, self._after)

    # --- what is heard
    def hear_acks(self, source: Address, records: Sequence[Receipt]) -> None:
        """H6: Ack about copies."""
        self._hear_acks(source, [Ack(source, _copy(r), r.ident, r.dest_ref_id) for r in records])

    def hear_role_r(self, source: Address, records: Sequence[Inquiry]) -> None:
        """H6: a receiver asks whether its Ack was noted; the question itself is an Ack."""
        acks = [Ack(source, LK1(*r.lk1), r.ident, r.dest_ref_id) for r in records if r.lk1 is not None]
        self._hear_acks(source, acks)

    def _hear_acks(self, source: Address, acks: Sequence[Ack]) -> None:
        here = [ack for ack in acks if self.stores.is_here(ack.lk1)]
        if here:
            self.core.post(HearAcks(self, source, here))
        self.stores.hear_acks([ack for ack in acks if not self.stores.is_here(ack.lk1)])

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
            self.core.post(HearCopyAnswers(self, source, here))

    def hear_custody(self, source: Address, records: Sequence[Inquiry]) -> None:
        """H9: a sender asks the custodian."""
        named = [(LK1(*r.lk1), r) for r in records if r.lk1 is not None]
        here = [pair for pair in named if self.stores.is_here(pair[0])]
        if here:
            self.core.post(AnswerCustody(self, source, here))
        self.stores.answer_custody(source, [pair for pair in named if not self.stores.is_here(pair[0])])

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
                self.core.mail.add(*answered(source, record, Answer.OFFLINE))


def _copy(record: Receipt) -> LK1:
    return LK1(record.src_semq_id, record.src_semq_db_id, record.src_ref_id)


class _Store(OnCopies):
    """H1 and H4: one identity is stored once; a void marker takes the place of the payload, or of a refusal."""

    def __init__(
        self, holding: Holding, messages: Sequence[Data], barred: Mapping[int, Reason], refuse: Refuse
    ) -> None:
        super().__init__(holding, ())
        self._messages = messages
        self._expected = [message for place, message in enumerate(messages) if place not in barred]
        self._barred = barred
        self._refuse = refuse
        self.needs.relayed.update(message.envelope.ident for message in messages)

    def _look(self, unit: Unit) -> None:
        self._refused: list[tuple[Envelope, Reason]] = []
        for place, message in enumerate(self._messages):
            row = unit.relayed.get(message.envelope.ident)
            if row is None and place in self._barred:
                self._refused.append((message.envelope, self._barred[place]))
                continue
            news = HubHeard.store if row is None else HubHeard.again
            if row is not None and message.envelope.void and (not row.void or standing_of(row) is Held.REFUSED):
                news = HubHeard.replace
            self._hear(unit, row, news, message)

    def committed(self) -> None:
        holding, new = self._holding, self._after.new
        holding.stored(self._expected, new)
        self._core.count("stored", len(new))
        super().committed()
        for envelope, reason in self._refused:
            self._refuse(envelope, reason)
        for dest, source, priority in dict.fromkeys((row.dest, row.source, row.priority) for row in new):
            holding.pump.wake_track(dest, source, priority)

    def failed(self, error: Exception) -> None:
        self._holding.stored(self._expected, [])
