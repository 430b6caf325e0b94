"""Numbers of bytes as texts, in a suitable unit."""

import pytest

from semq.sizes import size


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 2**20, "5.0 MiB"), (3 * 2**30, "3.0 GiB"), (None, "")],
)
def test_a_number_of_bytes_is_shown_in_a_suitable_unit(number: object, text: str) -> None:
    assert size(number) == text
