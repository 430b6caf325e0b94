"""Rates of agreements, and checks of documents against their terms."""

import pytest

from semq.engine.agreements import DAY_MINUTES, KEPT_MIN, Meter, agreed_terms
from semq.engine.errors import DocumentTooLarge, TypeNotAllowed
from semq.umx_t.agreement import Terms
from semq.umx_t.app_key import parse_app_key

ORDER = parse_app_key("trade/order//S1")


def admitted(meter: Meter, terms: Terms, now: float, tries: int, parties: str = "a b") -> int:
    return sum(meter.take(parties, terms, now) for _ in range(tries))


def test_a_sender_may_use_the_rate_of_one_minute_at_once() -> None:
    meter, terms = Meter(1.0), Terms(per_minute=60)
    assert admitted(meter, terms, 100.0, 100) == 60
    assert admitted(meter, terms, 100.5, 10) == 0
    assert admitted(meter, terms, 103.0, 10) == 3
    assert admitted(meter, terms, 10_000.0, 100) == 60
    assert admitted(meter, terms, 10_000.0, 100, parties="a c") == 60
    meter.fill()
    assert admitted(meter, terms, 10_000.0, 100) == 60


def test_the_hub_admits_the_rate_of_one_day_at_once() -> None:
    assert admitted(Meter(DAY_MINUTES), Terms(per_minute=1), 0.0, 2000) == 1440


def test_full_buckets_are_forgotten_and_others_are_kept() -> None:
    meter, terms = Meter(1.0), Terms(per_minute=1)
    rare = Terms(per_minute=1, bytes_max=1)
    for number in range(3 * KEPT_MIN):
        assert meter.take(f"a {number}", terms, number * 60.0)
        assert len(meter._buckets) <= KEPT_MIN
    now = 3 * KEPT_MIN * 60.0
    for number in range(3 * KEPT_MIN):
        assert meter.take(f"a {number}", rare, now)
    assert not any(meter.take(f"a {number}", rare, now) for number in range(3 * KEPT_MIN))
    assert meter.take("a last", terms, now + 60.0)
    assert admitted(meter, rare, now + 60.0, 2, parties="a 0") == 1


def test_terms_without_a_rate_allow_any_number() -> None:
    assert admitted(Meter(1.0), Terms(), 0.0, 1000) == 1000


def test_a_document_above_the_size_of_its_agreement_is_refused() -> None:
    terms = Terms(types=("order",), bytes_max=10)
    assert agreed_terms([terms], "1.56001", ORDER, 10) is terms
    with pytest.raises(DocumentTooLarge) as refused:
        agreed_terms([terms], "1.56001", ORDER, 11)
    assert "bytes_max of the agreement" in refused.value.remedy
    assert "max_document_bytes" not in refused.value.advice()
    assert "max_document_bytes" in DocumentTooLarge.remedy
    with pytest.raises(TypeNotAllowed):
        agreed_terms([Terms(types=("invoice",))], "1.56001", ORDER, 1)
