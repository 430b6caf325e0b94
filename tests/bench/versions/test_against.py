"""Ratios of an older and this version: medians of the ratios of the rounds, null where a part was not measured."""

from bench.versions.against import CHAIN, NEW, OLD, summary


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    rounds = [
        {OLD: {"everyday_cpu": old}, NEW: {"everyday_cpu": new}, CHAIN: {"everyday_chain": 50.0}}
        for old, new in ((100.0, 50.0), (200.0, 120.0), (1000.0, 400.0))
    ]
    found = summary(rounds)
    assert (found["everyday_cpu_ratio"], found["everyday_cpu_old"], found["everyday_cpu_new"]) == (0.5, 200.0, 120.0)
    assert (found["everyday_chain_ratio"], found["everyday_chain_us"]) == (2.4, 50.0)


def test_a_part_that_was_not_measured_is_null() -> None:
    found = summary([{OLD: {"rate": 100.0}, NEW: {"rate": 150.0}}])
    assert found["rate_ratio"] == 1.5
    assert (found["start_cpu_ratio"], found["start_cpu_old"], found["everyday_chain_ratio"]) == (None, None, None)
