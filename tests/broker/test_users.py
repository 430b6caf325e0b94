"""Passwords, permissions and the built-in table of users."""

import pytest

from semq.amqp.sasl import Credentials
from semq.broker.users import Permissions, Right, User, UserTable, digest_of
from semq.transport.peer import PeerInfo

LOCAL_PEER, REMOTE_PEER = PeerInfo("127.0.0.1", 1), PeerInfo("10.0.0.1", 1)
ANN = User("ann", digest_of("secret"), {"/": Permissions("", "^a", ".*")})
BOB = User("bob", digest_of("secret"), loopback_only=True)
EVE = User("eve")


@pytest.mark.parametrize(
    ("right", "name", "allowed"),
    [
        (Right.CONFIGURE, "a", False),
        (Right.CONFIGURE, "", False),
        (Right.CONFIGURE, "\n", False),
        (Right.WRITE, "abc", True),
        (Right.WRITE, "b", False),
        (Right.WRITE, "", True),  # the default exchange is amq.default
        (Right.READ, "anything", True),
    ],
)
def test_permissions_match_names_by_regular_expressions(right: Right, name: str, allowed: bool) -> None:
    assert Permissions("", "^a", ".*").allow(right, name) is allowed


@pytest.mark.parametrize(
    ("mechanism", "credentials", "peer", "user"),
    [
        ("PLAIN", Credentials("ann", b"secret"), REMOTE_PEER, "ann"),
        ("AMQPLAIN", Credentials("ann", b"secret"), REMOTE_PEER, "ann"),
        ("PLAIN", Credentials("bob", b"secret"), LOCAL_PEER, "bob"),
        ("EXTERNAL", Credentials("", None), PeerInfo("10.0.0.1", 1, "eve"), "eve"),
        ("EXTERNAL", Credentials("ann", None), PeerInfo("10.0.0.1", 1, "eve"), "eve"),  # the certificate counts
    ],
)
async def test_right_credentials_log_in(
    mechanism: str, credentials: Credentials, peer: PeerInfo, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await UserTable([ANN, BOB, EVE]).authenticate(mechanism, credentials, peer) == user
    assert not caplog.messages


@pytest.mark.parametrize(
    ("mechanism", "credentials", "peer", "why"),
    [
        ("PLAIN", Credentials("ann", b"wrong"), LOCAL_PEER, "wrong password"),
        ("PLAIN", Credentials("nobody", b"secret"), LOCAL_PEER, "there is no such user"),
        ("PLAIN", Credentials("eve", b""), LOCAL_PEER, "this user has no password, and logs in by certificate"),
        ("PLAIN", Credentials("ann", None), LOCAL_PEER, "wrong password"),
        ("PLAIN", Credentials("bob", b"secret"), REMOTE_PEER, "this user may log in from this machine only"),
        ("EXTERNAL", Credentials("ann", None), LOCAL_PEER, "no certificate, or one without a common name"),
        ("EXTERNAL", Credentials("", None), PeerInfo("10.0.0.1", 1, "stranger"), "there is no such user"),
    ],
)
async def test_wrong_credentials_are_refused_and_the_log_says_why(
    mechanism: str, credentials: Credentials, peer: PeerInfo, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await UserTable([ANN, BOB, EVE]).authenticate(mechanism, credentials, peer) is None
    [line] = caplog.messages
    assert line.endswith(f" from {peer}: {why}")


async def test_a_changed_password_applies_at_once() -> None:
    table = UserTable([User("ann", digest_of("old"))])
    assert await table.authenticate("PLAIN", Credentials("ann", b"old"), LOCAL_PEER) == "ann"
    table.users["ann"].password = digest_of("new")
    assert await table.authenticate("PLAIN", Credentials("ann", b"old"), LOCAL_PEER) is None
    assert await table.authenticate("PLAIN", Credentials("ann", b"new"), LOCAL_PEER) == "ann"


def test_a_user_has_permissions_in_named_virtual_hosts_only() -> None:
    table = UserTable([ANN])
    assert table.permissions("ann", "/") == Permissions("", "^a", ".*")
    assert table.permissions("ann", "other") is None
    assert table.permissions("nobody", "/") is None
