"""Refusals of copies by an operator of the hub, at the sender (PROTOCOL.md S15).

Called by ``receipts``, which answers each refusal with a ReAck; ``outbound``, ``time.cleanup`` and ``hub.deeds``
recognize refused messages by its functions. A void marker then lets the receiver's ledger decide, because a store of
the hub that is restored from a backup may deliver a refused copy afterwards. If no receiver is left that could answer,
the operator refuses the marker, too. The message then ends UNKNOWN, which no record can contradict. Messages of classes
1 and 2 have no markers and end UNKNOWN at once.
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
    """Whether a row that has ended stays for an operator, who may still need the refused document.

    A piece does not stay: its document is refused with the reason of the piece, and the piece can be sent again from
    tb_0031_piece.
    """
    if row.target.user == PIECES_USER:
        return False
    gave_up = row.outcome is Outcome.UNKNOWN and says_returned(row.reason) and row.has_payload
    return row.outcome is Outcome.REJECTED or gave_up
