"""A second implementation of the verdict on a message, in plain Python and from the documentation alone.

It shares no grid, table, bits or SQL with the job, so that a difference shows a mistake of one of them.
"""

from dataclasses import dataclass, field

from semq.engine.uplink import DIRECTLY
from semq.store.rows import Event, Side

E = Event
S, H, R = Side.SENDER, Side.HUB, Side.RECEIVER
NOTES = {E.INQUIRED, E.ANSWERED, E.VIOLATION, E.MISMATCH, E.OPERATOR}
FORBIDDEN = {
    S: {E.RELEASED, E.RECEIVED, E.PLATFORM_ACKED, E.SENDER_ACKED},
    H: {E.RECEIVED, E.PLATFORM_ACKED, E.SENDER_ACKED},
    R: {E.ACCEPTED, E.RELEASED},
}


@dataclass
class OracleWorld:
    """The facts that a verdict needs besides the lines of its message. Times: milliseconds since 1970 UTC."""

    start: int  #: of the business date
    end: int  #: of the business date
    young_ms: int  #: time after the last step for which an incomplete message is IN_FLIGHT
    marks: dict[str, int]  #: end of the evidence, by node that has delivered
    hub_mark: int | None = None  #: end of the hub's evidence; None if the hub has not delivered
    #: seq of lines with a time outside the window of the extract
    outside: set[int] = field(default_factory=set)
    has_hub: bool = True


@dataclass
class OracleLine:
    node: str
    seq: int
    at: int
    side: int
    event: int
    lk0: str
    target: str = ""
    att: int = 0
    lk1: str = ""
    reason: str = ""
    digest: str = ""
    save_fwd: int | None = None
    ack2: bool | None = None


def opinion(lines: list[OracleLine], world: OracleWorld) -> tuple[str, str]:
    """Return scope (date, earlier, later, none) and verdict (empty unless the scope is ``date``)."""
    scope = _scope(lines, world)
    return scope, _verdict(lines, world) if scope == "date" else ""


def _readable(line: OracleLine) -> bool:
    try:
        event, side = E(line.event), Side(line.side)
    except ValueError:
        return False
    if side is S and event not in NOTES and line.node != ".".join(line.lk0.split(".")[:2]):
        return False  # a message of another sender
    return event not in FORBIDDEN[side] and (side is not H or line.node.startswith("2."))


def _of(lines: list[OracleLine], side: Side, *events: E) -> list[OracleLine]:
    return [x for x in lines if _readable(x) and x.side == side and (not events or x.event in events)]


def _moves(lines: list[OracleLine], side: Side) -> list[OracleLine]:
    return [x for x in _of(lines, side) if x.event not in NOTES]


def _scope(lines: list[OracleLine], world: OracleWorld) -> str:
    def first(*groups: list[OracleLine]) -> int | None:
        return min((x.at for group in groups for x in group), default=None)

    born = first(_of(lines, S, E.ACCEPTED))
    if born is None:
        born = first([x for x in _of(lines, S, E.REFUSED) if x.att <= 1])
    if born is None and _moves(lines, S):
        born = first([x for x in _of(lines, S, E.SENT) if x.att <= 1])
    taken = _of(lines, H, E.FORWARDED, E.STORED, E.DROPPED, E.REFUSED)
    begun = _of(lines, S, E.ACCEPTED, E.REFUSED, E.SENT, E.AGAIN, E.VOIDED)
    # The sender's first lines are missing. A copy that the hub sends, but did not store on this date, is older.
    if born is None and not begun and (taken or not (_moves(lines, H) or _moves(lines, S))):
        born = first(taken, _of(lines, R, E.RECEIVED, E.REJECTED, E.CANCELLED))
    if born is None:
        born = first([x for x in lines if not _readable(x) or x.seq in world.outside])
    if born is None:
        return _earlier(lines, world) if any(_moves(lines, side) for side in (S, H, R)) else "none"
    if born < world.start:
        return _earlier(lines, world)
    return "date" if born < world.end else "later"


def _earlier(lines: list[OracleLine], world: OracleWorld) -> str:
    """Return the scope of an earlier message that no run left open: carried if it was recorded again on the date."""
    received = {(x.node, x.seq): x.at for x in _of(lines, R, E.RECEIVED)}
    return "carried" if len(received) > 1 and world.start <= max(received.values()) < world.end else "earlier"


def _verdict(lines: list[OracleLine], world: OracleWorld) -> str:
    parts = lines[0].lk0.split(".")
    sender_node = ".".join(parts[:2])
    if any(not _readable(x) or x.seq in world.outside for x in lines) or len(parts) != 6 or not all(parts):
        return "QUARANTINED"
    targets = {x.target.split("/")[0] for x in lines if x.target and x.event not in NOTES}
    if len(targets) > 1:
        return "STATE_CONTRADICTION"
    records = _of(lines, R, E.RECEIVED, E.REJECTED, E.CANCELLED)
    receivers = {x.node for x in _moves(lines, R)}
    receiver_node = next(iter(targets or receivers), "")
    direct = sender_node == receiver_node or sender_node.startswith("2.") or receiver_node.startswith("2.")
    transfers = [*_of(lines, S, E.SENT), *records]
    only_direct = any(x.reason == DIRECTLY for x in transfers) and not _of(lines, S, E.FORWARDED, E.STORED)
    by_direct_link = not world.has_hub or only_direct
    direct = direct or (not _of(lines, H) and by_direct_link)

    sender_events = {E(x.event) for x in _moves(lines, S)}
    hub = {E(x.event) for x in _moves(lines, H)}
    receiver_events = {E(x.event) for x in _moves(lines, R)}
    accepted = _of(lines, S, E.ACCEPTED)
    classes = {x.save_fwd for x in accepted if x.save_fwd}
    best_effort, promised = bool(classes & {1, 2}), bool(classes & {2, 3})
    receipt = not (best_effort and any(x.ack2 is False for x in accepted))

    outcomes = sender_events & {E.DELIVERED, E.REJECTED, E.CANCELLED, E.LOST, E.UNKNOWN, E.DROPPED}
    operator_acted = any(x.node == sender_node for x in _of(lines, S, E.OPERATOR))
    # Acts of operators can lead to several outcomes; the most definite one counts.
    outcome = next(
        (known for known in (E.DELIVERED, E.REJECTED, E.CANCELLED, E.LOST, E.UNKNOWN, E.DROPPED) if known in outcomes),
        None,
    )
    turned_away = (
        sender_events
        and outcome is None
        and E.REFUSED in sender_events
        and not sender_events & {E.STORED, E.FORWARDED, E.SENT}
    )
    outcomes_contradict = len(outcomes) > 1 and not operator_acted

    passed_on = hub & {E.FORWARDED, E.STORED, E.RELEASED}
    given_up = not direct and E.REFUSED in hub and bool(_of(lines, H, E.OPERATOR))
    hub_refused = not direct and E.REFUSED in hub and not passed_on and not given_up
    hub_dropped = not direct and E.DROPPED in hub and not passed_on and not hub_refused and not given_up
    hub_knows = bool(hub) or direct
    young = _is_young(lines, world, sender_node, receiver_node)

    sender_missing = not sender_events and sender_node not in world.marks
    # Later lines in an incomplete ledger do not prove that there is no record.
    receiver_missing = not records and bool(receiver_node) and receiver_node not in world.marks
    hub_missing = not hub_knows and world.hub_mark is None

    # Without a line of the sender, no outcome is known.
    if sender_events and (not receiver_events or receiver_missing) and not outcomes_contradict:
        early = _settled_early(
            sender_events, outcome, hub, direct or given_up, young, promised, receipt, bool(hub) and not direct
        )
        if early:
            return early
    is_needless = not sender_events and hub_refused and not receiver_events  # what a hub refused, no receiver has
    if sender_missing or hub_missing or (receiver_missing and not is_needless):
        return "SOURCE_MISSING"
    if not sender_events:
        seen = [*_of(lines, H, E.FORWARDED, E.STORED, E.DROPPED, E.REFUSED), *records]
        # Near the end of the sender's ledger, the next extract may have the sender's line.
        is_ahead = bool(seen) and min(x.at for x in seen) > world.marks[sender_node] - 5_000
        return "IN_FLIGHT" if is_ahead else "UNKNOWN_ORIGIN"
    if _bytes_differ(lines):
        return "DIGEST_MISMATCH"
    if len({(x.node, x.seq) for x in _of(lines, R, E.RECEIVED)}) > 1:
        return "DUPLICATE_DELIVERED"
    kinds = {E(x.event) for x in records}
    if (
        (receivers and len(receivers | targets) > 1)
        or outcomes_contradict
        or len(kinds) > 1
        or (receiver_events and not kinds)
        or turned_away
        or outcome is E.DROPPED
        or hub_dropped
    ):
        return "STATE_CONTRADICTION"

    if given_up:
        return _given_up(kinds, lines, outcome, hub, young, best_effort, receipt, receiver_events)
    if kinds:
        return _recorded(
            next(iter(kinds)), lines, outcome, hub, direct, hub_refused, young, best_effort, receipt, receiver_events
        )
    verdict = _not_recorded(sender_events, outcome, hub, direct, young, best_effort, hub_refused)
    waits_here = verdict == "MISSING_AT_HUB" and direct and not world.has_hub
    return "WAITING_OFFLINE" if waits_here else verdict


def _settled_early(
    sender_events: set[E],
    outcome: E | None,
    hub: set[E],
    aside: bool,
    young: bool,
    promised: bool,
    receipt: bool,
    seen: bool,
) -> str:
    """Return the verdict of a message settled before it could reach a receiver; empty for other messages.

    ``aside``: the hub has no part in the message, or an operator has refused the copy. ``seen``: the hub has lines.
    """
    passed_on = hub & {E.FORWARDED, E.STORED, E.RELEASED}
    refused = not aside and E.REFUSED in hub and not passed_on
    dropped = not aside and E.DROPPED in hub and not passed_on and not refused
    only_sent = outcome is None and not sender_events & {E.FORWARDED, E.STORED}
    turned_away = outcome is None and E.REFUSED in sender_events and not sender_events & {E.STORED, E.FORWARDED, E.SENT}
    if turned_away:
        return "" if seen else "REFUSED"
    if refused and (outcome is E.REJECTED or (only_sent and not receipt)):
        return "REFUSED"
    if refused and outcome is None:
        return "IN_FLIGHT" if young else "ACK_NOT_RETURNED"
    if not promised and (outcome is E.DROPPED or (dropped and (outcome is E.UNKNOWN or only_sent))):
        return "DROPPED_BY_POLICY"
    return ""


def _recorded(
    kind: E, lines: list[OracleLine], outcome: E | None, hub: set[E], direct: bool, hub_refused: bool, young: bool,
    best_effort: bool, receipt: bool, receiver_events: set[E],
) -> str:  # fmt: skip
    """Return the verdict of a message that the receiver has recorded."""
    agreeing = {E.RECEIVED: E.DELIVERED, E.REJECTED: E.REJECTED, E.CANCELLED: E.CANCELLED}[kind]
    declared_lost = outcome is E.LOST and kind is E.CANCELLED
    by_marker = outcome is E.REJECTED and kind is E.CANCELLED
    if outcome not in (None, agreeing, E.UNKNOWN) and not declared_lost and not by_marker:
        return "STATE_CONTRADICTION"
    if hub_refused:
        return "STATE_CONTRADICTION"
    if outcome is E.REJECTED:
        return "REFUSED"
    if kind is E.CANCELLED and outcome is E.CANCELLED:
        return "MATCHED"
    if declared_lost:
        return "NOT_DELIVERED"
    if outcome is E.UNKNOWN:
        return "ACK_NOT_RETURNED"
    if kind is E.RECEIVED and E.PARKED in receiver_events and E.DONE not in receiver_events:
        return "PARKED"
    sender_waits_no_more = outcome is agreeing or (not receipt and kind is E.RECEIVED)
    hub_done = (
        direct or E.RELEASED in hub or (bool(hub) and not hub & {E.STORED, E.PARKED, E.SENT} and E.FORWARDED in hub)
    )
    from_copy = any(x.lk1 for x in _of(lines, R, E.RECEIVED, E.REJECTED, E.CANCELLED))
    answered = (best_effort or E.SENDER_ACKED in receiver_events) and (
        not from_copy or E.PLATFORM_ACKED in receiver_events
    )
    released = {x.lk1 for x in _of(lines, H, E.RELEASED)}
    stored = {x.lk1 for x in _of(lines, H, E.STORED)} - {""}
    hub_keeps_copy = not direct and bool(released) and "" not in released and not stored <= released
    untold_refusal = kind is E.REJECTED and not receipt
    if (sender_waits_no_more or untold_refusal) and hub_done and answered and not hub_keeps_copy:
        return "REFUSED" if untold_refusal else "MATCHED"
    if young:
        return "IN_FLIGHT"
    if sender_waits_no_more and hub_done and hub_keeps_copy:
        return "ACK_NOT_RETURNED"
    if sender_waits_no_more and hub_done:
        return "REACK_NOT_RETURNED"
    return "ACK_NOT_RETURNED" if hub or direct else "STATE_CONTRADICTION"


def _given_up(
    kinds: set[E], lines: list[OracleLine], outcome: E | None, hub: set[E], young: bool, best_effort: bool, receipt: bool,
    receiver_events: set[E],
) -> str:  # fmt: skip
    """Return the verdict of a stored copy that an operator refused."""
    noted = E.RELEASED in hub
    if kinds and not (outcome is E.UNKNOWN and E.CANCELLED in kinds):
        hub = hub if noted else hub | {E.STORED}
        return _recorded(
            next(iter(kinds)), lines, outcome, hub, False, False, young, best_effort, receipt, receiver_events
        )
    if outcome is E.LOST:
        return "NOT_DELIVERED"
    if outcome in (E.REJECTED, E.UNKNOWN) or (outcome is None and not receipt):
        return "REFUSED"
    if outcome is None and noted:
        return "WAITING_OFFLINE"  # a marker waits for its receiver
    if young:
        return "IN_FLIGHT"
    return "ACK_NOT_RETURNED" if outcome is None else "STATE_CONTRADICTION"


def _not_recorded(
    sender_events: set[E],
    outcome: E | None,
    hub: set[E],
    direct: bool,
    young: bool,
    best_effort: bool,
    hub_refused: bool,
) -> str:
    """Return the verdict of a message that the receiver has not recorded."""
    if outcome is E.LOST:
        return "NOT_DELIVERED"
    if outcome is E.UNKNOWN:
        return "LOST_BEST_EFFORT" if best_effort else "NOT_DELIVERED"
    if direct:
        hub = set()
    released = E.RELEASED in hub
    if E.PARKED in hub and not released:
        return "PARKED"
    only_stored = bool(hub) and not hub & {E.RELEASED, E.PARKED, E.SENT} and (E.STORED in hub or E.FORWARDED not in hub)
    if outcome is None and only_stored and not hub_refused:
        return "WAITING_OFFLINE"
    if young:
        return "IN_FLIGHT"
    left_sender = bool(sender_events & {E.SENT, E.FORWARDED, E.STORED})
    if best_effort and not hub and not left_sender and outcome in (E.CANCELLED, E.REJECTED):
        return "MATCHED" if outcome is E.CANCELLED else "REFUSED"
    if outcome is not None or released or hub_refused:
        return "STATE_CONTRADICTION"
    sent_copy = E.SENT in hub
    if best_effort and left_sender and not sent_copy:
        return "LOST_BEST_EFFORT"
    if sent_copy or hub or (direct and left_sender):
        return "NOT_DELIVERED"
    return "MISSING_AT_HUB"


def _bytes_differ(lines: list[OracleLine]) -> bool:
    if _of(lines, H, E.MISMATCH) or _of(lines, R, E.MISMATCH):
        return True
    with_digest = [*_of(lines, S, E.ACCEPTED), *_of(lines, H, E.FORWARDED, E.STORED), *_of(lines, R, E.RECEIVED)]
    return len({x.digest for x in with_digest if x.digest}) > 1


def _is_young(lines: list[OracleLine], world: OracleWorld, sender: str, receiver: str) -> bool:
    steps: dict[Side, list[tuple[E, ...]]] = {
        S: [(E.ACCEPTED,), (E.SENT,), (E.DELIVERED, E.REJECTED, E.CANCELLED, E.LOST, E.UNKNOWN, E.DROPPED)],
        H: [(E.FORWARDED, E.STORED, E.DROPPED, E.REFUSED), (E.SENT,), (E.RELEASED,)],
        R: [(E.RECEIVED, E.REJECTED, E.CANCELLED)],
    }
    firsts = [
        min(x.at for x in found)
        for side, sets in steps.items()
        for events in sets
        if (found := _of(lines, side, *events))
    ]
    marks = [world.marks.get(sender), world.marks.get(receiver), world.hub_mark]
    known = [mark for mark in marks if mark is not None]
    return bool(firsts) and bool(known) and max(firsts) > min(known) - world.young_ms
