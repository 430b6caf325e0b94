"""Refusals of copies by an operator of the hub, at the sender (PROTOCOL.md S15).

A refused message of class 3 becomes a void marker, so that the receiver's ledger decides: a store of the hub that is
restored from a backup may still deliver a refused copy. If no receiver is left, the operator refuses the marker, too,
and the message ends UNKNOWN.
"""

from semq.engine.errors import RefusedByOperator
from semq.store.rows import Outbound, Reason
from semq.umx_t.grids import SenderEvent
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.records import Receipt
from semq.umx_t.status import Outcome


def refusal_event(row: Outbound | None, record: Receipt) -> SenderEvent:
    """Return the event of the sender's grid for the refusal of a copy."""
    if row is None or not row.void:
        return SenderEvent.returned
    return SenderEvent.returned_marker if record.void else SenderEvent.returned_late


def says_returned(reason: Reason | None) -> bool:
    """Whether an operator of the hub has refused a message."""
    return reason is not None and reason[0] == RefusedByOperator.code


def is_kept(row: Outbound) -> bool:
    """Whether a row that has ended stays for an operator, who may still need the refused document."""
    if row.target.user == PIECES_USER:
        return False  # the operator acts on the whole document; a piece can be sent again from tb_0031_piece
    gave_up = row.outcome is Outcome.UNKNOWN and says_returned(row.reason) and row.has_payload
    return row.outcome is Outcome.REJECTED or gave_up
