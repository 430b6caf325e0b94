"""Vouchers of older keys under a certificate: a damaged one is void and harms no other."""

import re

from semq.seal.keys import key_id
from semq.seal.voucher import is_vouched, vouched, without_vouchers
from tests.seal.parties import key_of

A, B = key_of("P256", "1.10008"), key_of("P256", "1.56001")

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KNOWN = {key_id(A.public_key()): A.public_key()}


def test_a_damaged_voucher_is_ignored() -> None:
    whole = vouched(CERTIFICATE, "1.10008", "aa", [A])
    broken = CERTIFICATE + "-----BEGIN SEMQ VOUCHER-----\nA\n-----END SEMQ VOUCHER-----\n"
    assert is_vouched(whole, "1.10008", "aa", KNOWN)
    assert not is_vouched(broken, "1.10008", "aa", KNOWN)
    assert is_vouched(broken + whole, "1.10008", "aa", KNOWN)
    assert without_vouchers(whole).strip() == CERTIFICATE.strip()


def test_a_voucher_is_for_one_certificate_by_one_key() -> None:
    whole = vouched(CERTIFICATE, "1.10008", "aa", [A])
    assert not is_vouched(whole, "1.10008", "bb", KNOWN)
    assert not is_vouched(whole, "1.56001", "aa", KNOWN)
    assert not is_vouched(vouched(CERTIFICATE, "1.10008", "aa", [B]), "1.10008", "aa", KNOWN)
    assert len(re.findall("BEGIN SEMQ VOUCHER", vouched(CERTIFICATE, "1.10008", "aa", [A] * 9))) == 4
