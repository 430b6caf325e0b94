"""Checks whether an outcome that a sender commits is true and final (PROTOCOL.md I4 and I6)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from semq.engine.errors import Expired, UnknownTarget
from semq.engine.sender.endings import says_returned
from semq.engine.sender.receipts import NO_TARGET_KNOWN
from semq.store.rows import Event, Outbound
from semq.store.unit import Unit
from semq.umx_t.locator import LK0
from semq.umx_t.status import Arrival, Outcome, SaveFwd, SendStatus
from tests.simulation.oracle.messages import SimulatedMessage

NOT_DELIVERED = frozenset({Outcome.REJECTED, Outcome.CANCELLED, Outcome.LOST, Outcome.DROPPED})


def is_true(message: SimulatedMessage, outcome: Outcome, row: Outbound, may_double: bool) -> bool:
    """Return whether the oracle's records agree with an outcome at its commit.

    ``may_double``: frames may arrive twice.
    """
    recorded = message.recorded_ever
    match outcome:
        case Outcome.DELIVERED:
            return row.ss_status is SendStatus.SS_ACK2 and Arrival.RECV in recorded
        case Outcome.REJECTED:
            result = _was_barred(message) or _was_returned(message) or _has_expired(message, row)
            return result or Arrival.REJ in recorded or message.falsely_refused
        case Outcome.CANCELLED:
            # Without void markers (classes 1 and 2), only unsent messages can be cancelled. A restored sender does not
            # know what it had sent (section 19).
            if not message.is_class3:
                return message.cancelled and (message.copies_sent == 0 or message.source_restored)
            return message.cancelled and _marker_came_first(message)
        case Outcome.LOST:
            return message.may_be_lost and _marker_came_first(message)
        case Outcome.UNKNOWN:
            return not message.is_class3 or message.source_restored or _is_given_up(message, row)
        case Outcome.DROPPED:
            return message.save_fwd is SaveFwd.DROP and (may_double or not recorded)


def is_correction(message: SimulatedMessage, row: Outbound) -> bool:
    """Return whether a row may correct its outcome (S5c), which only the hub has stated."""
    by_hub = {
        Outcome.REJECTED: (message.barred or message.falsely_refused) and not row.void,
        Outcome.DROPPED: message.save_fwd is SaveFwd.DROP,
    }
    was_reported = message.outcome is not None and by_hub.get(message.outcome, False)
    return was_reported and row.outcome is Outcome.DELIVERED and Arrival.RECV in message.recorded_ever


def was_corrected(message: SimulatedMessage, reported: str) -> bool:
    """Whether a reported outcome was corrected."""
    dropped = message.save_fwd is SaveFwd.DROP and reported == Outcome.DROPPED.name
    reported_by_hub = dropped or (message.falsely_refused and reported == Outcome.REJECTED.name)
    return reported_by_hub and message.outcome is Outcome.DELIVERED


def recv_contradicts_outcome(message: SimulatedMessage, may_double: bool) -> bool:
    """Return whether a record RECV that the receiver makes now contradicts the outcome; after a restore, none does."""
    if message.outcome not in NOT_DELIVERED or message.source_restored or message.dest_restored:
        return False
    return not (was_taken_and_refused(message) or (may_double and message.outcome is Outcome.DROPPED))


def reordered(rows: Sequence[Outbound], numbers: Mapping[str, Sequence[int]]) -> Iterator[tuple[Outbound, Outbound]]:
    """Yield pairs of one order key whose positions contradict their submissions. ``numbers``: by token."""
    for one, other in combinations(sorted(rows, key=lambda row: row.sid), 2):
        is_one_order = (one.dest, one.order_key) == (other.dest, other.order_key) and one.token != other.token
        if is_one_order and min(numbers[one.token or ""]) >= max(numbers[other.token or ""]):
            yield one, other


def missing_before(message: SimulatedMessage, order: Sequence[SimulatedMessage]) -> list[SimulatedMessage]:
    """Return the messages of an order key that must be handled before one of them."""
    missing: list[SimulatedMessage] = []
    for earlier in order[: order.index(message)]:
        if earlier.leaves_a_hole:
            missing.clear()
        elif not ((earlier.deliveries > 0 and earlier.done) or earlier.makes_way):
            missing.append(earlier)
    return missing


def new_markers(unit: Unit) -> set[LK0]:
    """Return the messages that this unit stores as markers, except those that it has stored with a payload first."""
    replaced = {line.lk0 for line in unit.ledger if line.event is Event.VOIDED}
    return {row.lk0 for row in unit.new_outbound.values() if row.void and str(row.lk0) not in replaced}


def was_taken_and_refused(message: SimulatedMessage) -> bool:
    """Whether one copy of a doubled frame may have been refused at the hub, and the other accepted."""
    return message.barred and message.doubled


def _arrived(message: SimulatedMessage) -> bool:
    return Arrival.RECV in message.recorded_ever and not message.dest_restored


def _marker_came_first(message: SimulatedMessage) -> bool:
    return not _arrived(message) and Arrival.VOID in message.recorded_ever


def _was_barred(message: SimulatedMessage) -> bool:
    """Whether a refusal on arrival at the hub explains the outcome."""
    if not message.barred:
        return False
    if not message.is_class3:
        return not message.recorded_ever or message.doubled
    came_first = not _arrived(message) and (message.copies_sent == 1 or Arrival.VOID in message.recorded_ever)
    return came_first or was_taken_and_refused(message)


def _was_returned(message: SimulatedMessage) -> bool:
    """Whether an operator of the hub has refused a copy, and the receiver has recorded a marker instead."""
    return message.returned and message.is_class3 and _marker_came_first(message)


def _is_given_up(message: SimulatedMessage, row: Outbound) -> bool:
    """Whether a refusal explains that the sender gave the message up (UNKNOWN).

    An operator of the hub refused the void marker, or a copy of a message whose target the hub no longer knew; or the
    hub refused the marker of a cancellation because it does not know the target.
    """
    if row.reason is None:
        return False
    if says_returned(row.reason):
        return message.returned and (True in message.refused_as or row.reason[1].endswith(NO_TARGET_KNOWN))
    return message.cancelled and row.reason[0] == UnknownTarget.code


def _has_expired(message: SimulatedMessage, row: Outbound) -> bool:
    """Whether the message has expired.

    Class 3: a marker was recorded first, or the only copy was refused. Classes 1 and 2: not sent, or not recorded.
    """
    if not message.expires_at or row.reason is None or row.reason[0] != Expired.code:
        return False
    if not message.is_class3:  # section 19, as for a cancelled message; or the hub refused the only copy
        return message.copies_sent == 0 or not message.recorded_ever or message.source_restored
    return not _arrived(message) and (message.copies_sent == 1 or Arrival.VOID in message.recorded_ever)
