"""Handshakes between contexts, in memory: the negotiated version, and refusals by either side."""

import ssl
from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509

from semq.pki.authority import Authority
from semq.pki.errors import KeyRefused, NoIdentity
from semq.pki.keys import SecretSource
from semq.pki.names import node_of
from semq.pki.slots import KeyRing
from semq.pki.tls import client_context, load_pair, server_context
from semq.umx_t.address import Address
from tests.pki.people import DAY, NOW, authority, ring, self_signed, trust

OURS = authority()


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Return both ends after the handshake and one byte in each direction. Raises the errors of either end."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    for sender, receiver in (ends, ends[::-1]):
        sender.write(b"x")
        assert receiver.read(1) == b"x"
    return ends


@pytest.fixture
def hub(tmp_path: Path) -> ssl.SSLContext:
    return server_context(trust(OURS), ring(tmp_path / "hub", OURS, "2.hub"))


def test_a_server_sees_the_certificate_of_its_client(tmp_path: Path, hub: ssl.SSLContext) -> None:
    client, server = handshake(client_context(trust(OURS), ring(tmp_path / "a", OURS)), hub)
    assert client.version() == server.version() == "TLSv1.3"
    peer_certificate = server.getpeercert(binary_form=True)
    assert peer_certificate is not None
    assert node_of(x509.load_der_x509_certificate(peer_certificate)) == Address(1, "10008")


def test_a_client_without_a_certificate_is_accepted_without_a_name(hub: ssl.SSLContext) -> None:
    _, server = handshake(client_context(trust(OURS)), hub)
    assert server.getpeercert(binary_form=True) is None


@pytest.mark.parametrize(
    ("at", "by"),
    [(NOW - 100 * DAY, OURS), (NOW + 10 * DAY, OURS), (NOW, authority())],
    ids=["expired", "early", "foreign"],
)
def test_a_client_with_an_invalid_certificate_is_refused(
    tmp_path: Path, hub: ssl.SSLContext, at: datetime, by: Authority
) -> None:
    keys = ring(tmp_path / "a", by, at=at)
    with pytest.raises(ssl.SSLError):
        handshake(client_context(trust(OURS), keys), hub)


def test_a_self_signed_client_is_refused(tmp_path: Path, hub: ssl.SSLContext) -> None:
    client = client_context(trust(OURS))
    load_pair(client, *self_signed(tmp_path), None)
    with pytest.raises(ssl.SSLError):
        handshake(client, hub)


def test_a_hub_of_another_authority_is_refused(tmp_path: Path, hub: ssl.SSLContext) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client_context(trust(authority()), ring(tmp_path / "a", OURS)), hub)


def test_versions_below_the_minimum_are_refused(tmp_path: Path, hub: ssl.SSLContext) -> None:
    old = client_context(trust(OURS), minimum="1.2")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(old, hub)
    tolerant = server_context(trust(OURS), ring(tmp_path / "b", OURS, "2.hub"), "1.2")
    client, _ = handshake(old, tolerant)
    cipher = client.cipher()
    assert cipher is not None
    assert (client.version(), cipher[0].startswith("ECDHE")) == ("TLSv1.2", True)


def test_a_key_under_a_passphrase_is_used(tmp_path: Path, hub: ssl.SSLContext) -> None:
    file = tmp_path / "passphrase"
    file.write_bytes(b"secret\n")
    file.chmod(0o600)
    keys = ring(tmp_path / "a", OURS, passphrase=SecretSource(file=file))
    handshake(client_context(trust(OURS), keys), hub)
    active = keys.slots().active
    assert active is not None
    with pytest.raises(KeyRefused):
        load_pair(client_context(trust(OURS)), keys.certificate_path(active), keys.key_path(active), None)


def test_a_node_without_identity_makes_no_context(tmp_path: Path) -> None:
    with pytest.raises(NoIdentity):
        client_context(trust(OURS), KeyRing(tmp_path, Address(1, "10008")))
