"""A node of an installation as a process: its start, its end, its database, and an error with its log."""

import signal
from pathlib import Path

import pytest

from semq.installation.configuration import HUB, ApplicationLogin, InstallationPlan
from semq.installation.empty_database import FOLDER_VARIABLE
from semq.installation.errors import NodeNotStarted
from semq.installation.process import NodeProcess


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeProcess:
    monkeypatch.delenv(FOLDER_VARIABLE)  # so the node's first start creates the database instead of copying it
    return NodeProcess(InstallationPlan({}, ApplicationLogin("app", "secret")).write(tmp_path)[HUB])


async def test_a_killed_node_leaves_its_postgres_running_until_both_are_ended(node: NodeProcess) -> None:
    try:
        node.launch()
        assert await node.wait_ready()
        assert node.lock_holder() == node.pid
        assert str(node.port) in node.url
        node.signal(signal.SIGKILL)
        assert await node.wait_ended() == -signal.SIGKILL
        assert node.pid is None
        assert node.postgres.pid is not None
    finally:
        node.end_with_database()
    assert node.lock_holder() is None
    assert node.postgres.pid is None


async def test_a_node_that_cannot_start_is_an_error_with_its_log(node: NodeProcess) -> None:
    node.place.config.write_text("[node]\nkind = 'platform'\nname = 'hub'\n")
    with pytest.raises(NodeNotStarted) as caught:
        node.start()
    assert "SEMQ-2011" in caught.value.facts["log"]
    assert await node.wait_ended() > 0
    node.end_with_database()
