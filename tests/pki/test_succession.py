"""The statement that one authority follows another, and the conditions under which a node accepts it."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from semq.pki.authority import Authority, create_authority
from semq.pki.errors import WrongAuthority
from semq.pki.succession import is_issued_by, state_succession, verify_succession
from semq.pki.trust import TrustStore, fingerprint_of
from tests.pki.people import DAY, NOW, authority, issued

FORMER, NEW, OTHER = authority(), create_authority("hub 2", NOW), create_authority("another", NOW)


def test_trust_in_the_former_authority_extends_to_its_statement() -> None:
    statement = state_succession(FORMER, NEW)
    assert verify_succession(statement, TrustStore([FORMER.certificate])) == NEW.certificate
    assert statement.fingerprint == NEW.fingerprint


@pytest.mark.parametrize("signer", [OTHER, NEW])
def test_a_statement_by_another_authority_is_refused(signer: Authority) -> None:
    forged = replace(state_succession(signer, NEW), former=FORMER.fingerprint)
    with pytest.raises(WrongAuthority, match="not signed"):
        verify_succession(forged, TrustStore([FORMER.certificate]))
    with pytest.raises(WrongAuthority, match="does not trust"):
        verify_succession(state_succession(OTHER, NEW), TrustStore([FORMER.certificate]))


@pytest.mark.parametrize("signature", ["", "!", "AAAA"])
def test_a_malformed_signature_is_refused(signature: str) -> None:
    with pytest.raises(WrongAuthority):
        verify_succession(replace(state_succession(FORMER, NEW), signature=signature), TrustStore([FORMER.certificate]))


def test_a_statement_about_another_certificate_is_refused() -> None:
    moved = replace(state_succession(FORMER, NEW), pem=OTHER.pem.decode())
    with pytest.raises(WrongAuthority):
        verify_succession(moved, TrustStore([FORMER.certificate]))


def test_the_issuer_of_a_certificate_is_recognised_by_its_signature() -> None:
    certificate = issued(FORMER)
    assert is_issued_by(certificate, FORMER.certificate)
    assert not is_issued_by(certificate, NEW.certificate)
    namesake = create_authority("hub", NOW + timedelta(days=1))  # an authority of the same name
    assert not is_issued_by(certificate, namesake.certificate)


def test_a_statement_of_an_authority_with_an_unsupported_key_is_refused() -> None:
    """A hub may send any statement: a kind of key that SEMQ does not support must raise WrongAuthority, too."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    unsupported = builder.sign(key, None)
    statement = replace(state_succession(FORMER, NEW), former=fingerprint_of(unsupported))
    with pytest.raises(WrongAuthority, match="not signed"):
        verify_succession(statement, TrustStore([unsupported]))
