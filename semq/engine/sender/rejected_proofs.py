"""Sent copies whose signature their receiver does not accept (PROTOCOL.md S16).

The receiver has no valid certificate of the key that signed the copies, and does not record them.

A document in clear, or a void marker, is signed again whenever it is sent. The first copy under a new key of this node
is sent at once. Later copies follow at the pace of inquiries, because the receiver rejects each of them until it has
the certificate. A document sealed under an older key of this node becomes another message (``resealing``) after a
marker is recorded at its position.
"""

from msgspec import Struct

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


class _Rejection(Struct):
    """A document in clear, or a void marker, whose proof its receiver does not accept."""

    key: str  #: the signing key of the last copy that was sent without delay
    until: float  #: earliest time of the next copy, in monotonic seconds
    times: int = 0  #: number of delays


class RejectedProofs:
    """The documents whose proof a receiver does not accept. Volatile."""

    def __init__(self, core: Core, secrecy: Secrecy) -> None:
        self._core = core
        self._secrecy = secrecy
        self._rejections: dict[int, _Rejection] = {}

    def next_event(self, row: Outbound, stored: Stored | None, in_clear: list[int]) -> SenderEvent | None:
        """Return the next event of the row; None: there is none. Add a marker, or a document in clear, to ``in_clear``,
        for ``note`` after the commit.

        Raises NotYours for a document that is sealed under no older key of this node: another node made the rejected
        copy.
        """
        if row.outcome is not None:
            return None
        try:
            envelope = decode_envelope(stored)
        except BodyUnreadable:
            return None
        if row.void or not envelope.is_sealed:
            in_clear.append(row.object_id)
            return SenderEvent.resend if self._is_due(row) else None
        if self._secrecy.is_outdated(envelope):
            # The receiver's ledger decides the outcome of class 3, so a marker is sent.
            return SenderEvent.returned if row.sid >= 0 else SenderEvent.rej
        raise NotYours("The receiver was shown a copy under a key that is not ours.", lk0=str(row.lk0))

    def _is_due(self, row: Outbound) -> bool:
        rejection = self._rejections.get(row.object_id)
        if rejection is None or rejection.key != self._secrecy.signing_key():
            return True
        return rejection.times > 0 and self._core.now() >= rejection.until

    def note(self, object_id: int) -> None:
        """Note a committed report. From the second report about a key on, delay the next copy, each time longer."""
        key, now, settings = self._secrecy.signing_key(), self._core.now(), self._core.settings
        rejection = self._rejections.get(object_id)
        if rejection is None or rejection.key != key:
            self._rejections[object_id] = _Rejection(key, now)
        elif now >= rejection.until:
            rejection.times += 1
            pause = interval(rejection.times, settings.inquiry_s, settings.inquiry_s_max, self._core.clock.random())
            rejection.until = now + pause

    def is_delayed(self, row: Outbound) -> bool:
        rejection = self._rejections.get(row.object_id)
        return (
            rejection is not None
            and rejection.key == self._secrecy.signing_key()
            and self._core.now() < rejection.until
        )

    def forget(self, object_id: int) -> None:
        self._rejections.pop(object_id, None)
