"""Two ends of a link in memory: a simulated network carries their datagrams, and hypothesis draws some faults.

Records on the link arrive at once.
"""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.amqp.content import ContentHeader, Properties
from semq.answers.status import DatagramCounts, LossState
from semq.clock import draw_secret
from semq.datagrams.channel import DatagramChannel
from semq.datagrams.cipher import read_head
from semq.datagrams.document import CarriedDocument
from semq.datagrams.path import SIZES
from semq.datagrams.rate import FLOOR_BYTES_PER_S, START_BYTES_PER_S
from semq.datagrams.session import ANSWER, PROBE, DatagramSession, DatagramTimes, SessionPort, Transmission
from semq.umx_t.records import ChannelRecord

HUB, NODE = ("192.0.2.1", 5671), ("192.0.2.2", 40_000)


class MemoryPort(SessionPort):
    """One socket, whose datagrams wait in a list."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Any]] = []
        self.channels: dict[bytes, tuple[DatagramChannel, DatagramSession]] = {}
        self.result = Transmission.SENT

    def transmit(self, datagram: bytes, address: Any) -> Transmission:
        if self.result is Transmission.SENT:
            self.sent.append((datagram, address))
        return self.result

    def register(self, channel: DatagramChannel, session: DatagramSession) -> None:
        self.channels[channel.id] = (channel, session)

    def forget(self, channel: DatagramChannel) -> None:
        del self.channels[channel.id]

    def arrive(self, datagram: bytes, source: Any) -> None:
        head = read_head(datagram)
        if head is not None and head.channel_id in self.channels:
            channel, session = self.channels[head.channel_id]
            session.process_datagram(channel, head.sequence, datagram, source)


class TwoEnds:
    """A hub that has offered a channel, and a node that has accepted it."""

    def __init__(self, times: DatagramTimes | None = None) -> None:
        self.now = 0.0
        times = times or DatagramTimes()
        self.ports = [MemoryPort(), MemoryPort()]
        self.received: list[list[CarriedDocument]] = [[], []]
        self.has_room = True
        self.records: list[ChannelRecord] = []  # sent by the hub
        self.reports = 0  # number of records sent by the node
        self.hub, self.node = [
            DatagramSession(
                self.ports[end], times, DatagramCounts(), send_record, partial(self._on_document, end),
                lambda: self.now,
            )
            for end, send_record in enumerate((self._send_to_node, self._send_to_hub))
        ]  # fmt: skip
        self.node_address = NODE
        self.hub.offer(draw_secret, "", 5671)

    def _on_document(self, end: int, document: CarriedDocument) -> bool:
        if self.has_room:
            self.received[end].append(document)
        return self.has_room

    def _send_to_node(self, record: ChannelRecord) -> None:
        self.records.append(record)
        if record.secret:
            self.node.accept(record, HUB)
        else:
            self.node.process_report(record)

    def _send_to_hub(self, record: ChannelRecord) -> None:
        self.reports += 1
        self.hub.process_report(record)

    def carry(self, end: int, index: int = 0) -> None:
        """Carry one of the waiting datagrams of an end (0: hub, 1: node) to the other end."""
        datagram, _ = self.ports[end].sent.pop(index)
        self.ports[1 - end].arrive(datagram, HUB if end == 0 else self.node_address)

    def settle(self) -> "TwoEnds":
        """Carry datagrams until none are under way."""
        while any(port.sent for port in self.ports):
            for end in (0, 1):
                while self.ports[end].sent:
                    self.carry(end)
        return self

    def lose(self) -> None:
        """Lose all datagrams that are under way."""
        for port in self.ports:
            port.sent.clear()

    def send_for(self, seconds: int, per_s: int, lost_of_10: int = 0) -> None:
        """Send ``per_s`` documents from the node each second, and lose ``lost_of_10`` of each ten datagrams."""
        for _ in range(seconds):
            for number in range(per_s):
                if self.node.send(document()) and number % 10 < lost_of_10:
                    self.ports[1].sent.pop()
            self.pass_time(1)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 1.0
            self.hub.tick()
            self.node.tick()
            self.settle()


def document(body: bytes = b"body") -> CarriedDocument:
    return CarriedDocument("1.56001", ContentHeader.build(len(body), Properties(type="0.data")), body)


def test_both_directions_open_without_a_document() -> None:
    ends = TwoEnds().settle()
    assert ends.hub.open_channel is not None
    assert ends.node.open_channel is not None
    assert ends.node.status().datagram_bytes == SIZES[-1]


def test_the_hub_sends_nothing_before_an_authenticated_datagram() -> None:
    ends = TwoEnds()
    ends.node.close()
    for _ in range(100):
        ends.now += 1
        ends.hub.tick()
    assert ends.ports[0].sent == []
    assert not ends.hub.send(document())
    assert ends.hub.counts.not_open == 1


def test_an_address_that_answers_no_probe_gets_no_datagrams() -> None:
    """An attacker on the path sends the node's newest datagram from another address: the hub sends nothing there."""
    ends = TwoEnds().settle()
    ends.pass_time(3)
    assert ends.node.send(document(b"x"))
    datagram, _ = ends.ports[1].sent.pop()
    victim = ("203.0.113.9", 9)
    ends.ports[0].arrive(datagram, victim)
    for _ in range(100):
        ends.now += 1
        ends.hub.tick()
    assert not ends.hub.send(document())
    assert [address for _, address in ends.ports[0].sent if address == victim] == []
    ends.pass_time(40)
    assert ends.hub.open_channel is not None
    assert ends.hub.open_channel.address == NODE


def test_datagrams_go_to_the_address_from_which_the_highest_number_came() -> None:
    ends = TwoEnds().settle()
    ends.node.send(document(b"early"))
    ends.node.send(document(b"later"))
    ends.node_address = ("192.0.2.2", 41_000)
    ends.carry(1, 1)
    ends.node_address = NODE
    ends.carry(1, 0)  # overtaken on the way
    assert ends.hub.channels[0].address == ("192.0.2.2", 41_000)
    assert ends.hub.counts.moved == 1
    assert [document.body for document in ends.received[0]] == [b"later", b"early"]


def test_only_the_end_that_offered_the_channel_follows_a_changed_address() -> None:
    ends = TwoEnds().settle()
    ends.hub.send(document())
    datagram, _ = ends.ports[0].sent.pop()
    ends.ports[1].arrive(datagram, ("203.0.113.9", 9))
    assert ends.node.channels[0].address == HUB


@given(st.lists(st.tuples(st.sampled_from("send lose carry repeat".split()), st.integers(0, 30)), max_size=200))
def test_lost_repeated_and_late_datagrams_are_counted_and_none_arrives_twice(events: list[tuple[str, int]]) -> None:
    ends = TwoEnds().settle()
    bodies = 0
    for event, number in events:
        waiting = ends.ports[1].sent
        if event == "send":
            assert ends.node.send(document(b"%d" % bodies))
            bodies += 1
        elif waiting and event == "lose":
            waiting.pop(number % len(waiting))
        elif waiting and event == "repeat":
            waiting.append(waiting[number % len(waiting)])
        elif waiting:
            ends.carry(1, number % len(waiting))
    ends.settle()
    ends.node.report()
    arrived = [document.body for document in ends.received[0]]
    assert len(set(arrived)) == len(arrived)
    counts = ends.hub.counts
    assert (ends.node.counts.sent, counts.received) == (bodies, len(arrived))
    ends.hub.report()
    ends.hub.report()
    assert counts.lost == bodies - len(arrived)
    assert ends.node.counts.lost_there == counts.lost


@given(st.binary(max_size=100))
def test_unknown_contents_of_an_authenticated_peer_break_nothing(content: bytes) -> None:
    ends = TwoEnds().settle()
    sealed = ends.node.channels[0].seal(content)
    assert sealed is not None
    ends.ports[0].arrive(sealed[1], NODE)
    ends.settle()
    if content[:1] not in (PROBE, ANSWER, b"\0"):
        assert ends.hub.counts.unreadable == 1
    assert ends.received[0] == []
    assert ends.hub.open_channel is not None


def test_altered_and_repeated_datagrams_are_counted_separately() -> None:
    ends = TwoEnds().settle()
    ends.node.send(document())
    datagram = ends.ports[1].sent[0][0]
    ends.ports[0].arrive(datagram[:-1] + bytes([datagram[-1] ^ 1]), NODE)
    ends.settle()
    ends.ports[0].arrive(datagram, NODE)
    assert (ends.hub.counts.forged, ends.hub.counts.repeated, ends.hub.counts.received) == (1, 1, 1)


def test_documents_that_the_connection_must_carry_are_counted_by_reason() -> None:
    ends = TwoEnds(DatagramTimes(bytes_per_s=10_000)).settle()
    assert not ends.node.send(document(bytes(SIZES[-1])))
    room = SIZES[-1] - 100
    assert ends.node.send(document(bytes(room)))
    assert not ends.node.send(document(bytes(room)))
    ends.now += 1
    assert ends.node.send(document(bytes(room)))
    ends.now += 1
    ends.ports[1].result = Transmission.FULL
    assert not ends.node.send(document())
    ends.ports[1].result = Transmission.TOO_LARGE
    assert not ends.node.send(document())
    assert ends.node.status().datagram_bytes == SIZES[0]
    assert (ends.node.counts.too_large, ends.node.counts.too_fast, ends.node.counts.sent) == (2, 2, 2)


def test_a_document_for_which_the_receiver_has_no_room_is_dropped_and_not_counted_as_lost() -> None:
    ends = TwoEnds().settle()
    ends.has_room = False
    ends.node.send(document())
    ends.settle()
    assert (ends.hub.counts.full, ends.hub.counts.received, ends.hub.counts.lost) == (1, 0, 0)
    ends.pass_time(2)
    assert (ends.node.counts.full_there, ends.node.counts.lost_there) == (1, 0)
    recent = LossState(documents=1, lost=0, full=1)
    assert ends.hub.status().recent_here == ends.node.status().recent_there == recent


def test_the_rate_follows_the_loss_that_the_other_end_reports() -> None:
    ends = TwoEnds().settle()
    ends.send_for(3, 100)
    rate_before = ends.node.rate.bytes_per_s
    assert rate_before > START_BYTES_PER_S
    ends.send_for(2, 100, lost_of_10=2)
    after_loss = ends.node.status()
    # In these two seconds the rate was first doubled, then halved.
    assert (after_loss.bytes_per_s, after_loss.slowed) == (rate_before, 1)
    assert ends.hub.status().bytes_per_s == START_BYTES_PER_S  # the other direction keeps its rate
    ends.send_for(30, 100, lost_of_10=2)
    assert ends.node.rate.bytes_per_s == FLOOR_BYTES_PER_S
    sent = ends.node.counts.sent
    assert [ends.node.send(document()) for _ in range(1000)].count(True) < 1000
    assert ends.node.counts.too_fast > 0
    assert ends.node.counts.sent > sent
    ends.settle()
    ends.send_for(40, 100)
    assert ends.node.rate.bytes_per_s > rate_before


def test_a_path_that_opens_again_begins_at_the_first_rate() -> None:
    ends = TwoEnds().settle()
    ends.send_for(5, 100)
    assert ends.node.rate.bytes_per_s > START_BYTES_PER_S
    for _ in range(100):
        ends.now += 1
        ends.node.tick()
        ends.ports[1].sent.clear()
    assert not ends.node.send(document())
    assert ends.node.status().not_open_now == 1
    ends.pass_time(20)
    assert ends.node.rate.bytes_per_s == START_BYTES_PER_S
    assert (ends.node.status().not_open_now, ends.node.counts.not_open) == (0, 1)


def test_new_keys_do_not_change_the_rate() -> None:
    ends = TwoEnds(DatagramTimes(renew_s=10, grace_s=2)).settle()
    ends.send_for(5, 100)
    ends.pass_time(2)
    first, rate = ends.node.open_channel, ends.node.rate.bytes_per_s
    ends.pass_time(10)
    assert ends.node.open_channel is not first
    assert ends.node.rate.bytes_per_s == rate


def test_documents_under_way_are_not_reported_as_lost() -> None:
    """The report of the sender overtakes its datagrams."""
    ends = TwoEnds().settle()
    ends.node.send(document())
    ends.node.report()
    ends.hub.report()
    assert ends.hub.counts.lost == 0
    ends.settle()
    ends.pass_time(5)
    assert (ends.hub.counts.lost, ends.node.counts.lost_there) == (0, 0)


def test_reports_end_soon_after_the_documents() -> None:
    ends = TwoEnds().settle()
    ends.pass_time(10)
    assert (len(ends.records), ends.reports) == (1, 0)  # the offer
    ends.send_for(3, 10, lost_of_10=1)
    ends.pass_time(3)
    numbers = (len(ends.records), ends.reports)
    assert numbers[0] >= 4
    ends.pass_time(100)
    assert (len(ends.records), ends.reports) == numbers


def test_keys_are_renewed_and_late_datagrams_of_the_former_channel_still_count() -> None:
    ends = TwoEnds(DatagramTimes(renew_s=100, grace_s=20)).settle()
    first = ends.node.channels[0]
    ends.node.send(document(b"late"))
    late, _ = ends.ports[1].sent.pop()
    ends.pass_time(105)
    assert [channel.id for channel in ends.hub.channels] == [channel.id for channel in ends.node.channels]
    assert ends.node.open_channel is not first
    ends.ports[0].arrive(late, NODE)
    assert [document.body for document in ends.received[0]] == [b"late"]
    ends.pass_time(30)
    assert first not in ends.node.channels
    ends.ports[0].arrive(late, NODE)
    assert len(ends.received[0]) == 1
    assert len({record.secret for record in ends.records if record.secret}) == 2


def test_the_former_channel_is_read_for_a_time_after_a_late_opening_of_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = TwoEnds(DatagramTimes(renew_s=100, grace_s=20)).settle()
    first = ends.node.channels[0]
    with monkeypatch.context() as lost:
        lost.setattr(ends, "settle", ends.lose)
        ends.pass_time(130)
    assert len(ends.node.channels) == 2
    new = ends.node.channels[-1]
    while not new.path.is_open:
        ends.pass_time(1)
    ends.pass_time(10)
    assert first in ends.node.channels
    ends.pass_time(15)
    assert first not in ends.node.channels


def test_a_channel_with_many_datagrams_is_renewed() -> None:
    ends = TwoEnds().settle()
    first = ends.node.channels[0]
    first._next_sequence = 1 << 22
    ends.node.send(document())
    ends.settle()
    ends.pass_time(2)
    assert ends.hub.open_channel is not None
    assert ends.hub.open_channel.id != first.id


def test_loss_of_ended_channels_stays_counted() -> None:
    ends = TwoEnds(DatagramTimes(renew_s=50, grace_s=5)).settle()
    ends.node.send(document())
    ends.ports[1].sent.clear()
    ends.pass_time(20)
    assert (ends.hub.counts.lost, ends.node.counts.lost_there) == (1, 1)
    ends.pass_time(100)
    assert (ends.hub.counts.lost, ends.node.counts.lost_there) == (1, 1)


def test_a_renewal_waits_for_the_other_end() -> None:
    """Without a path for datagrams no further keys are drawn."""
    ends = TwoEnds(DatagramTimes(renew_s=10))
    ends.ports[1].sent.clear()
    for _ in range(100):
        ends.now += 1
        ends.hub.tick()
    assert len(ends.hub.channels) == 1


def test_an_offer_received_twice_makes_one_channel() -> None:
    ends = TwoEnds().settle()
    ends.node.accept(ends.records[0], HUB)
    assert len(ends.node.channels) == 1
    assert ends.node.open_channel is not None


def test_a_closed_session_is_forgotten_by_its_port() -> None:
    ends = TwoEnds().settle()
    ends.hub.close()
    assert ends.ports[0].channels == {}
    assert (ends.hub.status().state, ends.hub.status().why) == ("closed", "there is no link")
