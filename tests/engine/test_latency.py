"""Histograms of the time that documents take."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from semq.engine.latency import BOUNDS_S, Histogram, Latency, Stage


@given(st.lists(st.tuples(st.floats(-10, 10**6), st.integers(0, 1000))))
def test_every_observation_is_in_the_bucket_of_its_bounds(seen: list[tuple[float, int]]) -> None:
    histogram = Histogram()
    for seconds, documents in seen:
        before = list(histogram.counts)
        histogram.observe(seconds, documents)
        [bucket] = [n for n, (old, new) in enumerate(zip(before, histogram.counts, strict=True)) if old != new] or [0]
        if documents:
            assert bucket == len(BOUNDS_S) or max(0.0, seconds) <= BOUNDS_S[bucket]
            assert bucket == 0 or seconds > BOUNDS_S[bucket - 1]
    assert sum(histogram.counts) == sum(documents for _, documents in seen)


def test_a_clock_that_was_put_back_counts_as_no_time() -> None:
    latency = Latency()
    latency.observe(Stage.DELIVERED, -5.0)
    assert latency.histograms[Stage.DELIVERED].sum_s == 0
    assert latency.histograms[Stage.DELIVERED].counts[0] == 1


def test_every_stage_is_observed() -> None:
    engine = Path(__file__).parents[2] / "semq/engine"
    sources = "".join(file.read_text("utf-8") for file in engine.rglob("*.py"))
    assert set(re.findall(r"latency\.observe\(Stage\.(\w+)", sources)) == set(Stage.__members__)
