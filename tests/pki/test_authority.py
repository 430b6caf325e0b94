"""The authority signs for the given node only, takes only the key from a request, and cannot make authorities."""

from base64 import encodebytes
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from semq.pki.authority import (
    CERTIFICATE_FILE,
    KEY_FILE,
    REQUEST_MAX,
    create_authority,
    key_of_request,
    new_request,
    read_authority,
)
from semq.pki.errors import KeyRefused, RequestRefused
from semq.pki.keys import key_id, new_key
from semq.umx_t.address import Address
from tests.pki.people import NOW, authority, trust

NODE, OTHER = Address(1, "10008"), Address(1, "56001")


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_the_name_of_a_certificate_does_not_come_from_the_request(kind: str) -> None:
    hub_authority, key = authority(), new_key(kind)
    request = new_request(key, OTHER, ("hub.example.org",))
    certificate = hub_authority.issue(key_of_request(request), NODE, NOW, 90)
    assert (certificate.node, certificate.host_names, certificate.key_id) == (NODE, [], key_id(key))
    assert trust(hub_authority).verify(certificate, NOW, node=NODE) is certificate
    constraints = certificate.x509.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not constraints.ca


def test_no_certificate_outlives_its_authority() -> None:
    hub_authority = authority()
    certificate = hub_authority.issue(new_key().public_key(), NODE, NOW, 365 * 100)
    assert certificate.not_after == hub_authority.certificate.not_valid_after_utc


@pytest.mark.parametrize("name", ["schön.example", ""])
def test_an_authority_refuses_impossible_host_names(name: str) -> None:
    with pytest.raises(RequestRefused):
        authority().issue(new_key().public_key(), NODE, NOW, 1, (name,))


def test_weak_keys_are_not_signed() -> None:
    weak = rsa.generate_private_key(65537, 1024)
    with pytest.raises(RequestRefused, match="kind or size"):
        key_of_request(new_request(weak, NODE))
    with pytest.raises(RequestRefused, match="kind or size"):
        authority().issue(weak.public_key(), NODE, NOW, 1)


def test_a_request_must_be_signed_with_its_own_key() -> None:
    request = new_request(new_key(), NODE)
    parsed = x509.load_pem_x509_csr(request)
    der = bytearray(parsed.public_bytes(Encoding.DER))
    der[-1] ^= 1
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + encodebytes(der) + b"-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(RequestRefused):
        key_of_request(pem)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_request_are_refused(data: bytes) -> None:
    for hostile in (data, b"-----BEGIN CERTIFICATE REQUEST-----\n" + data):
        with pytest.raises(RequestRefused):
            key_of_request(hostile)


def test_a_request_that_is_too_long_is_refused() -> None:
    with pytest.raises(RequestRefused, match="too long"):
        key_of_request(b"x" * (REQUEST_MAX + 1))


@pytest.mark.parametrize("passphrase", [None, b"secret"])
def test_an_authority_is_read_back_from_its_files(tmp_path: Path, passphrase: bytes | None) -> None:
    assert read_authority(tmp_path, passphrase) is None
    hub_authority = create_authority("hub", NOW)
    hub_authority.write(tmp_path, passphrase)
    read_back = read_authority(tmp_path, passphrase)
    assert read_back is not None
    assert (read_back.fingerprint, read_back.pem) == (hub_authority.fingerprint, hub_authority.pem)
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_a_key_and_a_certificate_that_do_not_match_are_refused(tmp_path: Path) -> None:
    create_authority("hub", NOW).write(tmp_path, None)
    create_authority("other", NOW).write(tmp_path / "other", None)
    (tmp_path / KEY_FILE).write_bytes((tmp_path / "other" / KEY_FILE).read_bytes())
    with pytest.raises(KeyRefused, match="does not match") as caught:
        read_authority(tmp_path, None)
    assert "from one backup" in caught.value.remedy
    (tmp_path / CERTIFICATE_FILE).write_bytes(b"nothing")
    with pytest.raises(KeyRefused, match="cannot be read"):
        read_authority(tmp_path, None)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(KeyRefused, match="Users other than its owner"):
        read_authority(tmp_path, None)
