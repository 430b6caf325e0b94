"""Wrapping and signing with keys of every kind that certificates use."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from semq.seal.errors import KeyUnfit, SealBroken, SealMalformed, SignatureWrong
from semq.seal.keys import ALGORITHMS, alg_of, key_id, sign, unwrap, verify, wrap
from tests.seal.parties import KINDS, SECRET, A, B, key_of


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_owner_unwraps_and_only_in_the_same_context(kind: str) -> None:
    owner, stranger = key_of(kind, B), key_of(kind, A)
    alg = alg_of(owner)
    assert alg in ALGORITHMS
    assert alg == alg_of(owner.public_key())
    wrapped = wrap(owner.public_key(), SECRET, b"context")
    assert wrapped != wrap(owner.public_key(), SECRET, b"context")
    assert unwrap(owner, alg, wrapped, b"context") == SECRET
    for key, data, context in ((owner, wrapped, b"other"), (stranger, wrapped, b"context"), (owner, b"", b"context")):
        with pytest.raises(SealBroken):
            unwrap(key, alg, data, context)
    with pytest.raises(SealBroken):
        unwrap(owner, alg, wrapped[:-1] + bytes([wrapped[-1] ^ 1]), b"context")
    with pytest.raises(SealMalformed):
        unwrap(owner, next(other for other in ALGORITHMS if other != alg), wrapped, b"context")


@pytest.mark.parametrize("kind", KINDS)
def test_a_signature_is_valid_for_one_key_and_one_message(kind: str) -> None:
    owner, stranger = key_of(kind, A), key_of(kind, B)
    signature = sign(owner, b"message")
    verify(owner.public_key(), signature, b"message")
    for key, data, message in (
        (owner, signature, b"massage"),
        (stranger, signature, b"message"),
        (owner, b"", b"message"),
    ):
        with pytest.raises(SignatureWrong):
            verify(key.public_key(), data, message)


def test_weak_keys_and_unsupported_kinds_are_refused() -> None:
    weak = rsa.generate_private_key(65537, 1024)
    for key in (weak, weak.public_key(), ec.generate_private_key(ec.SECP256K1()), ed25519.Ed25519PrivateKey.generate()):
        with pytest.raises(KeyUnfit):
            alg_of(key)


def test_each_key_has_a_name_of_its_own() -> None:
    names = {key_id(key_of(kind, owner).public_key()) for kind in KINDS for owner in (A, B)}
    assert len(names) == 8
    assert all(len(name) == 32 for name in names)
