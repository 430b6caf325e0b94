"""The hub's directory: what a node says of itself, as far as it is to be believed."""

import pytest

from platform_node.certificates import CERTIFICATES_MAX, KnownCertificates, TooManyCertificates
from semq.pki.errors import Revoked, WrongAuthority
from semq.umx_t.address import Address

A = Address(1, "10008")


def test_news_is_told_once() -> None:
    known = KnownCertificates({"1.56001": ["kept"]})
    assert known.of(A) is None
    assert known.of(Address(1, "56001")) == ("kept",)
    assert known.introduce(A, ["new", "old"]) == ("new", "old")
    assert known.introduce(A, ["new", "old"]) is None
    assert known.introduce(A, ["old", "new"]) == ("old", "new") == known.of(A)
    assert known.introduce(A, []) == () == known.of(A)


def test_what_is_not_believed_is_not_passed_on() -> None:
    bad: set[str] = {"bad"}

    def check(node: Address, pem: str) -> None:
        assert node == A
        if pem in bad:
            raise Revoked
        if pem == "forged":
            raise WrongAuthority

    known = KnownCertificates({}, check)
    known.introduce(A, ["good", "other"])
    assert known.introduce(A, ["good", "bad"]) == ("good",)
    known.introduce(A, ["good", "other"])
    with pytest.raises(WrongAuthority):
        known.introduce(A, ["good", "forged"])
    with pytest.raises(TooManyCertificates):
        known.introduce(A, ["good"] * (CERTIFICATES_MAX + 1))
    assert known.of(A) == ("good", "other")
    assert known.look_again() == {}
    bad.add("good")
    assert known.look_again() == {"1.10008": ("other",)}
    assert known.of(A) == ("other",)
