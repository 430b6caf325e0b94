"""Batches of messages between instances."""

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.carrier.batch import open_batch, pack, seal
from semq.carrier.errors import ForeignBatch
from semq.engine.hub.carrier import (
    Acknowledged,
    Alive,
    Asking,
    Came,
    Credit,
    Message,
    Passed,
    PresentSessions,
    Question,
    Reply,
    StoreFrames,
    Went,
)
from semq.errors import SemqError
from semq.umx_t.address import Address, NodeType
from semq.umx_t.envelope import Attributes, Data, Envelope, Frame, Function, Packet, Primitive
from semq.umx_t.locator import LK0
from semq.umx_t.records import AckFlag, Receipt

KEY, OTHER_KEY = bytes(32), bytes(31) + b"\x01"
A, B = Address(NodeType.LOCAL, "10008"), Address(NodeType.LOCAL, "56001")
numbers = st.integers(0, (1 << 63) - 1)
names = st.from_regex(r"1\.[A-Za-z0-9_-]{1,20}", fullmatch=True)
stores = st.tuples(st.integers(1, 0x7FFF_FFFF), st.integers(1, 0x7FFF_FFFF))
documents = st.builds(
    lambda number, body, att: Data(
        Envelope(source=A, target=B, lk0=LK0(*A[:2], 1, 1, 7, number), attributes=Attributes(), sid=3, att=att), body
    ),
    numbers, st.binary(max_size=2000), st.integers(0, 1000),
)  # fmt: skip
packets = st.builds(
    lambda ident, number: Packet(
        A, B, Function.RECEIPTS, Primitive.INDICATION,
        [Receipt(src_ref_id=number, ack_flag=AckFlag.END_TO_END, ident=ident)],
    ),
    st.from_regex(r"[0-9A-Za-z._-]{0,40}", fullmatch=True), numbers,
)  # fmt: skip
frames = documents | packets
messages = st.one_of(
    st.builds(StoreFrames, st.just(A), st.lists(frames, max_size=4)),
    st.builds(Passed, names, numbers, numbers, frames),
    st.builds(Credit, names, numbers, numbers, st.integers(-100, 10_000)),
    st.builds(Acknowledged, names, st.lists(st.text(max_size=80), max_size=5).map(tuple)),
    st.builds(Came, names, numbers, numbers, st.integers(0, 10_000), st.none() | st.just(("PEM", "PEM2"))),
    st.builds(Went, names, numbers),
    st.builds(PresentSessions, stores, st.lists(numbers, max_size=5).map(tuple)),
    st.builds(Asking, stores),
    st.builds(Alive, stores, numbers, numbers),
    st.builds(Question, numbers, names, st.binary(max_size=200), st.text(max_size=80)),
    st.builds(Reply, numbers, st.binary(max_size=200)),
)


def fail(error: SemqError) -> None:
    raise error


def plain(frame: Frame) -> object:
    """Return the values of a frame without its encoded header and body."""
    if isinstance(frame, Data):
        return frame.envelope, bytes(frame.body)
    return frame.source, frame.target, frame.function, frame.primitive, list(frame.records), frame.signature


def meaning(message: Message) -> object:
    """Return the values of a message, with frames as ``plain`` returns them."""
    match message:
        case StoreFrames(speaker=speaker, frames=sent):
            return speaker, [plain(frame) for frame in sent]
        case Passed(node=node, session=session, number=number, frame=frame):
            return node, session, number, plain(frame)
        case _:
            return message


@given(st.lists(messages, max_size=5), numbers)
def test_a_batch_has_the_packed_messages(given_messages: list[Message], life: int) -> None:
    body = seal(KEY, "store.1.2", life, 3, [pack(message) for message in given_messages])
    batch = open_batch(KEY, "store.1.2", body, fail)
    assert batch.life == life
    assert [meaning(message) for message in batch.messages] == [meaning(message) for message in given_messages]


@given(messages, st.integers(0, 10_000), st.integers(0, 7))
def test_a_changed_bit_is_detected(message: Message, place: int, bit: int) -> None:
    body = bytearray(seal(KEY, "all", 7, 1, [pack(message)]))
    body[place % len(body)] ^= 1 << bit
    with pytest.raises(ForeignBatch):
        open_batch(KEY, "all", bytes(body), fail)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(ForeignBatch):
        open_batch(KEY, "all", body, fail)


@pytest.mark.parametrize(
    ("key", "destination", "fault"),
    [(OTHER_KEY, "all", "hub's key"), (KEY, "store.1.1", "another queue")],
)
def test_a_batch_of_another_hub_or_for_another_queue_is_refused(key: bytes, destination: str, fault: str) -> None:
    body = seal(key, destination, 7, 1, [pack(Asking((1, 1)))])
    with pytest.raises(ForeignBatch, match=fault):
        open_batch(KEY, "all", body, fail)


def test_messages_of_a_newer_version_are_left_out_and_reported() -> None:
    newer = pack(Asking((1, 1))).replace(b"\x08", b"\x63", 1)  # number of the class: 8, which becomes 99
    body = seal(KEY, "all", 7, 1, [newer, pack(Went("1.10008", 4))])
    faults: list[SemqError] = []
    assert open_batch(KEY, "all", body, faults.append).messages == [Went("1.10008", 4)]
    assert len(faults) == 1


def test_authenticated_bytes_that_are_no_batch_are_refused() -> None:
    content = b"\xff\xff"
    with pytest.raises(ForeignBatch):
        open_batch(KEY, "all", hmac.digest(KEY, content, "sha256") + content, fail)
