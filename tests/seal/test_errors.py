"""The key in the text of a refusal, which the sender reads."""

import pytest

from semq.seal.errors import SignerGone


@pytest.mark.parametrize("key", ["0", "9f86d081884c7d65"])
def test_the_key_is_read_from_the_text_of_the_refusal(key: str) -> None:
    assert SignerGone.key_in(str(SignerGone.of(key))) == key


@pytest.mark.parametrize("text", ["", "the key is gone", "monkey 12", "keyed 12ab"])
def test_no_key_is_read_from_a_text_that_names_none(text: str) -> None:
    assert SignerGone.key_in(text) == ""
