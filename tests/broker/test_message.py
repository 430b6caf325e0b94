"""What a message takes from its header, and what it refuses."""

from typing import Any

import pytest

from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError, PreconditionFailed
from semq.broker.message import Message, names_somebody, read_expiration
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
def test_fields(properties: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(message_of(b"", "e", "k", **properties), field) == value


def test_flags_are_seen_without_decoding() -> None:
    assert names_somebody(message_of(reply_to="x").header)
    assert names_somebody(message_of(user_id="x").header)
    assert not names_somebody(message_of(app_id="x", expiration="1").header)


def test_blind_copies_are_not_passed_on() -> None:
    message = message_of(headers={"BCC": ["b"], "CC": ["a"], "n": 1})
    assert message.headers() == {"CC": ["a"], "n": 1}


@pytest.mark.parametrize("headers", [{"CC": "a"}, {"BCC": [1]}, {"CC": {"a": 1}}])
def test_copies_must_be_lists_of_keys(headers: dict[str, Any]) -> None:
    with pytest.raises(PreconditionFailed):
        message_of(headers=headers)


@pytest.mark.parametrize("text", ["", "-1", "1.0", "ten", "4294967296", "٣"])
def test_an_expiration_is_a_number_of_milliseconds(text: str) -> None:
    with pytest.raises(PreconditionFailed):
        read_expiration(text)


def test_a_malformed_table_is_refused_with_the_publish() -> None:
    good = message_of(headers={"a": 1}).header
    broken = ContentHeader(good.raw.replace(b"\x01aI", b"\x01a!"), 0)
    with pytest.raises(AmqpError):
        Message("", "k", broken, b"")


def test_the_octets_of_the_header_are_those_that_came() -> None:
    message = message_of(b"body", app_id="x")
    assert message.header_octets == message.header.raw
    assert message.size == 4
