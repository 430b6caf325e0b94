"""Vouchers: signatures by a node's older keys, appended to its newer certificate."""

import re

from semq.seal.keys import key_id
from semq.seal.voucher import is_vouched, with_vouchers, without_vouchers
from tests.seal.parties import key_of

A, B = key_of("P256", "1.10008"), key_of("P256", "1.56001")

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEYS = {key_id(A.public_key()): A.public_key()}


def test_a_damaged_voucher_is_ignored_and_does_not_disturb_a_valid_one() -> None:
    certificate = with_vouchers(CERTIFICATE, "1.10008", "aa", [A])
    broken = CERTIFICATE + "-----BEGIN SEMQ VOUCHER-----\nA\n-----END SEMQ VOUCHER-----\n"
    assert is_vouched(certificate, "1.10008", "aa", KEYS)
    assert not is_vouched(broken, "1.10008", "aa", KEYS)
    assert is_vouched(broken + certificate, "1.10008", "aa", KEYS)
    assert without_vouchers(certificate).strip() == CERTIFICATE.strip()


def test_a_voucher_is_valid_for_one_node_one_certificate_and_one_key() -> None:
    certificate = with_vouchers(CERTIFICATE, "1.10008", "aa", [A])
    assert not is_vouched(certificate, "1.10008", "bb", KEYS)
    assert not is_vouched(certificate, "1.56001", "aa", KEYS)
    assert not is_vouched(with_vouchers(CERTIFICATE, "1.10008", "aa", [B]), "1.10008", "aa", KEYS)


def test_a_certificate_has_at_most_four_vouchers() -> None:
    assert len(re.findall("BEGIN SEMQ VOUCHER", with_vouchers(CERTIFICATE, "1.10008", "aa", [A] * 9))) == 4
