"""A channel: keys of its two ends, sequence numbers, and lost documents."""

from semq.datagrams.channel import RENEW_AT, DatagramChannel
from semq.datagrams.cipher import SEQUENCE_MAX, read_head
from semq.datagrams.counts import Coverage
from semq.datagrams.path import PathTimes

ID, SECRET, ADDRESS = b"8 bytes.", bytes(32), ("127.0.0.1", 1)


def pair() -> tuple[DatagramChannel, DatagramChannel]:
    times = PathTimes()
    return DatagramChannel(ID, SECRET, times, 0.0), DatagramChannel(ID, SECRET, times, 0.0, address=ADDRESS)


def open_path(channel: DatagramChannel) -> None:
    channel.path.note_sent(0, 1200, 0.0)
    channel.path.note_answer(0, 0.0)


def test_each_end_opens_the_datagrams_of_the_other_end_only() -> None:
    offering, taking = pair()
    for sender, receiver in ((offering, taking), (taking, offering)):
        sealed = sender.seal(b"content")
        assert sealed is not None
        assert receiver.open(sealed[1], 0) == b"content"
        assert sender.open(sealed[1], 0) is None  # sent back by a third party


def test_each_sequence_number_is_used_once_up_to_the_last() -> None:
    channel, _ = pair()
    numbers = [sealed[0] for _ in range(3) if (sealed := channel.seal(b"")) is not None]
    assert numbers == [0, 1, 2]
    open_path(channel)
    channel._next_sequence = SEQUENCE_MAX - 1
    last = channel.seal(b"")
    assert last is not None
    head = read_head(last[1])
    assert head is not None
    assert head.sequence == SEQUENCE_MAX - 1
    assert channel.seal(b"") is None
    assert not channel.may_send


def test_a_channel_needs_new_keys_after_many_datagrams_sent_or_received() -> None:
    assert [channel.needs_new_keys for channel in pair()] == [False, False]
    sender, receiver = pair()
    sender._next_sequence = RENEW_AT
    receiver.window.note(RENEW_AT)
    assert sender.needs_new_keys
    assert receiver.needs_new_keys


def test_gaps_and_reports_show_lost_documents() -> None:
    channel, _ = pair()
    for number in (0, 3, 1):
        channel.note_document(number)
    assert channel.lost == 1
    channel.note_announced(6)
    channel.count_missing()
    assert channel.lost == 1  # the last two may be under way
    channel.count_missing()
    assert channel.lost == 3
    channel.note_document(5)
    assert channel.lost == 2
    channel.note_announced(2**62)
    channel.count_missing()
    channel.count_missing()
    assert channel.lost == SEQUENCE_MAX - 4
    assert channel.received_coverage == Coverage(SEQUENCE_MAX, SEQUENCE_MAX - 4, 0)


def test_a_report_is_limited_to_the_documents_sent_and_its_coverage_never_shrinks() -> None:
    """The results are the differences to the report before; a document that arrives late is no longer lost."""
    channel, _ = pair()
    channel.documents_sent = 10
    assert channel.record_coverage(Coverage(8, 3, 1)) == (8, 3, 1)
    assert channel.record_coverage(Coverage(7, 2, 1)) == (0, -1, 0)
    assert channel.record_coverage(Coverage(2**62, 2**62, 2**62)) == (2, 8, 9)
