"""The hub's directory of certificates."""

from datetime import UTC, datetime, timedelta

import pytest

from platform_node.certificate_directory import CERTIFICATES_MAX, NEVER, KnownCertificates, TooManyCertificates
from semq.pki.errors import Revoked, WrongAuthority
from semq.umx_t.address import Address
from tests.pki.people import DAY, NOW, issued
from tests.service.inprocess import InProcess

A = Address(1, "10008")


def test_new_certificates_are_reported_once() -> None:
    directory = KnownCertificates({"1.56001": ["kept"]})
    assert directory.of(A) is None
    assert directory.of(Address(1, "56001")) == ("kept",)
    assert directory.introduce(A, ["new", "old"]) == ("new", "old")
    assert directory.introduce(A, ["new", "old"]) is None
    assert directory.introduce(A, ["old", "new"]) == ("old", "new") == directory.of(A)
    assert directory.introduce(A, []) == () == directory.of(A)


def test_an_invalid_certificate_is_not_passed_on() -> None:
    revoked: set[str] = {"bad"}

    def check(node: Address, pem: str) -> datetime:
        assert node == A
        if pem in revoked:
            raise Revoked
        if pem == "forged":
            raise WrongAuthority
        return NEVER

    directory = KnownCertificates({}, check)
    directory.introduce(A, ["good", "other"])
    assert directory.introduce(A, ["good", "bad"]) == ("good",)
    directory.introduce(A, ["good", "other"])
    with pytest.raises(WrongAuthority):
        directory.introduce(A, ["forged", "good"])
    # Only the first one must be valid: a later one may be of an earlier authority, and is left out.
    assert directory.introduce(A, ["good", "forged"]) == ("good",)
    directory.introduce(A, ["good", "other"])
    with pytest.raises(TooManyCertificates):
        directory.introduce(A, ["good"] * (CERTIFICATES_MAX + 1))
    assert directory.of(A) == ("good", "other")
    assert directory.check_all() == {}
    revoked.add("good")
    assert directory.check_all() == {"1.10008": ("other",)}
    assert directory.of(A) == ("other",)


def test_a_stored_certificate_that_is_no_longer_valid_is_not_passed_on() -> None:
    """A revocation does not change the stored row."""

    def check(node: Address, pem: str) -> datetime:
        if pem == "revoked":
            raise Revoked
        return NEVER

    directory = KnownCertificates({"1.10008": ["revoked"], "1.56001": ["renewed", "revoked"]}, check)
    assert (directory.of(A), directory.of(Address(1, "56001"))) == ((), ("renewed",))


def test_certificates_are_checked_again_after_the_end_of_the_earliest() -> None:
    now, day = datetime(2030, 1, 1, tzinfo=UTC), timedelta(days=1)
    ends = {"kept": now + 9 * day, "long": now + 5 * day, "short": now + 2 * day}
    directory = KnownCertificates({"1.56001": ["kept"]}, lambda node, pem: ends[pem])
    assert not directory.is_due(now + 9 * day)
    assert directory.is_due(now + 10 * day)
    directory.introduce(A, ["long", "short"])
    assert not directory.is_due(now + 2 * day)
    assert directory.is_due(now + 2 * day + timedelta(seconds=2))
    directory.introduce(A, ["long"])
    directory.check_all()
    assert not directory.is_due(now + 5 * day)
    assert directory.is_due(now + 6 * day)


async def test_a_certificate_that_begins_later_is_passed_on_but_not_one_that_has_expired(inprocess: InProcess) -> None:
    """The clock of the hub may be slower than that of an authority."""
    hub = await inprocess.secure_hub()
    assert hub.registry.authority is not None
    later, expired = (issued(hub.registry.authority, at=NOW + days * DAY, days=1).pem.decode() for days in (1, -2))
    assert hub.certificates.introduce(A, [later, expired]) == (later,)
