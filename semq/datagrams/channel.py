"""A channel: one connection id with its keys, sequence numbers, path, and numbers of documents. No sockets, no clock.

The end that offers the channel learns the address of the other end from authenticated datagrams, and follows it when it
changes (a NAT may give another one): the address of the highest sequence number counts.
"""

from typing import Any

from semq.datagrams.cipher import SEQUENCE_MAX, DirectionCipher
from semq.datagrams.counts import Coverage
from semq.datagrams.path import PathProbe, PathTimes
from semq.datagrams.replay import ReplayWindow

RENEW_AT = SEQUENCE_MAX // 2


class DatagramChannel:
    """One end of a channel."""

    def __init__(self, channel_id: bytes, secret: bytes, times: PathTimes, now: float, *, address: Any = None) -> None:
        """``address`` of the end that has offered the channel, at the end that takes it; None at the former."""
        self.id = channel_id
        self.began_at = now
        self.address = address  #: address of the other end; None: not known yet
        self.is_offered_here = address is None
        self.path = PathProbe(times, now)
        self.window = ReplayWindow()
        ciphers = [DirectionCipher(channel_id, secret, direction) for direction in (b"offered", b"taken")]
        self._out, self._in = ciphers if self.is_offered_here else reversed(ciphers)
        self._next = 0
        self.documents_sent = 0
        self._received, self._expected = 0, 0
        self._announced, self._announced_before = 0, 0
        self.full = 0  #: documents of the other end that were dropped here for lack of room
        self.there = Coverage()  #: of the documents sent, as the other end reports

    @property
    def may_send(self) -> bool:
        """Whether documents may be sent on it now."""
        return self.path.is_open and self._next < SEQUENCE_MAX

    @property
    def is_worn(self) -> bool:
        """Whether so many datagrams were sent or received that new keys are due."""
        return max(self._next, self.window.highest) >= RENEW_AT

    @property
    def here(self) -> Coverage:
        """What has become of the documents of the other end."""
        return Coverage(self._expected, self.lost, self.full)

    def take_coverage(self, reported: Coverage) -> Coverage:
        """Take a report about the documents sent; return the difference to the one before."""
        before, sent = self.there, self.documents_sent
        self.there = Coverage(
            max(before.documents, min(reported.documents, sent)), min(reported.lost, sent), min(reported.full, sent)
        )
        return self.there.since(before)

    @property
    def lost(self) -> int:
        """The number of documents that the other end has sent and that have not arrived."""
        return max(0, self._expected - self._received)

    def seal(self, content: bytes) -> tuple[int, bytes] | None:
        """Return the next sequence number and its datagram; None if the numbers are used up."""
        if self._next >= SEQUENCE_MAX:
            return None
        number, self._next = self._next, self._next + 1
        return number, self._out.seal(number, content)

    def open(self, datagram: bytes, sequence: int) -> bytes | None:
        """Return the content of a datagram; None if the other end has not made it."""
        return self._in.open(datagram, sequence)

    def note_document(self, number: int) -> None:
        """Count a document that has arrived, with its number."""
        self._received += 1
        self._expect(number + 1)

    def note_announced(self, documents: int) -> None:
        """Note how many documents the other end has sent, as it reports. Some of them may be under way."""
        self._announced = max(self._announced, documents)

    def count_missing(self) -> None:
        """Count as lost what was announced before the last call of this method and has not arrived."""
        self._expect(self._announced_before)
        self._announced_before = self._announced

    def _expect(self, documents: int) -> None:
        self._expected = max(self._expected, min(documents, SEQUENCE_MAX))
