"""The link to a node that is present at another instance: its frames travel through the carrier.

Its room is the room that the front last reported for the session, less the documents under way. A lost document counts
as under way until a later one has arrived, or for one inquiry interval. A report of no room is valid for one interval,
because the next report may be lost. After this interval the link sends one document, which the front answers with a
report.
"""

from collections import deque

from semq.engine.core import Core
from semq.engine.frames import frame_bytes
from semq.engine.hub.carrier import Credit, HubCarrier, Passed
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Frame

BYTES_MAX = 8 << 20  # bytes of documents and their headers under way to one session


class CarriedLink:
    """A session at another front. Implements ``ports.Link``."""

    def __init__(self, core: Core, carrier: HubCarrier, peer: Address, life: int, session: int, room: int) -> None:
        self.peer = peer
        self.life = life
        self.session = session
        self._core = core
        self._carrier = carrier
        self._room = room
        self._credit_at = core.now()
        self._number = 0
        self._under_way: deque[tuple[int, int, float]] = deque()  #: number, bytes and time of documents; oldest first
        self._bytes = 0

    @property
    def room(self) -> int:
        if self._under_way and self._room <= len(self._under_way):
            self._forget_before(self._core.now() - self._core.settings.inquiry_s)
        if self.is_starved:
            return 1
        return self._room - len(self._under_way) if self._bytes < BYTES_MAX else 0

    @property
    def is_starved(self) -> bool:
        """Whether one document may be sent although the last report named no room."""
        is_old = self._credit_at < self._core.now() - self._core.settings.inquiry_s
        return self._room <= 0 and is_old and not self._under_way

    def send(self, frame: Frame) -> None:
        number = 0
        if isinstance(frame, Data):
            number, size = self._number + 1, frame_bytes(frame)
            self._number = number
            self._under_way.append((number, size, self._core.now()))
            self._bytes += size
        self._carrier.to_front(self.life, Passed(str(self.peer), self.session, number, frame))

    def note_credit(self, credit: Credit) -> None:
        """Note the room that the front reports."""
        self._room = credit.room
        self._credit_at = self._core.now()
        while self._under_way and self._under_way[0][0] <= credit.number:
            self._drop_oldest()

    def _forget_before(self, since: float) -> None:
        while self._under_way and self._under_way[0][2] < since:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._bytes -= self._under_way.popleft()[1]
