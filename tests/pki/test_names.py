"""Names of nodes in certificates: exactly one, in normal form."""

import pytest
from cryptography import x509

from semq.pki.errors import WrongName
from semq.pki.keys import new_key
from semq.pki.names import node_of, uri_of
from semq.umx_t.address import Address, parse_address
from tests.pki.people import build

KEY = new_key()


def certificate(uris: list[str], names: list[x509.GeneralName] | None = None) -> x509.Certificate:
    return build(KEY, KEY, "x", uris=uris, names=names)


@pytest.mark.parametrize("text", ["1.10008", "2.hub", "1.A_b-9"])
def test_the_name_of_a_node_is_a_uri(text: str) -> None:
    node = parse_address(text)
    assert node_of(certificate([uri_of(node), "https://example.org/x"])) == node
    assert uri_of(Address(1, "10008", "buyer")) == "semq:1.10008"


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["https://example.org"],
        ["semq:1.10008", "semq:1.56001"],
        ["semq:1.10008/buyer"],
        ["semq:10008"],
        ["SEMQ:1.10008"],
        ["semq:01.10008"],
        ["semq:"],
        ["semq:1.10008%00"],
        ["semq://1.10008"],
        ["semq:1.*"],
        ["semq:*"],
        ["semq:1.10008*"],
        ["semq:1.10008,semq:1.56001"],
        ["semq:1.10008", "semq:1.10008"],
    ],
)
def test_a_certificate_without_exactly_one_valid_uri_names_no_node(uris: list[str]) -> None:
    with pytest.raises(WrongName):
        node_of(certificate(uris))


@pytest.mark.parametrize("names", [["1.10008"], ["*.10008", "*"], ["semq:1.10008"]])
def test_a_host_name_is_no_name_of_a_node(names: list[str]) -> None:
    with pytest.raises(WrongName):
        node_of(certificate([], [x509.DNSName(name) for name in names]))


def test_a_common_name_is_no_name_of_a_node() -> None:
    """Every node certificate has the address as its common name, but only the URI counts."""
    with pytest.raises(WrongName):
        node_of(build(KEY, KEY, "x", uris=[], common_name="1.10008"))


def test_other_names_in_the_certificate_have_no_effect() -> None:
    others: list[x509.GeneralName] = [
        x509.DNSName("*.example.org"),
        x509.DNSName("2.hub"),
        x509.RFC822Name("a@b.c"),
    ]
    assert node_of(certificate(["semq:1.10008", "urn:x"], others)) == Address(1, "10008")
