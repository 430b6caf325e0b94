"""What follows from the end of a sent row: refusals of copies by an operator of the hub (PROTOCOL.md S15), and the
notice to a receiver that a document in pieces was given up (section 24), which ``local_node.pieces.remains`` submits.

A refused message of class 3 becomes a void marker, so that the receiver's ledger decides: a store of the hub that is
restored from a backup may still deliver a refused copy. If no receiver is left, the operator refuses the marker, too,
and the message ends UNKNOWN.
"""

import msgspec

from semq.engine.errors import RefusedByOperator
from semq.seal.errors import KeyUnknown, SignerGone
from semq.store.rows import NoticeDue, Outbound, Reason
from semq.umx_t.grids import SenderEvent
from semq.umx_t.locator import parse_lk0
from semq.umx_t.pieces import PIECES_USER, GivenUpNotice
from semq.umx_t.records import Receipt
from semq.umx_t.status import Outcome

# Outcomes of a manifest after which its sender sends a notice
NOTICE_OUTCOMES = (Outcome.REJECTED, Outcome.CANCELLED)
REFUSALS = (KeyUnknown.code, SignerGone.code)  # after such a refusal a document is sent again with other keys


def notice_due(row: Outbound) -> NoticeDue | None:
    """Return the notice to store with the end of a row; None unless it is the manifest of a document given up."""
    is_sent_again = row.reason is not None and row.reason[0] in REFUSALS
    if not row.document or row.outcome not in NOTICE_OUTCOMES or is_sent_again:
        return None
    key = row.app_key
    notice = GivenUpNotice(row.document, str(row.target), key.domain, key.type, key.subtype)
    return NoticeDue(parse_lk0(row.document).object_id, msgspec.json.encode(notice))


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
