"""Stuck messages with causes and next steps."""

from tests.app.network import ABSENT, Network
from tests.cli.command import semq


def test_a_young_message_is_not_stuck_and_can_be_explained(network: Network) -> None:
    at = ["--node", network.sender.url, "--json"]
    lk0 = semq("msg", "send", "--to", ABSENT, *at, stdin=b"x").data["lk0"]
    assert lk0 not in [row["lk0"] for row in semq("stuck", "list", *at).data]
    result = semq("stuck", "explain", lk0, *at).data
    assert (result["message"]["lk0"], result["stuck"]) == (lk0, None)
    assert result["waits"]["stuck_at"] > result["message"]["accepted_at"]
    assert "It waits: " in semq("stuck", "explain", lk0, "--node", network.sender.url).out
