"""Sent copies whose signature their receiver does not accept (PROTOCOL.md S16).

The receiver has no valid certificate of the key that signed the copies: it was revoked, or has not arrived. The
receiver does not record them, because an unproved copy gets no position in its ledger; so inquiries about them would
never end.

A document in clear is signed again whenever it is sent. The first copy under a new key of this node is sent
immediately, later copies at the pace of inquiries, because the receiver rejects each of them until it has the
certificate of the key. Each later copy follows another report of the receiver: the hub may hold a copy with the old
signature, and only a copy with the new signature replaces it.

A document sealed under an older key of this node becomes another message (``resealing``) once a marker is recorded at
its position. Used by ``receipts``.
"""

from dataclasses import dataclass

from semq.engine.core import Core
from semq.engine.errors import BodyUnreadable, NotYours
from semq.engine.ports import Secrecy
from semq.engine.stored_envelopes import decode_envelope
from semq.seal.errors import SignerGone
from semq.store.rows import Outbound, Stored
from semq.umx_t.grids import SenderEvent
from semq.umx_t.records import Answer, Receipt
from semq.umx_t.retry import interval


def is_proof_rejected(record: Receipt) -> bool:
    """Whether a record reports that the receiver does not accept a copy's proof and has not recorded it."""
    return record.status is Answer.NOT and record.reason is not None and record.reason[0] == SignerGone.code


@dataclass(slots=True)
class _Rejection:
    """A document in clear whose proof its receiver does not accept (volatile)."""

    key: str  #: the signing key of the last copy that was sent without delay
    until: float  #: earliest time of the next copy, also if an inquiry is answered with NOT; monotonic seconds
    times: int = 0  #: number of delays


class RejectedProofs:
    """The documents whose proof a receiver does not accept, and the earliest time of the next copy of each."""

    def __init__(self, core: Core, secrecy: Secrecy) -> None:
        self._core = core
        self._secrecy = secrecy
        self._rejections: dict[int, _Rejection] = {}

    def next_event(self, row: Outbound, stored: Stored | None, in_clear: list[int]) -> SenderEvent | None:
        """Return the next event of the row; None for no event. A document in clear: ``resend``, if a copy is due. A
        document sealed under an older key: ``returned`` (a marker is sent) for class 3, ``rej`` for classes 1 and 2.

        Documents in clear are added to ``in_clear``, for ``note`` after the commit. Raises NotYours for a sealed
        document that is under no older key of this node: then another node made the rejected copy.
        """
        if row.void or row.outcome is not None:
            return None
        try:
            envelope = decode_envelope(stored)
        except BodyUnreadable:
            return None
        if not envelope.is_sealed:
            in_clear.append(row.object_id)
            return SenderEvent.resend if self._is_due(row) else None
        if self._secrecy.is_outdated(envelope):
            # The receiver's ledger decides the outcome of class 3: send a marker for the position, which the receiver
            # answers.
            return SenderEvent.returned if row.sid >= 0 else SenderEvent.rej
        raise NotYours("The receiver was shown a copy under a key that is not ours.", lk0=str(row.lk0))

    def _is_due(self, row: Outbound) -> bool:
        """Whether a copy may be sent now: the first under the present key at once, a later one after its delay."""
        rejection = self._rejections.get(row.object_id)
        if rejection is None or rejection.key != self._secrecy.signing_key():
            return True
        return rejection.times > 0 and self._core.now() >= rejection.until

    def note(self, object_id: int) -> None:
        """Delay the next copy of a document in clear, each time for longer. Called after the commit of the report."""
        key, now, settings = self._secrecy.signing_key(), self._core.now(), self._core.settings
        rejection = self._rejections.get(object_id)
        if rejection is None or rejection.key != key:
            self._rejections[object_id] = _Rejection(key, now)
        elif now >= rejection.until:
            rejection.times += 1
            pause = interval(rejection.times, settings.inquiry_s, settings.inquiry_s_max, self._core.clock.random())
            rejection.until = now + pause

    def is_delayed(self, row: Outbound) -> bool:
        """Whether the next copy of a document is still delayed."""
        rejection = self._rejections.get(row.object_id)
        return (
            rejection is not None
            and rejection.key == self._secrecy.signing_key()
            and self._core.now() < rejection.until
        )

    def forget(self, object_id: int) -> None:
        """Drop the facts about a row that has ended."""
        self._rejections.pop(object_id, None)
