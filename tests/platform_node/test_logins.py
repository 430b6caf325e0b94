"""Logins at the hub, as in the table in ``platform_node.logins``."""

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from structlog.testing import capture_logs

from platform_node.logins import ENROLL, HubLogins
from platform_node.registry import Registry
from semq.amqp.errors import ConnectionForced
from semq.amqp.sasl import Credentials
from semq.broker.users import Permissions, Right, User, UserTable, digest_of
from semq.clock import SystemClock
from semq.config import load
from semq.engine.errors import TooManyLogins
from semq.pki.certificate import read_certificate
from semq.pki.errors import WrongName
from semq.service.links.allowance import RateAllowance
from semq.service.links.rights import UMX, link_permissions
from semq.transport.peer import PeerInfo
from tests.pki.people import authority, issued, named
from tests.service.inprocess import InProcess
from tests.waiting import until

OURS = authority()
NODE, APP = "1.10008", "app"
USERS = [User(name, digest_of("right"), {"/": Permissions()}) for name in (NODE, APP)]
NEAR, TLS, CLEAR = PeerInfo("127.0.0.1", 1), PeerInfo("192.0.2.1", 1, tls="TLSv1.3"), PeerInfo("192.0.2.1", 1)


async def read_nothing(*_: object, **__: object) -> Any:
    """Return None: there are no tokens or revocations."""


@pytest.fixture
def registry() -> Registry:
    settings = load(None, {"SEMQ_NODE__KIND": "platform", "SEMQ_NODE__ID": "hub"})
    return Registry(read_nothing, SystemClock(), settings, OURS)


def logins(registry: Registry | None, *, allow_plain: bool = False) -> HubLogins:
    return HubLogins(UserTable(USERS), lambda name: name == NODE, registry, allow_plain=allow_plain)


@pytest.mark.parametrize(
    ("user", "peer", "allow_plain", "is_accepted"),
    [
        (NODE, NEAR, False, True),
        (NODE, TLS, False, False),
        (NODE, CLEAR, False, False),
        (NODE, TLS, True, True),
        (NODE, CLEAR, True, True),
        (APP, NEAR, False, True),
        (APP, TLS, False, True),
        (APP, CLEAR, False, False),
        (APP, CLEAR, True, True),
    ],
)
async def test_a_password_is_accepted_only_from_where_the_table_allows_it(
    registry: Registry, user: str, peer: PeerInfo, allow_plain: bool, is_accepted: bool
) -> None:
    for registry_or_none in (registry, None):
        authenticator = logins(registry_or_none, allow_plain=allow_plain)
        assert await authenticator.authenticate("PLAIN", Credentials(user, b"right"), peer) == (
            user if is_accepted else None
        )
        assert await authenticator.authenticate("PLAIN", Credentials(user, b"wrong"), peer) is None


def peer_with(der: bytes) -> PeerInfo:
    return PeerInfo("192.0.2.1", 1, "whatever the subject says", der, "TLSv1.3")


async def test_a_node_logs_in_with_its_own_certificate_only(registry: Registry) -> None:
    authenticator = logins(registry)
    certificate = issued(OURS, NODE)

    async def log_in(peer: PeerInfo, claims: str = "") -> str | None:
        return await authenticator.authenticate("EXTERNAL", Credentials(claims, None), peer)

    assert await log_in(peer_with(certificate.der)) == NODE
    assert await log_in(peer_with(certificate.der), NODE) == NODE
    assert await log_in(peer_with(certificate.der), "1.56001") is None
    assert await log_in(peer_with(issued(OURS, "1.56001").der)) is None  # not an institution of this hub
    assert await log_in(peer_with(issued(OURS, "2.hub").der)) is None
    assert await log_in(TLS) is None
    assert await log_in(NEAR) is None
    registry.revoked.add(certificate.serial_text)
    assert await log_in(peer_with(certificate.der)) is None


@pytest.mark.parametrize("uris", [["https://x"], ["semq:1.10008", "semq:1.56001"], ["semq:1.10008/app"]])
async def test_certificates_that_do_not_name_one_node_are_refused(
    registry: Registry, tmp_path: Path, uris: list[str]
) -> None:
    certificate, _ = named(OURS, tmp_path, uris)
    pem = certificate.read_bytes()
    with pytest.raises(WrongName):
        read_certificate(pem)
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    assert await logins(registry).authenticate("EXTERNAL", Credentials("", None), peer_with(der)) is None


async def test_without_tls_there_is_no_login_by_certificate_or_token() -> None:
    authenticator = logins(None)
    assert "EXTERNAL" not in authenticator.mechanisms
    assert await authenticator.authenticate("PLAIN", Credentials(f"enroll/{NODE}", b"token"), NEAR) is None


async def test_the_log_says_why_no_token_can_be_accepted(registry: Registry) -> None:
    with capture_logs() as log_lines:
        for registry_or_none, node, peer in ((None, NODE, NEAR), (registry, NODE, CLEAR), (registry, "1.99", TLS)):
            authenticator = logins(registry_or_none)
            assert await authenticator.authenticate("PLAIN", Credentials(f"enroll/{node}", b"token"), peer) is None
    assert [(line["event"], line["has_authority"], line["tls"], line["is_node"]) for line in log_lines] == [
        ("token_not_possible", False, None, True),
        ("token_not_possible", True, None, True),
        ("token_not_possible", True, "TLSv1.3", False),
    ]


async def test_the_log_says_why_a_password_cannot_be_accepted(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    authenticator = logins(registry)
    with capture_logs() as log_lines:
        assert await authenticator.authenticate("PLAIN", Credentials(NODE, b"right"), TLS) is None
    assert [(line["event"], "this machine only" in line["why"]) for line in log_lines] == [("password_refused", True)]
    for user in (NODE, "1.99"):
        assert await authenticator.authenticate("PLAIN", Credentials(user, b"wrong"), NEAR) is None
    assert [line.rpartition(": ")[2] for line in caplog.messages] == ["wrong password", "there is no such user"]


async def test_the_log_says_why_a_certificate_is_refused(registry: Registry) -> None:
    authenticator, certificate = logins(registry), issued(OURS, NODE)
    registry.revoked.add(certificate.serial_text)
    with capture_logs() as log_lines:
        for claims, peer in (("", NEAR), ("", peer_with(certificate.der)), ("1.7", peer_with(issued(OURS, NODE).der))):
            assert await authenticator.authenticate("EXTERNAL", Credentials(claims, None), peer) is None
        assert (
            await authenticator.authenticate("EXTERNAL", Credentials("", None), peer_with(issued(OURS, "1.7").der))
            is None
        )
    assert [(line["event"], str(line.get("error", ""))[:9]) for line in log_lines] == [
        ("certificate_refused", "SEMQ-5101"),
        ("certificate_refused", "SEMQ-5105"),
        ("foreign_name", ""),
        ("unknown_node", ""),
    ]


async def test_unknown_tokens_are_refused(registry: Registry) -> None:
    authenticator = logins(registry)
    for peer in (TLS, NEAR, CLEAR):
        assert await authenticator.authenticate("PLAIN", Credentials(f"enroll/{NODE}", b"token"), peer) is None


def test_each_kind_of_login_may_use_its_virtual_hosts_only(registry: Registry) -> None:
    authenticator = logins(registry)
    assert authenticator.permissions(APP, "/") is not None
    assert authenticator.permissions(APP, UMX) is None
    assert authenticator.permissions(NODE, "/") is None
    assert authenticator.permissions(NODE, UMX) == link_permissions(NODE)
    assert authenticator.permissions(f"enroll/{NODE}", ENROLL) is not None
    assert authenticator.permissions("enroll/1.other", ENROLL) is None
    for vhost in ("/", UMX):
        assert authenticator.permissions(f"enroll/{NODE}", vhost) is None


@pytest.mark.parametrize(
    ("right", "name", "is_accepted"),
    [
        (Right.READ, "node.1.10008", True),
        (Right.READ, "node.1.10008.control", True),
        (Right.READ, "node.1.100080", False),
        (Right.READ, "node.1.56001", False),
        (Right.READ, "node.1x10008", False),
        (Right.WRITE, "umx", True),
        (Right.WRITE, "umx2", False),
        (Right.WRITE, "", False),
        (Right.CONFIGURE, "node.1.10008", False),
    ],
)
def test_a_link_has_rights_to_its_own_objects_only(right: Right, name: str, is_accepted: bool) -> None:
    assert link_permissions(NODE).allow(right, name) is is_accepted


async def test_a_node_that_logs_in_too_often_has_to_wait(inprocess: InProcess) -> None:
    """Each login sends the whole directory to the node, and its presence to all others."""
    hub, _ = await inprocess.linked_pair()
    hub.parts.links._logins = RateAllowance(2, per_s=0.0)
    for _ in range(2):
        session = hub.engine.sessions["1.10008"]
        hub.parts.links.end_session_of("1.10008", ConnectionForced("test"))
        await until(lambda session=session: hub.engine.sessions.get("1.10008", session) is not session)  # type: ignore[misc]
    hub.parts.links.end_session_of("1.10008", ConnectionForced("test"))
    await until(lambda: TooManyLogins.code in str(hub.engine.core.misconduct.seen()))
    assert "1.10008" not in hub.engine.sessions
    assert "1.10008" not in hub.parts.links.links
    hub.parts.links._logins = RateAllowance(2, per_s=1.0)
    await until(lambda: "1.10008" in hub.engine.sessions)
