"""Certificates of partners from the directory of an honest or a hostile hub."""

import pytest

from semq.clock import Clock, SystemClock
from semq.pki.errors import Untrusted
from semq.service.credentials.keyring import CHAIN_SIZE_MAX, END, NodeKeys, split
from semq.umx_t.address import Address
from tests.clocks import ShiftedClock
from tests.pki.people import DAY, NOW, authority, issued, trust

OURS, OTHERS = authority(), authority("other")
GOOD = issued(OURS, "1.56001").pem.decode()
ME, B = Address(1, "10008"), "1.56001"

HOSTILE_TEXTS = {
    "an empty text": "",
    "no certificate": "not a certificate",
    "a chain of nonsense": GOOD + "-----BEGIN CERTIFICATE-----\nAAAA\n" + END,
    "a chain without a beginning": GOOD + END,
    "a chain of bytes": GOOD + "\ud800" + END,
    "a chain far too long": GOOD + OTHERS.pem.decode() * 200,
    "another authority": issued(OTHERS, "1.56001").pem.decode() + OTHERS.pem.decode(),
    "another node": issued(OURS, "1.88001").pem.decode(),
}


def keys(clock: Clock | None = None) -> NodeKeys:
    return NodeKeys(ME, clock or SystemClock(), trust(OURS), None)


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_certificates_are_ignored_and_the_good_one_is_learned(text: str) -> None:
    keyring = keys()
    assert not keyring.learn(B, [HOSTILE_TEXTS[text]])
    assert not keyring.knows(B)
    assert keyring.learn(B, [HOSTILE_TEXTS[text], GOOD])
    assert keyring.known(B) == (GOOD,)


def test_a_repeated_certificate_keeps_its_key_object() -> None:
    keyring = keys()
    assert keyring.learn(B, [GOOD])
    key = keyring.receiver(B)
    assert not keyring.learn(B, [GOOD])
    assert keyring.receiver(B) is key


def test_a_chain_that_does_not_consist_of_certificates_is_refused() -> None:
    for chain in ("x" * CHAIN_SIZE_MAX + END, "nonsense" + END):
        with pytest.raises(Untrusted):
            split(GOOD + chain)
    assert split(GOOD)[1] == []


def test_a_certificate_that_begins_later_proves_signatures_now_and_seals_when_it_is_valid() -> None:
    """A node's clock may be slow when its partner renews."""
    clock = ShiftedClock()
    keyring, later = keys(clock), issued(OURS, B, at=NOW + DAY)
    assert keyring.learn(B, [GOOD])
    assert keyring.successors(B, [later.pem.decode()]) == ()  # no known key has signed it
    assert not keyring.learn(B, [later.pem.decode(), GOOD])
    assert keyring.signer(B, later.key_id) == later.public_key
    assert keyring.receiver(B) != later.public_key
    keyring.check_all()
    clock.ahead = DAY
    assert keyring.receiver(B) == later.public_key
