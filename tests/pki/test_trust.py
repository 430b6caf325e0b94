"""Verification of certificates: trusted authorities, validity, false certificates; fingerprints."""

from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from semq.pki.authority import Authority
from semq.pki.errors import OutOfDate, TrustUnreadable, Untrusted, WrongAuthority, WrongName
from semq.pki.keys import new_key
from semq.pki.trust import TrustStore, fingerprint_of, plain_fingerprint
from semq.umx_t.address import Address
from tests.pki.people import DAY, NOW, authority, issued, self_signed, trust

OURS, THEIRS = authority(), authority()
TRUSTED = trust(OURS)


def test_a_certificate_of_a_trusted_authority_is_accepted() -> None:
    certificate = issued(OURS)
    assert TRUSTED.verify(certificate, NOW) is certificate
    assert TRUSTED.verify(certificate.der, NOW, node=Address(1, "10008", "buyer")) == certificate


@pytest.mark.parametrize(
    ("at", "fault"),
    [(NOW - DAY, "not yet valid"), (NOW + 91 * DAY, "expired"), (NOW + 9999 * DAY, "expired")],
)
def test_a_certificate_outside_its_time_is_refused(at: datetime, fault: str) -> None:
    with pytest.raises(OutOfDate, match=fault):
        TRUSTED.verify(issued(OURS), at)


def test_a_certificate_of_another_node_is_refused() -> None:
    with pytest.raises(WrongName):
        TRUSTED.verify(issued(OURS, "1.56001"), NOW, node=Address(1, "10008"))


def test_an_authority_of_the_same_name_is_not_trusted() -> None:
    assert OURS.certificate.subject == THEIRS.certificate.subject
    with pytest.raises(WrongAuthority):
        TRUSTED.verify(issued(THEIRS), NOW)
    assert trust(OURS, THEIRS).verify(issued(THEIRS), NOW).node == Address(1, "10008")


def test_a_self_signed_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongAuthority):
        TRUSTED.verify(self_signed(tmp_path)[0].read_bytes(), NOW)


def test_a_node_is_no_authority() -> None:
    key = new_key()
    node = OURS.issue(key.public_key(), Address(1, "10008"), NOW, 90)
    forged = issued(Authority(node.x509, key), "1.56001")
    with pytest.raises(WrongAuthority):
        TRUSTED.verify(forged, NOW, chain=[node.x509])


def chained_authority(by: Authority | None, days: float) -> Authority:
    """Return an authority that ``by`` has signed (None: itself), valid for ``days`` from 30 days before NOW."""
    key, name = new_key(), "upper" if by is None else "lower"
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signer = key if by is None else by.key
    usage = OURS.certificate.extensions.get_extension_for_class(x509.KeyUsage)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 30 * DAY)
        .not_valid_after(NOW + (days - 30) * DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage.value, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Authority(certificate, key)


def test_an_intermediate_certificate_must_be_valid_too() -> None:
    upper = chained_authority(None, 90)
    lower = chained_authority(upper, 35)
    # Valid for longer than ``lower``: it was issued with a longer certificate of the same name and another key.
    certificate = issued(Authority(chained_authority(upper, 90).certificate, lower.key), days=9)
    assert trust(upper).verify(certificate, NOW, chain=[lower.certificate]) is certificate
    with pytest.raises(WrongAuthority, match="No chain of valid certificates") as caught:
        trust(upper).verify(certificate, NOW + 6 * DAY, chain=[lower.certificate])
    assert "cert install" in caught.value.remedy


def test_an_altered_certificate_is_refused() -> None:
    certificate = issued(OURS)
    altered = certificate.der.replace(b"semq:1.10008", b"semq:1.56001")
    assert altered != certificate.der
    with pytest.raises(Untrusted):
        TRUSTED.verify(altered, NOW)


def test_trusted_authorities_are_read_back_from_their_file(tmp_path: Path) -> None:
    trusted = trust(OURS, THEIRS)
    (tmp_path / "trust.pem").write_bytes(trusted.pem)
    read_back = TrustStore.read(tmp_path / "trust.pem")
    assert read_back.fingerprints == [fingerprint_of(OURS.certificate), fingerprint_of(THEIRS.certificate)]
    assert read_back.fingerprints == [OURS.fingerprint, THEIRS.fingerprint]


@pytest.mark.parametrize("data", [b"", b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_authorities_that_cannot_be_read_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "trust.pem").write_bytes(data)
    with pytest.raises(TrustUnreadable):
        TrustStore.read(tmp_path / "trust.pem")
    with pytest.raises(TrustUnreadable):
        TrustStore.read(tmp_path / "none.pem")
    with pytest.raises(TrustUnreadable):
        TrustStore([])


@pytest.mark.parametrize("text", ["AB:CD:01", "sha256:abcd01", "SHA256=AB CD 01", " abcd01 "])
def test_fingerprints_are_read_as_people_write_them(text: str) -> None:
    assert plain_fingerprint(text) == "abcd01"
