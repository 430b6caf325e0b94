"""Mutations: rules of PROTOCOL.md, each removed from the engine by a patch; a campaign must find a violation.

The checks of the store are off, because the oracle has to find the violation. The fault kinds of a mutation happen
more often, in every seed.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from local_node.doors import schedule
from semq.engine.hub import deeds
from semq.engine.hub.copies import Copies
from semq.engine.hub.custody import Custody
from semq.engine.hub.forwarding import Relay
from semq.engine.hub.freshness import Freshness, Novelty
from semq.engine.hub.instances import Instances
from semq.engine.hub.stores import Stores
from semq.engine.people.acts import MessageActs
from semq.engine.receiver import handover, ledger, reacks, recording
from semq.engine.receiver.handover import Handover
from semq.engine.receiver.recording import Receiver
from semq.engine.sender import outbound, receipts, scheduling
from semq.engine.sender.groups import GroupExpansion
from semq.engine.sender.lanes import Pump
from semq.engine.sender.outbound import OutboundRows
from semq.engine.sender.rejected_proofs import RejectedProofs
from semq.engine.sender.statements import Statements
from semq.engine.sender.submission import Acceptance
from semq.store import rows
from semq.store.rows import Pending
from semq.store.work import COMMITTED, Steps, Work
from semq.umx_t.envelope import Data
from semq.umx_t.grid import Grid, GridRule
from semq.umx_t.grids import SENDER, SENDER_12, HubDeed, SenderDeed, SenderEvent, SenderState
from tests.memory_store import store as memory
from tests.simulation import faulty_rules as faulty
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


PATCHES: dict[str, tuple[Patch, ...]] = {
    "dedup": (swap(ledger, "recorded_at", faulty.forgetful), swap(ledger, "seen", faulty.forgetful)),
    "ledger": (swap(memory, "apply", faulty.forget_with_the_row),),
    "floor_e2e": (swap(OutboundRows, "apply_event", faulty.settle_at_custody),),
    "inc": (swap(SimClock, "incarnation", lambda draw: lambda clock: 7),),
    "full_key": (
        swap(SimClock, "incarnation", lambda draw: lambda clock: 7),
        *(swap(module, "InStreamKey", faulty.without_the_node) for module in (recording, reacks, ledger, rows)),
    ),
    "lattice": (
        cell(SENDER, SenderState.FINAL, SenderEvent.save, SenderState.SS_ACK, SenderDeed.custody),
        cell(SENDER, SenderState.FINAL, SenderEvent.fwd, SenderState.SS_ACK_FWD),
    ),
    "sent_first": (swap(Pump, "_claim", decided(faulty.send_first)),),
    "hub_not_final": (swap(receipts, "note_custody", faulty.believe_the_hub),),
    "custody": (
        cell(SENDER, SenderState.SS_ACK, SenderEvent.ask, SenderState.SS_ACK, SenderDeed.ask_target),
        cell(SENDER, SenderState.SS_ACK, SenderEvent.not_here_bare, SenderState.SS_INIT, SenderDeed.give_up),
        swap(Copies, "receive_inquiries", lambda original: Copies.pass_on),
    ),
    "void_lost": (cell(SENDER, SenderState.GONE, SenderEvent.not_here_bare, SenderState.LOST),),
    "hub_keep": (swap(Custody, "claim", faulty.delete_when_sent),),
    "ack_lk0": (swap(Copies, "_acks", rewritten(faulty.any_ident)),),
    "commit_then_ack": (swap(Receiver, "_record", decided(faulty.ack_first)),),
    "app_gate": (swap(Pending, "is_removable", faulty.removable_when_noted),),
    "gone_reply": (swap(receipts, "_mail_reack2", faulty.only_what_is_here),),
    "class12_giveup": (
        swap(receipts._Answers, "_negative", faulty.resend_always),
        cell(SENDER_12, SenderState.SS_SENT, SenderEvent.not_here, SenderState.SS_INIT, SenderDeed.wake),
        cell(SENDER_12, SenderState.SS_ACK_FWD, SenderEvent.not_here, SenderState.SS_INIT, SenderDeed.wake),
    ),
    "order": (swap(handover, "may_follow", lambda may: lambda unit, row: True),),
    "order_skip": (swap(recording._Arrivals, "_insert", faulty.done_at_once),),
    "returned_marker": (
        cell(SENDER, SenderState.SS_SENT, SenderEvent.returned, SenderState.REJECTED),
        cell(SENDER, SenderState.SS_ACK, SenderEvent.returned, SenderState.REJECTED),
    ),
    "refused_once": (swap(Relay, "receive_messages", faulty.store_what_is_refused),),
    "refused_earlier": (swap(receipts._Receipts, "_is_only_copy", faulty.whenever_sent_once),),
    "cancel_asked": (swap(outbound, "ends_rejected", lambda ends_rejected: lambda reason: False),),
    "refusal_kept": (effect(deeds.EFFECTS, HubDeed.refuse, faulty.forget_at_once),),
    "own_number": (
        swap(Statements, "row", lambda row: lambda statements, lk0: statements.unit.outbound.get(lk0.object_id)),
    ),
    "copy_number": (swap(Custody, "apply_event", faulty.custody_by_number),),
    "answer_number": (swap(Copies, "_answers", rewritten(faulty.records_by_number)),),
    "noted_number": (swap(Copies, "_noted", rewritten(faulty.noted_by_number)),),
    "reack_number": (swap(reacks._NodeStatements, "note", faulty.reack_by_number),),
    "reack_copy": (
        swap(reacks._NodeStatements, "_names_copy_of", lambda original: staticmethod(lambda row, record: True)),
    ),
    "cancel_number": (swap(MessageActs, "_cancel", rewritten(faulty.cancel_by_number)),),
    "own_store": (swap(Stores, "receive_acks", faulty.note_elsewhere),),
    "retired": (swap(Stores, "is_retired", lambda is_retired: lambda stores, lk1: False),),
    "order_unit": (swap(handover, "is_predecessor_in_unit", lambda is_in_unit: lambda unit, row: False),),
    "order_accept": (swap(Acceptance, "_accept", rewritten(faulty.backwards)),),
    "late_read": (swap(deeds, "refusal", faulty.decided_from_the_row),),
    "reported_late": (
        swap(deeds, "refusal", faulty.decided_from_the_row),
        swap(memory, "end", lambda end: lambda rows: None),
    ),
    "floor_frees": (swap(Handover, "note_floor", lambda note: lambda handover, stream, floor, closed: None),),
    "inc_closed": (swap(receipts, "_floor", faulty.open_for_ever),),
    "retired_ack": (swap(Stores, "receive_acks", lambda receive: lambda stores, acks: None),),
    "retired_front": (swap(Instances, "split", faulty.sent_to_retired),),
    "carrier_once": (swap(Freshness, "note", lambda note: lambda freshness, life, number, *, proves: Novelty.NEW),),
    "sign_again": (swap(RejectedProofs, "next_event", lambda next_event: lambda proofs, *facts: None),),
    "keep_payload": (swap(Data, "is_bare", lambda is_bare: property(lambda data: False)),),
    "once_more": (swap(Custody, "_permit_another_send", lambda permit: lambda custody, row: None),),
    "settled": (swap(ledger, "recorded_at", faulty.recv_below_the_floor),),
    "due_early": (swap(schedule, "release_due", faulty.a_day_ahead),),
    "group_member": (swap(GroupExpansion, "targets_of", faulty.without_the_last),),
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
refused_earlier  18  150   30  strike_off,restore_local,hold,offline reported as refused, although delivered
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
floor_frees      N24   0  100  signed,strike_off,restore_local,offline,cancel  rows that wait for ever
inc_closed       F6    0  100  signed,restore_local,offline            rows that wait for ever
retired_ack      H6   60  100  lose_store,offline                     rows that wait for ever
retired_front    10   20  100  instances,lose_store,offline           rows that wait for ever
carrier_once     10    0   15  instances                              a message of the carrier processed twice
sign_again       N30   0   20  revoke,offline                        rows that wait for ever
keep_payload     N31   0   20  revoke,offline                        a copy at the hub that loses its payload
once_more        N33  10   30  revoke,offline                        rows that wait for ever
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
