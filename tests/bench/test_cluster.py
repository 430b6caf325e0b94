"""``./run bench cluster`` without RabbitMQ: documents through each kind of hub, and the figures of the rounds."""

import json
from pathlib import Path

import pytest

from bench import cluster
from bench.phases import Bench
from bench.rabbitmq import server as rabbitmq


def under_test(*cpu_us: float) -> cluster.NetworkUnderTest:
    rounds = [{"cpu_us": used, "per_s": 10, "carrier_us": 3.0} for used in cpu_us]
    return cluster.NetworkUnderTest(Bench.__new__(Bench), rounds=rounds)


def test_the_overhead_is_the_median_of_the_ratios_of_the_rounds() -> None:
    found = cluster.figures({cluster.ONE: under_test(100, 300, 200), cluster.TWO: under_test(120, 300, 400)})
    assert (found["one_cpu_us"], found["two_cpu_us"], found["overhead"]) == (200, 300, 0.2)
    assert (found["two_rabbitmq_cpu_us"], found["carrier_us"]) == (None, 3.0)


def test_documents_go_through_two_instances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rabbitmq, "PROGRAM", tmp_path / "none")
    assert cluster.main(["--json", "--messages", "30", "--rounds", "1", "--size", "100"]) == 0
    output = capsys.readouterr()
    assert "is not installed" in output.err
    *rounds, found = map(json.loads, output.out.splitlines())
    assert found["two_rabbitmq_cpu_us"] is None
    hubs = {one["phase"]: {name for name in one["cpu_us_by_process"] if name.startswith("hub")} for one in rounds}
    assert hubs == {"one": {"hub", "hub postgres"}, "two": {"hub", "hub postgres", "hub-2", "hub-2 postgres"}}
