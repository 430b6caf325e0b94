"""The limit on the rate of actions of each node."""

from semq.service.links.allowance import RateAllowance


def test_a_full_bucket_allows_its_size_at_once_and_is_refilled_at_the_rate() -> None:
    allowance = RateAllowance(3, per_s=0.5)
    assert [allowance.take("1.10008", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert allowance.take("1.56001", 0.0)  # another node has its own bucket
    assert [allowance.take("1.10008", now) for now in (1.0, 2.0, 2.5, 4.0)] == [False, True, False, True]


def test_a_bucket_never_has_more_actions_than_its_size() -> None:
    allowance = RateAllowance(2, per_s=1.0)
    assert [allowance.take("1.10008", 1000.0) for _ in range(3)] == [True, True, False]
    assert [allowance.take("1.10008", 9999.0) for _ in range(3)] == [True, True, False]
