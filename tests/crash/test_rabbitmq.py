"""RabbitMQ as the carrier of a campaign, replaced by a program that only sends a greeting."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from bench.rabbitmq import server
from bench.rabbitmq.server import RabbitNode, cluster_nodes
from tests.crash.rabbitmq import BrokerProcess
from tests.crash.trio import PLAN

GREETER = f"""#!{sys.executable}
import os, re, socket
lines = open(os.environ["RABBITMQ_CONFIG_FILE"] + ".conf").read()
with socket.create_server(("127.0.0.1", int(re.search(r"127.0.0.1:(\\d+)", lines)[1]))) as listening:
    while True:
        client, _ = listening.accept()
        client.sendall(b"\\x01")
        client.close()
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RabbitNode:
    program = tmp_path / "greeter"
    program.write_text(GREETER)
    program.chmod(0o755)
    monkeypatch.setattr(server, "PROGRAM", program)
    return cluster_nodes(tmp_path, 1, 1, PLAN.login)[0]


async def test_a_killed_node_is_started_again_until_it_is_stopped(node: RabbitNode) -> None:
    broker = BrokerProcess("carrier-1", node)
    notices: list[bool] = []
    broker.on_ready, broker.on_end = (lambda: notices.append(True)), (lambda: notices.append(False))
    broker.begin()
    try:
        await broker.wait_until_serving()
        broker.kill(0.0)
        assert not broker.is_ready
        await broker.wait_until_serving()
        assert (broker.starts, notices) == (2, [True, False, True])
    finally:
        await broker.stop()
    assert (broker.is_ready, notices[-1]) == (False, False)
    assert node.process is not None
    assert node.process.poll() is not None


async def test_a_frozen_node_is_resumed(node: RabbitNode) -> None:
    broker = BrokerProcess("carrier-1", node)
    broker.begin()
    try:
        await broker.wait_until_serving()
        assert node.process is not None
        for change, state in (broker.freeze, os.WSTOPPED), (broker.resume, os.WCONTINUED):
            change()
            await asyncio.to_thread(os.waitid, os.P_PID, node.process.pid, state)
        assert await asyncio.to_thread(node.wait_serving)
    finally:
        await broker.remove()
