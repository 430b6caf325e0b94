"""Occasions of the rules of PROTOCOL.md section 7: moments at which a node without the rule would act otherwise.

A rule without occasions in a campaign is not tested by it. Some occasions are cells of the grids; the others are
counted from the frames, rows and transactions that the oracle sees.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from semq.engine.sender.rejected_proofs import is_proof_rejected
from semq.store.rows import InStreamKey, Outbound, OutStreamKey, Pending, Slot
from semq.store.unit import Unit
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, Receipt
from semq.umx_t.status import AppStatus, Arrival, Direction, SendStatus
from tests.simulation.oracle.oracle import Oracle

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.world import World

Cell = tuple[str, str, str]
# Rule and switch of docs/protocol/evidence.md | occasion | grid, states and events of its cells; none: counted below
TABLE = """
N1 dedup            | a copy arrives of a message whose row is in tb_0030
N2 ledger           | a copy arrives of a message whose row in tb_0030 was deleted
N3 floor_e2e        | a floor is stated while the hub holds the message at it
N4 sid_commit_order | a transaction that assigns positions is not committed
N5 inc              | a position is assigned that an earlier incarnation has used
N6 full_key         | a record has the number of a row, and names another message
N7 lattice          | news about an ended message | class3,class12 FINAL fwd,save,rej,void,settled,refused,discarded
N8 sent_first       | a transaction that sends messages of class 1 or 2 is not committed
N9 hub_not_final    | the hub states custody of a message that has not arrived
N10 custody         | a message in custody has not arrived | class3 SS_ACK ask,not_here,not_here_bare
N11 void_lost       | a message has not arrived, and its sender has no payload | class3 GONE not_here_bare
N12 hub_keep        | a copy that was sent is still needed | hub SS_SENT ask,asked,again,inquired,not_here
N13 ack_lk0         | an Ack has the number of a copy, and names another message | hub SS_INIT,SS_SENT,REFUSED ack_other
N14 commit_then_ack | a transaction that records messages is not committed
N15 app_gate        | a node starts with a document that no application has answered
N16 gone_reply      | evidence about a message that has ended | class3 ABSENT,FINAL recv,rej,void,settled
N17 clean_any_ack2  | a delivered message with @Ack2=0 is deleted
N18 poison_ack      | a message arrives that cannot be opened | receiver NOT unreadable
N19 route_store     | a record about a copy arrives at a process with another store
N20 retired         | a record arrives about a copy in a lost store
N21 mono            | a clock is set while messages wait
N22 class12_giveup  | no outcome, class 1 or 2 | class12 SS_SENT,SS_ACK_FWD,SS_ACK give_up,fwd_failed
N23 order           | a document is recorded before its predecessor
N24 order_skip      | a VOID or REJ row is recorded before its turn
N25 order_ask       | a row waits for its predecessor | owed AS_INIT,AS_ACK blocked
N25 floors_all      | ReAck2 states the floor of another incarnation
N25 inc_closed      | ReAck2 states that an incarnation is closed
N26 offline_resend  | the hub has no copy, and the target is offline | class3 SS_SENT,SS_ACK_FWD,AWAY offline
N27 cust_timeout    | the custodian was unreachable for T_cust | class3 SS_ACK unavail
N27b fwd_fail       | the session of the target ended before its Ack2 | class3 SS_SENT,SS_ACK_FWD fwd_failed
N28 nonce           | the answer NOT to an earlier inquiry arrives
N29 r_any_state     | evidence about a message that does not count as sent | class3 SS_INIT recv,rej,void,settled
N29 ack_dups        | a copy arrives of a recorded message | receiver RECV,REJ,VOID,SETTLED payload,marker
N29 order_lower     | a document is recorded behind an earlier one of its order key
N30 sign_again      | a report arrives that the signature of a message is not accepted
N31 keep_payload    | a signature without payload arrives for a copy
N32 untrusted_ack   | a copy arrives of a recorded message whose key is not trusted any more
N33 once_more       | the sender of a parked copy inquires about it
"""


class RuleRow(NamedTuple):
    name: str
    occasion: str
    cells: frozenset[Cell]  #: empty if ``CountingOracle`` counts the occasions


def _read(line: str) -> RuleRow:
    name, occasion, *cells = (part.strip() for part in line.split("|"))
    if not cells:
        return RuleRow(name, occasion, frozenset())
    grids, states, events = (part.split(",") for part in cells[0].split())
    return RuleRow(name, occasion, frozenset((g, s, e) for g in grids for s in states for e in events))


RULES = tuple(map(_read, TABLE.strip().splitlines()))
RULES_OF_CELL: dict[Cell, list[str]] = {}
for _rule in RULES:
    for _cell in _rule.cells:
        RULES_OF_CELL.setdefault(_cell, []).append(_rule.name)


def occasions(counted: Counter[str], cells: Counter[Cell]) -> Counter[str]:
    """Return the number of occasions of each rule. ``counted``: those of ``CountingOracle``."""
    total = Counter(counted)
    for cell in RULES_OF_CELL.keys() & cells.keys():
        for name in RULES_OF_CELL[cell]:
            total[name] += cells[cell]
    return total


class CountingOracle(Oracle):
    """The oracle, which also counts occasions of the rules."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self.counts = Counter[str]()
        self._at: dict[tuple[str, OutStreamKey, int], LK0] = {}  #: messages by source, stream and position
        self._used: dict[tuple[str, str, int], int] = {}  #: first incarnation of each source, target and position

    def _count(self, rule: str) -> None:
        self.counts[rule] += 1

    # --- frames
    def heard(self, host: "Host", frames: Sequence[Frame]) -> None:
        """Count the occasions in frames that arrive at a node, also in false ones."""
        for frame in frames:
            if isinstance(frame, Data):
                self._copy_arrives(host, frame)
            elif frame.function is not Function.PRESENCE:
                for record in frame.records:
                    if isinstance(record, Receipt | Inquiry):
                        self._record_arrives(host, frame, record)

    def _copy_arrives(self, host: "Host", frame: Data) -> None:
        message = self.messages.get(frame.envelope.lk0)
        if host.own_store.type != 1:
            self.counts["N31 keep_payload"] += frame.is_bare and str(frame.envelope.lk0) in host.tables.relayed
        if message is not None and message.recorded is not None and message.dest == host.name:
            is_certified = self.world.keys is not None and bool(frame.envelope.signature)
            self.counts["N32 untrusted_ack"] += is_certified and self._may_be_disbelieved(message)
            has_row = any(row.lk0 == message.lk0 for row in host.tables.pending.values())
            self._count("N1 dedup" if has_row else "N2 ledger")

    def _record_arrives(self, host: "Host", packet: Packet, record: Receipt | Inquiry) -> None:
        if host.own_store.type != 1:
            self._record_about_copy(host, packet, record)
            return
        number = record.src_ref_id if isinstance(record, Receipt) else record.ref_id
        row = host.tables.outbound.get(number)
        if row is None:
            return
        self.counts["N30 sign_again"] += isinstance(record, Receipt) and is_proof_rejected(record)
        if str(row.lk0) != record.ident:
            is_own = parse_lk0(record.ident).store == host.own_store
            self.counts["N6 full_key"] += is_own
        elif isinstance(record, Inquiry):
            is_negative = packet.primitive is Primitive.CONFIRMATION and record.effective_answer is Answer.NOT
            if is_negative and host.engine.sender.nonces.get(number) != record.nonce:
                self._count("N28 nonce")
        is_custody = (record.flag is HubFlag.STORED) if isinstance(record, Receipt) else record.answer is Answer.CUSTODY
        message = self.messages.get(row.lk0)
        if is_custody and str(row.lk0) == record.ident and message is not None and not message.recorded_ever:
            self._count("N9 hub_not_final")

    def _record_about_copy(self, host: "Host", packet: Packet, record: Receipt | Inquiry) -> None:
        if isinstance(record, Inquiry):
            number = host.tables.relayed.get(record.ident, 0)
            self.counts["N33 once_more"] += number in host.tables.outbound and host.tables.outbound[number].parked
            name = record.lk1[:2] if record.lk1 is not None else None
        else:
            name = (record.src_semq_id, record.src_semq_db_id) if record.ack_flag is AckFlag.TRANSPORT else None
        if name is None or name == (host.own_store.semq_id, host.own_store.semq_db_id):
            return
        lost = {(each.own_store.semq_id, each.own_store.semq_db_id) for each in self.world.lost}
        self._count("N20 retired" if name in lost else "N19 route_store")

    def _sent_receipt(self, host: "Host", packet: Packet, record: Receipt) -> None:
        super()._sent_receipt(host, packet, record)
        if packet.primitive is Primitive.RESPONSE and record.floors:
            inc = f"{parse_lk0(record.ident).inc:x}"
            self.counts["N25 floors_all"] += bool(record.floors.keys() - {inc})
            self.counts["N25 inc_closed"] += any(closed is not None for _, closed in record.floors.values())

    def _check_floor(self, source: str, dest: str, inc: int, floor: int) -> None:
        super()._check_floor(source, dest, inc, floor)
        lk0 = self._at.get((source, OutStreamKey(dest, inc), floor))
        if lk0 is not None and self.messages[lk0].status is SendStatus.SS_ACK and self.messages[lk0].outcome is None:
            self._count("N3 floor_e2e")

    # --- processes and transactions
    def opened(self, host: "Host") -> None:
        super().opened(host)
        for row in host.tables.pending.values():
            if row.status is Arrival.RECV and row.app_status is AppStatus.NEW and not row.owes:
                self._count("N15 app_gate")

    def clock_set(self, host: "Host") -> None:
        """Count that a clock is set while messages wait."""
        self.counts["N21 mono"] += bool(host.tables.outbound or host.tables.pending)

    def undone(self, unit: Unit) -> None:
        """Count the occasions in a transaction that is not committed, or is decided again."""
        own = [row for row in unit.new_outbound.values() if row.direction is Direction.OWN]
        changed = [unit.outbound[number] for number in unit.changed_outbound]
        self.counts["N4 sid_commit_order"] += any(row.sid >= 0 for row in own)
        self.counts["N14 commit_then_ack"] += bool(unit.new_pending)
        self.counts["N8 sent_first"] += any(
            row.sid < 0 and row.ss_status is SendStatus.SS_SENT and row.direction is Direction.OWN
            for row in (*own, *changed)
        )

    def _accepted(self, host: "Host", row: Outbound, unit: Unit) -> None:
        super()._accepted(host, row, unit)
        if row.sid >= 0:
            key = OutStreamKey(row.dest, row.lk0.inc)
            self._at[host.name, key, row.sid] = row.lk0
            used = self._used.setdefault((host.name, row.dest, row.sid), row.lk0.inc)
            self.counts["N5 inc"] += used != row.lk0.inc

    def _deleted_outbound(self, row: Outbound) -> None:
        super()._deleted_outbound(row)
        is_own = row.direction is Direction.OWN
        self.counts["N17 clean_any_ack2"] += is_own and not row.ack2 and row.ss_status is SendStatus.SS_ACK2

    def _recorded(self, host: "Host", row: Pending, unit: Unit) -> None:
        message = self.messages.get(row.lk0)
        key = (message.source, message.dest, message.order_key) if message is not None else None
        if message is not None and message.order_key and key in self.orders:
            order = self.orders[key]
            earlier = order[: order.index(message)] if message in order else []
            waiting = [each for each in earlier if not (each.done or each.makes_way)]
            self.counts["N24 order_skip"] += row.status is not Arrival.RECV and bool(waiting)
            self.counts["N29 order_lower"] += any(each.recorded is not None for each in waiting)
            if row.prev is not None:
                slot = Slot(InStreamKey(row.lk0.store, row.prev.inc), row.prev.sid)
                stream = host.tables.in_streams.get(slot.stream)
                is_settled = stream is not None and row.prev.sid < stream.floor
                is_there = slot in host.tables.recorded or slot in unit.new_recorded
                self.counts["N23 order"] += not (is_settled or is_there)
        super()._recorded(host, row, unit)
