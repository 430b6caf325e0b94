"""Copies that the hub stores: rows of tb_0031 for messages that cannot be forwarded (PROTOCOL.md section 5.2, H4-H13).

A copy is deleted only on evidence of the receiver, or after the refusal of an operator (rules N9, N12, N13).
``apply_event`` processes every event of a copy. Statements of nodes arrive through ``copies``, acts of operators
through ``copy_acts``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from semq.engine.core import Core
from semq.engine.hub.deeds import EFFECTS, AfterCopies, copy_state, note
from semq.engine.hub.sessions import PresentNode
from semq.engine.hub.stores import Stores
from semq.engine.ports import Directory, PreparedEvent
from semq.engine.sender.lanes import Lane, Pump
from semq.engine.time.inquiry import Asked, Sweep
from semq.engine.time.schedule import Schedule
from semq.foreign_text import shortened
from semq.store.postgres.errors import RowRefused
from semq.store.rows import Event, Outbound, Reason, Side, Stored
from semq.store.unit import Needs, Query, Recovered, Unit, Unsettled
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.envelope import Data, Envelope
from semq.umx_t.grids import HUB, CopyState, HubEvent
from semq.umx_t.status import SendStatus

K = TypeVar("K")
Refuse = Callable[[Envelope, Reason], None]
Barred = tuple[Data, Reason | None]  # a message, and the reason to refuse it unless a copy is stored
# A refused row has the status SS_SENT, so that the sweep of inquiries finds it and repeats the refusal (H16). The flag
# ``held`` keeps it from being sent.
STATUS = {
    CopyState.SS_INIT: SendStatus.SS_INIT,
    CopyState.SS_SENT: SendStatus.SS_SENT,
    CopyState.REFUSED: SendStatus.SS_SENT,
}
WAITING = (CopyState.SS_INIT, CopyState.SS_SENT)  # states of a copy with a message that may still be sent
# Ledger lines that ``apply_event`` writes; deeds and ``copy_acts`` write the others.
LINES = {
    HubEvent.ack: Event.RELEASED,
    HubEvent.held: Event.RELEASED,
    HubEvent.noted: Event.RELEASED,
    HubEvent.not_here: Event.AGAIN,
}


class Custody:
    """The copies in this store of the hub, and their counts. Implements ``lanes.LaneOwner``."""

    def __init__(
        self, core: Core, recovered: Recovered, sessions: Mapping[str, PresentNode], directory: Directory
    ) -> None:
        self.core = core
        self.directory = directory
        self.stores = Stores(core, recovered)
        self.sessions = sessions
        self.rows_by_target: dict[str, int] = dict(recovered.backlog)
        #: number of copies by target that a later message could overtake: all that no operator has refused
        self._waiting = Counter(self.rows_by_target)
        self._waiting.subtract(recovered.refused)
        self._by_pair: Counter[tuple[str, str]] = Counter()  #: number of rows by source and target
        for (dest, source, _), rows in recovered.tracks.items():
            self._by_pair[source, dest] += rows
        self._storing: dict[str, int] = {}  #: number of messages being stored, by target
        #: number of sends of each row in the present session of the target; by target, then by row
        self._sends: dict[str, Counter[int]] = {}
        self.pump = Pump(core, self)
        self.schedule = Schedule(core.settings.inquiry_s, core.settings.inquiry_s_max)
        self.sweep = Sweep(core, self.schedule, Unsettled, self._ask, lambda: bool(self.sessions))
        self.pump.recover(recovered.tracks)
        if self.rows_by_target:
            self.schedule.make_due(0, recovered.first_id - 1, core.now())

    # --- state for ``forwarding``
    def is_clear(self, source: str, dest: str) -> bool:
        """Whether a message would overtake no copy for the target, and cannot be one of which this store has a copy.

        A refused copy has no payload that could be overtaken. It may stay for weeks, until its sender is online.
        """
        return not (self._waiting[dest] or self._storing.get(dest) or self._by_pair[source, dest])

    def is_full(self, dest: str) -> bool:
        """Whether the quota of stored rows of a target is used up."""
        rows = self.rows_by_target.get(dest, 0) + self._storing.get(dest, 0)
        return rows >= self.core.settings.quota_rows_per_partner

    def expect(self, dest: str) -> None:
        """Note that ``store`` will get a message, which no later one may overtake."""
        self._storing[dest] = self._storing.get(dest, 0) + 1

    def store(self, messages: Sequence[Barred], refuse: Refuse) -> None:
        """H1 and H4: take custody of messages.

        After the commit ``refuse`` is called for each message with a reason that has no stored copy (H1), and for each
        message whose row Postgres refuses.
        """
        self.core.post_each(messages, partial(self._store, refuse), partial(self._not_stored, refuse))

    def _not_stored(self, refuse: Refuse, messages: Sequence[Barred], error: Exception) -> None:
        self._end_store(messages)
        if isinstance(error, RowRefused) and not error.is_passing:
            reason = (error.code, shortened(f"The hub's database refused it: {error.facts['fault']}", 300))
            for message, _ in messages:
                if not message.envelope.void and message.envelope.att == 1:  # a later attempt: the receiver may have it
                    refuse(message.envelope, reason)

    @work
    def _store(self, refuse: Refuse, messages: Sequence[Barred]) -> Steps:
        unit = yield Needs(relayed={message.envelope.ident for message, _ in messages})
        after = AfterCopies()
        refused: list[tuple[Envelope, Reason]] = []
        for message, reason in messages:
            row = unit.relayed.get(message.envelope.ident)
            if row is None and message.is_bare:  # its sender asks for the copy that this hub has lost
                self.core.count("bare")
                continue
            if row is None and reason is not None:
                refused.append((message.envelope, reason))
                continue
            event = HubEvent.store if row is None else HubEvent.again
            if row is not None and message.envelope.void and (not row.void or copy_state(row) is CopyState.REFUSED):
                event = HubEvent.replace
            self.apply_event(unit, row, event, after, message)
        yield COMMITTED
        self._end_store(messages)
        self._count_new(after.new)
        self.apply(after)
        for envelope, reason in refused:
            refuse(envelope, reason)
        for dest, source, priority in dict.fromkeys((row.dest, row.source, row.priority) for row in after.new):
            self.pump.wake_track(dest, source, priority)

    def _end_store(self, messages: Sequence[Barred]) -> None:
        for message in (message for message, reason in messages if reason is None):
            self._decrement(self._storing, str(message.envelope.target.node))

    def _count_new(self, rows: Sequence[Outbound]) -> None:
        self.core.count("stored", len(rows))
        for row in rows:
            self.rows_by_target[row.dest] = self.rows_by_target.get(row.dest, 0) + 1
            self._by_pair[row.source, row.dest] += 1
            self._waiting[row.dest] += 1

    def waiting(self, source: str, dest: str) -> int:
        """Return the number of copies from ``source`` for ``dest`` in this store."""
        return self._by_pair[source, dest]

    def _count_release(self, row: Outbound) -> None:
        self._decrement(self.rows_by_target, row.dest)
        self._decrement(self._by_pair, (row.source, row.dest))
        self._end_flight(row)

    def _end_flight(self, row: Outbound) -> None:
        self.forget_sends(row)
        lane = self.pump.lane(row.dest)
        lane.flight.discard(row.object_id)
        self.pump.run(lane)

    @staticmethod
    def _decrement(counts: dict[K, int], dest: K) -> None:
        counts[dest] = counts.get(dest, 1) - 1
        if counts[dest] <= 0:
            del counts[dest]

    # --- sessions
    def note_online(self, node: str) -> None:
        """H13: a target is online. Inquire soon about sent copies, and send the waiting ones."""
        self.schedule.begin_again(self.core.now() + self.core.settings.reconnect_spread_s * self.core.clock.random())
        if self.rows_by_target.get(node):
            self.pump.wake_all(node)  # also parked copies

    def note_offline(self, node: str) -> None:
        """Note that a target is offline."""
        self.pump.lane(node).flight.clear()
        self._sends.pop(node, None)

    def run(self, node: str) -> None:
        self.pump.run(self.pump.lane(node))

    def capacity(self, lane: Lane) -> int:
        session = self.sessions.get(lane.dest)
        if session is None:
            return 0
        return min(session.link.room, self.core.settings.credit_messages - len(lane.flight))

    def remark(self, dest: str) -> str:
        return ""

    # --- sending
    def may_claim(self, row: Outbound) -> bool:
        return True

    def claim(self, unit: Unit, row: Outbound, stored: Stored, events: list[PreparedEvent]) -> Data | None:
        """H5: claim a copy for sending. After ``hub_attempts_max`` sends in the target's session, park the copy until
        the next session, and return None (section 12).
        """
        sends = self._sends[row.dest][row.object_id] if row.dest in self._sends else 0
        if sends >= self.core.settings.hub_attempts_max:
            if not row.parked:
                row.parked = True
                unit.change_outbound(row, row.ss_status)
                unit.ledger.append(self.core.line(Side.HUB, Event.PARKED, row, f"sent {sends} times, never recorded"))
            return None
        after = AfterCopies()
        self.apply_event(unit, row, HubEvent.claim, after, stored)
        return after.frames[0]

    def send(self, dest: str, frames: list[Data]) -> None:
        session = self.sessions.get(dest)
        if session is not None:
            sends = self._sends.setdefault(dest, Counter())
            for frame in frames:
                session.link.send(frame)
                assert frame.envelope.lk1 is not None
                sends[frame.envelope.lk1.object_id] += 1

    def note_row_deleted(self, row: Outbound) -> None:
        """Do nothing: a copy is not deleted when it is sent."""

    def plan_inquiry(self, object_id: int, sends: int = 1) -> None:
        self.schedule.add(object_id, self.core.now())  # without ``sends``, which ``hub_attempts_max`` bounds

    # --- inquiries
    def _ask(self, unit: Unit, query: Query) -> Asked:
        """H10: inquire about sent rows. H16: repeat refusals that a sender has not noted."""
        after, rows = AfterCopies(), list(unit.outbound_found(query))
        for row in rows:
            self.apply_event(unit, row, HubEvent.ask, after)
        return Asked(len(rows), lambda: self.apply(after))

    # --- the row of a copy
    def apply_event(
        self,
        unit: Unit,
        row: Outbound | None,
        event: HubEvent,
        after: AfterCopies,
        cause: object = None,
        detail: str = "",
    ) -> CopyState:
        """Change a copy by the grid and do the deed of the cell. ``cause``: what the deed needs.

        Return the state before the event. Raises ImpossibleEvent, without a change.
        """
        state = copy_state(row)
        rule = HUB.step(state, event)
        if row is not None and rule.after is not state:
            after.waiting[row.dest] += (rule.after in WAITING) - (state in WAITING)
            if rule.after is CopyState.ABSENT:
                unit.delete_outbound(row)
                after.released.append(row)
            else:
                before, row.ss_status = row.ss_status, STATUS[rule.after]
                unit.change_outbound(row, before)
            if event in LINES:
                note(self.core, unit, LINES[event], row, detail)
        if rule.deed is not None:
            EFFECTS[rule.deed](self, unit, row, after, cause)
        return state

    def apply(self, after: AfterCopies) -> None:
        """Carry out the actions that follow the commit."""
        self._waiting.update(after.waiting)
        for row in after.released:
            self._count_release(row)
        for row in after.refused:
            self._end_flight(row)
            self.schedule.add(row.object_id, self.core.now())  # repeats the refusal until the sender has noted it
        for row in after.renewed:
            self.forget_sends(row)
        for row in after.once_more:
            self._permit_another_send(row)
        for row in (*after.wake, *after.renewed, *after.once_more):
            self.pump.lane(row.dest).flight.discard(row.object_id)
            self.pump.wake(row)
        for arguments in after.mail:
            self.core.mail.add(*arguments)
        if after.inquired:
            self.core.count("inquired", after.inquired)

    def _permit_another_send(self, row: Outbound) -> None:
        """Permit one send more of a copy that was sent too often in this session of its target."""
        sends, most = self._sends.get(row.dest), self.core.settings.hub_attempts_max
        if sends is not None:
            sends[row.object_id] = min(sends[row.object_id], most - 1)

    def forget_sends(self, row: Outbound) -> None:
        if row.dest in self._sends:
            self._sends[row.dest].pop(row.object_id, None)
