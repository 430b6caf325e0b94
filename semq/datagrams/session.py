"""The datagrams of one link: its channels, what is sent and received on them, and the records about them.

A session has one channel, and two while keys are renewed: the older one is used until the newer one is open. Records
travel over the link (PROTOCOL.md section 25): an offer creates a channel, a report has the numbers of documents sent
and lost. Used by hub and nodes alike; only who offers differs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from semq.datagrams.channel import DatagramChannel
from semq.datagrams.cipher import ID_BYTES, OVERHEAD, SECRET_BYTES
from semq.datagrams.counts import DatagramCounts
from semq.datagrams.document import CarriedDocument, read_document, write_document
from semq.datagrams.path import SIZES, PathTimes
from semq.umx_t.records import ChannelRecord

DOCUMENT, PROBE, ANSWER = b"\0", b"\1", b"\2"  # the first byte of a content
NO_LINK = "there is no link"
NUMBER_BYTES = 8


class Transmission(Enum):
    """The result of sending a datagram."""

    SENT = "sent"
    TOO_LARGE = "too large"  #: for this machine
    FULL = "full"  #: the socket takes nothing now, or there is no way to the address


@dataclass(frozen=True, slots=True)
class DatagramTimes:
    """Intervals in seconds, and the rate at which one session sends at most."""

    path: PathTimes = field(default_factory=PathTimes)
    report_s: float = 10.0
    renew_s: float = 3600.0  #: lifetime of a channel's keys
    grace_s: float = 60.0  #: for which a replaced channel is still read
    bytes_per_s: int = 12_500_000


class Carriage:
    """The port of a session: transmits datagrams, and passes those of registered channels to their sessions."""

    def transmit(self, datagram: bytes, address: Any) -> Transmission:
        """Send a datagram."""
        raise NotImplementedError

    def register(self, channel: DatagramChannel, session: "DatagramSession") -> None:
        """Pass datagrams of a channel to the session from now on."""
        raise NotImplementedError

    def forget(self, channel: DatagramChannel) -> None:
        """Ignore datagrams of a channel from now on."""
        raise NotImplementedError


class DatagramSession:
    """The datagrams of one link."""

    def __init__(
        self,
        carriage: Carriage,
        times: DatagramTimes,
        counts: DatagramCounts,
        send_record: Callable[[ChannelRecord], None],
        take: Callable[[CarriedDocument], bool],
        now: Callable[[], float],
    ) -> None:
        """``send_record`` sends a record over the link. ``take`` gets documents; False: no room, so it is dropped."""
        self._carriage = carriage
        self._times = times
        self.counts = counts
        self._send_record = send_record
        self._take = take
        self._now = now
        self.channels: list[DatagramChannel] = []  #: at most two, the newest last
        self._lost_before, self._lost_there_before = counts.lost, counts.lost_there  # on channels that have ended
        self._reported: dict[bytes, tuple[int, int]] = {}
        self._report_at = now() + times.report_s
        self._left, self._left_at = float(times.bytes_per_s), now()
        self._renewal: Callable[[], None] | None = None
        self._is_closed = False

    # --- channels
    def offer(self, draw: Callable[[int], bytes], host: str, port: int) -> None:
        """Offer a channel at an address, and others when its keys are to be renewed."""
        self._renewal = lambda: self.offer(draw, host, port)
        channel_id, secret = draw(ID_BYTES), draw(SECRET_BYTES)
        self._add(DatagramChannel(channel_id, secret, self._times.path, self._now()))
        self._send_record(ChannelRecord(id=channel_id.hex(), secret=secret.hex(), host=host, port=port))

    def accept(self, record: ChannelRecord, address: Any) -> None:
        """Take a channel that the other end has offered, at its address."""
        channel_id, secret = bytes.fromhex(record.id), bytes.fromhex(record.secret)
        if all(channel.id != channel_id for channel in self.channels):
            self._add(DatagramChannel(channel_id, secret, self._times.path, self._now(), address=address))
            self.tick()

    def _add(self, channel: DatagramChannel) -> None:
        self.channels.append(channel)
        self._carriage.register(channel, self)
        if len(self.channels) > 2:
            self._end_first()

    def _end_first(self) -> None:
        channel = self.channels.pop(0)
        self._carriage.forget(channel)
        self._lost_before += channel.lost
        self._lost_there_before += channel.lost_there
        self._reported.pop(channel.id, None)

    def close(self) -> None:
        """End the session: the link has ended."""
        self._is_closed = True
        while self.channels:
            self._end_first()

    @property
    def open_channel(self) -> DatagramChannel | None:
        """The channel on which documents are sent now; None: no datagrams pass."""
        return next((channel for channel in reversed(self.channels) if channel.may_send), None)

    # --- sending
    def send(self, document: CarriedDocument) -> bool:
        """Send a document as a datagram; False: it is to go by the connection."""
        channel = self.open_channel
        if channel is None:
            self.counts.not_open += 1
            return False
        room = channel.path.size - OVERHEAD - len(DOCUMENT)
        if len(document.header.raw) + len(document.body) > room:
            self.counts.too_large += 1
            return False
        content = write_document(channel.documents_sent, document)
        if len(content) > room:
            self.counts.too_large += 1
            return False
        if not self._allows(len(content)):
            self.counts.too_fast += 1
            return False
        sent = self._transmit(channel, DOCUMENT + content, channel.address)[1]
        if sent is Transmission.SENT:
            channel.documents_sent += 1
            self.counts.sent += 1
        elif sent is Transmission.TOO_LARGE:
            channel.path.too_large(channel.path.size, self._now())
            self.counts.too_large += 1
        else:
            self.counts.too_fast += 1
        return sent is Transmission.SENT

    def _allows(self, size: int) -> bool:
        """Whether the rate allows so many bytes now; they are then counted."""
        now, rate = self._now(), self._times.bytes_per_s
        left = min(self._left + (now - self._left_at) * rate, float(rate))
        self._left, self._left_at = (left - size, now) if left >= size else (left, now)
        return left >= size

    def _transmit(self, channel: DatagramChannel, content: bytes, address: Any) -> tuple[int, Transmission]:
        sealed = channel.seal(content)
        if sealed is None:
            return -1, Transmission.FULL
        return sealed[0], self._carriage.transmit(sealed[1], address)

    # --- receiving
    def received(self, channel: DatagramChannel, sequence: int, datagram: bytes, source: Any) -> None:
        """Process bytes that name a channel of this session; nothing is proved yet."""
        if not channel.window.is_new(sequence):
            self.counts.repeated += 1
            return
        content = channel.open(datagram, sequence)
        if content is None:
            self.counts.forged += 1
            return
        is_highest = channel.window.note(sequence)
        if channel.is_offered_here and is_highest and source != channel.address:
            self._move(channel, source)
        kind, rest = content[:1], content[1:]
        if kind == DOCUMENT:
            self._receive_document(channel, rest)
        elif kind == PROBE:
            # Smaller than the probe, and to the address that an authenticated datagram has just come from.
            self._transmit(channel, ANSWER + sequence.to_bytes(NUMBER_BYTES, "big"), source)
            if not channel.path.is_open:
                self._probe(channel)
        elif kind == ANSWER and len(rest) == NUMBER_BYTES:
            if source == channel.address and channel.path.answered(int.from_bytes(rest, "big"), self._now()):
                self._probe(channel)
        else:
            self.counts.unreadable += 1

    def _move(self, channel: DatagramChannel, source: Any) -> None:
        """Follow the other end to an address; documents are sent there when it has answered a probe."""
        self.counts.moved += channel.address is not None
        channel.address = source
        channel.path.restart(self._now())

    def _receive_document(self, channel: DatagramChannel, content: bytes) -> None:
        read = read_document(content)
        if read is None:
            self.counts.unreadable += 1
            return
        channel.note_document(read[0])
        if self._take(read[1]):
            self.counts.received += 1
        else:
            self.counts.full += 1
        self.counts.lost = self._lost_before + sum(one.lost for one in self.channels)

    def take_report(self, record: ChannelRecord) -> None:
        """Take a report of the other end about a channel."""
        for channel in self.channels:
            if channel.id.hex() == record.id:
                channel.note_sent(record.sent)
                channel.lost_there = min(record.lost, channel.documents_sent)
        self.counts.lost = self._lost_before + sum(one.lost for one in self.channels)
        self.counts.lost_there = self._lost_there_before + sum(one.lost_there for one in self.channels)

    # --- time
    def tick(self) -> None:
        """Send the probes and reports that are due, and renew keys."""
        now = self._now()
        for channel in self.channels:
            # An end that has not answered yet gets one probe for each of its own, which are not smaller.
            if channel.path.is_open or not channel.is_offered_here:
                self._probe(channel)
        if self._has_replaced(now):
            self._end_first()
        if self._renewal is not None and self.channels:
            newest = self.channels[-1]
            is_due = newest.is_worn or now - newest.began_at >= self._times.renew_s
            if is_due and newest.address is not None:
                self._renewal()
        if now >= self._report_at:
            self._report_at = now + self._times.report_s
            self.report()

    def _has_replaced(self, now: float) -> bool:
        """Whether a newer channel has been in use for long enough to forget the older one."""
        newest = self.channels[-1] if len(self.channels) > 1 else None
        return newest is not None and newest.path.is_open and now - newest.began_at >= self._times.grace_s

    def _probe(self, channel: DatagramChannel) -> None:
        if channel.address is None:
            return
        now = self._now()
        for size in channel.path.due(now):
            number, sent = self._transmit(channel, PROBE + bytes(size - OVERHEAD - len(PROBE)), channel.address)
            if sent is Transmission.TOO_LARGE and size > SIZES[0]:
                channel.path.too_large(size, now)
            elif number >= 0:
                channel.path.sent(number, size, now)

    def report(self) -> None:
        """Report to the other end how many documents were sent, and how many of its own are missing, if changed."""
        for channel in self.channels:
            facts = (channel.documents_sent, channel.lost)
            if self._reported.get(channel.id, (0, 0)) != facts:
                self._reported[channel.id] = facts
                self._send_record(ChannelRecord(id=channel.id.hex(), sent=facts[0], lost=facts[1]))

    def status(self) -> dict[str, Any]:
        """Return the state of the path, and the figures."""
        channel = self.open_channel
        if channel is not None:
            return {"state": "open", "why": "", "datagram_bytes": channel.path.size, **self.counts.shown()}
        if self._is_closed:
            why = NO_LINK
        elif not self.channels:
            why = "the other end has offered no channel"
        elif self.channels[-1].address is None:
            why = "no datagram of the other end has arrived"
        else:
            host, port = self.channels[-1].address[:2]
            why = f"{host}:{port} answers no datagrams: is UDP blocked on the way?"
        return {"state": "closed", "why": why, "datagram_bytes": 0, **self.counts.shown()}
