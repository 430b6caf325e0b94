"""What a sender makes of a refusal by an operator of the platform (PROTOCOL.md S15): the copy in custody is given up.

Called by ``sending``, which answers each that it is noted. As with any refusal the end is REJECTED at once only where
the refused copy was the only one ever sent; otherwise a void marker asks the receiver's ledger first. Where there is no
receiver that could answer, a marker that is refused too ends UNKNOWN, which no record can contradict.
"""

from semq.engine.core import Core
from semq.engine.errors import Returned
from semq.store.rows import Outbound, Reason
from semq.umx_t.grids import Heard, Standing
from semq.umx_t.records import Receipt
from semq.umx_t.status import Outcome, SaveFwd

ONLY_FROM = (Standing.SS_SENT, Standing.SS_ACK)


def news_of(core: Core, row: Outbound, standing: Standing, record: Receipt) -> Heard | None:
    """What the refusal of a copy is for its row; None: nothing, the row has become a marker since."""
    if row.void:
        return Heard.returned_marker if record.void else None
    return Heard.returned_only if _is_only_copy(core, row, standing, record) else Heard.returned


def says_returned(reason: Reason | None) -> bool:
    """Whether an operator of the platform has refused a message."""
    return reason is not None and reason[0] == Returned.code


def is_kept(row: Outbound) -> bool:
    """Whether a row that has ended waits for a person: what was refused may be wanted all the same."""
    gave_up = row.outcome is Outcome.UNKNOWN and says_returned(row.reason) and row.has_payload
    return row.outcome is Outcome.REJECTED or gave_up


def _is_only_copy(core: Core, row: Outbound, standing: Standing, record: Receipt) -> bool:
    """Whether no copy can ever have reached the receiver, and nothing in an order waits for its place.

    A row of an earlier life may have been put back by a backup, after it was sent again: its attempts prove nothing.
    """
    if not record.unsent or standing not in ONLY_FROM:
        return False
    if row.save_fwd is not SaveFwd.MUST:  # sent once, whatever its row says
        return row.lk0.inc == core.inc
    return row.att == 1 and row.lk0.inc == core.inc and not row.order_key
