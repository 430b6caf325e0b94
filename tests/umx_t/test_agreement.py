"""The documents to which terms apply."""

import pytest

from semq.umx_t.agreement import Terms, agreed_text, applying, fits
from semq.umx_t.app_key import AppKey, parse_app_key

ORDER = parse_app_key("trade/order/standard/S1")


@pytest.mark.parametrize(
    ("pattern", "does"),
    [
        ("order", True),
        ("*", True),
        ("invoice", False),
        ("trade/order", True),
        ("*/order", True),
        ("trade/*", True),
        ("stock/order", False),
        ("trade/order/standard", True),
        ("trade/order/*", True),
        ("trade/order/express", False),
        ("trade/order/standard/S1", False),
        ("", False),
    ],
)
def test_a_pattern_of_types_fits_or_not(pattern: str, does: bool) -> None:
    assert fits(pattern, ORDER) is does


def test_a_document_without_a_key_fits_only_what_is_for_all() -> None:
    assert fits("*", AppKey("", "", "", ""))
    assert not fits("order", AppKey("", "", "", ""))


def test_the_first_terms_count() -> None:
    small, large = Terms(types=("order",), bytes_max=1), Terms()
    assert applying([small, large], ORDER) is small
    assert applying([large, small], ORDER) is large
    assert applying([Terms(types=("invoice", "stock/*"))], ORDER) is None
    assert applying([], ORDER) is None


def test_terms_are_printed_in_one_line() -> None:
    assert agreed_text(Terms()) == "*"
    whole = Terms(types=("order", "trade/invoice"), per_minute=60, bytes_max=1000, waiting_max=5, encrypt=True)
    assert agreed_text(whole) == "order, trade/invoice; 60 per minute; up to 1000 bytes; up to 5 waiting; sealed"
