"""Accepted and refused logins, new secrets, and the server's properties."""

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker, ProbableAccessDeniedError, ProbableAuthenticationError

from semq.amqp.events import ChannelClosed, MethodReceived, Opened
from semq.amqp.methods import ConnectionUpdateSecret, ConnectionUpdateSecretOk, QueueDeclare
from tests.amqp.helpers import amqplain
from tests.broker.served import RunningBroker


@pytest.mark.parametrize(
    ("user", "password", "why"),
    [
        ("guest", "wrong", "wrong password"),
        ("nobody", "nobody", "there is no such user"),
        ("guest", "", "wrong password"),
    ],
)
def test_all_wrong_logins_are_refused_in_the_same_way_and_logged_with_user_and_reason(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, user: str, password: str, why: str
) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, "/", pika.PlainCredentials(user, password))
    with pytest.raises(ProbableAuthenticationError, match=r"403.*ACCESS_REFUSED - Login was refused using .* PLAIN"):
        pika.BlockingConnection(parameters)
    [line] = [line for line in caplog.messages if f"refused a login by PLAIN as '{user}' from 127.0.0.1" in line]
    assert line.endswith(f": {why}")


def test_a_client_without_the_capability_for_the_reason_gets_no_reason(broker: RunningBroker) -> None:
    with broker.raw(password="wrong", client_properties={"capabilities": {}}) as client:
        error = client.wait_closed().error
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
def test_a_forbidden_or_unknown_virtual_host_is_refused(
    broker: RunningBroker, vhost: str, user: str, text: str
) -> None:
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as caught:
        broker.connect(user, vhost)
    assert "530" in str(caught.value)
    assert text in str(caught.value).replace("\\", "")


def test_a_client_logs_in_by_amqplain(broker: RunningBroker) -> None:
    with broker.raw(mechanism="AMQPLAIN", response=amqplain("guest", "guest")) as client:
        client.until(Opened)


@pytest.mark.parametrize(
    ("mechanism", "response", "code"),
    [("PLAIN", b"guest", 502), ("AMQPLAIN", b"\x05LOGIN", 501), ("EXTERNAL", b"", 503), ("PLAIN", b"\0\xff\0x", 502)],
)
def test_unreadable_login_responses_close_the_connection(
    broker: RunningBroker, mechanism: str, response: bytes, code: int
) -> None:
    with broker.raw(mechanism=mechanism, response=response) as client:
        error = client.wait_closed().error
    assert error is not None
    assert error.reply_code == code


@pytest.mark.parametrize("secret", [b"guest", b"another"])
def test_a_new_secret_is_accepted_and_changes_no_permission(broker: RunningBroker, secret: bytes) -> None:
    with broker.raw("narrow").log_in() as client:
        client.machine.send(0, ConnectionUpdateSecret(secret, "expired"))
        client.flush()
        client.until(MethodReceived, lambda event: isinstance(event.method, ConnectionUpdateSecretOk))
        client.send(QueueDeclare("not.mine"))
        assert client.until(ChannelClosed).error is not None  # the user is the same
    with broker.raw("narrow", password="another") as client:
        assert client.wait_closed().error is not None  # the password is the same


def test_the_server_announces_its_properties(broker: RunningBroker) -> None:
    with broker.raw().log_in() as client:
        properties = client.machine.peer_properties
    assert {"product", "version", "platform", "copyright", "information", "capabilities"} <= set(properties)
    assert all(isinstance(value, str) for name, value in properties.items() if name != "capabilities")
