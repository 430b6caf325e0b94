"""Content headers: built, forwarded, read property by property, amended."""

from typing import Any

import pamqp.commands
import pamqp.header
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semq.amqp.content import FLAGS, NAMES, ContentHeader, Properties
from semq.amqp.errors import AmqpError, FrameError, LocalMisuse, SyntaxFault
from semq.amqp.wire import Timestamp
from tests.amqp.helpers import properties, tables

HEAD = b"\x00\x3c\x00\x00" + bytes(8)  # class basic, weight 0, body size 0

FULL = Properties(
    content_type="text/xml",
    content_encoding="gzip",
    headers={"@SaveFwd": 3, "@LK1": "1.2.3"},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=1700000000,
    type="data",
    user_id="u",
    app_id="56001",
    cluster_id="x",
)


def test_a_content_header_has_the_octets_of_the_specification() -> None:
    header = ContentHeader.build(5, Properties(content_type="a", delivery_mode=2, timestamp=1))
    assert header.raw == b"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x90\x40\x01a\x02" + bytes(7) + b"\x01"
    assert header.body_size == 5


def test_a_header_without_properties_has_no_flags() -> None:
    header = ContentHeader.build(0, Properties())
    assert header.raw == HEAD + b"\x00\x00"
    assert header.properties == Properties()
    assert header.headers is None


@settings(max_examples=60)
@given(properties, st.integers(0, (1 << 64) - 1))
def test_properties_are_decoded_as_they_were_encoded(given_properties: Properties, body_size: int) -> None:
    built = ContentHeader.build(body_size, given_properties)
    header = ContentHeader.parse(built.raw)
    assert header.body_size == body_size
    assert header.properties == given_properties
    for name in NAMES:
        assert getattr(ContentHeader.parse(built.raw), name) == getattr(given_properties, name)


def test_pamqp_reads_built_headers() -> None:
    pamqp_header = pamqp.header.ContentHeader()
    pamqp_header.unmarshal(ContentHeader.build(7, FULL).raw)
    assert pamqp_header.body_size == 7
    assert pamqp_header.properties.headers == FULL.headers
    assert pamqp_header.properties.timestamp is not None
    assert pamqp_header.properties.timestamp.timestamp() == FULL.timestamp
    for name in set(NAMES) - {"headers", "timestamp"}:
        assert getattr(pamqp_header.properties, {"type": "message_type"}.get(name, name)) == getattr(FULL, name)


def test_headers_of_pamqp_are_read() -> None:
    names = set(NAMES) - {"timestamp", "cluster_id"}
    renamed = {"type": "message_type"}
    pamqp_properties = pamqp.commands.Basic.Properties(
        **{renamed.get(name, name): getattr(FULL, name) for name in names}
    )
    header = ContentHeader.parse(pamqp.header.ContentHeader(0, 7, pamqp_properties).marshal())
    assert header.body_size == 7
    assert {name: getattr(header, name) for name in names} == {name: getattr(FULL, name) for name in names}


def test_headers_are_decoded_once() -> None:
    header = ContentHeader.build(0, FULL)
    assert header.headers is header.headers


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"", FrameError),
        (HEAD, FrameError),
        (HEAD + b"\x00", FrameError),
        (b"\x00\x0a" + HEAD[2:] + b"\x00\x00", FrameError),  # another class
        (b"\x00\x3c\x00\x01" + HEAD[4:] + b"\x00\x00", SyntaxFault),  # weight
    ],
)
def test_malformed_heads_are_refused_at_once(raw: bytes, error: type[AmqpError]) -> None:
    with pytest.raises(error):
        ContentHeader.parse(raw)


@pytest.mark.parametrize(
    ("raw", "name", "error"),
    [
        (HEAD + b"\x80\x00\x02a", "content_type", FrameError),
        (HEAD + b"\x80\x00", "content_type", FrameError),
        (HEAD + b"\x20\x00\x00\x00\x00\x09", "headers", FrameError),
        (HEAD + b"\x20\x00\x00\x00\x00", "headers", FrameError),
        (HEAD + b"\x00\x40\x00\x00", "timestamp", FrameError),
        (HEAD + b"\x00\x00\x00", "priority", FrameError),  # surplus octets
        (HEAD + b"\x00\x02", "priority", SyntaxFault),  # a property that does not exist
        (HEAD + b"\x00\x01\x00\x00", "priority", SyntaxFault),  # a second word of flags
        (HEAD + b"\x80\x00\x01\xff", "content_type", SyntaxFault),
        (HEAD + b"\x80\x00\x01\x00", "content_type", SyntaxFault),
        (HEAD + b"\x20\x00\x00\x00\x00\x03\x01kZ", "headers", SyntaxFault),
    ],
)
def test_malformed_properties_are_refused_when_they_are_read(raw: bytes, name: str, error: type[AmqpError]) -> None:
    header = ContentHeader.parse(raw)
    for _ in range(2):
        with pytest.raises(error) as caught:
            getattr(header, name)
        assert caught.value.ids == (60, 0)


@given(st.binary(max_size=60))
def test_noise_gives_properties_or_an_error_of_amqp(noise: bytes) -> None:
    try:
        ContentHeader.parse(HEAD + noise).properties  # noqa: B018
    except (FrameError, SyntaxFault) as error:
        class_id = error.class_id
    else:
        class_id = 60
    assert class_id == 60


def test_headers_are_bounded_in_depth() -> None:
    raw = ContentHeader.build(0, Properties(headers={"a": {"b": {}}})).raw
    assert ContentHeader.parse(raw, 3).headers == {"a": {"b": {}}}
    with pytest.raises(SyntaxFault, match="deep"):
        _ = ContentHeader.parse(raw, 2).headers


@pytest.mark.parametrize(
    "invalid",
    [
        {"priority": 256},
        {"priority": "high"},
        {"timestamp": -1},
        {"message_id": "x" * 256},
        {"message_id": 5},
        {"headers": {"a": object()}},
        {"headers": 5},
    ],
)
def test_properties_that_do_not_fit_are_misuse(invalid: dict[str, Any]) -> None:
    with pytest.raises(LocalMisuse):
        ContentHeader.build(0, Properties(**invalid))
    if "headers" not in invalid:
        with pytest.raises(LocalMisuse):
            ContentHeader.build(0, Properties()).amended(**invalid)


def test_a_body_size_that_does_not_fit_is_misuse() -> None:
    with pytest.raises(LocalMisuse):
        ContentHeader.build(-1, Properties())


# Types that this codec never writes: an integer of 16 bits, a float of 32 bits.
FOREIGN_TYPES = HEAD + b"\x30\x00\x00\x00\x00\x0c" + b"\x01as\x00\x05" + b"\x01bf\x3f\x80\x00\x00" + b"\x02"


def test_amending_nothing_changes_nothing() -> None:
    header = ContentHeader.parse(FOREIGN_TYPES)
    assert header.headers == {"a": 5, "b": 1.0}
    assert header.amended() == header
    assert header.amended().raw == FOREIGN_TYPES


def test_entries_that_are_not_amended_keep_their_octets() -> None:
    amended = ContentHeader.parse(FOREIGN_TYPES).amended(headers={"b": None, "c": [1]}, priority=4)
    assert amended.headers == {"a": 5, "c": [1]}
    assert b"\x01as\x00\x05" in amended.raw
    assert (amended.priority, amended.delivery_mode) == (4, 2)


def test_a_property_set_to_none_is_removed() -> None:
    header = ContentHeader.build(3, FULL)
    amended = header.amended(headers=None, expiration=None)
    assert (amended.headers, amended.expiration, amended.message_id, amended.body_size) == (None, None, "m", 3)
    assert header.amended(headers={"@LK1": None}).headers == {"@SaveFwd": 3}


def test_headers_can_be_added_where_there_are_none() -> None:
    header = ContentHeader.build(0, Properties()).amended(headers={"t": Timestamp(5)}, type="x")
    assert header.headers == {"t": 5}
    assert header.type == "x"


def test_an_unknown_property_cannot_be_amended() -> None:
    with pytest.raises(LocalMisuse, match="colour"):
        ContentHeader.build(0, Properties()).amended(colour="red")


def test_malformed_headers_cannot_be_amended() -> None:
    with pytest.raises(FrameError):
        ContentHeader.parse(HEAD + b"\x20\x00\x00\x00\x00\x01\x00").amended(headers={"a": 1})


@settings(max_examples=40)
@given(properties, tables)
def test_amended_entries_are_added_replaced_or_removed(built: Properties, changes: dict[str, Any]) -> None:
    amended = ContentHeader.build(0, built).amended(headers=changes)
    assert not isinstance(built.headers, bytes)
    expected = dict(built.headers or {}) | changes
    if built.headers is not None or changes:
        assert amended.headers == {
            name: value
            for name, value in expected.items()
            if changes.get(name, value) is not None or name not in changes
        }


def test_content_headers_with_equal_octets_are_equal() -> None:
    header = ContentHeader.build(0, FULL)
    assert header == ContentHeader.parse(header.raw)
    assert hash(header) == hash(ContentHeader.parse(header.raw))
    assert header != header.raw
    assert repr(header).startswith("ContentHeader(raw=b'\\x00<")


def test_flags_are_those_of_the_specification() -> None:
    assert (FLAGS["content_type"], FLAGS["headers"], FLAGS["cluster_id"]) == (0x8000, 0x2000, 0x0004)


def test_headers_are_split_by_names_and_the_others_stay_encoded() -> None:
    header = ContentHeader.build(0, Properties(headers={"@SaveFwd": 3, "ref": "A1"}))
    for again in (header, ContentHeader.parse(header.raw)):
        decoded, others = again.split_headers()
        assert (decoded, others) == ({"@SaveFwd": 3}, b"\x03refS\x00\x00\x00\x02A1")
    assert ContentHeader.build(0, Properties()).split_headers() == ({}, b"")


def test_malformed_headers_are_not_split() -> None:
    raw = HEAD + b"\x20\x00" + b"\x00\x00\x00\x04\x01a?\x00"
    with pytest.raises(SyntaxFault):
        ContentHeader.parse(raw).split_headers()
