"""Datagrams as bytes: sealed at one end, opened at the other; altered and foreign datagrams are refused."""

from hypothesis import given
from hypothesis import strategies as st

from semq.datagrams.cipher import HEAD, MARK, OVERHEAD, SEQUENCE_MAX, DatagramHead, DirectionCipher, read_head

ID, SECRET = b"8 bytes.", bytes(range(32))
SEQUENCES = st.integers(0, SEQUENCE_MAX - 1)


def cipher(channel_id: bytes = ID, secret: bytes = SECRET, direction: bytes = b"offered") -> DirectionCipher:
    return DirectionCipher(channel_id, secret, direction)


@given(SEQUENCES, st.binary(max_size=2000))
def test_a_datagram_opens_at_the_other_end(sequence: int, content: bytes) -> None:
    datagram = cipher().seal(sequence, content)
    assert len(datagram) == len(content) + OVERHEAD
    assert read_head(datagram) == DatagramHead(ID, sequence)
    assert cipher().open(datagram, sequence) == content


@given(SEQUENCES, st.binary(max_size=100), st.data())
def test_any_altered_bit_is_detected(sequence: int, content: bytes, data: st.DataObject) -> None:
    changed = bytearray(cipher().seal(sequence, content))
    bit = data.draw(st.integers(0, len(changed) * 8 - 1))
    changed[bit // 8] ^= 1 << bit % 8
    head = read_head(bytes(changed))
    assert head is None or cipher().open(bytes(changed), head.sequence) is None


def test_another_channel_secret_or_direction_opens_nothing() -> None:
    datagram = cipher().seal(7, b"content")
    for wrong in (cipher(b"8 others"), cipher(secret=bytes(32)), cipher(direction=b"taken")):
        assert wrong.open(datagram, 7) is None


@given(st.binary(max_size=200))
def test_foreign_bytes_are_no_datagram(datagram: bytes) -> None:
    head = read_head(datagram)
    assert head is None or cipher().open(datagram, head.sequence) is None


def test_a_sequence_number_beyond_the_last_one_is_refused() -> None:
    assert read_head(HEAD.pack(MARK, ID, SEQUENCE_MAX) + bytes(16)) is None
    assert read_head(HEAD.pack(MARK, ID, SEQUENCE_MAX - 1) + bytes(16)) is not None


def test_equal_contents_differ_as_datagrams() -> None:
    assert cipher().seal(1, b"same")[HEAD.size :] != cipher().seal(2, b"same")[HEAD.size :]
