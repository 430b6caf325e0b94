"""Numbers of bytes in the unit that fits."""

import pytest

from semq.sizes import size


@pytest.mark.parametrize(
    ("data", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 2**20, "5.0 MiB"), (3 * 2**30, "3.0 GiB"), (None, "")],
)
def test_a_size_in_words_is_read_and_printed(data: object, words: str) -> None:
    assert size(data) == words
