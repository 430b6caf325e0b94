"""The detail of the ledger line ACCEPTED: the class of the message, and how the message came about.

Class and receipt come first, so that no text of an application is read as one of them. The extracts of the
reconciliation read them by these patterns (``spark_reconcile.extracts.ledger``).
"""

from collections.abc import Iterable

from semq.store.rows import Outbound

# Regular expressions, also for Postgres. Group 1: the value in the detail.
SAVE_FWD_PATTERN = "^SaveFwd=([123])"
ACK2_PATTERN = "^SaveFwd=[123] Ack2=([01])"


def accepted_detail(row: Outbound, parts: Iterable[str]) -> str:
    """Return the detail of the line about a new row. ``parts``: how the message came about, without empty texts."""
    return ", ".join((f"SaveFwd={row.save_fwd:d} Ack2={row.ack2:d}", *filter(None, parts)))
