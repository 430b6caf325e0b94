"""The description of a peer."""

from asyncio import BaseTransport
from typing import Any

import pytest

from semq.transport.peer import PeerInfo, network_of, peer_of


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("2001:db8::1", False),
        ("127.evil.example", False),
    ],
)
def test_loopback_addresses_are_distinguished_from_others(host: str, is_loopback: bool) -> None:
    assert PeerInfo(host, 1).is_loopback is is_loopback


@pytest.mark.parametrize(("host", "shown"), [("10.0.0.1", "10.0.0.1:5"), ("::1", "[::1]:5")])
def test_a_peer_is_printed_as_host_and_port(host: str, shown: str) -> None:
    assert str(PeerInfo(host, 5)) == shown


class FakeTransport(BaseTransport):
    def __init__(self, **info: object) -> None:
        super().__init__(info)


class FakeTls:
    def __init__(self, certificate: dict[str, Any]) -> None:
        self.certificate = certificate

    def version(self) -> str:
        return "TLSv1.3"

    def getpeercert(self, binary_form: bool = False) -> Any:
        return b"der" if binary_form else self.certificate


def test_a_peer_is_read_from_a_transport() -> None:
    assert peer_of(FakeTransport(peername=("10.0.0.1", 5, 0, 0))) == PeerInfo("10.0.0.1", 5)
    assert peer_of(FakeTransport(peername="/run/socket")) == PeerInfo("", 0)
    assert peer_of(FakeTransport(peername=("a", 1), ssl_object=FakeTls({}))) == PeerInfo("a", 1, tls="TLSv1.3")
    subject = ((("organizationName", "o"),), (("commonName", "node"),))
    assert peer_of(FakeTransport(peername=("a", 1), ssl_object=FakeTls({"subject": subject}))) == PeerInfo(
        "a", 1, "node", b"der", "TLSv1.3"
    )
    nameless = peer_of(
        FakeTransport(peername=("a", 1), ssl_object=FakeTls({"subject": ((("organizationName", "o"),),)}))
    )
    assert nameless == PeerInfo("a", 1, None, b"der", "TLSv1.3")


def test_a_network_of_ipv6_has_one_share() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("") == ""
