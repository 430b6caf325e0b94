"""Mutations: rules of PROTOCOL.md, each removed from the engine by a patch; a campaign must find a violation.

The checks of the store are off, because the oracle has to find the violation. The fault kinds of a mutation happen
more often, in every seed.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from local_node.doors import schedule
from semq.engine.hub import deeds
from semq.engine.hub.copies import Copies
from semq.engine.hub.custody import Custody
from semq.engine.hub.forwarding import Relay
from semq.engine.hub.stores import Stores
from semq.engine.people.acts import MessageActs
from semq.engine.receiver import handover, ledger, reacks, recording
from semq.engine.receiver.recording import Receiver
from semq.engine.sender import outbound, receipts, scheduling
from semq.engine.sender.groups import GroupExpansion
from semq.engine.sender.lanes import Pump
from semq.engine.sender.outbound import OutboundRows
from semq.engine.sender.statements import Statements
from semq.engine.sender.submission import Acceptance
from semq.store import rows
from semq.store.rows import Pending, Recorded
from semq.store.work import COMMITTED, Steps, Work
from semq.umx_t.grid import Grid, GridRule
from semq.umx_t.grids import SENDER, SENDER_12, HubDeed, HubEvent, SenderDeed, SenderEvent, SenderState
from semq.umx_t.locator import Store
from semq.umx_t.status import AppStatus, Arrival, SendStatus
from tests.memory_store import store as memory
from tests.memory_store.tables import Tables
from tests.simulation.timeline import SimClock

Undo = Callable[[], None]
Patch = Callable[[], Undo]
Change = Callable[[Any], Any]


@dataclass(slots=True, frozen=True)
class Mutation:
    """One rule, and the patches that remove it."""

    rule: str
    violation: str  #: the violation that the oracle finds
    first_seed: int  #: first seed of a usual run of the tests; no earlier one finds the violation
    seed_count: int  #: number of seeds within which the violation is found
    patches: tuple[Patch, ...]
    focus: frozenset[str] = frozenset()

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for patch in (swap(memory, "check", lambda check: lambda tables, unit: None), *self.patches):
                stack.callback(patch())
            yield


def swap(owner: Any, name: str, change: Change) -> Patch:
    def patch() -> Undo:
        original = owner.__dict__[name]
        setattr(owner, name, change(original))
        return lambda: setattr(owner, name, original)

    return patch


def cell(grid: Grid[Any, Any, Any], standing: Any, on: Any, after: Any, deed: Any = None) -> Patch:
    def patch() -> Undo:
        original = grid._rules[standing, on]
        grid._rules[standing, on] = GridRule(after, deed)
        return lambda: grid._rules.__setitem__((standing, on), original)

    return patch


def effect(effects: dict[Any, Any], deed: Any, change: Change) -> Patch:
    def patch() -> Undo:
        original = effects[deed]
        effects[deed] = change(original)
        return lambda: effects.__setitem__(deed, original)

    return patch


def decided(act: Callable[[Any, dict[str, Any]], None]) -> Change:
    """Return a change of a method that makes work: when the work is decided, it calls ``act``.

    ``act`` gets the owner of the method, and the local variables of the work.
    """

    def change(make: Any) -> Any:
        def made(owner: Any, *arguments: Any) -> Work:
            def steps() -> Steps:
                piece: Any = make(owner, *arguments)
                unit = yield piece.needs
                piece.decide(unit)
                act(owner, piece._steps.gi_frame.f_locals)
                yield COMMITTED
                piece.finish()

            return Work(steps)

        return made

    return change


def rewritten(rewrite: Callable[..., tuple[Any, ...]]) -> Change:
    """Return a change of a method that makes work: once the rows are loaded, ``rewrite`` replaces the arguments."""

    def change(make: Any) -> Any:
        def made(owner: Any, *arguments: Any) -> Work:
            def steps() -> Steps:
                unit = yield make(owner, *arguments).needs
                piece = make(owner, *rewrite(unit, *arguments))
                piece.decide(unit)
                yield COMMITTED
                piece.finish()

            return Work(steps)

        return made

    return change


# ------------------------------------------------------------------------------------ the faulty replacements


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


PATCHES: dict[str, tuple[Patch, ...]] = {
    "dedup": (swap(ledger, "recorded_at", forgetful), swap(ledger, "seen", forgetful)),
    "ledger": (swap(memory, "apply", forget_with_the_row),),
    "floor_e2e": (swap(OutboundRows, "apply_event", settle_at_custody),),
    "inc": (swap(SimClock, "incarnation", lambda draw: lambda clock: 7),),
    "full_key": (
        swap(SimClock, "incarnation", lambda draw: lambda clock: 7),
        *(swap(module, "InStreamKey", without_the_node) for module in (recording, reacks, ledger, rows)),
    ),
    "lattice": (
        cell(SENDER, SenderState.FINAL, SenderEvent.save, SenderState.SS_ACK, SenderDeed.custody),
        cell(SENDER, SenderState.FINAL, SenderEvent.fwd, SenderState.SS_ACK_FWD),
    ),
    "sent_first": (swap(Pump, "_claim", decided(send_first)),),
    "hub_not_final": (swap(receipts, "note_custody", believe_the_hub),),
    "custody": (
        cell(SENDER, SenderState.SS_ACK, SenderEvent.ask, SenderState.SS_ACK, SenderDeed.ask_target),
        cell(SENDER, SenderState.SS_ACK, SenderEvent.not_here_bare, SenderState.SS_INIT, SenderDeed.give_up),
        swap(Copies, "receive_inquiries", lambda original: Copies.pass_on),
    ),
    "void_lost": (cell(SENDER, SenderState.GONE, SenderEvent.not_here_bare, SenderState.LOST),),
    "hub_keep": (swap(Custody, "claim", delete_when_sent),),
    "ack_lk0": (swap(Copies, "_acks", rewritten(any_ident)),),
    "commit_then_ack": (swap(Receiver, "_record", decided(ack_first)),),
    "app_gate": (swap(Pending, "is_removable", removable_when_noted),),
    "gone_reply": (swap(receipts, "_mail_reack2", only_what_is_here),),
    "class12_giveup": (
        swap(receipts._Answers, "_negative", resend_always),
        cell(SENDER_12, SenderState.SS_SENT, SenderEvent.not_here, SenderState.SS_INIT, SenderDeed.wake),
        cell(SENDER_12, SenderState.SS_ACK_FWD, SenderEvent.not_here, SenderState.SS_INIT, SenderDeed.wake),
    ),
    "order": (swap(handover, "may_follow", lambda may: lambda unit, row: True),),
    "order_skip": (swap(recording._Arrivals, "_insert", done_at_once),),
    "returned_marker": (
        cell(SENDER, SenderState.SS_SENT, SenderEvent.returned, SenderState.REJECTED),
        cell(SENDER, SenderState.SS_ACK, SenderEvent.returned, SenderState.REJECTED),
    ),
    "refused_once": (swap(Relay, "receive_messages", store_what_is_refused),),
    "refused_earlier": (swap(receipts._Receipts, "_is_only_copy", whenever_sent_once),),
    "cancel_asked": (swap(outbound, "ends_rejected", lambda ends_rejected: lambda reason: False),),
    "refusal_kept": (effect(deeds.EFFECTS, HubDeed.refuse, forget_at_once),),
    "own_number": (
        swap(Statements, "row", lambda row: lambda statements, lk0: statements.unit.outbound.get(lk0.object_id)),
    ),
    "copy_number": (swap(Custody, "apply_event", custody_by_number),),
    "answer_number": (swap(Copies, "_answers", rewritten(records_by_number)),),
    "noted_number": (swap(Copies, "_noted", rewritten(noted_by_number)),),
    "reack_number": (swap(reacks._NodeStatements, "note", reack_by_number),),
    "reack_copy": (
        swap(reacks._NodeStatements, "_names_copy_of", lambda original: staticmethod(lambda row, record: True)),
    ),
    "cancel_number": (swap(MessageActs, "_cancel", rewritten(cancel_by_number)),),
    "own_store": (swap(Stores, "receive_acks", note_elsewhere),),
    "retired": (swap(Stores, "is_retired", lambda is_retired: lambda stores, lk1: False),),
    "order_unit": (swap(handover, "is_predecessor_in_unit", lambda is_in_unit: lambda unit, row: False),),
    "order_accept": (swap(Acceptance, "_accept", rewritten(backwards)),),
    "late_read": (swap(deeds, "refusal", decided_from_the_row),),
    "reported_late": (swap(deeds, "refusal", decided_from_the_row), swap(memory, "end", lambda end: lambda rows: None)),
    "settled": (swap(ledger, "recorded_at", recv_below_the_floor),),
    "due_early": (swap(schedule, "release_due", a_day_ahead),),
    "group_member": (swap(GroupExpansion, "targets_of", without_the_last),),
    "manifest": (swap(recording, "check_manifest", lambda check: lambda *facts: None),),
    "due_token": (swap(scheduling, "_known", lambda known: lambda unit, waiting, token: None),),
}
# Name | rule, transition, break or section of PROTOCOL.md | first seed | number of seeds | fault kinds | violation.
TABLE = """
dedup            N1    0   30  half_open,cut                         recorded twice
ledger           N2   14  200  hold,replay,cut,overtake              recorded again after cleanup
floor_e2e        N3    0   30  offline                               a floor that is not true
inc              N5    3  200  restore_local,replay                  a name given out twice
full_key         N6    0   30  offline                               another node's message taken for this one
lattice          N7    5   60  rumours,replay,refusal,poison,cancel  an ended row that changes
sent_first       N8    0   60  commit,slow_disk,crash_at_step        classes 1 and 2 sent twice
hub_not_final    N9    0   15  offline                               outcome DELIVERED, but not delivered
custody          N10   3  120  offline,stall                         void although nothing was lost
void_lost        N11  14  100  wipe_hub,restore_hub,offline          given up without an answer of the receiver
hub_keep         N12   0   15  offline                               a copy deleted before it was recorded
ack_lk0          N13   5  100  rumours,offline                       another message's copy deleted
commit_then_ack  N14   0   15  slow_disk                             an acknowledgement that is not true yet
app_gate         N15   0   30  absent,think                          a document that no application had
gone_reply       N16   0   30  half_open,stall,cut                   rows that stay for ever
class12_giveup   N22   0   60  stall,half_open,cut,offline           classes 1 and 2 sent again
order            N23   0  120  cut,half_open,offline                 given out of order
order_skip       N24  12  150  cancel,poison,cut,half_open,offline   given past a gap
returned_marker  S15   5   60  act_on_copies,restore_hub,offline     ended without a question to the receiver
refused_once     I6   12  100  refusal,offline                       reported as refused, then delivered
refused_earlier  18   10  100  strike_off,restore_local,hold,offline reported as refused, although delivered
cancel_asked     S5   35   60  refusal,expiry,offline                cancelled without a request
refusal_kept     H16   0   30  act_on_copies,offline                 a refusal that its sender never receives
own_number       N6    0  100  rumours,offline                       a row that is taken for another by its number
copy_number      N13   0  150  wipe_hub,restore_hub,offline          custody of another message under the same number
answer_number    H11   0  100  rumours,offline                       another message's copy deleted
noted_number     H17  25  100  rumours,act_on_copies,offline         a refusal that its sender never receives
reack_number     R3    0  100  rumours,offline                       an acknowledgement that is still owed
reack_copy       R3   25  100  rumours,offline,commit,slow_disk      an acknowledgement of another copy
cancel_number    N6    0  100  rumours,operator,offline              cancelled without a request
own_store        H6   15  100  other_store,commit,slow_disk          an acknowledgement noted by the wrong store
retired          H9    0  100  lose_store,offline                    rows that wait for a lost store for ever
order_unit       N23   0   60  burst,overtake                        overtaken within one unit
order_accept     N23   0   60  offline                               accepted in another order than submitted
late_read        5.1   0    5  act_on_copies,offline                 work that reads a row after its unit
reported_late    H16  12   60  act_on_copies,offline,cancel          a refusal reported as that of a marker
settled          F9    0  150  restore_local,cancel                  delivered although cancelled
due_early        S1    0   30  schedule,offline                      a scheduled document sent before its time
group_member     2.1   0   30  groups,offline                        a member of a group that is left out
due_token        S1    6  150  schedule,commit,slow_disk             a scheduled document that is scheduled twice
manifest         24    0   30  pieces,restore_local,offline          a manifest recorded without its pieces
"""


def _read(line: str) -> tuple[str, Mutation]:
    name, rule, first, seeds, focus, seen = line.split(None, 5)
    return name, Mutation(rule, seen, int(first), int(seeds), PATCHES[name], frozenset(focus.split(",")))


MUTATIONS = dict(map(_read, TABLE.strip().splitlines()))
