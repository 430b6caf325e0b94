"""``./run bench peers``: the set-up of RabbitMQ, and the results of the rounds. No figure is compared."""

import json
from pathlib import Path

import pytest

from bench.rabbitmq import peers
from bench.rabbitmq import server as rabbitmq
from bench.rabbitmq.chain import DOCUMENTS, HOSTS, RECEIPTS, ConfirmedTags, definitions


def test_the_chain_leads_documents_there_and_receipts_back() -> None:
    result = definitions(4711)
    ways = {(one["vhost"], one["value"]["src-queue"], one["value"]["dest-uri"][-1]) for one in result["parameters"]}
    assert ways == {("a", DOCUMENTS, "b"), ("hub", DOCUMENTS, "b"), ("b", RECEIPTS, "b"), ("hub", RECEIPTS, "a")}
    assert {one["value"]["ack-mode"] for one in result["parameters"]} == {"on-confirm"}
    assert [(one["vhost"], one["name"]) for one in result["queues"]] == [
        (host, queue) for host in HOSTS for queue in (DOCUMENTS, RECEIPTS)
    ]
    assert all(one["durable"] for one in result["queues"])


def test_a_document_is_acknowledged_when_its_receipt_and_all_before_it_are_confirmed() -> None:
    confirmed, seen = ConfirmedTags(), []
    for tag in (2, 3, 1, 5, 4):
        confirmed.add(tag)
        seen.append(confirmed.up_to)
    assert seen == [0, 0, 3, 3, 5]


def test_the_ratio_is_the_median_of_alternating_rounds() -> None:
    ours = [{"per_s": rate, "ack2_per_s": rate, "cpu_us": 100.0} for rate in (100, 300, 200)]
    theirs = [{"per_s": rate, "cpu_us": 50.0} for rate in (100, 100, 100)]
    found = peers.figures(ours, theirs)
    assert (found["online_per_s"], found["chain_per_s"], found["ratio_chain"]) == (200, 100, 2.0)


def test_without_rabbitmq_our_nodes_are_measured_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rabbitmq, "PROGRAM", tmp_path / "none")
    assert peers.main(["--json", "--messages", "30", "--rounds", "1", "--size", "100"]) == 0
    output = capsys.readouterr()
    assert "is not installed" in output.err
    found = json.loads(output.out.splitlines()[-1])
    assert (found["chain_per_s"], found["ratio_chain"]) == (None, None)
    assert found["online_per_s"] > 0
