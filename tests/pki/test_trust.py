"""Verification of certificates: trusted authorities, validity, and every kind of false certificate."""

from datetime import timedelta
from pathlib import Path

import pytest

from semq.pki.authority import Authority
from semq.pki.errors import OutOfDate, TrustUnreadable, Untrusted, WrongAuthority, WrongName
from semq.pki.keys import new_key
from semq.pki.trust import TrustStore, fingerprint_of, plain_fingerprint
from semq.umx_t.address import Address
from tests.pki.people import DAY, NOW, authority, issued, self_signed, trust

OURS, THEIRS = authority(), authority()
BELIEVED = trust(OURS)


def test_a_certificate_of_our_authority_is_accepted() -> None:
    made = issued(OURS)
    assert BELIEVED.verify(made, NOW) is made
    assert BELIEVED.verify(made.der, NOW, node=Address(1, "10008", "buyer")) == made


@pytest.mark.parametrize(
    ("at", "says"), [(NOW - DAY, "not yet valid"), (NOW + 91 * DAY, "expired"), (NOW + timedelta(days=9999), "expired")]
)
def test_a_certificate_outside_its_time_is_refused(at: "object", says: str) -> None:
    with pytest.raises(OutOfDate, match=says):
        BELIEVED.verify(issued(OURS), at)  # type: ignore[arg-type]


def test_a_certificate_of_another_node_is_refused() -> None:
    with pytest.raises(WrongName):
        BELIEVED.verify(issued(OURS, "1.56001"), NOW, node=Address(1, "10008"))


def test_another_authority_of_the_same_name() -> None:
    assert OURS.certificate.subject == THEIRS.certificate.subject
    with pytest.raises(WrongAuthority):
        BELIEVED.verify(issued(THEIRS), NOW)
    assert trust(OURS, THEIRS).verify(issued(THEIRS), NOW).node == Address(1, "10008")


def test_a_self_signed_certificate_of_a_stranger(tmp_path: Path) -> None:
    with pytest.raises(WrongAuthority):
        BELIEVED.verify(self_signed(tmp_path)[0].read_bytes(), NOW)


def test_a_node_is_no_authority() -> None:
    """A node with a certificate of the authority cannot issue another one."""
    key = new_key()
    node = OURS.issue(key.public_key(), Address(1, "10008"), NOW, 90)
    forged = issued(Authority(node.x509, key), "1.56001")
    with pytest.raises(WrongAuthority):
        BELIEVED.verify(forged, NOW, chain=[node.x509])


def test_a_certificate_that_was_altered() -> None:
    made = issued(OURS)
    altered = made.der.replace(b"semq:1.10008", b"semq:1.56001")
    assert altered != made.der
    with pytest.raises(Untrusted):
        BELIEVED.verify(altered, NOW)


def test_trusted_authorities_are_read_back_from_their_file(tmp_path: Path) -> None:
    both = trust(OURS, THEIRS)
    (tmp_path / "trust.pem").write_bytes(both.pem)
    again = TrustStore.read(tmp_path / "trust.pem")
    assert again.fingerprints == [fingerprint_of(OURS.certificate), fingerprint_of(THEIRS.certificate)]
    assert again.fingerprints == [OURS.fingerprint, THEIRS.fingerprint]


@pytest.mark.parametrize("data", [b"", b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_authorities_that_cannot_be_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "trust.pem").write_bytes(data)
    with pytest.raises(TrustUnreadable):
        TrustStore.read(tmp_path / "trust.pem")
    with pytest.raises(TrustUnreadable):
        TrustStore.read(tmp_path / "none.pem")
    with pytest.raises(TrustUnreadable):
        TrustStore([])


@pytest.mark.parametrize("text", ["AB:CD:01", "sha256:abcd01", "SHA256=AB CD 01", " abcd01 "])
def test_fingerprints_as_people_write_them(text: str) -> None:
    assert plain_fingerprint(text) == "abcd01"
