"""Reading of certificates of nodes and of others."""

import warnings
from contextlib import suppress

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
MADE = issued(OURS)


def test_an_issued_certificate_is_read_with_the_same_values() -> None:
    key = new_key()
    made = OURS.issue(key.public_key(), Address(1, "10008"), NOW, 90, ("node.example.org", "192.0.2.7"))
    for data in (made.der, made.pem):
        again = read_certificate(data)
        assert again == made
        assert (again.node, again.key_id, again.fingerprint) == (Address(1, "10008"), key_id(key), made.fingerprint)
    assert made.host_names == ["node.example.org", "192.0.2.7"]
    assert made.serial_text == f"{made.serial:x}"
    assert (made.not_after - NOW).days == 90


def test_when_it_is_renewed() -> None:
    life = MADE.not_after - MADE.not_before
    first, last = MADE.renew_at(0.0), MADE.renew_at(0.999)
    assert first - MADE.not_before == life * 2 / 3
    assert first < last < MADE.not_after - life * 0.29


@given(st.binary(max_size=400))
def test_bytes_that_are_no_certificate(data: bytes) -> None:
    for hostile in (data, b"-----BEGIN CERTIFICATE-----\n" + data, MADE.der[: len(data)] + data):
        with pytest.raises(Untrusted):
            read_certificate(hostile)


def test_a_certificate_with_a_repeated_extension_names_no_node() -> None:
    """Noticed only when its extensions are read: the key identifier is replaced by a second list of names."""
    twice = MADE.der.replace(bytes.fromhex("0603551d0e"), bytes.fromhex("0603551d11"))
    assert twice != MADE.der
    with pytest.raises(Untrusted):
        read_certificate(twice)


@given(st.integers(0, len(MADE.der) - 1), st.integers(1, 255))
def test_a_certificate_with_any_byte_changed_is_read_or_refused(at: int, change: int) -> None:
    data = bytearray(MADE.der)
    data[at] ^= change
    with suppress(Untrusted), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unusual serial numbers and curves cause warnings
        trust(OURS).verify(bytes(data), NOW)
        assert bytes(data) == MADE.der


def test_a_certificate_that_is_far_too_long() -> None:
    with pytest.raises(Untrusted, match="too long"):
        read_certificate(b"x" * (DER_MAX + 1))


@pytest.mark.parametrize("key", [ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256K1())])
def test_keys_that_are_not_accepted(key: ec.EllipticCurvePrivateKey) -> None:
    made = build(key, new_key(), "x", uris=["semq:1.10008"])
    with pytest.raises(Untrusted, match="kind or size"):
        read_certificate(made.public_bytes(serialization.Encoding.DER))
