"""The detail of the ledger line ACCEPTED: the class of the message, and how the message came about.

Class and receipt come first, so that no text of an application is read as one of them. The extracts of the
reconciliation read them by these patterns (``spark_reconcile.extracts.ledger``).
"""

from collections.abc import Iterable

from semq.engine.ports import Submission
from semq.engine.secrecy.binding import session_name
from semq.store.rows import Outbound
from semq.umx_t.envelope import Envelope
from semq.umx_t.pieces import document_detail, read_manifest

# Regular expressions, also for Postgres. Group 1: the value in the detail.
SAVE_FWD_PATTERN = "^SaveFwd=([123])"
ACK2_PATTERN = "^SaveFwd=[123] Ack2=([01])"


def accepted_detail(row: Outbound, parts: Iterable[str]) -> str:
    """Return the detail of the line about a new row. ``parts``: how the message came about, without empty texts."""
    return ", ".join((f"SaveFwd={row.save_fwd:d} Ack2={row.ack2:d}", *filter(None, parts)))


def detail_of_submission(row: Outbound, submission: Submission, envelope: Envelope) -> str:
    """Return the detail of the line about the new row of a submission."""
    sealed = f"sealed {session_name(envelope)}" if submission.seal is not None else ""
    scheduled = f"scheduled as {submission.scheduled_as}" if submission.scheduled_as else ""
    pieces = submission.attributes.pieces
    described = _in_pieces(submission) if scheduled else pieces and document_detail(pieces)
    if submission.repeats is not None:  # its group is in the line of the first message
        return accepted_detail(row, (sealed, f"the document of {submission.repeats.lk0}", described))
    return accepted_detail(row, (sealed, scheduled, described, str(submission.group or "")))


def _in_pieces(submission: Submission) -> str:
    """Return the number of pieces and the size from a manifest, as text; empty for other documents."""
    if not submission.attributes.pieces:
        return ""
    manifest = read_manifest(bytes(submission.body))
    return f"{manifest.count} pieces, {manifest.size} bytes"
