"""Copies that their receiver cannot believe any more (PROTOCOL.md S16).

The certificate of the key that signed them was revoked. The receiver records nothing of them, since an unproved copy
takes no place in its ledger, so they would be asked about for ever. A document in clear is signed anew whenever it is
sent: at once the first time under each of our keys, later at the pace of inquiries, because a copy that says nothing
new is answered like the last one until the receiver knows the key. A document sealed under an older key of ours becomes
another message (``resealing``) once a marker has its place. Used by ``receipts``.
"""

from dataclasses import dataclass

from semq.engine.bodies import decode_envelope
from semq.engine.core import Core
from semq.engine.errors import BodyUnreadable, NotYours
from semq.engine.ports import Secrecy
from semq.seal.errors import SignerGone
from semq.store.rows import Outbound, Stored
from semq.umx_t.grids import Heard
from semq.umx_t.records import Answer, Receipt
from semq.umx_t.retry import interval


def is_unbelieved(record: Receipt) -> bool:
    """Whether a receiver says that it cannot believe a copy, and has recorded nothing."""
    return record.status is Answer.NOT and record.reason is not None and record.reason[0] == SignerGone.code


@dataclass(slots=True)
class _Doubt:
    """A document in clear that its receiver does not believe (volatile)."""

    key: str  #: our signing key when it was last sent at once
    until: float  #: monotonic seconds: before that, an inquiry answered with NOT sends no further copy
    times: int = 0  #: how often it was put off


class Disbelief:
    """Which documents their receivers do not believe, and when the next copy of each may go."""

    def __init__(self, core: Core, secrecy: Secrecy) -> None:
        self._core = core
        self._secrecy = secrecy
        self._doubts: dict[int, _Doubt] = {}

    def news(self, row: Outbound, stored: Stored | None, in_clear: list[int]) -> Heard | None:
        """Return what the disbelief means for the row: ``resend``, or its end, with or without a marker; None for
        nothing.

        Documents in clear are added to ``in_clear``, for ``note`` after the commit. Raises NotYours for a copy under a
        key that is not ours, which this node has not made.
        """
        if row.void or row.outcome is not None:
            return None
        try:
            envelope = decode_envelope(stored)
        except BodyUnreadable:
            return None
        if not envelope.is_sealed:
            in_clear.append(row.object_id)
            return Heard.resend if self._is_first_under_key(row) else None
        if self._secrecy.is_outdated(envelope):
            # The end of class 3 is for its receiver's ledger to say: a marker asks it.
            return Heard.returned if row.sid >= 0 else Heard.rej
        raise NotYours("The receiver was shown a copy under a key that is not ours.", lk0=str(row.lk0))

    def _is_first_under_key(self, row: Outbound) -> bool:
        """Whether a copy that is signed now may be believed."""
        doubt = self._doubts.get(row.object_id)
        return doubt is None or doubt.key != self._secrecy.signing_key()

    def note(self, object_id: int) -> None:
        """After the commit that heard of it: put the next copy of a document in clear off, each time for longer."""
        key, now, settings = self._secrecy.signing_key(), self._core.now(), self._core.settings
        doubt = self._doubts.get(object_id)
        if doubt is None or doubt.key != key:
            self._doubts[object_id] = _Doubt(key, now)
        elif now >= doubt.until:
            doubt.times += 1
            pause = interval(doubt.times, settings.inquiry_s, settings.inquiry_s_max, self._core.clock.random())
            doubt.until = now + pause

    def is_put_off(self, row: Outbound) -> bool:
        """Whether it is too early for another copy of a document that its receiver has not believed."""
        doubt = self._doubts.get(row.object_id)
        return doubt is not None and doubt.key == self._secrecy.signing_key() and self._core.now() < doubt.until

    def forget(self, object_id: int) -> None:
        """The row has ended."""
        self._doubts.pop(object_id, None)
