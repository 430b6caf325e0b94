"""``./run bench peers``: the set-up of RabbitMQ, and the results of the rounds. No figure is compared."""

import json
from pathlib import Path

import pytest

from bench.rabbitmq import peers
from bench.rabbitmq import server as rabbitmq
from bench.rabbitmq.chain import DOCUMENTS, HOSTS, RECEIPTS, ConfirmedTags, definitions


def test_the_shovels_move_documents_from_a_to_b_and_receipts_back() -> None:
    result = definitions(4711)
    shovels = result["parameters"]
    routes = {(shovel["vhost"], shovel["value"]["src-queue"], shovel["value"]["dest-uri"][-1]) for shovel in shovels}
    assert routes == {("a", DOCUMENTS, "b"), ("hub", DOCUMENTS, "b"), ("b", RECEIPTS, "b"), ("hub", RECEIPTS, "a")}
    assert {shovel["value"]["ack-mode"] for shovel in shovels} == {"on-confirm"}
    assert [(queue["vhost"], queue["name"]) for queue in result["queues"]] == [
        (host, name) for host in HOSTS for name in (DOCUMENTS, RECEIPTS)
    ]
    assert all(queue["durable"] for queue in result["queues"])


def test_confirmed_tags_count_up_to_the_first_gap() -> None:
    confirmed, counted = ConfirmedTags(), []
    for tag in (2, 3, 1, 5, 4):
        confirmed.add(tag)
        counted.append(confirmed.up_to)
    assert counted == [0, 0, 3, 3, 5]


def test_the_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    semq_rounds = [{"per_s": rate, "ack2_per_s": rate, "cpu_us": 100.0} for rate in (100, 300, 200)]
    chain_rounds = [{"per_s": rate, "cpu_us": 50.0} for rate in (100, 100, 100)]
    figures = peers.figures(semq_rounds, chain_rounds)
    assert (figures["online_per_s"], figures["chain_per_s"], figures["ratio_chain"]) == (200, 100, 2.0)


def test_without_rabbitmq_only_semq_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rabbitmq, "PROGRAM", tmp_path / "none")
    assert peers.main(["--json", "--messages", "30", "--rounds", "1", "--size", "100"]) == 0
    output = capsys.readouterr()
    assert "is not installed" in output.err
    figures = json.loads(output.out.splitlines()[-1])
    assert (figures["chain_per_s"], figures["ratio_chain"]) == (None, None)
    assert figures["online_per_s"] > 0
