"""A channel: one connection id with keys, sequence numbers, path, and numbers of documents. No sockets, no clock.

The end that offers the channel sends to the address from which the authenticated datagram with the highest sequence
number came.
"""

from typing import Any

from semq.datagrams.cipher import SEQUENCE_MAX, DirectionCipher
from semq.datagrams.counts import Coverage
from semq.datagrams.path import PathProbe, PathTimes
from semq.datagrams.replay import ReplayWindow

RENEW_AT = SEQUENCE_MAX // 2  # sequence number at which new keys are due


class DatagramChannel:
    """One end of a channel."""

    def __init__(self, channel_id: bytes, secret: bytes, times: PathTimes, now: float, *, address: Any = None) -> None:
        """``address``: address of the other end, if that end has offered the channel; None if this end offers it."""
        self.id = channel_id
        self.began_at = now
        self.address = address  #: address of the other end; None until it is known
        self.is_offered_here = address is None
        self.path = PathProbe(times, now)
        self.window = ReplayWindow()
        ciphers = [DirectionCipher(channel_id, secret, direction) for direction in (b"offered", b"taken")]
        self._out, self._in = ciphers if self.is_offered_here else reversed(ciphers)
        self._next_sequence = 0
        self.documents_sent = 0
        self._received = 0
        self._expected = 0  #: documents of the other end that have arrived or count as lost
        #: Documents that the other end reports as sent: now, and at the last ``count_missing``.
        self._announced, self._announced_before = 0, 0
        self.full = 0  #: documents of the other end dropped here for lack of room
        self.sent_coverage = Coverage()  #: what the other end has reported of the documents sent

    @property
    def may_send(self) -> bool:
        """Whether documents may be sent now."""
        return self.path.is_open and self._next_sequence < SEQUENCE_MAX

    @property
    def needs_new_keys(self) -> bool:
        """Whether new keys are due, after RENEW_AT datagrams sent or received."""
        return max(self._next_sequence, self.window.highest) >= RENEW_AT

    @property
    def received_coverage(self) -> Coverage:
        """The coverage of the other end's documents, for a report."""
        return Coverage(self._expected, self.lost, self.full)

    def record_coverage(self, reported: Coverage) -> Coverage:
        """Record a report about the documents sent. Return the difference to the previous report.

        Reported numbers are limited to the number of documents sent.
        """
        previous, sent = self.sent_coverage, self.documents_sent
        self.sent_coverage = Coverage(
            max(previous.documents, min(reported.documents, sent)), min(reported.lost, sent), min(reported.full, sent)
        )
        return self.sent_coverage.since(previous)

    @property
    def lost(self) -> int:
        """The number of missing documents: those before an arrived one, and those that ``count_missing`` counts."""
        return max(0, self._expected - self._received)

    def seal(self, content: bytes) -> tuple[int, bytes] | None:
        """Return the next sequence number and a datagram with it; None if all numbers are used."""
        if self._next_sequence >= SEQUENCE_MAX:
            return None
        sequence = self._next_sequence
        self._next_sequence += 1
        return sequence, self._out.seal(sequence, content)

    def open(self, datagram: bytes, sequence: int) -> bytes | None:
        """Return the content of a datagram; None if it is not authentic."""
        return self._in.open(datagram, sequence)

    def note_document(self, number: int) -> None:
        """Count a document that has arrived. ``number``: its number on the channel, from 0."""
        self._received += 1
        self._expect(number + 1)

    def note_announced(self, documents: int) -> None:
        """Note how many documents the other end has sent. Some may still be under way."""
        self._announced = max(self._announced, documents)

    def count_missing(self) -> None:
        """Count as lost the missing documents that were announced before the previous call."""
        self._expect(self._announced_before)
        self._announced_before = self._announced

    def _expect(self, documents: int) -> None:
        self._expected = max(self._expected, min(documents, SEQUENCE_MAX))
