"""Allowances: a bucket for each node."""

from semq.service.links.allowance import RateAllowance


def test_a_node_has_so_many_at_once_and_then_one_at_a_time() -> None:
    allowance = RateAllowance(3, per_s=0.5)
    assert [allowance.take("1.10008", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert allowance.take("1.56001", 0.0)  # another node has its own bucket
    assert [allowance.take("1.10008", now) for now in (1.0, 2.0, 2.5, 4.0)] == [False, True, False, True]


def test_an_unused_allowance_does_not_add_up() -> None:
    allowance = RateAllowance(2, per_s=1.0)
    assert [allowance.take("1.10008", 1000.0) for _ in range(3)] == [True, True, False]
    assert [allowance.take("1.10008", 9999.0) for _ in range(3)] == [True, True, False]
