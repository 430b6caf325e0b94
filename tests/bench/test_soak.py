"""The soak benchmark counts every document, samples each minute, and reports the drift of sizes and latencies."""

import asyncio
import json

import pytest

from bench.errors import Incomplete, Stuck
from bench.load import LoadReceiver
from bench.soak import Latencies, Numbers, drift, settle
from tests.bench.runs import finished


def test_numbers_that_came_in_order_take_no_room() -> None:
    numbers = Numbers(10)
    for number in (10, 12, 11, 14):
        numbers.add(number)
    assert (numbers.floor, set(numbers)) == (13, {14})
    assert [number in numbers for number in (9, 12, 13, 14)] == [True, True, False, True]


@pytest.mark.parametrize(
    ("added", "repeated", "fine"), [([0, 1, 2], 0, True), ([0, 2], 0, False), ([0, 1, 2], 1, False)]
)
def test_every_document_has_to_come_once(added: list[int], repeated: int, fine: bool) -> None:
    seen, receiver = Numbers(0), LoadReceiver.__new__(LoadReceiver)
    receiver.repeated, receiver.damaged = repeated, 0
    for number in added:
        seen.add(number)
    if fine:
        asyncio.run(settle(receiver, seen, range(3)))
    else:
        with pytest.raises(Incomplete):
            asyncio.run(settle(receiver, seen, range(3)))


def test_a_minute_has_its_own_latencies() -> None:
    under_way = Latencies({1: 1.0, 2: 1.0, 3: 1.0})
    for number, moment in ((1, 1.010), (2, 1.030), (9, 5.0)):
        under_way.delivered(number, moment)
    assert under_way.of_minute() == {"p50_ms": 20.0, "p99_ms": 29.8, "max_ms": 30.0}
    assert under_way.sent == {3: 1.0}
    with pytest.raises(Stuck):
        under_way.of_minute()


def test_drift_compares_the_last_third_with_the_first() -> None:
    samples = [{"p50_ms": 1, "p99_ms": n, "queue_mib": 4, "rss_mib": {"a": n, "b": n}} for n in (1, 1, 7, 7, 2, 4)]
    assert drift(samples) == {"p50_ms": 1.0, "p99_ms": 3.0, "queue_mib": 1.0, "rss_mib": 3.0}
    assert drift(samples[:2])["p99_ms"] is None


def test_a_short_soak_has_all_figures() -> None:
    done = finished("soak", "--minutes", "0.05", "--rate", "40", "--size", "100", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["messages"], found["rows_left"]) == (120, 0)
    assert set(found["samples"][0]["rss_mib"]) == {"hub", "a", "b"}
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert found["queue_mib"] > 0
    assert found["ledger_mib"] > 0
