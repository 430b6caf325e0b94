"""Slots: next, active, previous, retired; each change is one rename, and no key in use is lost."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from semq.pki.certificate import NodeCertificate
from semq.pki.errors import KeyRefused, NoIdentity, OutOfDate, Untrusted, WrongAuthority, WrongName
from semq.pki.keys import PrivateKey, SecretSource, is_encrypted, key_id, new_key, write_key
from semq.pki.slots import SLOTS_FILE, KeyRing
from semq.umx_t.address import Address
from tests.pki.people import DAY, NOW, add, authority, issued, ring, trust

OURS = authority()


def test_a_node_without_a_certificate_has_no_identity(tmp_path: Path) -> None:
    keys = KeyRing(tmp_path, Address(1, "10008"))
    assert not keys.is_enrolled
    with pytest.raises(NoIdentity):
        keys.identity()
    keys.next_key()
    with pytest.raises(NoIdentity):
        keys.rotate(NOW)
    assert not keys.is_enrolled


def test_renewals_move_keys_through_the_slots(tmp_path: Path) -> None:
    keys = ring(tmp_path, OURS)
    first = keys.identity()
    assert first.node == Address(1, "10008")
    assert key_id(first.key) == first.certificate.key_id
    second, third = (add(keys, OURS, at=NOW + n * DAY, kind=kind).key_id for n, kind in ((1, "rsa"), (2, "ec")))
    slots, first_id = keys.slots(), first.certificate.key_id
    assert (slots.active, slots.previous, slots.next) == (third, second, None)
    assert [key.key_id for key in slots.retired] == [first_id]
    assert set(keys.identity().keys) == {first_id, second, third}
    for days in (20, 40):
        add(keys, OURS, at=NOW + days * DAY)
        assert keys.delete_retired(NOW + 60 * DAY, keep_days=30) == []
    add(keys, OURS, at=NOW + 60 * DAY)
    assert keys.delete_retired(NOW + 60 * DAY, keep_days=30) == [first_id]
    assert not keys.key_path(first_id).exists()
    assert len(keys.identity().keys) == 5


def test_no_step_of_the_clock_deletes_a_retired_key(tmp_path: Path) -> None:
    """The hub has the same clock, and a certificate that has expired by it is renewed at once."""
    keys = ring(tmp_path, OURS)
    for days in (60, 120):
        add(keys, OURS, at=NOW + days * DAY)
    (retired,) = keys.slots().retired
    wrong = NOW + 2000 * DAY
    assert keys.delete_retired(wrong, keep_days=30) == []
    add(keys, OURS, at=wrong)
    assert keys.delete_retired(wrong, keep_days=30) == []
    # The clock is right again; the certificate begins in the future, so the node is enrolled again.
    add(keys, OURS, at=NOW + 130 * DAY)
    assert keys.delete_retired(NOW + 130 * DAY, keep_days=30) == []
    assert keys.key_path(retired.key_id).exists()


def test_a_key_retired_while_the_clock_was_slow_is_kept(tmp_path: Path) -> None:
    keys = ring(tmp_path, OURS)
    retired = add(keys, OURS, at=NOW + 60 * DAY).key_id
    certificate = issued(OURS, at=NOW + 120 * DAY, key=keys.next_key())
    keys.store_certificate(certificate.pem, trust(OURS), NOW + 120 * DAY)
    keys.rotate(NOW - 9000 * DAY)
    add(keys, OURS, at=NOW + 121 * DAY)
    assert keys.delete_retired(NOW + 121 * DAY, keep_days=30) == []
    assert keys.key_path(retired).exists()


def test_a_key_that_waits_for_its_certificate_is_used_again(tmp_path: Path) -> None:
    keys = ring(tmp_path, OURS)
    waiting = keys.next_key()
    assert key_id(keys.next_key("rsa")) == key_id(waiting)
    assert key_id(waiting) in keys.identity().keys


@pytest.mark.parametrize(
    ("certificate_for", "error"),
    [
        (lambda key: issued(OURS, "1.56001", key=key), WrongName),
        (lambda key: issued(OURS, at=NOW - 20 * DAY, days=1, key=key), OutOfDate),
        (lambda key: issued(authority(), key=key), WrongAuthority),
        (lambda key: issued(OURS), KeyRefused),
    ],
    ids=["another node's", "expired", "another authority's", "for another key"],
)
def test_only_a_valid_certificate_of_this_node_for_the_requested_key_is_stored(
    tmp_path: Path, certificate_for: Callable[[PrivateKey], NodeCertificate], error: type[Exception]
) -> None:
    keys = ring(tmp_path, OURS)
    active_before = keys.slots().active
    key = keys.next_key()
    with pytest.raises(error):
        keys.store_certificate(certificate_for(key).pem, trust(OURS), NOW)
    with pytest.raises(NoIdentity):
        keys.rotate(NOW)
    assert keys.slots().active == active_before


def test_a_crash_while_slots_change_leaves_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ring(tmp_path, OURS)
    certificate = issued(OURS, key=keys.next_key())
    keys.store_certificate(certificate.pem, trust(OURS), NOW)
    slots_before = keys.slots()

    def crash(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", crash)
        with pytest.raises(OSError, match="killed"):
            keys.rotate(NOW)
    assert keys.slots() == slots_before
    assert keys.rotate(NOW).key_id == certificate.key_id


def test_a_ring_of_another_node_is_refused(tmp_path: Path) -> None:
    ring(tmp_path, OURS, "1.56001")
    with pytest.raises(WrongName):
        KeyRing(tmp_path, Address(1, "10008")).identity()


def test_a_malformed_slots_file_is_refused(tmp_path: Path) -> None:
    keys = ring(tmp_path, OURS)
    (tmp_path / SLOTS_FILE).write_text("[]")
    with pytest.raises(KeyRefused) as caught:
        keys.slots()
    assert "from a backup" in caught.value.remedy


def test_a_passphrase_may_be_introduced(tmp_path: Path) -> None:
    keys = ring(tmp_path / "pki", OURS)
    file = tmp_path / "passphrase"
    file.write_bytes(b"secret\n")
    file.chmod(0o600)
    assert keys.encrypt_clear_keys() == 0
    encrypted_keys = KeyRing(tmp_path / "pki", keys.node, SecretSource(file=file))
    assert encrypted_keys.encrypt_clear_keys() == 1
    active = encrypted_keys.slots().active
    assert active is not None
    assert is_encrypted(encrypted_keys.key_path(active))
    assert encrypted_keys.identity().certificate == keys.certificate(active)
    with pytest.raises(KeyRefused, match="passphrase"):
        keys.identity()
    assert encrypted_keys.encrypt_clear_keys() == 0


def test_wide_permissions_are_refused(tmp_path: Path) -> None:
    keys = ring(tmp_path, OURS)
    active = keys.slots().active
    assert active is not None
    keys.key_path(active).chmod(0o640)
    with pytest.raises(KeyRefused, match="Users other than its owner"):
        keys.identity()


def test_another_key_in_the_file_of_the_active_key_is_refused(tmp_path: Path) -> None:
    keys = ring(tmp_path, OURS)
    active = keys.slots().active
    assert active is not None
    write_key(keys.key_path(active), new_key(), None)
    with pytest.raises(KeyRefused, match="does not match") as caught:
        keys.identity()
    assert "from one backup" in caught.value.remedy


def test_a_certificate_with_a_malformed_chain_is_refused(tmp_path: Path) -> None:
    keys = ring(tmp_path, OURS)
    certificate = issued(OURS, key=keys.next_key())
    chain = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    with pytest.raises(Untrusted, match="chain"):
        keys.store_certificate(certificate.pem + chain, trust(OURS), NOW)


FILES: dict[str, Callable[[PrivateKey, NodeCertificate], bytes]] = {
    "text before it": lambda key, certificate: "subject=O = Müller GmbH\n".encode() + certificate.pem,
    "its private key before it": lambda key, certificate: key_in_clear(key) + certificate.pem,
    "its private key after it": lambda key, certificate: certificate.pem + key_in_clear(key),
    "DER": lambda key, certificate: certificate.der,
}


def key_in_clear(key: PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize("kind", FILES)
def test_only_the_certificate_of_a_file_is_stored(tmp_path: Path, kind: str) -> None:
    keys = ring(tmp_path, OURS)
    key = keys.next_key()
    certificate = issued(OURS, key=key)
    keys.store_certificate(FILES[kind](key, certificate), trust(OURS), NOW)
    assert keys.certificate_path(certificate.key_id).read_bytes() == certificate.pem


def test_the_chain_is_stored_without_what_is_beside_it(tmp_path: Path) -> None:
    keys = ring(tmp_path, OURS)
    key = keys.next_key()
    certificate, others = issued(OURS, key=key), [OURS.pem, authority("other").pem]
    file = b"1 s:Gr\xfc\xdfe\n".join((certificate.pem, *others)) + key_in_clear(key)
    keys.store_certificate(file, trust(OURS), NOW)
    assert keys.certificate_path(certificate.key_id).read_bytes() == certificate.pem + b"".join(others)
