"""``semq top``: rates between two answers, and hostile texts that are escaped on the terminal."""

import re
from typing import Any

import pytest

from semq.answers.status import NodeHealth, NodeStatus
from semq.cli import session
from semq.cli.monitoring.top import Snapshot, _rates
from tests.app.network import Network
from tests.cli.command import semq
from tests.cli.monitoring.test_check import ScriptedNode
from tests.cli.test_output_of_commands import BAD, STATUS, UNSAFE

HOSTILE: dict[str, Any] = {
    "node.status": STATUS | {"counters": {"accepted": 3}, "amqp": {"published": 4}},
    "node.health": {"verdict": BAD, "checks": [{"check": BAD, "verdict": BAD, "detail": BAD}]},
    "queue.census": {
        "as_of": 1, "sent": {BAD: 1}, "received": {}, "submitted": {}, "failed": 1,
        "pairs": [{"source": BAD, "target": BAD, "rows": 1, "bytes": 1, "late": 1, "oldest_at": 1}],
        "inboxes": [{"inbox": BAD, "rows": 1, "bytes": 1, "late": 1, "oldest_at": 1}],
    },
    "stuck.causes": {"rows": [{"cause": BAD, "rows": 1, "partner": BAD}]},
}  # fmt: skip


def snapshot(at: float, accepted: int, started: str = "2031") -> Snapshot:
    return Snapshot(at, NodeStatus(counters={"accepted": accepted}, started_at=started), NodeHealth(), {}, {})


def test_rates_are_per_second_between_two_answers() -> None:
    assert _rates(snapshot(10, 5), None) == {}
    assert _rates(snapshot(12, 25), snapshot(10, 5))["accepted"] == 10
    assert _rates(snapshot(12, 4, "2032"), snapshot(10, 5))["accepted"] == 2  # the node was restarted
    assert _rates(snapshot(12, 4), snapshot(10, 5))["accepted"] == 0  # the engine was built again


def test_control_characters_of_answers_are_escaped_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "Client", ScriptedNode)
    monkeypatch.setattr(ScriptedNode, "answers", HOSTILE)
    for extra in ((), ("--json",)):
        result = semq("top", "--count", "2", "--interval", "0.5", "--node", "simulated", *extra)
        assert (result.status, result.err) == (0, "")
        assert not UNSAFE.search(result.out)


def test_a_running_node_is_shown(network: Network) -> None:
    result = semq("top", "--count", "1", "--node", network.sender.url)
    assert re.match("10008  (ok|warning)  up ", result.out)  # other tests leave refused documents at this node
    assert "queues, counted at" in result.out or "not counted yet" in result.out
    shown = semq("top", "--count", "1", "--json", "--node", network.hub.url).data
    assert (shown["node"], shown["verdict"]) == ("2.hub", "ok")
