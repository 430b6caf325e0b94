"""Reading of certificates of nodes, and refusal of other input."""

import warnings

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given
from hypothesis import strategies as st

from semq.pki.certificate import DER_MAX, read_certificate
from semq.pki.errors import Untrusted
from semq.pki.keys import key_id, new_key
from semq.umx_t.address import Address
from tests.pki.people import NOW, authority, build, issued, trust

OURS = authority()
CERTIFICATE = issued(OURS)


def test_an_issued_certificate_is_read_with_the_same_values() -> None:
    key = new_key()
    issued_now = OURS.issue(key.public_key(), Address(1, "10008"), NOW, 90, ("node.example.org", "192.0.2.7"))
    for data in (issued_now.der, issued_now.pem):
        read_back = read_certificate(data)
        assert read_back == issued_now
        assert (read_back.node, read_back.key_id, read_back.fingerprint) == (
            Address(1, "10008"),
            key_id(key),
            issued_now.fingerprint,
        )
    assert issued_now.host_names == ["node.example.org", "192.0.2.7"]
    assert issued_now.serial_text == f"{issued_now.serial:x}"
    assert (issued_now.not_after - NOW).days == 90


def test_a_certificate_is_renewed_after_two_thirds_of_its_validity() -> None:
    validity = CERTIFICATE.not_after - CERTIFICATE.not_before
    first, last = CERTIFICATE.renew_at(0.0), CERTIFICATE.renew_at(0.999)
    assert first - CERTIFICATE.not_before == validity * 2 / 3
    assert first < last < CERTIFICATE.not_after - validity * 0.29


@given(st.binary(max_size=400))
def test_bytes_that_are_no_certificate_are_refused(data: bytes) -> None:
    for hostile in (data, b"-----BEGIN CERTIFICATE-----\n" + data, CERTIFICATE.der[: len(data)] + data):
        with pytest.raises(Untrusted):
            read_certificate(hostile)


def test_a_certificate_with_a_repeated_extension_is_refused() -> None:
    """The extension *key identifier* becomes a second *subject alternative name*.

    The library detects this only when it reads the extensions.
    """
    repeated = CERTIFICATE.der.replace(bytes.fromhex("0603551d0e"), bytes.fromhex("0603551d11"))
    assert repeated != CERTIFICATE.der
    with pytest.raises(Untrusted):
        read_certificate(repeated)


@given(st.integers(0, len(CERTIFICATE.der) - 1), st.integers(1, 255))
def test_a_certificate_with_any_byte_changed_is_refused(at: int, change: int) -> None:
    data = bytearray(CERTIFICATE.der)
    data[at] ^= change
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Untrusted):
            trust(OURS).verify(bytes(data), NOW)


def test_a_certificate_that_is_too_long_is_refused() -> None:
    with pytest.raises(Untrusted, match="too long"):
        read_certificate(b"x" * (DER_MAX + 1))


@pytest.mark.parametrize("key", [ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256K1())])
def test_a_certificate_of_an_unaccepted_key_is_refused(key: ec.EllipticCurvePrivateKey) -> None:
    certificate = build(key, new_key(), "x", uris=["semq:1.10008"])
    with pytest.raises(Untrusted, match="kind or size"):
        read_certificate(certificate.public_bytes(serialization.Encoding.DER))
