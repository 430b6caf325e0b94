"""The text of @SessionKey."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.seal.errors import SealMalformed
from semq.seal.keys import RSA_ALG
from semq.seal.token import SealScope, SessionToken, check_alg, read_token, signature_message, wrap_context, write_token

SCOPE = SealScope("alg", "k", "s", "1.1", "1.2")


@given(st.binary(), st.binary(), st.text("0123456789abcdef"), st.binary())
def test_tokens_are_read_as_they_were_written(session_id: bytes, wrapped: bytes, signer: str, signature: bytes) -> None:
    token = SessionToken(session_id, wrapped, signer, signature)
    assert read_token(write_token(token)) == token


@given(st.text())
def test_a_token_has_only_one_text(text: str) -> None:
    try:
        token = read_token(text)
    except SealMalformed:
        return
    assert write_token(token) == text


@pytest.mark.parametrize("text", ["", "1.a.b.c", "2....", "1.*.b.c.d", "1.Zg==.b.c.d", "1.Zh.b.c.d", "1.é.b.c.d"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(SealMalformed):
        read_token(text)


def test_every_part_of_the_scope_is_bound() -> None:
    contexts = {wrap_context(SCOPE._replace(**{name: "other"}), b"id") for name in SealScope._fields}
    contexts |= {wrap_context(SCOPE, b"id"), wrap_context(SCOPE, b"di")}
    assert len(contexts) == len(SealScope._fields) + 2
    assert signature_message(b"c", b"w") != signature_message(b"cw", b"")


def test_an_unknown_algorithm_is_refused() -> None:
    check_alg(RSA_ALG)
    for alg in ("", "none", "RSA1_5", RSA_ALG.lower()):
        with pytest.raises(SealMalformed):
            check_alg(alg)
