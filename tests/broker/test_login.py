"""Who is let in, and how refusals look, through pika and bare sockets."""

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker, ProbableAccessDeniedError, ProbableAuthenticationError

from semq.amqp import sasl
from semq.amqp.events import MethodReceived, Opened
from semq.amqp.methods import ConnectionUpdateSecret, ConnectionUpdateSecretOk
from tests.broker.raw import RawClient
from tests.broker.served import Served


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("nobody", "nobody"), ("guest", "")])
def test_a_wrong_login_is_refused_alike(broker: Served, user: str, password: str) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, "/", pika.PlainCredentials(user, password))
    with pytest.raises(ProbableAuthenticationError, match=r"403.*ACCESS_REFUSED - Login was refused using .* PLAIN"):
        pika.BlockingConnection(parameters)


def test_a_client_that_cannot_hear_why_just_sees_the_end(broker: Served) -> None:
    with broker.raw(password="wrong", client_properties={"capabilities": {}}) as client:
        error = client.closed().error
    assert error is not None
    assert error.reply_code == 320


@pytest.mark.parametrize(
    ("vhost", "user", "text"),
    [
        ("nowhere", "guest", "NOT_ALLOWED - vhost nowhere not found"),
        ("other", "guest", "NOT_ALLOWED - access to vhost 'other' refused for user 'guest'"),
        ("/", "stranger", "NOT_ALLOWED - access to vhost '/' refused for user 'stranger'"),
    ],
)
def test_a_virtual_host_that_is_not_for_the_user(broker: Served, vhost: str, user: str, text: str) -> None:
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as caught:
        broker.connect(user, vhost)
    assert "530" in str(caught.value)
    assert text in str(caught.value).replace("\\", "")


def test_amqplain(broker: Served) -> None:
    with broker.raw(mechanism="AMQPLAIN", response=sasl.amqplain("guest", "guest")) as client:
        client.until(Opened)


@pytest.mark.parametrize(
    ("mechanism", "response", "code"),
    [("PLAIN", b"guest", 502), ("AMQPLAIN", b"\x05LOGIN", 501), ("EXTERNAL", b"", 503), ("PLAIN", b"\0\xff\0x", 502)],
)
def test_responses_that_cannot_be_read(broker: Served, mechanism: str, response: bytes, code: int) -> None:
    with broker.raw(mechanism=mechanism, response=response) as client:
        error = client.closed().error
    assert error is not None
    assert error.reply_code == code


def test_a_fresh_secret(broker: Served) -> None:
    with broker.raw().opened() as client:
        refreshed(client, b"guest")
        client.machine.send(0, ConnectionUpdateSecret(b"wrong", "expired"))
        client.flush()
        error = client.closed().error
    assert error is not None
    assert (error.reply_code, error.class_id, error.method_id) == (530, 10, 70)


def test_a_secret_of_somebody_else_is_none(monkeypatch: pytest.MonkeyPatch, broker: Served) -> None:
    async def mistaken(*_: object) -> str:
        return "narrow"

    with broker.raw().opened() as client:
        monkeypatch.setattr(broker.server.authenticator, "authenticate", mistaken)
        client.machine.send(0, ConnectionUpdateSecret(b"guest", "expired"))
        client.flush()
        error = client.closed().error
    assert error is not None
    assert error.reply_code == 530


def refreshed(client: RawClient, secret: bytes) -> None:
    client.machine.send(0, ConnectionUpdateSecret(secret, "expired"))
    client.flush()
    client.until(MethodReceived, lambda event: isinstance(event.method, ConnectionUpdateSecretOk))
