"""Ack-Fwd, delayed for a moment: it is not sent if the Ack2 of its message passes first (PROTOCOL.md H3 and H14)."""

from collections import deque

from semq.engine.core import Core
from semq.store.rows import Reason
from semq.umx_t.address import Address
from semq.umx_t.envelope import Envelope, Function, Primitive
from semq.umx_t.records import HubFlag, Receipt


class ForwardNotes:
    """Messages passed on to present nodes, and the time at which each Ack-Fwd (a mere hint) is due. Volatile."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._held: dict[str, tuple[Envelope, Address]] = {}  #: messages by ident, with their target
        self._dues: deque[tuple[float, str, int]] = deque()  #: monotonic seconds, ident, attempt; earliest first

    def hold(self, envelope: Envelope) -> None:
        self._held[envelope.ident] = envelope, envelope.target.node
        self._dues.append((self._core.now() + self._core.settings.forward_note_s, envelope.ident, envelope.att))

    def drop(self, ident: str, node: Address) -> None:
        """Do not send the Ack-Fwd of a message, because the Ack2 of ``node`` has passed or its session has ended."""
        held = self._held.get(ident)
        if held is not None and held[1] == node:
            del self._held[ident]

    @property
    def next_due(self) -> float | None:
        """When the next Ack-Fwd is due, in monotonic seconds; None if none is held."""
        while self._dues and not self._is_held(*self._dues[0][1:]):
            self._dues.popleft()
        return self._dues[0][0] if self._dues else None

    def tick(self) -> None:
        now = self._core.now()
        while (due := self.next_due) is not None and due <= now:
            envelope, _ = self._held.pop(self._dues.popleft()[1])
            self._core.mail.add(*forward_note(envelope, HubFlag.FORWARDED))

    def _is_held(self, ident: str, att: int) -> bool:
        held = self._held.get(ident)
        return held is not None and held[0].att == att  # a later attempt has its own due time


def forward_note(
    envelope: Envelope, note: HubFlag, reason: Reason | None = None
) -> tuple[Address, Function, Primitive, Receipt]:
    """Return a report to the sender of a message that the hub has not stored, as arguments of ``Mail.add``."""
    lk0 = envelope.lk0
    receipt = Receipt(
        src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id, flag=note,
        ident=envelope.ident, att=envelope.att, reason=reason,
    )  # fmt: skip
    return lk0.node, Function.RECEIPTS, Primitive.INDICATION, receipt
