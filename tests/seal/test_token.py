"""The text of @SessionKey: one text per token, everything else is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.seal.errors import SealMalformed
from semq.seal.keys import RSA_ALG
from semq.seal.token import SealScope, SessionToken, check_alg, context, read_token, signed, write_token

SCOPE = SealScope("alg", "k", "s", "1.1", "1.2")


@given(st.binary(), st.binary(), st.text("0123456789abcdef"), st.binary())
def test_written_files_are_read(session_id: bytes, wrapped: bytes, signer: str, signature: bytes) -> None:
    token = SessionToken(session_id, wrapped, signer, signature)
    assert read_token(write_token(token)) == token


@given(st.text())
def test_values_that_were_read_are_written_in_the_same_way(text: str) -> None:
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
    contexts = {context(SCOPE._replace(**{name: "other"}), b"id") for name in SealScope._fields}
    contexts |= {context(SCOPE, b"id"), context(SCOPE, b"di")}
    assert len(contexts) == len(SealScope._fields) + 2
    assert signed(b"c", b"w") != signed(b"cw", b"")


def test_an_algorithm_that_is_not_known_is_refused_not_replaced() -> None:
    check_alg(RSA_ALG)
    for alg in ("", "none", "RSA1_5", RSA_ALG.lower()):
        with pytest.raises(SealMalformed):
            check_alg(alg)
