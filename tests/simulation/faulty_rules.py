"""The faulty replacements of methods and functions of the engine, which ``mutations`` puts in their places."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from semq.engine.hub import deeds
from semq.engine.hub.custody import Custody
from semq.engine.hub.forwarding import Relay
from semq.engine.hub.instances import Instances
from semq.engine.hub.stores import Stores
from semq.engine.receiver import recording
from semq.engine.receiver.recording import Receiver
from semq.engine.sender.lanes import Pump
from semq.engine.sender.outbound import OutboundRows
from semq.store.rows import Recorded
from semq.umx_t.grids import HubEvent, SenderEvent
from semq.umx_t.locator import Store
from semq.umx_t.status import AppStatus, Arrival, SendStatus
from tests.memory_store.tables import Tables


def forgetful(known: Any) -> Any:
    """Treat every copy as the first."""
    return lambda unit, key: Recorded(Arrival.NOT)


def forget_with_the_row(apply: Any) -> Any:
    """Delete the ledger entry with the row of tb_0030."""

    def applied(tables: Tables, unit: Any) -> None:
        gone = [tables.pending[bref].slot for bref in unit.deleted_pending if bref in tables.pending]
        apply(tables, unit)
        for slot in gone:
            tables.recorded.pop(slot, None)

    return applied


def settle_at_custody(original: Any) -> Any:
    """Count messages in custody as settled."""

    def changed(rows: OutboundRows, unit: Any, row: Any, *news: Any, **more: Any) -> Any:
        deed = original(rows, unit, row, *news, **more)
        if row is not None and row.ss_status is SendStatus.SS_ACK and row.sid >= 0:
            rows.floor(row).settle(row.sid)
        return deed

    return changed


def send_first(pump: Pump, claim: dict[str, Any]) -> None:
    """Send a message before the commit of SS_SENT."""
    pump.send(claim["lane"].dest, list(claim["frames"]))
    claim["frames"].clear()


def believe_the_hub(custody: Any) -> Any:
    """Treat Ack-Save and CUSTODY like the receiver's Ack2."""
    return lambda statements, row, lk1, void: statements.apply_event(row, SenderEvent.recv)


def delete_when_sent(claim: Any) -> Any:
    """Delete a copy at the hub when it is sent, not when it is acknowledged."""

    def claims(custody: Custody, unit: Any, row: Any, stored: Any, events: Any) -> Any:
        frame = claim(custody, unit, row, stored, events)
        if frame is not None:
            unit.delete_outbound(row)
        return frame

    return claims


def any_ident(unit: Any, acks: Any) -> tuple[Any, ...]:
    """Apply an Ack to the copy with its number, even if it names another message."""
    named = [(ack, unit.outbound.get(ack.lk1.object_id)) for ack in acks]
    return ([ack._replace(ident=str(row.lk0), source=row.target.node) if row else ack for ack, row in named],)


def ack_first(receiver: Receiver, recorded: dict[str, Any]) -> None:
    """Send acknowledgements before the commit."""
    arrivals = recorded["arrivals"]
    for envelope, entry, bref in arrivals._acks:
        recording.ack(receiver.core, receiver.uplink.hub, envelope, entry, bref, arrivals._at)


def removable_when_noted(is_removable: Any) -> Any:
    """Delete a row of tb_0030 when both acknowledgements are noted, even before the delivery."""
    return property(lambda row: not row.owes)


def only_what_is_here(reply: Any) -> Any:
    """Send no ReAck2 for deleted rows."""

    def replies(statements: Any, next_sids: Any) -> None:
        rows = statements.core._store.tables.outbound
        statements.after.evidence = [entry for entry in statements.after.evidence if entry.lk0.object_id in rows]
        reply(statements, next_sids)

    return replies


def without_the_node(key: Any) -> Any:
    """Leave the source node out of the receiver's keys."""
    return lambda store, inc: key(Store(store.type, "?"), inc)


def resend_always(no: Any) -> Any:
    """Send messages of all classes again after the answer NOT of any node."""
    return lambda statements, row, lk0, record, answer: statements.apply_event(row, SenderEvent.not_here)


def done_at_once(insert: Any) -> Any:
    """Count a message recorded as VOID or REJ as handled before its turn in the order."""

    def inserts(arrivals: Any, envelope: Any, slot: Any, entry: Recorded, opened: Any) -> int:
        bref: int = insert(arrivals, envelope, slot, entry, opened)
        if entry.status is not Arrival.RECV:
            arrivals._unit.change_app_status(arrivals._unit.new_pending[bref], AppStatus.DONE)
        return bref

    return inserts


def recv_below_the_floor(known: Any) -> Any:
    """Answer RECV instead of SETTLED below the floor."""

    def knows(unit: Any, slot: Any) -> Recorded:
        entry: Recorded = known(unit, slot)
        return Recorded(Arrival.RECV) if entry.status is Arrival.SETTLED else entry

    return knows


def store_what_is_refused(original: Any) -> Any:
    """Let the hub refuse a message on arrival and also store it, if the target is offline."""

    def changed(relay: Relay, peer: Any, messages: Any) -> None:
        original(relay, peer, messages)
        away = [message for message in messages if str(message.envelope.target.node) not in relay.sessions]
        refused = [(message, None) for message in away if relay._refusal(message) is not None]
        for message, _ in refused:
            relay.custody.expect(str(message.envelope.target.node))
        if refused:
            relay.custody.store(refused, relay._refuse)

    return changed


def forget_at_once(refuse: Any) -> Any:
    """Let the hub delete a refused copy after the first report."""

    def refuses(custody: Custody, unit: Any, row: Any, after: Any, verdict: Any) -> None:
        refuse(custody, unit, row, after, verdict)
        unit.delete_outbound(row)

    return refuses


def note_elsewhere(original: Any) -> Any:
    """Answer ReAck in the process that received an Ack, even if the copy is in another store."""

    def changed(stores: Stores, acks: Any) -> None:
        for ack in acks:
            stores.core.mail.add(*deeds.reack(ack))

    return changed


def custody_by_number(original: Any) -> Any:
    """Answer CUSTODY for any copy with the number in the inquiry."""

    def changed(
        custody: Custody, unit: Any, row: Any, news: HubEvent, after: Any, cause: Any = None, **more: Any
    ) -> Any:
        if news is HubEvent.asked:
            row = unit.outbound.get(cause.lk1.object_id)
        return original(custody, unit, row, news, after, cause, **more)

    return changed


def records_by_number(unit: Any, source: Any, named: Any) -> tuple[Any, ...]:
    """Apply a record to the copy with its number, even if it names another message."""
    rows = [(lk1, record, unit.outbound.get(lk1.object_id)) for lk1, record in named]
    return source, [(lk1, replace(record, ident=str(row.lk0)) if row else record) for lk1, record, row in rows]


def noted_by_number(unit: Any, source: Any, noted: Any) -> tuple[Any, ...]:
    """Apply a ReAck of a refusal to the copy with its number, even if it names another message."""
    rows = [(lk1, ident, unit.outbound.get(lk1.object_id)) for lk1, ident in noted]
    return source, [(lk1, str(row.lk0) if row else ident) for lk1, ident, row in rows]


def reack_by_number(note: Any) -> Any:
    """Apply ReAck and ReAck2 to the row with their number, even if they name another message."""

    def notes(statements: Any, lk0: Any, record: Any) -> None:
        row = statements._unit.pending.get(record.dest_ref_id)
        note(statements, row.lk0 if row is not None else lk0, record)

    return notes


def cancel_by_number(unit: Any, lk0s: Any, *rest: Any) -> tuple[Any, ...]:
    """Cancel the message that now has the number."""
    named = [(lk0, unit.outbound.get(lk0.object_id)) for lk0 in lk0s]
    return [row.lk0 if row else lk0 for lk0, row in named], *rest


def backwards(unit: Any, submissions: Any, faults: Any, *rest: Any) -> tuple[Any, ...]:
    """Reverse the order of documents that are submitted together."""
    return submissions[::-1], {len(submissions) - 1 - index: fault for index, fault in faults.items()}, *rest


class Late(tuple[Any, ...]):
    """A frame built from its row when it is sent, after the unit."""

    def __new__(cls, make: Callable[[], tuple[Any, ...]]) -> "Late":
        late = super().__new__(cls, make())
        late.make = make
        return late

    make: Callable[[], tuple[Any, ...]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.make())


def decided_from_the_row(refusal: Any) -> Any:
    """Build a refusal from its row after the commit, when the row may have become the sender's marker."""
    return lambda core, row: Late(lambda: refusal(core, row))


def whenever_sent_once(is_only_copy: Any) -> Any:
    """Treat the first attempt as the only copy, also of a row that a backup may have restored."""
    return lambda receipts, row, reason: row.att == 1


def open_for_ever(floor_of: Any) -> Any:
    """Do not close an incarnation that the sender's store does not know."""

    def changed(*arguments: Any) -> Any:
        floor, closed = floor_of(*arguments)
        return floor, None if (floor, closed) == (0, 0) else closed

    return changed


def sent_to_retired(split: Any) -> Any:
    """Send records about copies in a retired store to that store."""

    def changed(instances: Instances, peer: Any, packet: Any) -> Any:
        homes = instances._homes
        instances._homes = SimpleNamespace(of=homes.of, is_in_use=lambda store: True)
        try:
            return split(instances, peer, packet)
        finally:
            instances._homes = homes

    return changed


def a_day_ahead(release: Any) -> Any:
    """Release documents one day early."""

    def ahead(core: Any, done: Any) -> Any:
        clock = SimpleNamespace(now_ms=lambda: core.now_ms() + 86_400_000)
        return release(clock, done)

    return ahead


def without_the_last(targets_of: Any) -> Any:
    """Leave out the last member of each group of several."""

    def without_last(*arguments: Any) -> Any:
        members = targets_of(*arguments)
        return members[:-1] or members

    return without_last
