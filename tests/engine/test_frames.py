"""Frames as AMQP content and back, and typed errors for malformed frames."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.wire import TABLE_DEPTH, decode_table, encode_fields, encode_table
from semq.engine.frames import check_carried, read_frame, split_given, write_frame
from semq.errors import SemqError
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes, Data, Envelope, Function, Packet, Primitive
from semq.umx_t.errors import BadAttribute, HeadersTooLarge
from semq.umx_t.headers import PACKED, USER_HEADERS_DEPTH, USER_HEADERS_MAX
from semq.umx_t.locator import LK0, LK1, Pos
from semq.umx_t.records import AckFlag, Answer, Receipt

A, B = Address(1, "10008"), Address(1, "56001", "buyer")
ENVELOPE = Envelope(
    source=A,
    target=B,
    lk0=LK0(1, "10008", 1, 1, 2**62 + 5, 77),
    attributes=Attributes(
        app_key=AppKey("trade", "order", "", "S/1"), order_key="k", user_headers=encode_fields({"x": 1})
    ),
    sid=4,
    floor=2,
    prev=Pos(9, 3),
    att=1,
    lk1=LK1(1, 1, 12),
    digest=b"d" * 32,
    submitted_at=1_800_000_000_000,
)


def reread(routing_key: str, header: ContentHeader, body: Any) -> Any:
    return read_frame(routing_key, ContentHeader.parse(bytes(header.raw)), body)


def test_a_message_comes_back_as_it_was() -> None:
    frame = reread(*write_frame(Data(ENVELOPE, b"payload")))
    assert frame.envelope == ENVELOPE
    assert frame.body == b"payload"


def test_a_forwarded_frame_keeps_its_bytes() -> None:
    body = memoryview(b"payload")
    frame = reread(*write_frame(Data(ENVELOPE, body)))
    routing_key, header, passed = write_frame(frame)
    assert header is frame.header
    assert passed is body
    assert routing_key == str(B)


def test_a_peer_of_version_1_gets_a_header_for_each_attribute_also_if_the_message_arrived_packed() -> None:
    packed = reread(*write_frame(Data(ENVELOPE, b"payload")))
    assert list(packed.header.headers) == [PACKED, "x"]
    for frame in (packed, Data(ENVELOPE, b"payload")):
        routing_key, header, body = write_frame(frame, version=1)
        assert PACKED not in (ContentHeader.parse(bytes(header.raw)).headers or {})
        passed = reread(routing_key, header, body)
        assert (passed.envelope, passed.body) == (ENVELOPE, b"payload")
        assert write_frame(passed, version=1)[1] is passed.header
        assert write_frame(passed)[1] is passed.header  # these headers are passed on unchanged, also to a newer peer


def test_a_packet_comes_back_as_it_was() -> None:
    receipt = Receipt(ack_flag=AckFlag.END_TO_END, ident=ENVELOPE.ident, status=Answer.RECV, floors={"5f": (3, None)})
    packet = Packet(A, B, Function.RECEIPTS, Primitive.RESPONSE, [receipt])
    frame = reread(*write_frame(packet))
    assert (frame.source, frame.target, frame.records) == (A, B, [receipt])
    assert write_frame(frame)[2] is frame.body


PROPERTIES = st.fixed_dictionaries(
    {
        "type": st.one_of(
            st.none(), st.sampled_from(["0.data", "1.810.indication", "1.809.request"]), st.text(max_size=9)
        ),
        "app_id": st.one_of(st.none(), st.just("1.10008"), st.text(max_size=9)),
        "message_id": st.one_of(st.none(), st.just(ENVELOPE.ident), st.text(max_size=9)),
        "headers": st.dictionaries(
            st.sampled_from(
                ["@Sid", "@Floor", "@Att", "@Prev", "@LK1", "@Digest", "@SaveFwd", "@AppKey", "@New", "x", PACKED]
            ),
            st.one_of(st.integers(-5, 5), st.text(max_size=5), st.binary(max_size=5), st.booleans(), st.none()),
            max_size=6,
        ),
    }
)


@given(PROPERTIES, st.binary(max_size=20), st.text(max_size=9))
def test_nonsense_from_a_peer_is_a_typed_error(properties: dict[str, Any], body: bytes, routing_key: str) -> None:
    try:
        header = ContentHeader.build(len(body), Properties(**properties))
    except SemqError:
        return  # a value that AMQP cannot carry
    try:
        frame = reread(routing_key, header, body)
    except SemqError:
        return
    assert isinstance(frame, Data | Packet)


def test_an_unknown_type_of_packet_is_refused() -> None:
    header = ContentHeader.build(0, Properties(type="1.811.indication", app_id="1.10008"))
    with pytest.raises(SemqError, match="SEMQ-1112"):
        read_frame("56001", header, b"")


def test_headers_are_limited_in_bytes_of_their_table() -> None:
    longest = {"n": "x" * (USER_HEADERS_MAX - len(encode_table({"n": ""})))}
    assert len(encode_table(longest)) == USER_HEADERS_MAX
    assert split_given({**longest, "@SaveFwd": 1}) == ({"@SaveFwd": 1}, encode_fields(longest))
    with pytest.raises(HeadersTooLarge, match=r"SEMQ-1105.*size=65537"):
        split_given({"n": longest["n"] + "x"})


@pytest.mark.parametrize("nest", [lambda value: {"a": value}, lambda value: [value]])
def test_headers_are_limited_in_depth_to_what_every_peer_decodes(nest: Callable[[Any], Any]) -> None:
    assert USER_HEADERS_DEPTH == TABLE_DEPTH
    value: Any = 1
    for _ in range(USER_HEADERS_DEPTH - 1):
        value = nest(value)
    deepest = {"a": value}
    split_given(deepest)
    assert decode_table(encode_table(deepest))[0] == deepest
    with pytest.raises(BadAttribute, match="SEMQ-1102"):
        split_given({"a": nest(value)})


@pytest.mark.parametrize("headers", [{"n": 2**63}, {"n": -(2**63) - 1}, {"n": [1 << 80]}, {"\ud800": 1}])
def test_headers_that_amqp_cannot_carry_are_refused(headers: dict[str, Any]) -> None:
    with pytest.raises(BadAttribute, match="SEMQ-1102"):
        split_given(headers)


def test_properties_that_amqp_cannot_carry_are_refused() -> None:
    with pytest.raises(BadAttribute, match="SEMQ-1102"):
        check_carried(Attributes(content_type="x" * 256))
