"""The soak benchmark: counted documents, minutes, drift."""

import json

import pytest

from bench.errors import Incomplete, NoProgress
from bench.load import LoadReceiver
from bench.soak import Latencies, Numbers, check_received, drift
from tests.bench.runs import run_bench


def test_numbers_below_the_first_gap_are_not_stored() -> None:
    numbers = Numbers(10)
    for number in (10, 12, 11, 14):
        numbers.add(number)
    assert (numbers.floor, set(numbers)) == (13, {14})
    assert [number in numbers for number in (9, 12, 13, 14)] == [True, True, False, True]


@pytest.mark.parametrize(
    ("added", "repeated", "complete"), [([0, 1, 2], 0, True), ([0, 2], 0, False), ([0, 1, 2], 1, False)]
)
def test_each_document_must_be_received_once(added: list[int], repeated: int, complete: bool) -> None:
    received, receiver = Numbers(0), LoadReceiver.__new__(LoadReceiver)
    receiver.repeated, receiver.damaged = repeated, 0
    for number in added:
        received.add(number)
    if complete:
        check_received(receiver, received, range(3))
    else:
        with pytest.raises(Incomplete):
            check_received(receiver, received, range(3))


def test_latencies_of_a_minute_leave_out_earlier_minutes() -> None:
    latencies = Latencies({1: 1.0, 2: 1.0, 3: 1.0})
    for number, moment in ((1, 1.010), (2, 1.030), (9, 5.0)):
        latencies.on_delivered(number, moment)
    assert latencies.of_minute() == {"p50_ms": 20.0, "p99_ms": 29.8, "max_ms": 30.0}
    assert latencies.sent == {3: 1.0}
    with pytest.raises(NoProgress):
        latencies.of_minute()


def test_drift_compares_the_last_third_with_the_first() -> None:
    samples = [{"p50_ms": 1, "p99_ms": n, "queue_mib": 4, "rss_mib": {"a": n, "b": n}} for n in (1, 1, 7, 7, 2, 4)]
    assert drift(samples) == {"p50_ms": 1.0, "p99_ms": 3.0, "queue_mib": 1.0, "rss_mib": 3.0}
    assert drift(samples[:2])["p99_ms"] is None


def test_a_short_soak_has_all_figures() -> None:
    run = run_bench("soak", "--minutes", "0.05", "--rate", "40", "--size", "100", "--json")
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout.splitlines()[-1])
    assert (figures["messages"], figures["rows_left"]) == (120, 0)
    assert set(figures["samples"][0]["rss_mib"]) == {"hub", "a", "b"}
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]
    assert figures["queue_mib"] > 0
    assert figures["ledger_mib"] > 0
