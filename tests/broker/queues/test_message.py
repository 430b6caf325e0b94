"""The properties of a message, and the refusal of invalid ones."""

from typing import Any

import pytest

from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError, FrameError, PreconditionFailed
from semq.broker.arguments import TIMER_MAX_MS
from semq.broker.queues.message import Message, delivery_mode, needs_name_check, read_expiration
from tests.broker.pure import message_of


@pytest.mark.parametrize(
    ("properties", "field", "value"),
    [
        ({}, "is_persistent", False),
        ({"delivery_mode": 1}, "is_persistent", False),
        ({"delivery_mode": 2, "content_type": "a/b", "headers": {"x": "y"}}, "is_persistent", True),
        ({}, "priority", 0),
        ({"priority": 7}, "priority", 7),
        ({}, "expiration", None),
        ({"expiration": "1500"}, "expiration", 1500),
        ({"headers": {"CC": ["a"], "BCC": ["b", "c"]}}, "routing_keys", ("k", "a", "b", "c")),
    ],
)
def test_the_fields_of_a_message_are_those_of_its_properties(
    properties: dict[str, Any], field: str, value: Any
) -> None:
    assert getattr(message_of(b"", "e", "k", **properties), field) == value


@pytest.mark.parametrize("mode", [0, 3, 255])
def test_delivery_modes_other_than_1_and_2_are_refused(mode: int) -> None:
    with pytest.raises(PreconditionFailed, match=f"delivery_mode_unknown,{mode}"):
        message_of(delivery_mode=mode)


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize(
    "others", [{}, {"content_type": "a/b"}, {"content_encoding": ""}, {"content_type": "a", "content_encoding": "b"}]
)
def test_the_delivery_mode_is_read_directly_from_the_bytes(mode: int, others: dict[str, Any]) -> None:
    header = message_of(delivery_mode=mode, **others).header
    flags = header.raw[12] << 8 | header.raw[13]
    assert delivery_mode(header, flags) == mode
    for raw in (header.raw[:-1], header.raw + b"x"):
        with pytest.raises(FrameError):
            delivery_mode(ContentHeader(raw, 0), flags)


@pytest.mark.parametrize("flags", [0, 0x8000, 0x4000, 0xC000, 0x0001, 0x0002])
@pytest.mark.parametrize("rest", [b"\xff", b"\x05ab", b"\x01a\x01b\x01c"])
def test_a_header_that_does_not_fit_its_flags_is_refused(flags: int, rest: bytes) -> None:
    header = ContentHeader(b"\0\x3c" + bytes(10) + flags.to_bytes(2, "big") + rest, 0)
    with pytest.raises(AmqpError):
        Message("", "k", header, b"")


@pytest.mark.parametrize("flags", [0x8000, 0x4000, 0xC000, 0x9000, 0x1000])
def test_a_header_without_its_announced_properties_is_refused(flags: int) -> None:
    with pytest.raises(FrameError):
        Message("", "k", ContentHeader(b"\0\x3c" + bytes(10) + flags.to_bytes(2, "big"), 0), b"")


def test_a_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(AmqpError):
        Message("", "k", ContentHeader(message_of(app_id="a\x7fb").header.raw.replace(b"\x7f", b"\xff"), 0), b"")
    assert message_of(app_id="机构", headers={"名": "值"}).headers() == {"名": "值"}


def test_names_are_checked_if_there_is_a_reply_to_or_a_user_id() -> None:
    assert needs_name_check(message_of(reply_to="x").header)
    assert needs_name_check(message_of(user_id="x").header)
    assert not needs_name_check(message_of(app_id="x", expiration="1").header)


def test_the_header_bcc_is_removed() -> None:
    message = message_of(headers={"BCC": ["b"], "CC": ["a"], "n": 1})
    assert message.headers() == {"CC": ["a"], "n": 1}


@pytest.mark.parametrize("headers", [{"CC": "a"}, {"BCC": 1}, {"CC": {"a": 1}}])
def test_cc_and_bcc_must_be_lists(headers: dict[str, Any]) -> None:
    with pytest.raises(PreconditionFailed):
        message_of(headers=headers)


@pytest.mark.parametrize("text", ["", "-1", "1.0", "ten", str(TIMER_MAX_MS + 1), "9" * 30, "٣"])
def test_an_invalid_expiration_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed):
        read_expiration(text)


def test_a_malformed_table_is_refused_with_the_publish() -> None:
    good = message_of(headers={"a": 1}).header
    broken = ContentHeader(good.raw.replace(b"\x01aI", b"\x01a!"), 0)
    with pytest.raises(AmqpError):
        Message("", "k", broken, b"")


def test_the_bytes_of_a_received_header_are_unchanged() -> None:
    message = message_of(b"body", app_id="x")
    assert message.header_bytes == message.header.raw
    assert message.size == 4
