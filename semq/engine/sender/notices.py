"""The notice to a receiver that a document in pieces was given up (PROTOCOL.md section 24).

The notice is stored in the commit that ends the manifest; ``local_node.pieces.remains`` submits it.
"""

import msgspec

from semq.seal.errors import KeyUnknown, SignerGone
from semq.store.rows import NoticeDue, Outbound
from semq.umx_t.locator import parse_lk0
from semq.umx_t.pieces import GivenUpNotice
from semq.umx_t.status import Outcome

# Outcomes of a manifest after which its sender sends a notice
NOTICE_OUTCOMES = (Outcome.REJECTED, Outcome.CANCELLED)
REFUSALS = (KeyUnknown.code, SignerGone.code)  # after such a refusal a document is sent again with other keys


def notice_due(row: Outbound) -> NoticeDue | None:
    """Return the notice to store with the end of a row; None unless the row is the manifest of a document given up."""
    is_sent_again = row.reason is not None and row.reason[0] in REFUSALS
    if not row.document or row.outcome not in NOTICE_OUTCOMES or is_sent_again:
        return None
    key = row.app_key
    notice = GivenUpNotice(row.document, str(row.target), key.domain, key.type, key.subtype)
    return NoticeDue(parse_lk0(row.document).object_id, msgspec.json.encode(notice))
