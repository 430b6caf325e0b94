"""Session keys at their sender: nonces, lifetime, bound data, stored copies."""

import hmac

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given
from hypothesis import strategies as st

from semq.seal.errors import SealBroken
from semq.seal.keys import PublicKey, alg_of, key_id
from semq.seal.opened import OpenedKeys
from semq.seal.session import NONCE_LENGTH, OVERHEAD, KeyLimits, OpeningKey, salted_digest, session_id_of
from tests.seal.parties import SECRET, A, SealingPair

RANDOM = bytes(8)


@given(st.binary(max_size=200), st.binary(max_size=40))
def test_a_sealed_payload_opens_with_the_same_bound_data(payload: bytes, bound: bytes) -> None:
    sealed = SealingPair().session_key().seal(payload, bound, RANDOM)
    assert len(sealed) == len(payload) + OVERHEAD
    assert OpeningKey(SECRET).open(sealed, bound) == OpeningKey(SECRET).open(memoryview(sealed), bound) == payload


@given(st.binary(min_size=1, max_size=60), st.data())
def test_any_altered_byte_breaks_the_seal(payload: bytes, data: st.DataObject) -> None:
    sealed = bytearray(SealingPair().session_key().seal(payload, b"bound", RANDOM))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SealBroken):
        OpeningKey(SECRET).open(bytes(sealed), b"bound")


def test_truncated_mixed_and_foreign_ciphertexts_break_the_seal() -> None:
    session, opening = SealingPair().session_key(), OpeningKey(SECRET)
    first = session.seal(b"first document", b"1", RANDOM)
    second = session.seal(b"other document", b"2", RANDOM)
    broken = [(first[:n], b"1") for n in (0, 5, NONCE_LENGTH, OVERHEAD - 1, len(first) - 1)]
    broken += [(first + b"x", b"1"), (first, b"2"), (second, b"1")]
    broken += [(first[:NONCE_LENGTH] + second[NONCE_LENGTH:], b"1")]
    for body, bound in broken:
        with pytest.raises(SealBroken):
            opening.open(body, bound)
    with pytest.raises(SealBroken):
        OpeningKey(bytes(32)).open(first, b"1")


def test_nonces_never_repeat_under_a_key_and_sessions_have_different_keys() -> None:
    first, second = SealingPair().session_key(), SealingPair().session_key(bytes(32))
    nonces = [first.seal(b"", b"", RANDOM)[:NONCE_LENGTH] for _ in range(500)]
    assert len(set(nonces)) == 500
    assert first.id != second.id
    assert first.text != second.text


@pytest.mark.parametrize("limits", [KeyLimits(messages=2), KeyLimits(payload_bytes=2000), KeyLimits(seconds=5.0)])
def test_a_session_key_ends_at_its_limit_of_documents_bytes_or_seconds(limits: KeyLimits) -> None:
    session = SealingPair().session_key(limits=limits, now=100.0)
    session.seal(bytes(1000), b"", RANDOM)
    assert not session.is_over(101.0)
    session.seal(bytes(1000), b"", RANDOM)
    assert session.is_over(101.0) == (limits.seconds > 5)
    assert session.is_over(105.0 if limits.seconds == 5 else 101.0)


def test_two_runs_from_one_memory_snapshot_repeat_no_nonce() -> None:
    """Key and counter repeat, but not the random part of the nonce."""
    first, second = SealingPair().session_key(), SealingPair().session_key()
    assert first.id == second.id
    assert first.seal(b"", b"", bytes([1] * 8))[:NONCE_LENGTH] != second.seal(b"", b"", bytes([2] * 8))[:NONCE_LENGTH]


def test_a_salt_is_the_hmac_of_the_lk0() -> None:
    key = HKDFExpand(SHA256(), 32, b"semq 1 digests").derive(SECRET)
    assert OpeningKey(SECRET).salt("1.10008.1.1.a.7") == hmac.digest(key, b"1.10008.1.1.a.7", "sha256")


def test_a_salted_digest_depends_on_payload_lk0_and_key() -> None:
    opening, plain = OpeningKey(SECRET), bytes(32)
    digest = opening.digest("lk0", plain)
    assert digest == salted_digest(opening.salt("lk0"), plain)
    others = (
        opening.digest("lk0", bytes([1] * 32)),
        opening.digest("other", plain),
        OpeningKey(bytes(32)).digest("lk0", plain),
    )
    assert len({digest, plain, *others}) == 5


def test_a_stored_session_key_opens_for_its_own_institution_only() -> None:
    pair = SealingPair()
    session = pair.session_key()
    stored = session.wrapped_for_storage(pair.a, A)
    arguments = (stored, alg_of(pair.a), key_id(pair.a.public_key()), A, A)

    def find_signer_key(node: str, name: str) -> PublicKey:
        return pair.a.public_key()

    assert OpenedKeys(lambda name: pair.a, find_signer_key).get(*arguments).id == session.id == session_id_of(SECRET)
    with pytest.raises(SealBroken):
        OpenedKeys(lambda name: pair.b, find_signer_key).get(*arguments)
