"""The datagrams of one link: channels, documents on the channels, and records about the channels.

While keys are renewed there are two channels: the older one is used until the newer one is open. Records travel over
the link (PROTOCOL.md section 25). The listening end calls ``offer``, the dialling end ``accept``.
"""

from collections.abc import Callable
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import asdict

from semq.answers.status import DatagramCounts, PathState
from semq.datagrams.channel import DatagramChannel
from semq.datagrams.cipher import ID_BYTES, OVERHEAD, SECRET_BYTES
from semq.datagrams.counts import Coverage
from semq.datagrams.document import CarriedDocument, read_document, write_document
from semq.datagrams.path import SIZES, PathTimes
from semq.datagrams.rate import ByteBucket, SendingRate
from semq.datagrams.recent import RecentLoss
from semq.umx_t.records import ChannelRecord

DOCUMENT, PROBE, ANSWER = b"\0", b"\1", b"\2"  # the first byte of a content
NO_LINK = "there is no link"
NUMBER_BYTES = 8  # size of the sequence number in an answer


class Transmission(Enum):
    """The result of sending a datagram."""

    SENT = "sent"
    TOO_LARGE = "too large"  #: for this machine
    FULL = "full"  #: the socket accepts no datagram now, or there is no route to the address


class DatagramTimes(Struct, frozen=True):
    """Intervals in seconds, and the highest rate of one session."""

    path: PathTimes = field(default_factory=PathTimes)
    report_s: float = 1.0
    renew_s: float = 3600.0  #: lifetime of a channel's keys
    grace_s: float = 60.0  #: time for which the older channel still receives after the path of the newer one has opened
    bytes_per_s: int = 12_500_000


class SessionPort:
    """The interface of sessions to the port that sends and receives their datagrams."""

    def transmit(self, datagram: bytes, address: object) -> Transmission:
        raise NotImplementedError

    def register(self, channel: DatagramChannel, session: "DatagramSession") -> None:
        """Pass datagrams of a channel to the session from now on, unless its id is in use."""
        raise NotImplementedError

    def forget(self, channel: DatagramChannel) -> None:
        """Ignore datagrams of a channel from now on."""
        raise NotImplementedError


class DatagramSession:
    """The datagrams of one link."""

    def __init__(
        self,
        port: SessionPort,
        times: DatagramTimes,
        counts: DatagramCounts,
        send_record: Callable[[ChannelRecord], None],
        on_document: Callable[[CarriedDocument], bool],
        now: Callable[[], float],
    ) -> None:
        """``send_record`` sends a record over the link. ``on_document`` returns False if it drops the document."""
        self._port = port
        self._times = times
        self.counts = counts
        self._send_record = send_record
        self._on_document = on_document
        self._now = now
        self.channels: list[DatagramChannel] = []  #: at most two, the newest last
        # Numbers of documents of former channels, also in former sessions with the peer.
        self._lost_before, self._lost_there_before = counts.lost, counts.lost_there
        self._full_there_before = counts.full_there
        self._reported: dict[bytes, tuple[int, Coverage]] = {}  # channel id -> the last report about the channel
        self._report_at = now() + times.report_s
        self.rate = SendingRate(times.bytes_per_s)
        self._bucket = ByteBucket(SIZES[-1], now())
        self._recent_here, self._recent_there = RecentLoss(), RecentLoss()
        self._not_open = 0  # documents not sent as datagrams since the path was last open
        self._renewal: Callable[[], None] | None = None
        self._is_closed = False
        self._obstacle = ""  # why the last offer of the other end cannot be used here; empty: no obstacle

    # --- channels
    def offer(self, draw: Callable[[int], bytes], host: str, port: int) -> None:
        """Offer a channel at an address, and a new one whenever keys must be renewed.

        ``draw`` returns random bytes. An empty ``host`` means the address of the link.
        """
        self._renewal = lambda: self.offer(draw, host, port)
        channel_id, secret = draw(ID_BYTES), draw(SECRET_BYTES)
        self._add(DatagramChannel(channel_id, secret, self._times.path, self._now()))
        self._send_record(ChannelRecord(id=channel_id.hex(), secret=secret.hex(), host=host, port=port))

    def accept(self, record: ChannelRecord, address: object) -> None:
        """Use a channel that the other end, at ``address``, has offered. A repeated offer changes nothing."""
        self._obstacle = ""
        channel_id, secret = bytes.fromhex(record.id), bytes.fromhex(record.secret)
        if all(channel.id != channel_id for channel in self.channels):
            self._add(DatagramChannel(channel_id, secret, self._times.path, self._now(), address=address))
            self.tick()

    def decline(self, why: str) -> None:
        """Note why this end cannot use a channel that the other end has offered, for ``status``."""
        self._obstacle = why

    def _add(self, channel: DatagramChannel) -> None:
        self.channels.append(channel)
        self._port.register(channel, self)
        if len(self.channels) > 2:
            self._end_first()

    def _end_first(self) -> None:
        channel = self.channels.pop(0)
        self._port.forget(channel)
        self._lost_before += channel.lost
        self._lost_there_before += channel.sent_coverage.lost
        self._full_there_before += channel.sent_coverage.full
        self._reported.pop(channel.id, None)

    def close(self) -> None:
        self._is_closed = True
        while self.channels:
            self._end_first()

    @property
    def open_channel(self) -> DatagramChannel | None:
        """The channel on which documents are sent now; None: no datagrams pass."""
        return next((channel for channel in reversed(self.channels) if channel.may_send), None)

    # --- sending
    def send(self, document: CarriedDocument) -> bool:
        """Send a document as a datagram. Return False if the caller must use the connection instead."""
        channel = self.open_channel
        if channel is None:
            self.counts.not_open += 1
            self._not_open += 1
            return False
        room = channel.path.size - OVERHEAD - len(DOCUMENT)
        if len(document.header.raw) + len(document.body) > room:
            self.counts.too_large += 1
            return False
        content = write_document(channel.documents_sent, document)
        if len(content) > room:
            self.counts.too_large += 1
            return False
        if not self._bucket.take(len(content), self.rate.bytes_per_s, self._now()):
            self.counts.too_fast += 1
            return False
        result = self._transmit(channel, DOCUMENT + content, channel.address)[1]
        if result is Transmission.SENT:
            channel.documents_sent += 1
            self.counts.sent += 1
        elif result is Transmission.TOO_LARGE:
            channel.path.note_too_large(channel.path.size, self._now())
            self.counts.too_large += 1
        else:
            self.counts.too_fast += 1
        return result is Transmission.SENT

    def _transmit(self, channel: DatagramChannel, content: bytes, address: object) -> tuple[int, Transmission]:
        """Send a datagram; return its sequence number (-1: all are used) and the result."""
        sealed = channel.seal(content)
        if sealed is None:
            return -1, Transmission.FULL
        sequence, datagram = sealed
        return sequence, self._port.transmit(datagram, address)

    # --- receiving
    def process_datagram(self, channel: DatagramChannel, sequence: int, datagram: bytes, source: object) -> None:
        """Authenticate and process a datagram that names a channel of this session."""
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
        kind, payload = content[:1], content[1:]
        if kind == DOCUMENT:
            self._receive_document(channel, payload)
        elif kind == PROBE:
            # Safe against amplification: the probe is authenticated, and its answer is smaller.
            self._transmit(channel, ANSWER + sequence.to_bytes(NUMBER_BYTES, "big"), source)
            if not channel.path.is_open:
                self._probe(channel)
        elif kind == ANSWER and len(payload) == NUMBER_BYTES:
            if source == channel.address:
                self._receive_answer(channel, int.from_bytes(payload, "big"))
        else:
            self.counts.unreadable += 1

    def _receive_answer(self, channel: DatagramChannel, number: int) -> None:
        was_open = self.open_channel is not None
        if channel.path.note_answer(number, self._now()):
            self._probe(channel)
        if not was_open and channel.may_send:
            self._not_open = 0
            self.rate.restart()

    def _move(self, channel: DatagramChannel, source: object) -> None:
        """Note a new address of the other end. Documents are sent there after a probe was answered from there."""
        self.counts.moved += channel.address is not None
        channel.address = source
        channel.path.restart(self._now())

    def _receive_document(self, channel: DatagramChannel, content: bytes) -> None:
        numbered = read_document(content)
        if numbered is None:
            self.counts.unreadable += 1
            return
        number, document = numbered
        channel.note_document(number)
        if self._on_document(document):
            self.counts.received += 1
        else:
            channel.full += 1
            self.counts.full += 1
        self._sum_lost()

    def process_report(self, record: ChannelRecord) -> None:
        """Process a report of the other end about a channel, and change the rate."""
        for channel in self.channels:
            if channel.id.hex() == record.id:
                channel.note_announced(record.sent)
                self._process_coverage(channel, record)
        coverages = [channel.sent_coverage for channel in self.channels]
        self.counts.lost_there = self._lost_there_before + sum(coverage.lost for coverage in coverages)
        self.counts.full_there = self._full_there_before + sum(coverage.full for coverage in coverages)

    def _process_coverage(self, channel: DatagramChannel, record: ChannelRecord) -> None:
        covered = channel.record_coverage(Coverage(record.covered, record.lost, record.full))
        self._recent_there.note(self._now(), covered)
        under_way = sum(channel.documents_sent - channel.sent_coverage.documents for channel in self.channels)
        self.counts.slowed += self.rate.report(covered, under_way)

    def _sum_lost(self) -> None:
        self.counts.lost = self._lost_before + sum(channel.lost for channel in self.channels)

    # --- time
    def tick(self) -> None:
        """Send the probes and reports that are due, and renew keys."""
        now = self._now()
        for channel in self.channels:
            # Against amplification, an address that has answered no probe gets a probe only in return for a probe of
            # at least the same size (``process_datagram``).
            if channel.path.is_open or not channel.is_offered_here:
                self._probe(channel)
        if self._is_older_replaced(now):
            self._end_first()
        if self._renewal is not None and self.channels:
            newest = self.channels[-1]
            is_due = newest.needs_new_keys or now - newest.began_at >= self._times.renew_s
            if is_due and newest.address is not None:
                self._renewal()
        if now >= self._report_at:
            self._report_at = now + self._times.report_s
            self.report()

    def _is_older_replaced(self, now: float) -> bool:
        newest = self.channels[-1] if len(self.channels) > 1 else None
        return newest is not None and newest.path.is_open and now - newest.path.open_since >= self._times.grace_s

    def _probe(self, channel: DatagramChannel) -> None:
        if channel.address is None:
            return
        now = self._now()
        for size in channel.path.due(now):
            sequence, result = self._transmit(channel, PROBE + bytes(size - OVERHEAD - len(PROBE)), channel.address)
            if result is Transmission.TOO_LARGE and size > SIZES[0]:
                channel.path.note_too_large(size, now)
            elif sequence >= 0:
                channel.path.note_sent(sequence, size, now)

    def report(self) -> None:
        """Send a report about each channel whose numbers have changed."""
        for channel in self.channels:
            channel.count_missing()
            sent, received = channel.documents_sent, channel.received_coverage
            sent_before, received_before = self._reported.get(channel.id, (0, Coverage()))
            if (sent, received) != (sent_before, received_before):
                self._reported[channel.id] = (sent, received)
                self._recent_here.note(self._now(), received.since(received_before))
                documents, lost, full = received
                self._send_record(
                    ChannelRecord(id=channel.id.hex(), sent=sent, covered=documents, lost=lost, full=full)
                )
        self._sum_lost()

    def status(self) -> PathState:
        now, channel = self._now(), self.open_channel
        return PathState(
            state="open" if channel is not None else "closed",
            why="" if channel is not None else self._why_closed(),
            datagram_bytes=channel.path.size if channel is not None else 0,
            bytes_per_s=round(self.rate.bytes_per_s),
            not_open_now=self._not_open,
            recent_here=self._recent_here.shown(now),
            recent_there=self._recent_there.shown(now),
            **asdict(self.counts),
        )

    def _why_closed(self) -> str:
        if self._is_closed:
            return NO_LINK
        if not self.channels:
            return self._obstacle or "the other end has offered no channel"
        if self.channels[-1].address is None:
            return "no datagram of the other end has arrived"
        host, port = self.channels[-1].address[:2]
        return f"{host}:{port} answers no datagrams: is UDP blocked on the way?"
