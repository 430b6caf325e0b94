"""Passwords, permissions and the built-in table of users."""

import pytest

from semq.amqp.sasl import Credentials
from semq.broker.users import Permissions, Right, User, UserTable, digest_of
from semq.transport.peer import PeerInfo

HERE, FAR = PeerInfo("127.0.0.1", 1), PeerInfo("10.0.0.1", 1)
ANN = User("ann", digest_of("secret"), {"/": Permissions("", "^a", ".*")})
BOB = User("bob", digest_of("secret"), loopback_only=True)
EVE = User("eve")


@pytest.mark.parametrize(
    ("right", "name", "allowed"),
    [
        (Right.CONFIGURE, "a", False),
        (Right.CONFIGURE, "", False),
        (Right.WRITE, "abc", True),
        (Right.WRITE, "b", False),
        (Right.WRITE, "", True),  # the default exchange is amq.default
        (Right.READ, "anything", True),
    ],
)
def test_permissions_match_names_by_regular_expressions(right: Right, name: str, allowed: bool) -> None:
    assert Permissions("", "^a", ".*").allow(right, name) is allowed


@pytest.mark.parametrize(
    ("mechanism", "credentials", "peer", "who"),
    [
        ("PLAIN", Credentials("ann", b"secret"), FAR, "ann"),
        ("AMQPLAIN", Credentials("ann", b"secret"), FAR, "ann"),
        ("PLAIN", Credentials("ann", b"wrong"), HERE, None),
        ("PLAIN", Credentials("nobody", b"secret"), HERE, None),
        ("PLAIN", Credentials("eve", b""), HERE, None),
        ("PLAIN", Credentials("ann", None), HERE, None),
        ("PLAIN", Credentials("bob", b"secret"), HERE, "bob"),
        ("PLAIN", Credentials("bob", b"secret"), FAR, None),
        ("EXTERNAL", Credentials("", None), PeerInfo("10.0.0.1", 1, "eve"), "eve"),
        ("EXTERNAL", Credentials("ann", None), PeerInfo("10.0.0.1", 1, "eve"), "eve"),
        ("EXTERNAL", Credentials("ann", None), HERE, None),
        ("EXTERNAL", Credentials("", None), PeerInfo("10.0.0.1", 1, "stranger"), None),
    ],
)
async def test_right_credentials_log_in(
    mechanism: str, credentials: Credentials, peer: PeerInfo, who: str | None
) -> None:
    table = UserTable([ANN, BOB, EVE])
    assert await table.authenticate(mechanism, credentials, peer) == who


async def test_a_changed_password_counts_at_once() -> None:
    table = UserTable([User("ann", digest_of("old"))])
    assert await table.authenticate("PLAIN", Credentials("ann", b"old"), HERE) == "ann"
    table.users["ann"].password = digest_of("new")
    assert await table.authenticate("PLAIN", Credentials("ann", b"old"), HERE) is None
    assert await table.authenticate("PLAIN", Credentials("ann", b"new"), HERE) == "ann"


def test_a_user_has_permissions_in_named_virtual_hosts_only() -> None:
    table = UserTable([ANN])
    assert table.permissions("ann", "/") == Permissions("", "^a", ".*")
    assert table.permissions("ann", "other") is None
    assert table.permissions("nobody", "/") is None
