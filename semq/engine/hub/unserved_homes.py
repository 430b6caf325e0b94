"""Documents that the carrier returned because no instance serves the home of their target.

When an instance serves the store again, the senders get an Ack-Fwd with flag 4 (S3b) and send their documents again.
"""

from collections.abc import Callable

from semq.engine.core import Core
from semq.engine.hub.carrier import StoreFrames, StoreName
from semq.engine.hub.deeds import answered
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Function, Packet, Primitive
from semq.umx_t.locator import LK1
from semq.umx_t.records import Answer, HubFlag, InquiryRole, Receipt

DOCUMENTS_MAX = 100_000  # documents of all stores together


class UnservedHomes:
    """The documents that wait until their home is served, by home."""

    def __init__(self, core: Core, is_in_use: Callable[[StoreName], bool]) -> None:
        """``is_in_use``: whether an instance may serve a store again."""
        self._core = core
        self._is_in_use = is_in_use
        self._waiting: dict[StoreName, dict[str, tuple[Address, int]]] = {}  #: ident to source and attempt

    def note(self, store: StoreName, message: StoreFrames) -> None:
        """Note the class-3 documents of a returned message, and answer its inquiries about copies with UNAVAIL (H9)."""
        # All stores share DOCUMENTS_MAX, so documents for retired stores must not count.
        self._waiting = {name: idents for name, idents in self._waiting.items() if self._is_in_use(name)}
        waiting = self._waiting.setdefault(store, {})
        for frame in message.frames:
            if isinstance(frame, Data):
                if frame.envelope.is_class3 and sum(map(len, self._waiting.values())) < DOCUMENTS_MAX:
                    waiting[frame.envelope.ident] = frame.envelope.lk0.node, frame.envelope.att
            else:
                self._answer(message.speaker, frame)

    def _answer(self, source: Address, packet: Packet) -> None:
        if packet.function is Function.INQUIRIES and packet.primitive is Primitive.REQUEST:
            for record in packet.records:
                if record.role is InquiryRole.S and record.lk1 is not None:
                    self._core.mail.add(*answered(source, record, Answer.UNAVAIL, LK1(*record.lk1)))

    def note_served(self, store: StoreName) -> None:
        """Let the senders send their documents again, because an instance serves the store now."""
        for ident, (source, att) in self._waiting.pop(store, {}).items():
            receipt = Receipt(flag=HubFlag.FORWARD_FAILED, ident=ident, att=att)
            self._core.mail.add(source, Function.RECEIPTS, Primitive.INDICATION, receipt)
