"""AMQP properties travel as headers and are properties again at the receiving application."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_node.doors.properties import CARRIED, expires_at, own_headers, restored
from semq.amqp import errors as amqp
from semq.amqp.content import ContentHeader, Properties

short = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)


def header(**properties: object) -> ContentHeader:
    return ContentHeader.build(0, Properties(**properties))  # type: ignore[arg-type]


@given(short, short, short)
def test_carried_properties_are_restored(correlation_id: str, type_: str, message_id: str) -> None:
    published = header(correlation_id=correlation_id, type=type_, message_id=message_id, headers={"own": 1})
    carried = own_headers(published)
    assert restored(carried) == {"correlation_id": correlation_id, "type": type_}
    assert carried[CARRIED["message_id"]] == message_id
    assert carried["own"] == 1


def test_headers_without_properties_are_not_copied() -> None:
    published = header(headers={"own": 1})
    assert own_headers(published) is published.headers
    assert own_headers(header()) == {}
    assert restored({"own": 1}) == {}


def test_the_correlation_id_of_a_request_is_not_carried() -> None:
    assert own_headers(header(reply_to="answers", correlation_id="7", type="order")) == {"x-type": "order"}


def test_a_header_set_by_the_application_has_priority() -> None:
    assert own_headers(header(type="one", headers={"x-type": "two"})) == {"x-type": "two"}


def test_headers_that_are_no_short_strings_are_not_restored() -> None:
    assert restored({"x-type": 7, "x-correlation-id": "x" * 256}) == {}
    assert restored({"x-type": "a\0b"}) == {}


def test_an_expiration_becomes_the_time_of_expiry() -> None:
    assert expires_at(header(expiration="1500"), {}, 1_000_000) == 1_001_500
    assert expires_at(header(expiration="1500"), {"@ExpiresAt": 5}, 1_000_000) is None
    assert expires_at(header(), {}, 1_000_000) is None
    with pytest.raises(amqp.PreconditionFailed, match="expiration"):
        expires_at(header(expiration="soon"), {}, 0)
