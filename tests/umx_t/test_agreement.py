"""Terms of agreements: the documents that they cover, and their text."""

import pytest

from semq.umx_t.agreement import Terms, agreed_text, first_covering, matches
from semq.umx_t.app_key import NO_KEY, parse_app_key

ORDER = parse_app_key("trade/order/standard/S1")


@pytest.mark.parametrize(
    ("pattern", "is_match"),
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
def test_a_pattern_is_compared_with_domain_type_and_subtype(pattern: str, is_match: bool) -> None:
    assert matches(pattern, ORDER) is is_match


def test_a_document_without_a_key_matches_only_the_asterisk() -> None:
    assert matches("*", NO_KEY)
    assert not matches("order", NO_KEY)


def test_the_first_terms_that_cover_a_document_apply() -> None:
    small, large = Terms(types=("order",), bytes_max=1), Terms()
    assert first_covering([small, large], ORDER) is small
    assert first_covering([large, small], ORDER) is large
    assert first_covering([Terms(types=("invoice", "stock/*"))], ORDER) is None
    assert first_covering([], ORDER) is None


def test_terms_are_printed_in_one_line() -> None:
    assert agreed_text(Terms()) == "*"
    every_term = Terms(types=("order", "trade/invoice"), per_minute=60, bytes_max=1000, waiting_max=5, encrypt=True)
    assert agreed_text(every_term) == "order, trade/invoice; 60 per minute; up to 1000 bytes; up to 5 waiting; sealed"
