"""Opened session keys: verified once, valid only with all data for which they were wrapped, limited in number."""

import pytest

from semq.seal.errors import KeyUnknown, SealBroken, SealMalformed, SignatureWrong
from semq.seal.keys import alg_of, key_id, sign, wrap
from semq.seal.opened import OpenedKeys, unwrap_session_key
from semq.seal.session import session_id_of, wrapped_for
from semq.seal.token import SealScope, SessionToken, signature_message, wrap_context, write_token
from tests.seal.parties import KINDS, SECRET, A, B, SealingPair


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_key_is_unwrapped_once_and_then_found_in_the_cache(kind: str) -> None:
    pair = SealingPair(kind)
    session, opened = pair.session_key(), pair.opened_keys()
    assert session.alg == alg_of(pair.b)
    for _ in range(3):
        opening = opened.get(session.text, session.alg, session.key_id, A, B)
        assert opening.open(session.seal(b"x", b"y", bytes(8)), b"y") == b"x"
    assert pair.key_ids_asked == [key_id(pair.a.public_key())]


def test_the_cache_is_bounded_and_can_be_emptied() -> None:
    pair = SealingPair()
    opened = pair.opened_keys(opened_max=2)
    sessions = [pair.session_key(bytes([n] * 32)) for n in range(3)]
    for session in (*sessions[:2], sessions[0], sessions[2], sessions[0], sessions[1]):
        opened.get(session.text, session.alg, session.key_id, A, B)
    assert len(opened) == 2
    assert len(pair.key_ids_asked) == 4
    opened.forget()
    assert len(opened) == 0


def test_the_error_names_a_key_that_the_node_does_not_have() -> None:
    pair = SealingPair()
    session = pair.session_key()
    with pytest.raises(KeyUnknown, match=session.key_id):
        OpenedKeys(lambda name: None, lambda node, name: pair.a.public_key()).get(
            session.text, session.alg, session.key_id, A, B
        )


@pytest.mark.parametrize(
    ("source", "target", "resent"), [("1.99999", B, ""), (A, "1.99999", ""), (A, B, "another message"), (B, A, "")]
)
def test_a_wrap_is_valid_for_no_other_pair_and_no_other_message(source: str, target: str, resent: str) -> None:
    pair = SealingPair()
    session = pair.session_key()
    with pytest.raises(SignatureWrong):
        pair.opened_keys().get(session.text, session.alg, session.key_id, source, target, resent)


def test_a_session_key_of_another_node_is_refused() -> None:
    """Anyone who has the receiver's certificate can wrap a key; only the sender can sign."""
    pair = SealingPair()
    forged = wrapped_for(SECRET, pair.b, A, pair.b.public_key(), B)
    with pytest.raises(SignatureWrong):
        pair.opened_keys().get(forged, alg_of(pair.b), key_id(pair.b.public_key()), A, B)


def test_a_wrap_for_a_resent_message_is_valid_for_that_message_only() -> None:
    pair = SealingPair()
    resent = "1.10008.1.1.a.8 for 1.10008.1.1.a.7"  # as ``binding.sealed_as`` writes it, without sid and prev
    text = wrapped_for(SECRET, pair.a, A, pair.b.public_key(), B, resent)
    arguments = (text, alg_of(pair.b), key_id(pair.b.public_key()), A, B)
    assert pair.opened_keys().get(*arguments, resent).id == session_id_of(SECRET)
    with pytest.raises(SignatureWrong):
        pair.opened_keys().get(*arguments)


def test_a_missing_key_and_an_unknown_algorithm_are_refused() -> None:
    pair = SealingPair()
    session = pair.session_key()
    with pytest.raises(SealMalformed):
        pair.opened_keys().get("", session.alg, session.key_id, A, B)
    with pytest.raises(SealMalformed):
        pair.opened_keys().get(session.text, "none", session.key_id, A, B)


@pytest.mark.parametrize("secret", [SECRET, bytes(31)])
def test_a_session_key_must_have_the_id_in_its_token(secret: bytes) -> None:
    """A sender who signed a wrong session id could make one ciphertext that opens under two keys."""
    pair = SealingPair()
    scope = SealScope(alg_of(pair.b), key_id(pair.b.public_key()), key_id(pair.a.public_key()), A, B)
    context = wrap_context(scope, b"another name 123")
    wrapped = wrap(pair.b.public_key(), secret, context)
    signature = sign(pair.a, signature_message(context, wrapped))
    token = SessionToken(b"another name 123", wrapped, scope.signer_key_id, signature)
    with pytest.raises(SealBroken):
        unwrap_session_key(
            write_token(token), scope.alg, scope.key_id, A, B, "", lambda name: pair.b,
            lambda node, name: pair.a.public_key(),
        )  # fmt: skip
