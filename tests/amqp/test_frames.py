"""Splitting of bytes into frames: any division, every kind of fault, and no unnecessary copies."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semq.amqp.frames import (
    BAD_END,
    HEARTBEAT_FRAME,
    OVERSIZE,
    SMALL,
    UNKNOWN_TYPE,
    FrameReader,
    Pieces,
    frame,
)

ReadFrame = tuple[int, int, bytes]


def read(reader: FrameReader, data: bytes) -> list[ReadFrame]:
    """Return type, channel and payload of the frames. For an invalid frame, the payload is ``start`` as text."""
    seen = []
    for kind, channel, start, stop in reader.frames(data):
        seen.append((kind, channel, reader.buffer[start:stop] if kind > 0 else b"%d" % start))
    return seen


def read_all(parts: list[bytes]) -> list[ReadFrame]:
    reader = FrameReader(1 << 20)
    return [seen for part in parts for seen in read(reader, part)]


def cut(data: bytes, positions: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(data) + 1) for position in positions), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


def test_frames_have_the_octets_of_the_specification() -> None:
    assert HEARTBEAT_FRAME == b"\x08\x00\x00\x00\x00\x00\x00\xce"
    assert frame(1, 258, b"ab") == b"\x01\x01\x02\x00\x00\x00\x02ab\xce"


frames = st.lists(st.tuples(st.sampled_from([1, 2, 3, 8]), st.integers(0, 65535), st.binary(max_size=50)), max_size=6)


@given(frames, st.lists(st.integers(0, 1000), max_size=6))
def test_frames_are_read_from_any_division_of_the_input(sent: list[ReadFrame], positions: list[int]) -> None:
    data = b"".join(frame(*values) for values in sent)
    assert read_all(cut(data, positions)) == sent


def test_input_cut_in_two_at_any_byte_or_into_single_bytes_gives_the_same_frames() -> None:
    sent = [(1, 1, b"method"), (2, 1, b""), (3, 1, b"body of some octets"), (8, 0, b"")]
    data = b"".join(frame(*values) for values in sent)
    for at in range(len(data) + 1):
        assert read_all([data[:at], data[at:]]) == sent
    assert read_all([data[at : at + 1] for at in range(len(data))]) == sent


def test_a_frame_in_one_piece_is_not_copied_by_the_reader() -> None:
    reader = FrameReader(100)
    data = frame(3, 1, b"x" * 50)
    next(reader.frames(data))
    assert reader.buffer is data


def test_a_caller_may_read_beyond_the_yielded_frame() -> None:
    reader = FrameReader(100)
    data = frame(1, 1, b"a") + frame(2, 1, b"b") + frame(3, 1, b"c")
    seen = []
    for kind, _, _, _ in reader.frames(data):
        seen.append(kind)
        reader.at += len(frame(2, 1, b"b")) if kind == 1 else 0
    assert seen == [1, 3]


@given(st.lists(st.integers(0, 1000), max_size=4))
def test_no_frame_follows_an_unknown_type(positions: list[int]) -> None:
    data = frame(8, 0, b"") + frame(4, 7, b"abc") + frame(8, 0, b"")
    reader = FrameReader(100)
    seen: list[ReadFrame] = []
    for part in cut(data, positions):
        seen += read(reader, part)
        if seen and seen[-1][0] == UNKNOWN_TYPE:
            break
    assert seen == [(8, 0, b""), (UNKNOWN_TYPE, 7, b"4")]


@given(st.lists(st.integers(0, 1000), max_size=4))
def test_a_bad_end_byte_is_reported(positions: list[int]) -> None:
    data = frame(8, 0, b"") + frame(3, 7, b"abc")[:-1] + b"\xcd"
    assert read_all(cut(data, positions))[:2] == [(8, 0, b""), (BAD_END, 7, b"0")]


@given(st.lists(st.integers(0, 1000), max_size=4))
def test_an_oversize_frame_is_reported_before_its_payload_arrives(positions: list[int]) -> None:
    data = frame(8, 0, b"") + frame(3, 1, b"x" * 100) + frame(3, 7, b"x" * 101)[:7]
    reader = FrameReader(100)
    assert [seen for part in cut(data, positions) for seen in read(reader, part)][-1] == (OVERSIZE, 7, b"101")
    assert reader._pieces.size == 0


def test_a_declared_size_is_not_allocated() -> None:
    reader = FrameReader((1 << 32) - 1)
    assert read(reader, b"\x03\x00\x01\xff\xff\xff\xffabc") == []
    assert reader._pieces.size == 3


@settings(max_examples=40)
@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 25), st.integers(0, 25)), max_size=10))
def test_pieces_join_to_the_added_bytes(parts: list[tuple[bytes, int, int]]) -> None:
    pieces, expected = Pieces(), b""
    for buffer, start, stop in parts:
        start, stop = min(start, stop, len(buffer)), min(max(start, stop), len(buffer))
        pieces.add(buffer, start, stop)
        expected += buffer[start:stop]
    assert pieces.join() == expected
    assert pieces.size == len(expected)


@pytest.mark.parametrize(
    ("size", "around", "kept"),
    [
        (SMALL, 0, memoryview),
        (SMALL, SMALL * 3, memoryview),
        (SMALL, SMALL * 3 + 1, bytearray),
        (SMALL - 1, 0, bytearray),
    ],
)
def test_large_pieces_are_not_copied(size: int, around: int, kept: type) -> None:
    pieces = Pieces()
    pieces.add(bytes(size + around), 0, size)
    assert type(pieces._parts[0]) is kept


def test_small_pieces_are_copied_together() -> None:
    pieces = Pieces()
    for _ in range(1000):
        pieces.add(b"x", 0, 1)
    pieces.add(bytes(SMALL), 0, SMALL)
    pieces.add(b"y", 0, 1)
    assert len(pieces._parts) == 3
    assert pieces.join() == b"x" * 1000 + bytes(SMALL) + b"y"
