"""The hub's directory of certificates: statements of nodes about themselves, and their limits."""

from datetime import UTC, datetime, timedelta

import pytest

from platform_node.certificate_directory import CERTIFICATES_MAX, NEVER, KnownCertificates, TooManyCertificates
from semq.pki.errors import Revoked, WrongAuthority
from semq.umx_t.address import Address

A = Address(1, "10008")


def test_new_certificates_are_reported_once() -> None:
    known = KnownCertificates({"1.56001": ["kept"]})
    assert known.of(A) is None
    assert known.of(Address(1, "56001")) == ("kept",)
    assert known.introduce(A, ["new", "old"]) == ("new", "old")
    assert known.introduce(A, ["new", "old"]) is None
    assert known.introduce(A, ["old", "new"]) == ("old", "new") == known.of(A)
    assert known.introduce(A, []) == () == known.of(A)


def test_an_invalid_certificate_is_not_passed_on() -> None:
    bad: set[str] = {"bad"}

    def check(node: Address, pem: str) -> datetime:
        assert node == A
        if pem in bad:
            raise Revoked
        if pem == "forged":
            raise WrongAuthority
        return NEVER

    known = KnownCertificates({}, check)
    known.introduce(A, ["good", "other"])
    assert known.introduce(A, ["good", "bad"]) == ("good",)
    known.introduce(A, ["good", "other"])
    with pytest.raises(WrongAuthority):
        known.introduce(A, ["forged", "good"])
    assert known.introduce(A, ["good", "forged"]) == ("good",)  # from a slot that an earlier authority signed
    known.introduce(A, ["good", "other"])
    with pytest.raises(TooManyCertificates):
        known.introduce(A, ["good"] * (CERTIFICATES_MAX + 1))
    assert known.of(A) == ("good", "other")
    assert known.check_all() == {}
    bad.add("good")
    assert known.check_all() == {"1.10008": ("other",)}
    assert known.of(A) == ("other",)


def test_a_stored_certificate_that_is_no_longer_valid_is_not_passed_on() -> None:
    """A certificate is stored at a login; its revocation does not change the stored row, and the hub starts again."""

    def check(node: Address, pem: str) -> datetime:
        if pem == "revoked":
            raise Revoked
        return NEVER

    known = KnownCertificates({"1.10008": ["revoked"], "1.56001": ["renewed", "revoked"]}, check)
    assert (known.of(A), known.of(Address(1, "56001"))) == ((), ("renewed",))


def test_certificates_are_verified_again_when_the_first_of_them_has_ended() -> None:
    now, day = datetime(2030, 1, 1, tzinfo=UTC), timedelta(days=1)
    ends = {"kept": now + 9 * day, "long": now + 5 * day, "short": now + 2 * day}
    known = KnownCertificates({"1.56001": ["kept"]}, lambda node, pem: ends[pem])
    assert not known.is_due(now + 9 * day)
    assert known.is_due(now + 10 * day)
    known.introduce(A, ["long", "short"])
    assert not known.is_due(now + 2 * day)
    assert known.is_due(now + 2 * day + timedelta(seconds=2))
    known.introduce(A, ["long"])
    known.check_all()
    assert not known.is_due(now + 5 * day)
    assert known.is_due(now + 6 * day)
