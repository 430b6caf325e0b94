"""What a sender makes of copies that their receiver cannot believe any more (PROTOCOL.md S16).

Nobody vouches for the key that they were signed with: its certificate was revoked. Nothing is recorded of them, since
what is not proved takes no place in the receiver's ledger, so they would be asked about for ever. What came in clear is
signed anew whenever it is sent: at once the first time under each of our keys, later at the pace of inquiries, for a
copy that says nothing new is answered like the last one until the receiver knows the key. What is sealed under an older
key of ours becomes another message (``resealing``) once a marker has its place. Called by ``receipts``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from semq.engine.bodies import decode_envelope
from semq.engine.errors import BodyUnreadable, NotYours
from semq.seal.errors import SignerGone
from semq.store.rows import Outbound, Side
from semq.store.unit import Unit
from semq.umx_t.grids import Heard
from semq.umx_t.records import Answer, Receipt
from semq.umx_t.retry import interval

if TYPE_CHECKING:
    from semq.engine.sender.receipts import _OwnRows
    from semq.engine.sender.sender import Sender


@dataclass(slots=True)
class Disbelief:
    """A document in clear that its receiver does not believe (volatile)."""

    key: str  #: our signing key when it was last sent at once
    until: float  #: monotonic seconds: before that an inquiry answered with NOT sends no further copy
    times: int = 0  #: so often put off


def is_unbelieved(record: Receipt) -> bool:
    """Whether a receiver says that it cannot believe a copy, and has recorded nothing."""
    return record.status is Answer.NOT and record.reason is not None and record.reason[0] == SignerGone.code


def unbelieved(work: "_OwnRows", unit: Unit, row: Outbound, record: Receipt) -> None:
    """Send it again, as it is or as another message; a copy under a key that is not ours was not made by us."""
    if row.void or row.outcome is not None:
        return
    try:
        envelope = decode_envelope(unit.bodies.get(row.object_id))
    except BodyUnreadable:
        return
    if not envelope.is_sealed:
        if not _is_first_under_key(work._sender, row):
            return
        work._hear(unit, row, Heard.resend, "the receiver does not believe the copy that it has seen")
    elif work._sender.secrecy.is_outdated(envelope):
        # The end of class 3 is its receiver's ledger's to say: a marker asks it.
        news = Heard.returned if row.sid >= 0 else Heard.rej
        work._hear(unit, row, news, reason=record.reason, cause=record.reason)
    else:
        error = NotYours("The receiver was shown a copy under a key that is not ours.", lk0=str(row.lk0))
        work._core.violation(unit, Side.SENDER, error, str(row.lk0), str(work._source))


def _is_first_under_key(sender: "Sender", row: Outbound) -> bool:
    """Whether a copy that is signed now may be believed; otherwise put the next one off, each time for longer."""
    key, now, settings = sender.secrecy.signing_key(), sender.core.now(), sender.core.settings
    known = sender.disbelieved.get(row.object_id)
    if known is None or known.key != key:
        sender.disbelieved[row.object_id] = Disbelief(key, now)
        return True
    if now >= known.until:
        known.times += 1
        pause = interval(known.times, settings.inquiry_s, settings.inquiry_s_max, sender.core.clock.random())
        known.until = now + pause
    return False


def is_put_off(sender: "Sender", row: Outbound) -> bool:
    """Whether it is too early for another copy of a document that its receiver has not believed."""
    known = sender.disbelieved.get(row.object_id)
    return known is not None and known.key == sender.secrecy.signing_key() and sender.core.now() < known.until
