"""Credentials in the responses of each mechanism."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.amqp import sasl
from semq.amqp.errors import AmqpError, CommandInvalid, FrameError, SyntaxFault
from semq.amqp.sasl import Credentials
from tests.amqp.helpers import amqplain, short_texts


@given(short_texts.filter(bool), short_texts)
def test_plain_and_amqplain_are_decoded_as_they_were_encoded(user: str, password: str) -> None:
    expected = Credentials(user, password.encode())
    assert sasl.read("PLAIN", sasl.plain(user, password)) == expected
    assert sasl.read("AMQPLAIN", amqplain(user, password)) == expected


def test_responses_of_plain_and_amqplain_are_encoded_as_specified() -> None:
    assert sasl.plain("guest", "secret") == b"\0guest\0secret"
    assert amqplain("guest", "s") == b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x01s"


def test_a_response_of_plain_may_have_an_identity_and_zeros_in_the_password() -> None:
    assert sasl.read("PLAIN", b"boss\0guest\0a\0b") == Credentials("guest", b"a\0b", "boss")


def test_the_user_of_external_may_be_empty() -> None:
    assert sasl.read("EXTERNAL", b"") == Credentials("", None)
    assert sasl.read("EXTERNAL", b"node-a") == Credentials("node-a", None)


def test_a_password_may_be_bytes() -> None:
    response = b"\x05LOGINS\x00\x00\x00\x01u\x08PASSWORDS\x00\x00\x00\x01\xff"
    assert sasl.read("AMQPLAIN", response).password == b"\xff"


@pytest.mark.parametrize(
    ("mechanism", "response", "error"),
    [
        ("PLAIN", b"", SyntaxFault),
        ("PLAIN", b"\0guest", SyntaxFault),
        ("PLAIN", b"\0\0secret", SyntaxFault),
        ("PLAIN", b"\0\xff\0secret", SyntaxFault),
        ("AMQPLAIN", b"", SyntaxFault),
        ("AMQPLAIN", b"\x05LOGINS\x00\x00\x00\x01u", SyntaxFault),
        ("AMQPLAIN", b"\x05LOGINt\x01\x08PASSWORDt\x01", SyntaxFault),
        ("AMQPLAIN", b"\x05LOG", FrameError),
        ("AMQPLAIN", b"\x05LOGINF\x00\x00\x00\x00", SyntaxFault),
        ("EXTERNAL", b"\xff", SyntaxFault),
        ("SCRAM", b"", CommandInvalid),
    ],
)
def test_malformed_responses_are_refused(mechanism: str, response: bytes, error: type[AmqpError]) -> None:
    with pytest.raises(error):
        sasl.read(mechanism, response)


@given(st.binary(max_size=60), st.sampled_from(["PLAIN", "AMQPLAIN", "EXTERNAL"]))
def test_noise_gives_credentials_or_an_error_of_amqp(response: bytes, mechanism: str) -> None:
    try:
        credentials = sasl.read(mechanism, response)
    except (FrameError, SyntaxFault):
        return
    assert isinstance(credentials.user, str)


def test_a_password_is_not_printed() -> None:
    assert "secret" not in repr(Credentials("guest", b"secret"))
